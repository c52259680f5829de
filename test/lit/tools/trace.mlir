// A trace holds the program at every level, and asking for one leaves the output as it is. Texts with origins are read
// and written again.

// RUN: et-opt %s --compile-from=edge --compile-to=et -o %t.plain.mlir
// RUN: et-opt %s --compile-from=edge --compile-to=et --trace %t.trace --trace-detail=passes -o %t.traced.mlir
// RUN: diff %t.plain.mlir %t.traced.mlir
// RUN: et-compile %s -o %t.pte --trace %t.2.trace --trace-detail levels
// RUN: et-opt %s --cse --mlir-print-debuginfo | filecheck %s

builtin.module {
  func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
    // CHECK: %0 = edge.aten.relu.default(%x) : (tensor<2xf32>) -> tensor<2xf32> loc(fused<#et.origin<4 value, 5 value>>["a"("m.py":3:0), "b"("m.py":4:0)])
    %0 = edge.aten.relu.default(%x) : (tensor<2xf32>) -> tensor<2xf32> loc(fused<#et.origin<4 value>>["a"("m.py":3:0)])
    %1 = edge.aten.relu.default(%x) : (tensor<2xf32>) -> tensor<2xf32> loc(fused<#et.origin<5 value>>["b"("m.py":4:0)])
    %2 = edge.aten.add.Tensor(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc(fused<#et.origin<6 value>>["m.py":5:0])
    func.return %2 : tensor<2xf32>
  }
}
