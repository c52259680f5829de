// RUN: et-opt -p 'cse,dce,dce' --print-ir-before=dce --no-output %s 2>&1 | filecheck %s --check-prefix=BEFORE
// RUN: et-opt -p 'cse,dce,dce' --mlir-print-ir-before=dce --no-output %s 2>&1 | filecheck %s --check-prefix=BEFORE
// BEFORE: // -----// IR dump before dce //----- //
// BEFORE-NEXT: builtin.module {
// BEFORE: aten.add.Tensor
// BEFORE: // -----// IR dump before dce //----- //
// BEFORE-NOT: aten.add.Tensor

// RUN: et-opt -p 'cse,dce' --print-ir-after=cse --no-output %s 2>&1 | filecheck %s --check-prefix=AFTER
// RUN: et-opt -p 'cse,dce' --mlir-print-ir-after=cse --no-output %s 2>&1 | filecheck %s --check-prefix=AFTER
// AFTER: // -----// IR dump after cse //----- //
// AFTER: aten.add.Tensor
// AFTER-NOT: IR dump

// RUN: et-opt -p 'cse,dce' --print-ir-after-all --no-output %s 2>&1 | filecheck %s --check-prefix=ALL
// RUN: et-opt -p 'cse,dce' --mlir-print-ir-after-all --no-output %s 2>&1 | filecheck %s --check-prefix=ALL
// RUN: et-opt -p 'cse,dce' --print-ir-after --no-output %s 2>&1 | filecheck %s --check-prefix=ALL
// ALL: IR dump after cse
// ALL: IR dump after dce

// RUN: et-opt -p 'cse,dce' --print-ir-before-all --no-output %s 2>&1 | filecheck %s --check-prefix=STARTS
// RUN: et-opt -p 'cse,dce' --mlir-print-ir-before-all --no-output %s 2>&1 | filecheck %s --check-prefix=STARTS
// STARTS: IR dump before cse
// STARTS: IR dump before dce
// STARTS-NOT: IR dump

// RUN: not et-opt -p 'cse,dce' --print-ir-after=ces %s 2>&1 | filecheck %s --check-prefix=WRONG
// WRONG: error[E0502]: there is no pass 'ces'; did you mean {{.*}}cse?

// What a failing pass left, and nothing of those that did not fail.
// RUN: not et-opt -p 'cse,verify-edge' --print-ir-after-failure --no-output %s 2>&1 | filecheck %s --check-prefix=FAILURE
// RUN: not et-opt -p 'cse,verify-edge' --mlir-print-ir-after-failure --no-output %s 2>&1 | filecheck %s --check-prefix=FAILURE
// FAILURE-NOT: IR dump after cse
// FAILURE: IR dump after failure of verify-edge
// FAILURE: error[E0414]

// Only what a pass changed.
// RUN: et-opt -p 'cse,cse,dce,cse' --mlir-print-ir-after-change --no-output %s 2>&1 | filecheck %s --check-prefix=CHANGE
// RUN: et-opt -p 'cse,cse,dce,cse' --print-ir-after-change --no-output %s 2>&1 | filecheck %s --check-prefix=CHANGE
// CHANGE: IR dump after cse
// CHANGE-NOT: IR dump after cse
// CHANGE: IR dump after dce
// CHANGE-NOT: IR dump

// The dumps are in the form that is asked for.
// RUN: et-opt -p cse --print-ir-after-all --print-op-generic --no-output %s 2>&1 | filecheck %s --check-prefix=GENERIC
// RUN: et-opt -p cse --print-ir-after-all --mlir-print-op-generic --no-output %s 2>&1 | filecheck %s --check-prefix=GENERIC
// GENERIC: "aten.relu.default"(%x)

// A folder of numbered files: the input and what every pass left.
// RUN: rm -rf %t && et-opt -p 'cse,dce' --print-ir-dir=%t %s -o %t.mlir
// RUN: rm -rf %t && et-opt -p 'cse,dce' --mlir-print-ir-tree-dir=%t %s -o %t.mlir
// RUN: ls %t | filecheck %s --check-prefix=LIST
// LIST: 00-input.mlir
// LIST-NEXT: 01-after-cse.mlir
// LIST-NEXT: 02-after-dce.mlir
// RUN: diff %t/02-after-dce.mlir %t.mlir

func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.add.Tensor(%0, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
