// A pipeline as text, as options, and inside builtin.module(...); white space is free.
// RUN: et-opt -p 'cse,dce' %s | filecheck %s
// RUN: et-opt --pass-pipeline=' cse , dce ' %s | filecheck %s
// RUN: et-opt --cse --dce %s | filecheck %s
// RUN: et-opt -p 'builtin.module(cse,dce)' %s | filecheck %s
// RUN: cat %s | et-opt --cse --dce | filecheck %s
// RUN: et-opt --cse --dce - < %s -o %t.mlir
// RUN: filecheck %s < %t.mlir

// The pipeline that ran, with every option.
// RUN: et-opt --dump-pass-pipeline --no-output -p 'builtin.module( apply-pdl{file="%S/inputs/silu.pdl.mlir"} )' %s 2>&1 | filecheck %s --check-prefix=DUMP
// DUMP: apply-pdl{file={{.*}}/inputs/silu.pdl.mlir}

// CHECK-LABEL: func.func @forward
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %0 = aten.relu.default(%x)
  // CHECK-NEXT: func.return %0
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.add.Tensor(%0, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
