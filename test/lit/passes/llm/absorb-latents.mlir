// RUN: et-opt -p 'absorb-latents{target=etir},dce' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'absorb-latents{target=etir}' --explain-match=absorb-latents --no-output --split-input-file %s 2>&1 | filecheck %s --check-prefix=WHY
// RUN: et-opt -p 'absorb-latents' --explain-match=absorb-latents --no-output --split-input-file %s 2>&1 | filecheck %s --check-prefix=STOCK

// Latents of 6 numbers and 2 beside them, for 2 heads of 4 + 2 and 3.

et.weight @kv_b : tensor<14x6xf32> = #et.synthetic<seed = 1>
et.state @latents : tensor<1x1x8x6xf32>
et.state @turned : tensor<1x1x8x2xf32>

// CHECK-DAG: et.state @latents : tensor<1x1x8x8xf32>
// CHECK-NOT: @turned
// CHECK-LABEL: func.func @latent
func.func @latent(%q: tensor<1x2x3x6xf32>, %new: tensor<1x1x3x6xf32>, %also: tensor<1x1x3x2xf32>, %positions: tensor<3xi64>) -> tensor<1x2x3x3xf32> {
  %start = aten.select.int(%positions, dim = 0, index = 0) : (tensor<3xi64>) -> tensor<i64>
  %a = aten.arange.default(end = 3) : () -> tensor<3xi64>
  %p = aten.add.Tensor(%a, %start) : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %rows = aten.unsqueeze.default(%p, dim = 1) : (tensor<3xi64>) -> tensor<3x1xi64>
  %at = aten.arange.default(end = 8) : () -> tensor<8xi64>
  %mask = aten.le.Tensor(%at, %rows) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %w = et.get_weight @kv_b : tensor<14x6xf32>
  %held = et.read_state @latents : tensor<1x1x8x6xf32>
  %other = et.read_state @turned : tensor<1x1x8x2xf32>
  // CHECK: %[[CACHE:.*]] = et.read_state @latents : tensor<1x1x8x8xf32>
  // CHECK: %[[NEW:.*]] = aten.cat.default([%new, %also], dim = 3)
  // CHECK: %[[C:.*]] = aten.index_copy.default(%[[CACHE]], dim = 2, %{{.*}}, %[[NEW]])
  // CHECK: aten.bmm.default({{.*}}) : (tensor<2x3x4xf32>, tensor<2x4x6xf32>) -> tensor<2x3x6xf32>
  // CHECK: aten.cat.default({{.*}}, dim = 3) {{.*}} -> tensor<1x2x3x8xf32>
  // CHECK: %[[K:.*]] = aten.transpose.int(%[[C]], dim0 = 1, dim1 = 2)
  // CHECK: %[[V:.*]] = aten.transpose.int(%[[C]], dim0 = 1, dim1 = 2)
  // CHECK: llama.custom_sdpa.default(%{{.*}}, %[[K]], %[[V]], start_pos = %{{.*}}, is_causal = true, scale = 0.408
  // CHECK: aten.bmm.default({{.*}}) : (tensor<2x3x6xf32>, tensor<2x6x3xf32>) -> tensor<2x3x3xf32>
  // CHECK-NOT: aten.linear
  // CHECK: et.write_state @latents, %[[C]]
  // WHY: 'absorb-latents' rewrote 'aten.scaled_dot_product_attention.default'
  // STOCK: library 'custom_ops' of target 'executorch', which has 'llama::custom_sdpa.out', is not linked
  %c = aten.index_copy.default(%held, dim = 2, %p, %new) : (tensor<1x1x8x6xf32>, tensor<3xi64>, tensor<1x1x3x6xf32>) -> tensor<1x1x8x6xf32>
  %r = aten.index_copy.default(%other, dim = 2, %p, %also) : (tensor<1x1x8x2xf32>, tensor<3xi64>, tensor<1x1x3x2xf32>) -> tensor<1x1x8x2xf32>
  %m = aten.linear.default(%c, %w) : (tensor<1x1x8x6xf32>, tensor<14x6xf32>) -> tensor<1x1x8x14xf32>
  %h = aten.view.default(%m, size = [1, 8, 2, 7]) : (tensor<1x1x8x14xf32>) -> tensor<1x8x2x7xf32>
  %t = aten.transpose.int(%h, dim0 = 1, dim1 = 2) : (tensor<1x8x2x7xf32>) -> tensor<1x2x8x7xf32>
  %k, %v = aten.split_with_sizes.default(%t, split_sizes = [4, 3], dim = -1) : (tensor<1x2x8x7xf32>) -> (tensor<1x2x8x4xf32>, tensor<1x2x8x3xf32>)
  %e = aten.expand.default(%r, size = [-1, 2, -1, -1]) : (tensor<1x1x8x2xf32>) -> tensor<1x2x8x2xf32>
  %keys = aten.cat.default([%k, %e], dim = -1) : (tensor<1x2x8x4xf32>, tensor<1x2x8x2xf32>) -> tensor<1x2x8x6xf32>
  %y = aten.scaled_dot_product_attention.default(%q, %keys, %v, %mask) : (tensor<1x2x3x6xf32>, tensor<1x2x8x6xf32>, tensor<1x2x8x3xf32>, tensor<3x8xi1>) -> tensor<1x2x3x3xf32>
  et.write_state @latents, %c : tensor<1x1x8x6xf32>
  et.write_state @turned, %r : tensor<1x1x8x2xf32>
  func.return %y : tensor<1x2x3x3xf32>
}

