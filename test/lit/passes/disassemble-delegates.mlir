// RUN: et-opt -p legalize-delegates,lower-delegates,disassemble-delegates %s | filecheck %s
// RUN: et-opt -p legalize-delegates,lower-delegates,to-out-variant,disassemble-delegates,lower-delegates %s | filecheck %s --check-prefix=AGAIN

et.weight @w : tensor<4x8xf32> = #et.synthetic<seed = 1>

// The other blob might look for the weight, too.
// CHECK: et.named_data "[[KEY:[0-9a-f]*]]"
// CHECK: func.func private @lowered(%{{.*}}: !xnn.tensor<2x8xfp32>) -> !xnn.tensor<2x4xfp32>
// CHECK-SAME: {backend.delegate = "xnnpack", backend.legal}
// CHECK: %[[W:.*]] = xnn.constant "[[KEY]]" = #et.blob<
// CHECK: xnn.fully_connected(%{{.*}}, %[[W]], none, clamp = [0.0, inf]
// A backend without such a form keeps its blob.
// CHECK: et.delegate @other "EtirReferenceBackend"
// AGAIN: et.delegate @lowered "XnnpackBackend"
// AGAIN: et.delegate_call @lowered
func.func private @lowered(%x: tensor<2x8xf32>) -> tensor<2x4xf32> attributes {backend.delegate = "xnnpack"} {
  %w = et.get_weight @w : tensor<4x8xf32>
  %0 = edge.aten.linear.default(%x, %w) : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
  %1 = edge.aten.relu.default(%0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %1 : tensor<2x4xf32>
}
func.func private @other(%x: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {backend.delegate = "reference"} {
  %0 = edge.aten.erf.default(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %0 : tensor<2x4xf32>
}

func.func @forward(%x: tensor<2x8xf32>) -> tensor<2x4xf32> {
  // CHECK: backend.call_delegate @lowered(
  %0 = backend.call_delegate @lowered(%x) on "XnnpackBackend" : (tensor<2x8xf32>) -> tensor<2x4xf32>
  %1 = backend.call_delegate @other(%0) on "EtirReferenceBackend" : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %1 : tensor<2x4xf32>
}
