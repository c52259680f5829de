// RUN: et-opt --split-input-file %s | filecheck %s
// RUN: not et-opt %s 2>&1 | filecheck %s --check-prefix=WHOLE
// WHOLE: error[E0304]: symbol @same is defined twice

// CHECK: builtin.module {
// CHECK-NEXT: func.func @same
func.func @same() {
  // Only a whole line separates; the same characters in a string do not.
  // CHECK-NEXT: et.string "// -----" : !et.string
  %0 = et.string "// -----" : !et.string
  func.return
}

// -----

// CHECK: // -----
// CHECK-NEXT: builtin.module {
// CHECK-NEXT: func.func @same
func.func @same() {
  func.return
}

  // -----

// A module may be empty.
// CHECK: // -----
// CHECK-NEXT: builtin.module {
// CHECK-NEXT: }