// -----

// A method reads the latents, too: nothing changes in any.

et.weight @kv_b : tensor<14x6xf32> = #et.synthetic<seed = 1>
et.state @latents : tensor<1x1x8x6xf32>
et.state @turned : tensor<1x1x8x2xf32>

// CHECK-DAG: et.state @latents : tensor<1x1x8x6xf32>
// CHECK-DAG: et.state @turned : tensor<1x1x8x2xf32>
// CHECK-LABEL: func.func @shared
func.func @shared(%q: tensor<1x2x3x6xf32>, %new: tensor<1x1x3x6xf32>, %also: tensor<1x1x3x2xf32>, %positions: tensor<3xi64>) -> tensor<1x2x3x3xf32> {
  %start = aten.select.int(%positions, dim = 0, index = 0) : (tensor<3xi64>) -> tensor<i64>
  %a = aten.arange.default(end = 3) : () -> tensor<3xi64>
  %p = aten.add.Tensor(%a, %start) : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %rows = aten.unsqueeze.default(%p, dim = 1) : (tensor<3xi64>) -> tensor<3x1xi64>
  %at = aten.arange.default(end = 8) : () -> tensor<8xi64>
  %mask = aten.le.Tensor(%at, %rows) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %w = et.get_weight @kv_b : tensor<14x6xf32>
  %held = et.read_state @latents : tensor<1x1x8x6xf32>
  %other = et.read_state @turned : tensor<1x1x8x2xf32>
  // CHECK: aten.linear
  // CHECK: aten.scaled_dot_product_attention
  // CHECK: et.write_state @turned
  // WHY: 'aten.neg.default' reads 'latents', too
  %c = aten.index_copy.default(%held, dim = 2, %p, %new) : (tensor<1x1x8x6xf32>, tensor<3xi64>, tensor<1x1x3x6xf32>) -> tensor<1x1x8x6xf32>
  %r = aten.index_copy.default(%other, dim = 2, %p, %also) : (tensor<1x1x8x2xf32>, tensor<3xi64>, tensor<1x1x3x2xf32>) -> tensor<1x1x8x2xf32>
  %m = aten.linear.default(%c, %w) : (tensor<1x1x8x6xf32>, tensor<14x6xf32>) -> tensor<1x1x8x14xf32>
  %h = aten.view.default(%m, size = [1, 8, 2, 7]) : (tensor<1x1x8x14xf32>) -> tensor<1x8x2x7xf32>
  %t = aten.transpose.int(%h, dim0 = 1, dim1 = 2) : (tensor<1x8x2x7xf32>) -> tensor<1x2x8x7xf32>
  %k, %v = aten.split_with_sizes.default(%t, split_sizes = [4, 3], dim = -1) : (tensor<1x2x8x7xf32>) -> (tensor<1x2x8x4xf32>, tensor<1x2x8x3xf32>)
  %e = aten.expand.default(%r, size = [-1, 2, -1, -1]) : (tensor<1x1x8x2xf32>) -> tensor<1x2x8x2xf32>
  %keys = aten.cat.default([%k, %e], dim = -1) : (tensor<1x2x8x4xf32>, tensor<1x2x8x2xf32>) -> tensor<1x2x8x6xf32>
  %y = aten.scaled_dot_product_attention.default(%q, %keys, %v, %mask) : (tensor<1x2x3x6xf32>, tensor<1x2x8x6xf32>, tensor<1x2x8x3xf32>, tensor<3x8xi1>) -> tensor<1x2x3x3xf32>
  et.write_state @latents, %c : tensor<1x1x8x6xf32>
  et.write_state @turned, %r : tensor<1x1x8x2xf32>
  func.return %y : tensor<1x2x3x3xf32>
}

