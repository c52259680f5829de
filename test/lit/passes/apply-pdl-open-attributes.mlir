// An attribute that a pattern does not name matches any value, as in MLIR. Whoever forgets one is told when the file is
// loaded; an attribute that is named without a value is meant to be any, and an operation without attributes is closed.

// RUN: et-opt -p 'apply-pdl{file=%S/inputs/open.pdl.mlir}' %s 2>&1 >%t.out | filecheck %s
// RUN: filecheck %s --check-prefix=IR < %t.out
// CHECK: open.pdl.mlir:3:3: warning[E0510]: the pattern matches 'aten.add.Tensor' with any value of 'alpha'
// CHECK: help: as in MLIR, an attribute that a pattern does not name matches any value
// CHECK: open.pdl.mlir:17:3: warning[E0510]: the pattern matches 'aten.sum.dim_IntList' with any value of 'keepdim'
// CHECK-NOT: warning

// IR-LABEL: func.func @forward
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  // This is wrong for alpha = 3, which is what the warning is for.
  // IR-NEXT: aten.mul.Tensor(%x, 2)
  %0 = aten.add.Tensor(%x, %x, alpha = 3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// RUN: et-opt -p 'apply-pdl{file=%S/../tools/inputs/silu.pdl.mlir}' --no-output %s 2>&1 | filecheck %s --check-prefix=QUIET --allow-empty
// QUIET-NOT: E0510
