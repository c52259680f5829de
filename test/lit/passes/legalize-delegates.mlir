// Outlined functions in the dialects of their backends; methods and other backends' functions stay as they are.
//
// RUN: et-opt -p legalize-delegates %s | filecheck %s
// RUN: et-opt -p legalize-delegates %s | et-opt -p legalize-delegates | filecheck %s
// RUN: et-opt -p 'legalize-delegates{only=reference}' %s | filecheck %s --check-prefix=ONLY

et.weight @w : tensor<2x4xf32> = #et.synthetic<seed = 1>

// CHECK: func.func private @to_xnnpack({{.*}}) -> tensor<1x2xf32> attributes {backend.delegate = "xnnpack", backend.legal}
// CHECK-NOT: edge.
// CHECK: xnn.fully_connected
// CHECK-SAME: 0.0
// CHECK: func.return
// ONLY: func.func private @to_xnnpack({{.*}}) -> tensor<1x2xf32> attributes {backend.delegate = "xnnpack"}
// ONLY: edge.aten.linear.default
func.func private @to_xnnpack(%x: tensor<1x4xf32>) -> tensor<1x2xf32> attributes {backend.delegate = "xnnpack"} {
  %w = et.get_weight @w : tensor<2x4xf32>
  %0 = edge.aten.linear.default(%x, %w) : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
  %1 = edge.aten.relu.default(%0) : (tensor<1x2xf32>) -> tensor<1x2xf32>
  func.return %1 : tensor<1x2xf32>
}

// A backend without a dialect keeps its edge operators.
// CHECK: func.func private @to_reference({{.*}}) -> tensor<1x2xf32> attributes {backend.delegate = "reference", backend.legal}
// CHECK-NEXT: edge.aten.neg.default
// ONLY: attributes {backend.delegate = "reference", backend.legal}
func.func private @to_reference(%x: tensor<1x2xf32>) -> tensor<1x2xf32> attributes {backend.delegate = "reference"} {
  %0 = edge.aten.neg.default(%x) : (tensor<1x2xf32>) -> tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}

// CHECK: func.func @forward
// CHECK-NEXT: backend.call_delegate @to_xnnpack(%x) on "XnnpackBackend"
// CHECK-NEXT: backend.call_delegate @to_reference(%0) on "EtirReferenceBackend"
// CHECK-NEXT: edge.aten.relu.default
func.func @forward(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
  %0 = backend.call_delegate @to_xnnpack(%x) on "XnnpackBackend" : (tensor<1x4xf32>) -> tensor<1x2xf32>
  %1 = backend.call_delegate @to_reference(%0) on "EtirReferenceBackend" : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %2 = edge.aten.relu.default(%1) : (tensor<1x2xf32>) -> tensor<1x2xf32>
  func.return %2 : tensor<1x2xf32>
}
