// RUN: et-opt --allow-unregistered-dialect --verify-roundtrip --cse %s | filecheck %s
// RUN: not et-opt %s 2>&1 | filecheck %s --check-prefix=ERROR

// ERROR: unregistered.mlir:9:9: error[E0102]: Operation vendor.op is not registered

// CHECK-LABEL: func.func @forward
func.func @forward(%x: tensor<4xf32>) {
  // CHECK-NEXT: %0 = "vendor.op"(%x) {level = 3 : i64} : (tensor<4xf32>) -> !vendor.handle<x>
  %0 = "vendor.op"(%x) {level = 3 : i64} : (tensor<4xf32>) -> !vendor.handle<x>
  // Nothing is known of its effects: equal ones stay, and so does what stands beside them.
  // CHECK-NEXT: %1 = "vendor.op"(%x) {level = 3 : i64} : (tensor<4xf32>) -> !vendor.handle<x>
  %1 = "vendor.op"(%x) {level = 3 : i64} : (tensor<4xf32>) -> !vendor.handle<x>
  func.return
}
