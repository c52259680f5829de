// RUN: et-opt --verify-core-aten --split-input-file --verify-diagnostics %s
// RUN: et-opt -p 'verify-core-aten{keep=aten.silu.default}' --split-input-file %s 2>&1 | filecheck %s

// Core operators, views, and what is preserved for the target.
// CHECK-LABEL: func.func @legal
func.func @legal(%x: tensor<2x4xf32>, %w: tensor<3x4xf32>) -> tensor<3x2xf32> {
  %0 = aten.linear.default(%x, %w) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %1 = aten.relu.default(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = aten.transpose.int(%1, dim0 = 0, dim1 = 1) : (tensor<2x3xf32>) -> tensor<3x2xf32>
  func.return %2 : tensor<3x2xf32>
}

// -----

// CHECK-LABEL: func.func @illegal
func.func @illegal(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{'aten.silu.default' is not core ATen (2 uses, this is the first)}}
  %0 = aten.silu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.silu.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
