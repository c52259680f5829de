// RUN: et-opt -p partition{backend=native} %s | filecheck %s

// A view of an input that two partitions read is made by each of them; what the first one computes is handed on, and its
// view is where it is read.

// CHECK-LABEL: func.func @forward
// CHECK: %[[V:.*]] = edge.aten.unsqueeze_copy.default(%x, dim = 0) {backend.partition = "native:0"}
// CHECK: edge.aten.mul.Tensor(%{{.*}}, %[[V]]) {backend.partition = "native:0"}
// CHECK: %[[S:.*]] = edge.aten.squeeze_copy.dims({{.*}}) {backend.partition = "native:1"}
// CHECK: edge.aten.erfinv.default
// CHECK: %[[W:.*]] = edge.aten.unsqueeze_copy.default(%x, dim = 0) {backend.partition = "native:1"}
// CHECK-NEXT: edge.aten.mul.Tensor(%{{.*}}, %[[W]]) {backend.partition = "native:1"}
// CHECK-NOT: edge.aten.squeeze_copy
// CHECK: edge.aten.add.Tensor(%{{.*}}, %[[S]]) {backend.partition = "native:1"}
et.weight @w : tensor<8x8xf32> = #et.synthetic<seed = 1>
func.func @forward(%x: tensor<8x8xf32>, %a: tensor<1x8x8xf32>) -> tensor<1x8x8xf32> {
  %w = et.get_weight @w : tensor<8x8xf32>
  %v = edge.aten.unsqueeze_copy.default(%x, dim = 0) : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
  %0 = edge.aten.linear.default(%a, %w) : (tensor<1x8x8xf32>, tensor<8x8xf32>) -> tensor<1x8x8xf32>
  %1 = edge.aten.mul.Tensor(%0, %v) : (tensor<1x8x8xf32>, tensor<1x8x8xf32>) -> tensor<1x8x8xf32>
  %s = edge.aten.squeeze_copy.dims(%1, dim = [0]) : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
  %2 = edge.aten.erfinv.default(%1) : (tensor<1x8x8xf32>) -> tensor<1x8x8xf32>
  %3 = edge.aten.linear.default(%2, %w) : (tensor<1x8x8xf32>, tensor<8x8xf32>) -> tensor<1x8x8xf32>
  %4 = edge.aten.mul.Tensor(%3, %v) : (tensor<1x8x8xf32>, tensor<1x8x8xf32>) -> tensor<1x8x8xf32>
  %5 = edge.aten.add.Tensor(%4, %s) : (tensor<1x8x8xf32>, tensor<8x8xf32>) -> tensor<1x8x8xf32>
  func.return %5 : tensor<1x8x8xf32>
}
