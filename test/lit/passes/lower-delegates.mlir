// RUN: et-opt -p legalize-delegates,lower-delegates %s | filecheck %s
// RUN: et-opt -p legalize-delegates,lower-delegates,to-out-variant %s | filecheck %s --check-prefix=ET
// RUN: et-opt -p 'legalize-delegates,lower-delegates{inline}' %s | filecheck %s --check-prefix=INLINE

// The weight is in the blob now. @unused is called by nobody.
// CHECK-NOT: et.weight
et.weight @w : tensor<4xf32> = #et.synthetic<seed = 1>

// CHECK: et.delegate @lowered "EtirReferenceBackend" = #et.blob<"sha256:{{[0-9a-f]+}}", {{[0-9]+}}> {memory = [{{.*}}]}
// INLINE: et.delegate @lowered "EtirReferenceBackend" = #et.blob<"sha256:{{[0-9a-f]+}}", {{[0-9]+}}> inline
// CHECK-NOT: func.func private
func.func private @lowered(%x: tensor<4xf32>) -> tensor<4xf32> attributes {backend.delegate = "reference"} {
  %w = et.get_weight @w : tensor<4xf32>
  %0 = edge.aten.mul.Tensor(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
func.func private @unused(%x: tensor<4xf32>) -> tensor<4xf32> attributes {backend.delegate = "reference"} {
  func.return %x : tensor<4xf32>
}

// The call keeps the symbol, and becomes an instruction.
// CHECK-LABEL: func.func @forward
// ET-LABEL: et.method @forward
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %0 = backend.call_delegate @lowered(%x) on "EtirReferenceBackend"
  // ET: et.delegate_call @lowered(%x, %0)
  %0 = backend.call_delegate @lowered(%x) on "EtirReferenceBackend" : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
