// Whether operators that no backend claims may run on the target's kernels.

// RUN: et-opt -p 'partition{backend="reference{only=aten.relu.default}"},verify-fallback' %s --no-output 2>&1 | filecheck %s --check-prefix=ALLOW --allow-empty
// ALLOW-NOT: E1104

// RUN: et-opt -p 'partition{backend="reference{only=aten.cos.default}"},verify-fallback' %s --no-output 2>&1 | filecheck %s --check-prefix=IDLE
// IDLE: verify-fallback.mlir:25:3: warning[E1104]: 'reference' claims none of 3 operators; reference runs 0 of 3 operators in 0 delegates; the target's kernels run 3
// IDLE: note: 2 x aten.neg.default:

// RUN: not et-opt -p 'partition{backend="reference{only=aten.relu.default}"},verify-fallback{policy=refuse}' %s 2>&1 | filecheck %s --check-prefix=REFUSE
// REFUSE: verify-fallback.mlir:25:3: error[E1104]: no delegate claims 'aten.neg.default' (2 uses, this is the first), and no fallback is allowed
// REFUSE: note: reference rejects 2:
// REFUSE: note: in pass 'verify-fallback'

// Partitions from text have no report with reasons.
// RUN: et-opt -p 'partition{backend="reference{only=aten.relu.default}"}' %s -o %t.mlir
// RUN: not et-opt -p 'verify-fallback{policy=refuse}' %t.mlir 2>&1 | filecheck %s --check-prefix=TEXT
// TEXT: error[E1104]: no delegate claims 'aten.neg.default' (2 uses, this is the first), and no fallback is allowed
// TEXT-NOT: rejects

// Every operator is claimed.
// RUN: et-opt -p 'partition{backend=reference},verify-fallback{policy=refuse}' %s --no-output

func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = edge.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.relu.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.neg.default(%1) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
