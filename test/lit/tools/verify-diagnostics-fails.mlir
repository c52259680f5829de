// RUN: not et-opt --verify-diagnostics --split-input-file %s 2>&1 | filecheck %s

// An error that nothing expects.
// CHECK: verify-diagnostics-fails.mlir:6:3: error[E0906]: unexpected error[E0303]: there is no weight @a
func.func @unexpected() {
  %0 = et.get_weight @a : tensor<4xf32>
  func.return
}

// -----

// An expectation that nothing meets: the text, the id, the line, the kind.
func.func @unmet() {
  // CHECK: verify-diagnostics-fails.mlir:15:1: error[E0905]: expected error "no state" was not produced
  // expected-error @below {{no state}}
  %0 = et.get_weight @a : tensor<4xf32>
  // CHECK: verify-diagnostics-fails.mlir:18:1: error[E0905]: expected error[E0301] was not produced
  // expected-error @below [E0301]
  %1 = et.get_weight @b : tensor<4xf32>
  // CHECK: verify-diagnostics-fails.mlir:21:1: error[E0905]: expected error "no weight @c" was not produced
  // expected-error @+2 {{no weight @c}}
  %2 = et.get_weight @c : tensor<4xf32>
  // CHECK: verify-diagnostics-fails.mlir:24:1: error[E0905]: expected warning "no weight @d" was not produced
  // expected-warning @below {{no weight @d}}
  %3 = et.get_weight @d : tensor<4xf32>
  // CHECK-COUNT-4: error[E0906]: unexpected error[E0303]
  func.return
}

// -----

// CHECK: verify-diagnostics-fails.mlir:33:1: error[E0907]: 'expected-error' is not followed by a place, id or text
// expected-error @below no braces
func.func @malformed() {
  func.return
}
