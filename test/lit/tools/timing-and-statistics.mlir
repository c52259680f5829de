// RUN: et-opt -p 'cse,dce' --timing --no-output %s 2>&1 | filecheck %s --check-prefix=TIMING
// RUN: et-opt -p 'cse,dce' --mlir-timing --no-output %s 2>&1 | filecheck %s --check-prefix=TIMING
// TIMING: ===- Timing -===
// TIMING: wall ms     cpu ms      %  what
// TIMING: (parse)
// TIMING: (verify the input)
// TIMING: cse
// TIMING: (verify)
// TIMING: dce
// TIMING: 100.0  total

// RUN: et-opt -p 'cse,apply-pdl{file=%S/inputs/silu.pdl.mlir},dce' --statistics --no-output %s 2>&1 | filecheck %s
// RUN: et-opt -p 'cse,apply-pdl{file=%S/inputs/silu.pdl.mlir},dce' --mlir-pass-statistics --no-output %s 2>&1 | filecheck %s
// CHECK: ===- Statistics -===
// CHECK-NEXT: cse: 6 -> 5 operations
// CHECK-NEXT: -1  aten.sigmoid.default
// CHECK-NEXT: apply-pdl{file={{.*}}}: 5 -> 4 operations
// CHECK-NEXT: -1  aten.mul.Tensor
// CHECK-NEXT: -1  aten.sigmoid.default
// CHECK-NEXT: +1  aten.silu.default
// CHECK-NEXT: 1x pattern 'silu'
// CHECK-NEXT: dce: 4 -> 3 operations
// CHECK-NEXT: -1  et.weight

et.weight @unused : tensor<4xf32> = #et.synthetic<seed = 1>
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.sigmoid.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.sigmoid.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.mul.Tensor(%x, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
