// RUN: %roundtrip
// RUN: %generic

// CHECK-LABEL: func.func @overloads
func.func @overloads(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>, %two: tensor<f32>) {
  // CHECK-NEXT: edge.aten.mm.default(%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %0 = edge.aten.mm.default(%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  // Numbers stand where the schema has numbers; in tensor slots they are tensors.
  // CHECK-NEXT: edge.aten.mul.Tensor(%0, %two) :
  %1 = edge.aten.mul.Tensor(%0, %two) : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  // CHECK-NEXT: edge.aten.view_copy.default(%1, size = [8]) :
  %2 = edge.aten.view_copy.default(%1, size = [8]) : (tensor<2x4xf32>) -> tensor<8xf32>
  // CHECK-NEXT: edge.aten._softmax.default(%1, dim = -1, half_to_float = false) :
  %3 = edge.aten._softmax.default(%1, dim = -1, half_to_float = false) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return
}

// CHECK-LABEL: func.func @dim_order
func.func @dim_order(%x: tensor<1x8x4x4xf32>) {
  // CHECK-NEXT: edge.dim_order_ops._to_dim_order_copy.default(%x, dim_order = [0, 2, 3, 1]) : (tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32, #et.layout<order = [0, 2, 3, 1]>>
  %0 = edge.dim_order_ops._to_dim_order_copy.default(%x, dim_order = [0, 2, 3, 1]) : (tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32, #et.layout<order = [0, 2, 3, 1]>>
  // CHECK-NEXT: edge.dim_order_ops._clone_dim_order.default(%0, dim_order = [0, 1, 2, 3]) :
  %1 = edge.dim_order_ops._clone_dim_order.default(%0, dim_order = [0, 1, 2, 3]) : (tensor<1x8x4x4xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x8x4x4xf32>
  func.return
}

// -----

// CHECK: et.schema "mylib::scale(Tensor x, float by=2.0) -> Tensor"
et.schema "mylib::scale(Tensor x, float by=2.0) -> Tensor"

// CHECK-LABEL: func.func @custom
func.func @custom(%x: tensor<4xf32>) {
  // CHECK-NEXT: edge.mylib.scale.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %0 = edge.mylib.scale.default(%x, by = 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