func.func @also() -> tensor<1x1x8x6xf32> {
  %held = et.read_state @latents : tensor<1x1x8x6xf32>
  %y = aten.neg.default(%held) : (tensor<1x1x8x6xf32>) -> tensor<1x1x8x6xf32>
  func.return %y : tensor<1x1x8x6xf32>
}

// -----

// The latents are kept for the next call, what is turned is not.

et.weight @kv_b : tensor<14x6xf32> = #et.synthetic<seed = 1>
et.state @latents : tensor<1x1x8x6xf32>
et.state @turned : tensor<1x1x8x2xf32>

// CHECK-LABEL: func.func @unsaved
// CHECK: aten.scaled_dot_product_attention
// WHY: a method stores one of latents and what is beside them, and not the other
func.func @unsaved(%q: tensor<1x2x3x6xf32>, %new: tensor<1x1x3x6xf32>, %also: tensor<1x1x3x2xf32>, %positions: tensor<3xi64>) -> tensor<1x2x3x3xf32> {
  %start = aten.select.int(%positions, dim = 0, index = 0) : (tensor<3xi64>) -> tensor<i64>
  %a = aten.arange.default(end = 3) : () -> tensor<3xi64>
  %p = aten.add.Tensor(%a, %start) : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %rows = aten.unsqueeze.default(%p, dim = 1) : (tensor<3xi64>) -> tensor<3x1xi64>
  %at = aten.arange.default(end = 8) : () -> tensor<8xi64>
  %mask = aten.le.Tensor(%at, %rows) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %w = et.get_weight @kv_b : tensor<14x6xf32>
  %held = et.read_state @latents : tensor<1x1x8x6xf32>
  %other = et.read_state @turned : tensor<1x1x8x2xf32>
  %c = aten.index_copy.default(%held, dim = 2, %p, %new) : (tensor<1x1x8x6xf32>, tensor<3xi64>, tensor<1x1x3x6xf32>) -> tensor<1x1x8x6xf32>
  %r = aten.index_copy.default(%other, dim = 2, %p, %also) : (tensor<1x1x8x2xf32>, tensor<3xi64>, tensor<1x1x3x2xf32>) -> tensor<1x1x8x2xf32>
  %m = aten.linear.default(%c, %w) : (tensor<1x1x8x6xf32>, tensor<14x6xf32>) -> tensor<1x1x8x14xf32>
  %h = aten.view.default(%m, size = [1, 8, 2, 7]) : (tensor<1x1x8x14xf32>) -> tensor<1x8x2x7xf32>
  %t = aten.transpose.int(%h, dim0 = 1, dim1 = 2) : (tensor<1x8x2x7xf32>) -> tensor<1x2x8x7xf32>
  %k, %v = aten.split_with_sizes.default(%t, split_sizes = [4, 3], dim = -1) : (tensor<1x2x8x7xf32>) -> (tensor<1x2x8x4xf32>, tensor<1x2x8x3xf32>)
  %e = aten.expand.default(%r, size = [-1, 2, -1, -1]) : (tensor<1x1x8x2xf32>) -> tensor<1x2x8x2xf32>
  %keys = aten.cat.default([%k, %e], dim = -1) : (tensor<1x2x8x4xf32>, tensor<1x2x8x2xf32>) -> tensor<1x2x8x6xf32>
  %y = aten.scaled_dot_product_attention.default(%q, %keys, %v, %mask) : (tensor<1x2x3x6xf32>, tensor<1x2x8x6xf32>, tensor<1x2x8x3xf32>, tensor<3x8xi1>) -> tensor<1x2x3x3xf32>
  et.write_state @latents, %c : tensor<1x1x8x6xf32>
  func.return %y : tensor<1x2x3x3xf32>
}

