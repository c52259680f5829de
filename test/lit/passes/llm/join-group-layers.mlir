// RUN: et-opt -p 'join-group-layers{target=etir}' --split-input-file %s | filecheck %s
// RUN: et-opt -p join-group-layers --split-input-file %s | filecheck %s --check-prefix=STOCK

// Three layers of one input, and one of another: the constants of the later ones are read before the first.

et.schema "etir::int4_group_dynamic_linear(Tensor input, Tensor weight, Tensor scales, Tensor? minimums, Tensor? sums, Tensor? bias, int columns) -> Tensor"
et.schema "etir::int4_group_dynamic_linear.out(Tensor input, Tensor weight, Tensor scales, Tensor? minimums, Tensor? sums, Tensor? bias, int columns, *, Tensor(a!) out) -> Tensor(a!)"
et.weight @w : tensor<1x4x64xui8> = #et.blob<"0000000000000000000000000000000000000000000000000000000000000000", 256>
et.weight @s : tensor<1x1x16xf16> = #et.blob<"0000000000000000000000000000000000000000000000000000000000000000", 32>
et.weight @t : tensor<16xf32> = #et.blob<"0000000000000000000000000000000000000000000000000000000000000000", 64>

// CHECK-LABEL: func.func @three
// STOCK-LABEL: func.func @three
// STOCK-NOT: triple
func.func @three(%x: tensor<2x32xf32>, %z: tensor<2x32xf32>) -> (tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>) {
  // CHECK: %q, %k, %v = edge.etir.int4_group_dynamic_linear_triple.default(%x, [%w, %w1, %w], [%s, %s, %s], [], [%t, %t, %t], columns = [16, 16, 16])
  // CHECK: edge.aten.relu.default(%q)
  // CHECK: edge.etir.int4_group_dynamic_linear.default(%z
  %w = et.get_weight @w : tensor<1x4x64xui8>
  %s = et.get_weight @s : tensor<1x1x16xf16>
  %t = et.get_weight @t : tensor<16xf32>
  %q = edge.etir.int4_group_dynamic_linear.default(%x, %w, %s, none, %t, none, columns = 16) : (tensor<2x32xf32>, tensor<1x4x64xui8>, tensor<1x1x16xf16>, tensor<16xf32>) -> tensor<2x16xf32>
  %r = edge.aten.relu.default(%q) : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %w1 = et.get_weight @w : tensor<1x4x64xui8>
  %k = edge.etir.int4_group_dynamic_linear.default(%x, %w1, %s, none, %t, none, columns = 16) : (tensor<2x32xf32>, tensor<1x4x64xui8>, tensor<1x1x16xf16>, tensor<16xf32>) -> tensor<2x16xf32>
  %v = edge.etir.int4_group_dynamic_linear.default(%x, %w, %s, none, %t, none, columns = 16) : (tensor<2x32xf32>, tensor<1x4x64xui8>, tensor<1x1x16xf16>, tensor<16xf32>) -> tensor<2x16xf32>
  %o = edge.etir.int4_group_dynamic_linear.default(%z, %w, %s, none, %t, none, columns = 16) : (tensor<2x32xf32>, tensor<1x4x64xui8>, tensor<1x1x16xf16>, tensor<16xf32>) -> tensor<2x16xf32>
  func.return %r, %k, %v, %o : tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>
}

// -----

// Two of a kind; a layer with a bias, one with minimums and one without sums are of other kinds.

et.schema "etir::int4_group_dynamic_linear(Tensor input, Tensor weight, Tensor scales, Tensor? minimums, Tensor? sums, Tensor? bias, int columns) -> Tensor"
et.schema "etir::int4_group_dynamic_linear.out(Tensor input, Tensor weight, Tensor scales, Tensor? minimums, Tensor? sums, Tensor? bias, int columns, *, Tensor(a!) out) -> Tensor(a!)"
et.weight @w : tensor<1x4x64xui8> = #et.blob<"0000000000000000000000000000000000000000000000000000000000000000", 256>
et.weight @s : tensor<1x1x16xf16> = #et.blob<"0000000000000000000000000000000000000000000000000000000000000000", 32>
et.weight @t : tensor<16xf32> = #et.blob<"0000000000000000000000000000000000000000000000000000000000000000", 64>

// CHECK-LABEL: func.func @kinds
func.func @kinds(%x: tensor<2x32xf32>) -> (tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>) {
  // CHECK: %a, %e = edge.etir.int4_group_dynamic_linear_pair.default(%x, [%w, %w], [%s, %s], [], [%t, %t], columns = [16, 16])
  // CHECK-NEXT: %b = edge.etir.int4_group_dynamic_linear.default
  // CHECK-NEXT: %c = edge.etir.int4_group_dynamic_linear.default
  // CHECK-NEXT: %d = edge.etir.int4_group_dynamic_linear.default
  // CHECK-NEXT: func.return %a, %b, %c, %d, %e
  %w = et.get_weight @w : tensor<1x4x64xui8>
  %s = et.get_weight @s : tensor<1x1x16xf16>
  %t = et.get_weight @t : tensor<16xf32>
  %a = edge.etir.int4_group_dynamic_linear.default(%x, %w, %s, none, %t, none, columns = 16) : (tensor<2x32xf32>, tensor<1x4x64xui8>, tensor<1x1x16xf16>, tensor<16xf32>) -> tensor<2x16xf32>
  %b = edge.etir.int4_group_dynamic_linear.default(%x, %w, %s, none, %t, %t, columns = 16) : (tensor<2x32xf32>, tensor<1x4x64xui8>, tensor<1x1x16xf16>, tensor<16xf32>, tensor<16xf32>) -> tensor<2x16xf32>
  %c = edge.etir.int4_group_dynamic_linear.default(%x, %w, %s, %s, %t, none, columns = 16) : (tensor<2x32xf32>, tensor<1x4x64xui8>, tensor<1x1x16xf16>, tensor<1x1x16xf16>, tensor<16xf32>) -> tensor<2x16xf32>
  %d = edge.etir.int4_group_dynamic_linear.default(%x, %w, %s, none, none, none, columns = 16) : (tensor<2x32xf32>, tensor<1x4x64xui8>, tensor<1x1x16xf16>) -> tensor<2x16xf32>
  %e = edge.etir.int4_group_dynamic_linear.default(%x, %w, %s, none, %t, none, columns = 16) : (tensor<2x32xf32>, tensor<1x4x64xui8>, tensor<1x1x16xf16>, tensor<16xf32>) -> tensor<2x16xf32>
  func.return %a, %b, %c, %d, %e : tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>
}
