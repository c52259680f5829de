// RUN: et-opt -p legalize-delegates,lower-delegates,lift-delegates %s | filecheck %s

et.weight @w : tensor<4x3x1x1xf32> = #et.synthetic<seed = 1>

// CHECK-NOT: et.delegate @lowered
// CHECK: et.delegate @other "EtirReferenceBackend"
func.func private @lowered(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x8x8xf32> attributes {backend.delegate = "xnnpack"} {
  %w = et.get_weight @w : tensor<4x3x1x1xf32>
  %0 = edge.aten.convolution.default(%x, %w, none, stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  %1 = edge.aten.hardtanh.default(%0, min_val = 0.0, max_val = 6.0) : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  func.return %1 : tensor<1x4x8x8xf32>
}
func.func private @other(%x: tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32> attributes {backend.delegate = "reference"} {
  %0 = edge.aten.erf.default(%x) : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  func.return %0 : tensor<1x4x8x8xf32>
}

// CHECK-LABEL: func.func @forward
func.func @forward(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x8x8xf32> {
  // The range of the node's output is an operator of its own.
  // CHECK: edge.aten.permute_copy.default
  // CHECK: %[[CONV:.*]] = edge.aten.convolution.default(
  // CHECK: edge.aten.clamp.default(%{{.*}}, min = 0, max = 6.0)
  // CHECK-NOT: @lowered
  %0 = backend.call_delegate @lowered(%x) on "XnnpackBackend" : (tensor<1x3x8x8xf32>) -> tensor<1x4x8x8xf32>
  // CHECK: backend.call_delegate @other(
  %1 = backend.call_delegate @other(%0) on "EtirReferenceBackend" : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  func.return %1 : tensor<1x4x8x8xf32>
}
