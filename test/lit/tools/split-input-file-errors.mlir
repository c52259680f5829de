// Lines are those of the file, modules after a broken one are still checked, and nothing is written.
// RUN: not et-opt --split-input-file %s -o %t.mlir 2>&1 | filecheck %s
// RUN: test ! -e %t.mlir

func.func @good() {
  func.return
}

// -----

func.func @first() {
  // CHECK: split-input-file-errors.mlir:13:21: error[E0101]: attribute expected
  %0 = sym.constant : i64
  func.return
}

// -----

func.func @second() {
  // CHECK: split-input-file-errors.mlir:21:3: error[E0303]: there is no weight @w
  %0 = et.get_weight @w : tensor<4xf32>
  func.return
}
