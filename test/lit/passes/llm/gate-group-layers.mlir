// RUN: et-opt -p 'gate-group-layers{target=etir}' --split-input-file %s | filecheck %s
// RUN: et-opt -p gate-group-layers --split-input-file %s | filecheck %s --check-prefix=STOCK

// The first layer is the gate, then the second one, which comes first in the lists after that.

et.schema "etir::int4_group_dynamic_linear_pair(Tensor input, Tensor[] weights, Tensor[] scales, Tensor[] minimums, Tensor[] sums, int[] columns) -> (Tensor, Tensor)"
et.schema "etir::int4_group_dynamic_linear_pair.out(Tensor input, Tensor[] weights, Tensor[] scales, Tensor[] minimums, Tensor[] sums, int[] columns, *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))"
et.weight @w : tensor<1x4x64xui8> = #et.blob<"0000000000000000000000000000000000000000000000000000000000000000", 256>
et.weight @v : tensor<1x4x64xui8> = #et.blob<"1111111111111111111111111111111111111111111111111111111111111111", 256>
et.weight @s : tensor<1x1x16xf16> = #et.blob<"0000000000000000000000000000000000000000000000000000000000000000", 32>
et.weight @t : tensor<16xf32> = #et.blob<"0000000000000000000000000000000000000000000000000000000000000000", 64>

// CHECK-LABEL: func.func @gates
// STOCK-LABEL: func.func @gates
// STOCK-NOT: gated
func.func @gates(%x: tensor<2x32xf32>) -> (tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>) {
  // CHECK: %y = edge.etir.int4_group_dynamic_linear_gated.default(%x, [%w, %v], [%s, %s], [], [%t, %t], columns = 16, activation = "silu")
  // CHECK-NEXT: %z = edge.etir.int4_group_dynamic_linear_gated.default(%x, [%v, %w], [%s, %s], [], [%t, %t], columns = 16, activation = "gelu_tanh")
  // CHECK-NEXT: %n = edge.etir.int4_group_dynamic_linear_gated.default(%x, [%w, %v], [%s, %s], [], [], columns = 16, activation = "gelu")
  // CHECK-NEXT: func.return %y, %z, %n
  %w = et.get_weight @w : tensor<1x4x64xui8>
  %v = et.get_weight @v : tensor<1x4x64xui8>
  %s = et.get_weight @s : tensor<1x1x16xf16>
  %t = et.get_weight @t : tensor<16xf32>
  %g, %u = edge.etir.int4_group_dynamic_linear_pair.default(%x, [%w, %v], [%s, %s], [], [%t, %t], columns = [16, 16]) : (tensor<2x32xf32>, tensor<1x4x64xui8>, tensor<1x4x64xui8>, tensor<1x1x16xf16>, tensor<1x1x16xf16>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16xf32>, tensor<2x16xf32>)
  %a = edge.aten.silu.default(%g) : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %y = edge.aten.mul.Tensor(%a, %u) : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  %h, %i = edge.etir.int4_group_dynamic_linear_pair.default(%x, [%w, %v], [%s, %s], [], [%t, %t], columns = [16, 16]) : (tensor<2x32xf32>, tensor<1x4x64xui8>, tensor<1x4x64xui8>, tensor<1x1x16xf16>, tensor<1x1x16xf16>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x16xf32>, tensor<2x16xf32>)
  %b = edge.aten.gelu.default(%i, approximate = "tanh") : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %z = edge.aten.mul.Tensor(%h, %b) : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  %k, %l = edge.etir.int4_group_dynamic_linear_pair.default(%x, [%w, %v], [%s, %s], [], [], columns = [16, 16]) : (tensor<2x32xf32>, tensor<1x4x64xui8>, tensor<1x4x64xui8>, tensor<1x1x16xf16>, tensor<1x1x16xf16>) -> (tensor<2x16xf32>, tensor<2x16xf32>)
  %c = edge.aten.gelu.default(%k) : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %n = edge.aten.mul.Tensor(%c, %l) : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  func.return %y, %z, %n : tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>
}

// -----

// Left alone: a gate that is read again, the square of one layer, layers of two operators, another activation.

et.schema "etir::int4_group_dynamic_linear_pair(Tensor input, Tensor[] weights, Tensor[] scales, Tensor[] minimums, Tensor[] sums, int[] columns) -> (Tensor, Tensor)"
et.schema "etir::int4_group_dynamic_linear_pair.out(Tensor input, Tensor[] weights, Tensor[] scales, Tensor[] minimums, Tensor[] sums, int[] columns, *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))"
et.weight @w : tensor<1x4x64xui8> = #et.blob<"0000000000000000000000000000000000000000000000000000000000000000", 256>
et.weight @s : tensor<1x1x16xf16> = #et.blob<"0000000000000000000000000000000000000000000000000000000000000000", 32>

// CHECK-LABEL: func.func @others
func.func @others(%x: tensor<2x32xf32>) -> (tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>) {
  // CHECK-NOT: gated
  %w = et.get_weight @w : tensor<1x4x64xui8>
  %s = et.get_weight @s : tensor<1x1x16xf16>
  %g, %u = edge.etir.int4_group_dynamic_linear_pair.default(%x, [%w, %w], [%s, %s], [], [], columns = [16, 16]) : (tensor<2x32xf32>, tensor<1x4x64xui8>, tensor<1x4x64xui8>, tensor<1x1x16xf16>, tensor<1x1x16xf16>) -> (tensor<2x16xf32>, tensor<2x16xf32>)
  %a = edge.aten.silu.default(%g) : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %y = edge.aten.mul.Tensor(%a, %u) : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  %h, %i = edge.etir.int4_group_dynamic_linear_pair.default(%x, [%w, %w], [%s, %s], [], [], columns = [16, 16]) : (tensor<2x32xf32>, tensor<1x4x64xui8>, tensor<1x4x64xui8>, tensor<1x1x16xf16>, tensor<1x1x16xf16>) -> (tensor<2x16xf32>, tensor<2x16xf32>)
  %b = edge.aten.silu.default(%h) : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %z = edge.aten.mul.Tensor(%b, %h) : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  %k, %l = edge.etir.int4_group_dynamic_linear_pair.default(%x, [%w, %w], [%s, %s], [], [], columns = [16, 16]) : (tensor<2x32xf32>, tensor<1x4x64xui8>, tensor<1x4x64xui8>, tensor<1x1x16xf16>, tensor<1x1x16xf16>) -> (tensor<2x16xf32>, tensor<2x16xf32>)
  %c = edge.aten.silu.default(%k) : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %m = edge.aten.mul.Tensor(%c, %i) : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  %d = edge.aten.tanh.default(%l) : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %n = edge.aten.mul.Tensor(%d, %l) : (tensor<2x16xf32>, tensor<2x16xf32>) -> tensor<2x16xf32>
  func.return %g, %y, %z, %m, %n : tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>
}
