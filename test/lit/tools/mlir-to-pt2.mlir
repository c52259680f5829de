// Text at the edge level to a program of torch's, and what comes back of it.
//
// RUN: et-translate --mlir-to-pt2 %s --method forward -o %t.pt2
// RUN: et-translate --import-pt2 %t.pt2 -o %t.mlir
// RUN: filecheck %s --input-file %t.mlir
// RUN: not et-translate --mlir-to-pt2 %s -o %t.pt2 2>&1 | filecheck %s --check-prefix=WHICH
// RUN: not et-translate --mlir-to-pt2 %s --method other -o %t.pt2 2>&1 | filecheck %s --check-prefix=OTHER

// WHICH: error[E0901]: the module has the methods forward, other: name one with --method

// CHECK: sym.dim @[[B:s[0-9]+]] in [1, 16]
sym.dim @s0 in [1, 16]
// CHECK: et.weight @fc.weight : tensor<2x4xf32> = #et.blob<"sha256:{{.*}}", 32> {fqn = "fc.weight", kind = "parameter"}
et.weight @w : tensor<2x4xf32> = #et.synthetic<seed = 1> {fqn = "fc.weight", kind = "parameter"}
// CHECK: et.state @seen : tensor<2xf32> = #et.blob<"sha256:{{.*}}", 8> {fqn = "seen", kind = "buffer"}
et.state @seen : tensor<2xf32>

// CHECK: func.func @forward(%x: tensor<?x4xf32, #et.layout<dims = {{\[}}[[B]], 4]>>{{.*}}) -> (tensor<?x2xf32, #et.layout<dims = {{\[}}[[B]], 2]>>, i64)
func.func @forward(%x: tensor<?x4xf32, #et.layout<dims = [s0, 4]>>) -> (tensor<?x2xf32, #et.layout<dims = [s0, 2]>>, i64) {
  %w = et.get_weight @w : tensor<2x4xf32>
  %seen = et.read_state @seen : tensor<2xf32>
  // CHECK: aten.linear.default(%x, %{{.*}}) : {{.*}} loc("{{.*}}mlir-to-pt2.mlir":{{[0-9]+}}:0)
  %0 = edge.aten.linear.default(%x, %w) : (tensor<?x4xf32, #et.layout<dims = [s0, 4]>>, tensor<2x4xf32>) -> tensor<?x2xf32, #et.layout<dims = [s0, 2]>>
  // CHECK: aten._to_copy.default(%{{.*}}, memory_format = contiguous
  %1 = edge.dim_order_ops._to_dim_order_copy.default(%0, dim_order = [0, 1]) : (tensor<?x2xf32, #et.layout<dims = [s0, 2]>>) -> tensor<?x2xf32, #et.layout<dims = [s0, 2]>>
  // CHECK: aten.sym_size.int
  %n = edge.aten.sym_size.int(%x, dim = 0) : (tensor<?x4xf32, #et.layout<dims = [s0, 4]>>) -> i64
  %2 = edge.aten.sum.dim_IntList(%1, dim = [0]) : (tensor<?x2xf32, #et.layout<dims = [s0, 2]>>) -> tensor<2xf32>
  %3 = edge.aten.add.Tensor(%seen, %2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  // CHECK: et.write_state @seen
  et.write_state @seen, %3 : tensor<2xf32>
  func.return %1, %n : tensor<?x2xf32, #et.layout<dims = [s0, 2]>>, i64
}

func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  // OTHER: error[E0407]: 'aten.opaque' has no form in torch: nobody knows it
  // OTHER: help: export at a level above it
  %0 = aten.opaque "mylib.f" (%x) {reason = "nobody knows it"} : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
