// RUN: %roundtrip
// RUN: %generic

// CHECK-LABEL: func.func @views
func.func @views(%x: tensor<4x8xf32>) {
  // CHECK-NEXT: %0 = backend.view %x : tensor<4x8xf32> -> tensor<32xf32>
  %0 = backend.view %x : tensor<4x8xf32> -> tensor<32xf32>
  // The offset counts elements.
  // CHECK-NEXT: %1 = backend.view %x {offset = 8 : i64} : tensor<4x8xf32> -> tensor<2x8xf32>
  %1 = backend.view %x {offset = 8 : i64} : tensor<4x8xf32> -> tensor<2x8xf32>
  // The element type may change; the offset counts elements of the result.
  // CHECK-NEXT: %2 = backend.view %x {offset = 16 : i64} : tensor<4x8xf32> -> tensor<3x4xi64>
  %2 = backend.view %x {offset = 16 : i64} : tensor<4x8xf32> -> tensor<3x4xi64>
  func.return
}

// A delegate is a function of the module, and stays readable.
// CHECK-LABEL: func.func private @lowered_0
func.func private @lowered_0(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = edge.aten.add.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @delegates
func.func @delegates(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %0 = backend.call_delegate @lowered_0(%x, %x) on "XnnpackBackend" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %0 = backend.call_delegate @lowered_0(%x, %x) on "XnnpackBackend" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
