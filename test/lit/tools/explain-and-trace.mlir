// RUN: et-opt -p 'apply-pdl{file=%S/inputs/silu.pdl.mlir}' --explain-match=silu --no-output %s 2>&1 | filecheck %s --check-prefix=EXPLAIN
// RUN: et-opt -p 'apply-pdl{file=%S/inputs/silu.pdl.mlir}' --explain-match='s*' --no-output %s 2>&1 | filecheck %s --check-prefix=EXPLAIN
// RUN: et-opt -p 'apply-pdl{file=%S/inputs/silu.pdl.mlir}' --explain-match=gelu --no-output %s 2>&1 | filecheck %s --check-prefix=NONE
// RUN: et-opt -p 'apply-pdl{file=%S/inputs/silu.pdl.mlir},dce' --trace-op=aten.silu --no-output %s 2>&1 | filecheck %s --check-prefix=TRACE

// NONE: explain-match: no operation came near a pattern named 'gelu'

func.func @forward(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = aten.sigmoid.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // EXPLAIN: explain-and-trace.mlir:13:3: explain-match: apply-pdl: 'silu' rewrote 'aten.mul.Tensor'
  // TRACE: explain-and-trace.mlir:13:3: trace-op: apply-pdl: 'silu' rewrote 'aten.mul.Tensor' into 'aten.silu.default'

  %1 = aten.mul.Tensor(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // EXPLAIN: explain-and-trace.mlir:15:3: explain-match: apply-pdl: 'silu' left 'aten.mul.Tensor' alone: operand 0 of 'aten.sigmoid.default' is another value or of another type
  %2 = aten.mul.Tensor(%y, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // EXPLAIN: explain-match: apply-pdl: 'silu' left 'aten.mul.Tensor' alone: a block argument stands where a result of 'aten.sigmoid.default' is expected
  %3 = aten.mul.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // EXPLAIN: explain-match: 'silu': 1 rewrites, 2 near misses
  // TRACE-NOT: aten.mul.Tensor' alone
  // TRACE: trace-op: after apply-pdl: 1 operations 'aten.silu'
  // TRACE: trace-op: after dce: 1 operations 'aten.silu'
  func.return %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
