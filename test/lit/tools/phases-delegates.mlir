// Named phases with backends, in one go and from the text in between; --delegate needs phases.
//
// RUN: et-opt --compile-to=backend --target=etir --delegate 'reference{only=aten.relu.default}' %s -o %t.mlir
// RUN: filecheck %s --check-prefix=OUTLINED --input-file %t.mlir
// RUN: et-opt --compile-from=backend --compile-to=et --target=etir %t.mlir | filecheck %s --check-prefix=ET
// RUN: et-opt --compile-to=et --target=etir --delegate 'reference{only=aten.relu.default}' %s | filecheck %s --check-prefix=ET
// RUN: et-opt --compile-to=et --target=etir %s | filecheck %s --check-prefix=NONE
// RUN: not et-opt --delegate reference -p cse %s 2>&1 | filecheck %s --check-prefix=USAGE
// RUN: not et-opt --compile-to=et --delegate refrence %s 2>&1 | filecheck %s --check-prefix=UNKNOWN

// OUTLINED: func.func private @forward_reference_0({{.*}}backend.delegate = "reference{only=aten.relu.default}"
// OUTLINED: backend.call_delegate @forward_reference_0(%x)
// ET: et.delegate @forward_reference_0 "EtirReferenceBackend"
// ET: et.delegate_call @forward_reference_0
// ET: et.call "aten::neg.out"
// NONE-NOT: delegate
// NONE: et.call "aten::relu.out"
// USAGE: error[E0901]: --delegate is for --compile-to; in a pipeline it is partition{backend=NAME}
// UNKNOWN: error[E1101]: no backend named 'refrence' is installed; did you mean 'reference'?
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.neg.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
