// RUN: et-opt -p contiguous-values %s | filecheck %s

et.weight @w : tensor<16x3x3x3xf32> = #et.synthetic<seed = 1>
et.weight @last : tensor<1x3x8x8xf32, #et.layout<order = [0, 2, 3, 1]>> = #et.synthetic<seed = 2>

// Inputs and outputs keep their order; weights are read as they are.

// CHECK-LABEL: func.func @image(%x: tensor<1x3x8x8xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x16x6x6xf32, #et.layout<order = [0, 2, 3, 1]>>
func.func @image(%x: tensor<1x3x8x8xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x16x6x6xf32, #et.layout<order = [0, 2, 3, 1]>> {
  // CHECK: %[[X:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%x, dim_order = [0, 1, 2, 3])
  // CHECK: %[[W:.*]] = et.get_weight @w
  // CHECK-NEXT: %[[Y:.*]] = edge.aten.convolution.default(%[[X]], %[[W]], {{.*}} -> tensor<1x16x6x6xf32>
  // CHECK-NEXT: %[[Z:.*]] = edge.aten.relu.default(%[[Y]]) : (tensor<1x16x6x6xf32>) -> tensor<1x16x6x6xf32>
  // CHECK-NEXT: %[[R:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%[[Z]], dim_order = [0, 2, 3, 1])
  // CHECK-NEXT: func.return %[[R]]
  %w = et.get_weight @w : tensor<16x3x3x3xf32>
  %0 = edge.dim_order_ops._to_dim_order_copy.default(%w, dim_order = [0, 2, 3, 1]) : (tensor<16x3x3x3xf32>) -> tensor<16x3x3x3xf32, #et.layout<order = [0, 2, 3, 1]>>
  %1 = edge.aten.convolution.default(%x, %0, stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x3x8x8xf32, #et.layout<order = [0, 2, 3, 1]>>, tensor<16x3x3x3xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x16x6x6xf32, #et.layout<order = [0, 2, 3, 1]>>
  %2 = edge.aten.relu.default(%1) : (tensor<1x16x6x6xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x16x6x6xf32, #et.layout<order = [0, 2, 3, 1]>>
  func.return %2 : tensor<1x16x6x6xf32, #et.layout<order = [0, 2, 3, 1]>>
}

// A copy that changes the dtype stays; a weight in another order is copied; what is written to an input is in its order.

// CHECK-LABEL: func.func @written
func.func @written(%x: tensor<1x3x8x8xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x3x8x8xf16> {
  // CHECK-DAG: %[[X:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%x, dim_order = [0, 1, 2, 3])
  // CHECK-DAG: %[[L:.*]] = et.get_weight @last : tensor<1x3x8x8xf32, #et.layout<order = [0, 2, 3, 1]>>
  // CHECK: %[[W:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%[[L]], dim_order = [0, 1, 2, 3])
  // CHECK: %[[S:.*]] = edge.aten.add.Tensor(%[[X]], %[[W]]) : (tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  // CHECK: %[[H:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%[[S]], dtype = f16, dim_order = [0, 1, 2, 3]) : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf16>
  // CHECK: %[[B:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%[[S]], dim_order = [0, 2, 3, 1])
  // CHECK: et.update_input %x, %[[B]]
  // CHECK: func.return %[[H]]
  %w = et.get_weight @last : tensor<1x3x8x8xf32, #et.layout<order = [0, 2, 3, 1]>>
  %0 = edge.aten.add.Tensor(%x, %w) : (tensor<1x3x8x8xf32, #et.layout<order = [0, 2, 3, 1]>>, tensor<1x3x8x8xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x3x8x8xf32, #et.layout<order = [0, 2, 3, 1]>>
  %1 = edge.dim_order_ops._to_dim_order_copy.default(%0, dtype = f16, dim_order = [0, 2, 3, 1]) : (tensor<1x3x8x8xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x3x8x8xf16, #et.layout<order = [0, 2, 3, 1]>>
  %2 = edge.dim_order_ops._to_dim_order_copy.default(%1, dim_order = [0, 1, 2, 3]) : (tensor<1x3x8x8xf16, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x3x8x8xf16>
  et.update_input %x, %0 : tensor<1x3x8x8xf32, #et.layout<order = [0, 2, 3, 1]>>, tensor<1x3x8x8xf32, #et.layout<order = [0, 2, 3, 1]>>
  func.return %2 : tensor<1x3x8x8xf16>
}

// A program that is in the contiguous order is not touched.

// CHECK-LABEL: func.func @plain
// CHECK-NEXT: edge.aten.relu.default(%x)
// CHECK-NEXT: func.return
func.func @plain(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32> {
  %0 = edge.aten.relu.default(%x) : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32>
  func.return %0 : tensor<1x3x8x8xf32>
}