// -----

// What is turned is written two positions after the latents.

et.weight @kv_b : tensor<14x6xf32> = #et.synthetic<seed = 1>
et.state @latents : tensor<1x1x8x6xf32>
et.state @turned : tensor<1x1x8x2xf32>

// CHECK-LABEL: func.func @elsewhere
func.func @elsewhere(%q: tensor<1x2x3x6xf32>, %new: tensor<1x1x3x6xf32>, %also: tensor<1x1x3x2xf32>, %positions: tensor<3xi64>) -> tensor<1x2x3x3xf32> {
  %start = aten.select.int(%positions, dim = 0, index = 0) : (tensor<3xi64>) -> tensor<i64>
  %a = aten.arange.default(end = 3) : () -> tensor<3xi64>
  %p = aten.add.Tensor(%a, %start) : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %later = aten.add.Tensor(%p, 2) : (tensor<3xi64>) -> tensor<3xi64>
  %rows = aten.unsqueeze.default(%p, dim = 1) : (tensor<3xi64>) -> tensor<3x1xi64>
  %at = aten.arange.default(end = 8) : () -> tensor<8xi64>
  %mask = aten.le.Tensor(%at, %rows) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %w = et.get_weight @kv_b : tensor<14x6xf32>
  %held = et.read_state @latents : tensor<1x1x8x6xf32>
  %other = et.read_state @turned : tensor<1x1x8x2xf32>
  // CHECK: aten.scaled_dot_product_attention
  // WHY: latents are not what a cache holds after a write of successive positions
  %c = aten.index_copy.default(%held, dim = 2, %p, %new) : (tensor<1x1x8x6xf32>, tensor<3xi64>, tensor<1x1x3x6xf32>) -> tensor<1x1x8x6xf32>
  %r = aten.index_copy.default(%other, dim = 2, %later, %also) : (tensor<1x1x8x2xf32>, tensor<3xi64>, tensor<1x1x3x2xf32>) -> tensor<1x1x8x2xf32>
  %m = aten.linear.default(%c, %w) : (tensor<1x1x8x6xf32>, tensor<14x6xf32>) -> tensor<1x1x8x14xf32>
  %h = aten.view.default(%m, size = [1, 8, 2, 7]) : (tensor<1x1x8x14xf32>) -> tensor<1x8x2x7xf32>
  %t = aten.transpose.int(%h, dim0 = 1, dim1 = 2) : (tensor<1x8x2x7xf32>) -> tensor<1x2x8x7xf32>
  %k, %v = aten.split_with_sizes.default(%t, split_sizes = [4, 3], dim = -1) : (tensor<1x2x8x7xf32>) -> (tensor<1x2x8x4xf32>, tensor<1x2x8x3xf32>)
  %e = aten.expand.default(%r, size = [-1, 2, -1, -1]) : (tensor<1x1x8x2xf32>) -> tensor<1x2x8x2xf32>
  %keys = aten.cat.default([%k, %e], dim = -1) : (tensor<1x2x8x4xf32>, tensor<1x2x8x2xf32>) -> tensor<1x2x8x6xf32>
  %y = aten.scaled_dot_product_attention.default(%q, %keys, %v, %mask) : (tensor<1x2x3x6xf32>, tensor<1x2x8x6xf32>, tensor<1x2x8x3xf32>, tensor<3x8xi1>) -> tensor<1x2x3x3xf32>
  et.write_state @latents, %c : tensor<1x1x8x6xf32>
  et.write_state @turned, %r : tensor<1x1x8x2xf32>
  func.return %y : tensor<1x2x3x3xf32>
}
