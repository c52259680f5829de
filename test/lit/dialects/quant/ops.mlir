// RUN: %roundtrip
// RUN: %generic

// CHECK-LABEL: func.func @observed
func.func @observed(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: quant.observe %x : tensor<4xf32>
  %0 = quant.observe %x : tensor<4xf32>
  // CHECK-NEXT: quant.observe %0 {seen = #quant.range<-1.5, 6.0, samples = 64>} : tensor<4xf32>
  %1 = quant.observe %0 {seen = #quant.range<-1.5, 6, samples = 64>} : tensor<4xf32>
  // CHECK-NEXT: quant.observe %1 {as = #quant.uniform<i8, scale = 0.0308, zero_point = -68>} : tensor<4xf32>
  %2 = quant.observe %1 {as = #quant.uniform<i8, scale = 3.08e-2, zero_point = -68>} : tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// CHECK-LABEL: func.func @layer
func.func @layer(%x: tensor<2x4xf32>, %w: tensor<3x4xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i8, axis = 0>}
  %0 = edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i8, axis = 0>} : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i8<-63:63>, axis = 0>}
  %r = edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i8<-63:63>, axis = 0>} : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i4, axis = 0, block = 2>, quant.dynamic = ["input"]}
  %1 = edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i4, axis = 0, block = 2>, quant.dynamic = ["input"]} : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  func.return %0 : tensor<2x3xf32>
}
