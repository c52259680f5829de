// RUN: et-opt -p 'attend-by-position{target=etir}' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'attend-by-position{target=etir}' --explain-match=attend-by-position --no-output --split-input-file %s 2>&1 | filecheck %s --check-prefix=WHY
// RUN: et-opt -p attend-by-position --explain-match=attend-by-position --no-output --split-input-file %s 2>&1 | filecheck %s --check-prefix=STOCK
// RUN: et-opt -p 'attend-by-position{libraries=custom_ops}' --split-input-file %s | filecheck %s

// A mask that is causal from the start on, over a cache written from the start on. Repeated heads are read once.

et.state @keys : tensor<1x1x8x4xf32>
et.state @values : tensor<1x1x8x4xf32>

// CHECK-LABEL: func.func @causal
func.func @causal(%q: tensor<1x2x3x4xf32>, %newk: tensor<1x1x3x4xf32>, %newv: tensor<1x1x3x4xf32>, %positions: tensor<3xi64>) -> tensor<1x2x3x4xf32> {
  %start = aten.select.int(%positions, dim = 0, index = 0) : (tensor<3xi64>) -> tensor<i64>
  %a = aten.arange.default(end = 3) : () -> tensor<3xi64>
  %p = aten.add.Tensor(%a, %start) : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %rows = aten.unsqueeze.default(%p, dim = 1) : (tensor<3xi64>) -> tensor<3x1xi64>
  %keys = aten.arange.default(end = 8) : () -> tensor<8xi64>
  %seen = aten.le.Tensor(%keys, %rows) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %mask = aten.expand.default(%seen, size = [1, 1, 3, 8]) : (tensor<3x8xi1>) -> tensor<1x1x3x8xi1>
  %kc = et.read_state @keys : tensor<1x1x8x4xf32>
  %vc = et.read_state @values : tensor<1x1x8x4xf32>
  %k = aten.index_copy.default(%kc, dim = 2, %p, %newk) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  %v = aten.index_copy.default(%vc, dim = 2, %p, %newv) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  %k1 = aten.unsqueeze.default(%k, dim = 2) : (tensor<1x1x8x4xf32>) -> tensor<1x1x1x8x4xf32>
  %k2 = aten.expand.default(%k1, size = [1, 1, 2, 8, 4]) : (tensor<1x1x1x8x4xf32>) -> tensor<1x1x2x8x4xf32>
  %k3 = aten.reshape.default(%k2, shape = [1, 2, 8, 4]) : (tensor<1x1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  %v1 = aten.unsqueeze.default(%v, dim = 2) : (tensor<1x1x8x4xf32>) -> tensor<1x1x1x8x4xf32>
  %v2 = aten.expand.default(%v1, size = [1, 1, 2, 8, 4]) : (tensor<1x1x1x8x4xf32>) -> tensor<1x1x2x8x4xf32>
  %v3 = aten.reshape.default(%v2, shape = [1, 2, 8, 4]) : (tensor<1x1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  // WHY: 'attend-by-position' rewrote 'aten.scaled_dot_product_attention.default'
  // STOCK: library 'custom_ops' of target 'executorch', which has 'llama::custom_sdpa.out', is not linked
  // CHECK: %[[S:.*]] = aten.item.default(%start)
  // CHECK-NEXT: %[[Q:.*]] = aten.transpose.int(%q, dim0 = 1, dim1 = 2)
  // CHECK-NEXT: %[[K:.*]] = aten.transpose.int(%k, dim0 = 1, dim1 = 2) : (tensor<1x1x8x4xf32>) -> tensor<1x8x1x4xf32>
  // CHECK-NEXT: %[[V:.*]] = aten.transpose.int(%v, dim0 = 1, dim1 = 2)
  // CHECK-NEXT: %[[Y:.*]] = llama.custom_sdpa.default(%[[Q]], %[[K]], %[[V]], start_pos = %[[S]], is_causal = true, scale = 0.25)
  // CHECK-NEXT: %y = aten.transpose.int(%[[Y]], dim0 = 1, dim1 = 2)
  // CHECK-NOT: scaled_dot_product
  %y = aten.scaled_dot_product_attention.default(%q, %k3, %v3, %mask, scale = 0.25) : (tensor<1x2x3x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x1x3x8xi1>) -> tensor<1x2x3x4xf32>
  et.write_state @keys, %k : tensor<1x1x8x4xf32>
  et.write_state @values, %v : tensor<1x1x8x4xf32>
  func.return %y : tensor<1x2x3x4xf32>
}

// -----

// A window is no prefix of the cache.

et.state @keys : tensor<1x1x8x4xf32>
et.state @values : tensor<1x1x8x4xf32>

// CHECK-LABEL: func.func @window
func.func @window(%q: tensor<1x2x3x4xf32>, %newk: tensor<1x1x3x4xf32>, %newv: tensor<1x1x3x4xf32>, %positions: tensor<3xi64>) -> tensor<1x2x3x4xf32> {
  %start = aten.select.int(%positions, dim = 0, index = 0) : (tensor<3xi64>) -> tensor<i64>
  %a = aten.arange.default(end = 3) : () -> tensor<3xi64>
  %p = aten.add.Tensor(%a, %start) : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %rows = aten.unsqueeze.default(%p, dim = 1) : (tensor<3xi64>) -> tensor<3x1xi64>
  %keys = aten.arange.default(end = 8) : () -> tensor<8xi64>
  %far = aten.sub.Tensor(%rows, 4) : (tensor<3x1xi64>) -> tensor<3x1xi64>
  %near = aten.gt.Tensor(%keys, %far) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %before = aten.le.Tensor(%keys, %rows) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %seen = aten.bitwise_and.Tensor(%near, %before) : (tensor<3x8xi1>, tensor<3x8xi1>) -> tensor<3x8xi1>
  %mask = aten.expand.default(%seen, size = [1, 1, 3, 8]) : (tensor<3x8xi1>) -> tensor<1x1x3x8xi1>
  %kc = et.read_state @keys : tensor<1x1x8x4xf32>
  %vc = et.read_state @values : tensor<1x1x8x4xf32>
  %k = aten.index_copy.default(%kc, dim = 2, %p, %newk) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  %v = aten.index_copy.default(%vc, dim = 2, %p, %newv) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  %k1 = aten.unsqueeze.default(%k, dim = 2) : (tensor<1x1x8x4xf32>) -> tensor<1x1x1x8x4xf32>
  %k2 = aten.expand.default(%k1, size = [1, 1, 2, 8, 4]) : (tensor<1x1x1x8x4xf32>) -> tensor<1x1x2x8x4xf32>
  %k3 = aten.reshape.default(%k2, shape = [1, 2, 8, 4]) : (tensor<1x1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  %v1 = aten.unsqueeze.default(%v, dim = 2) : (tensor<1x1x8x4xf32>) -> tensor<1x1x1x8x4xf32>
  %v2 = aten.expand.default(%v1, size = [1, 1, 2, 8, 4]) : (tensor<1x1x1x8x4xf32>) -> tensor<1x1x2x8x4xf32>
  %v3 = aten.reshape.default(%v2, shape = [1, 2, 8, 4]) : (tensor<1x1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  // WHY: the mask is a window of 4 positions
  // CHECK: aten.scaled_dot_product_attention.default
  %y = aten.scaled_dot_product_attention.default(%q, %k3, %v3, %mask, scale = 0.25) : (tensor<1x2x3x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x1x3x8xi1>) -> tensor<1x2x3x4xf32>
  et.write_state @keys, %k : tensor<1x1x8x4xf32>
  et.write_state @values, %v : tensor<1x1x8x4xf32>
  func.return %y : tensor<1x2x3x4xf32>
}

// -----

// One key more than those up to the query.

et.state @keys : tensor<1x1x8x4xf32>
et.state @values : tensor<1x1x8x4xf32>

// CHECK-LABEL: func.func @next
func.func @next(%q: tensor<1x2x3x4xf32>, %newk: tensor<1x1x3x4xf32>, %newv: tensor<1x1x3x4xf32>, %positions: tensor<3xi64>) -> tensor<1x2x3x4xf32> {
  %start = aten.select.int(%positions, dim = 0, index = 0) : (tensor<3xi64>) -> tensor<i64>
  %a = aten.arange.default(end = 3) : () -> tensor<3xi64>
  %p = aten.add.Tensor(%a, %start) : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %rows = aten.unsqueeze.default(%p, dim = 1) : (tensor<3xi64>) -> tensor<3x1xi64>
  %keys = aten.arange.default(end = 8) : () -> tensor<8xi64>
  %more = aten.add.Tensor(%rows, 1) : (tensor<3x1xi64>) -> tensor<3x1xi64>
  %seen = aten.le.Tensor(%keys, %more) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %mask = aten.expand.default(%seen, size = [1, 1, 3, 8]) : (tensor<3x8xi1>) -> tensor<1x1x3x8xi1>
  %kc = et.read_state @keys : tensor<1x1x8x4xf32>
  %vc = et.read_state @values : tensor<1x1x8x4xf32>
  %k = aten.index_copy.default(%kc, dim = 2, %p, %newk) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  %v = aten.index_copy.default(%vc, dim = 2, %p, %newv) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  %k1 = aten.unsqueeze.default(%k, dim = 2) : (tensor<1x1x8x4xf32>) -> tensor<1x1x1x8x4xf32>
  %k2 = aten.expand.default(%k1, size = [1, 1, 2, 8, 4]) : (tensor<1x1x1x8x4xf32>) -> tensor<1x1x2x8x4xf32>
  %k3 = aten.reshape.default(%k2, shape = [1, 2, 8, 4]) : (tensor<1x1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  %v1 = aten.unsqueeze.default(%v, dim = 2) : (tensor<1x1x8x4xf32>) -> tensor<1x1x1x8x4xf32>
  %v2 = aten.expand.default(%v1, size = [1, 1, 2, 8, 4]) : (tensor<1x1x1x8x4xf32>) -> tensor<1x1x2x8x4xf32>
  %v3 = aten.reshape.default(%v2, shape = [1, 2, 8, 4]) : (tensor<1x1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  // WHY: the mask hides other keys than those after the query
  // CHECK: aten.scaled_dot_product_attention.default
  %y = aten.scaled_dot_product_attention.default(%q, %k3, %v3, %mask, scale = 0.25) : (tensor<1x2x3x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x1x3x8xi1>) -> tensor<1x2x3x4xf32>
  et.write_state @keys, %k : tensor<1x1x8x4xf32>
  et.write_state @values, %v : tensor<1x1x8x4xf32>
  func.return %y : tensor<1x2x3x4xf32>
}

// -----

// Positions that a caller gives one by one need not follow each other.

et.state @keys : tensor<1x1x8x4xf32>
et.state @values : tensor<1x1x8x4xf32>

// CHECK-LABEL: func.func @given
func.func @given(%q: tensor<1x2x3x4xf32>, %newk: tensor<1x1x3x4xf32>, %newv: tensor<1x1x3x4xf32>, %positions: tensor<3xi64>) -> tensor<1x2x3x4xf32> {
  %p = aten.add.Tensor(%positions, 0) : (tensor<3xi64>) -> tensor<3xi64>
  %rows = aten.unsqueeze.default(%p, dim = 1) : (tensor<3xi64>) -> tensor<3x1xi64>
  %keys = aten.arange.default(end = 8) : () -> tensor<8xi64>
  %seen = aten.le.Tensor(%keys, %rows) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %mask = aten.expand.default(%seen, size = [1, 1, 3, 8]) : (tensor<3x8xi1>) -> tensor<1x1x3x8xi1>
  %kc = et.read_state @keys : tensor<1x1x8x4xf32>
  %vc = et.read_state @values : tensor<1x1x8x4xf32>
  %k = aten.index_copy.default(%kc, dim = 2, %p, %newk) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  %v = aten.index_copy.default(%vc, dim = 2, %p, %newv) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  %k1 = aten.unsqueeze.default(%k, dim = 2) : (tensor<1x1x8x4xf32>) -> tensor<1x1x1x8x4xf32>
  %k2 = aten.expand.default(%k1, size = [1, 1, 2, 8, 4]) : (tensor<1x1x1x8x4xf32>) -> tensor<1x1x2x8x4xf32>
  %k3 = aten.reshape.default(%k2, shape = [1, 2, 8, 4]) : (tensor<1x1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  %v1 = aten.unsqueeze.default(%v, dim = 2) : (tensor<1x1x8x4xf32>) -> tensor<1x1x1x8x4xf32>
  %v2 = aten.expand.default(%v1, size = [1, 1, 2, 8, 4]) : (tensor<1x1x1x8x4xf32>) -> tensor<1x1x2x8x4xf32>
  %v3 = aten.reshape.default(%v2, shape = [1, 2, 8, 4]) : (tensor<1x1x2x8x4xf32>) -> tensor<1x2x8x4xf32>
  // WHY: keys or values are not what a cache holds after a write of successive positions
  // CHECK: aten.scaled_dot_product_attention.default
  %y = aten.scaled_dot_product_attention.default(%q, %k3, %v3, %mask, scale = 0.25) : (tensor<1x2x3x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x1x3x8xi1>) -> tensor<1x2x3x4xf32>
  et.write_state @keys, %k : tensor<1x1x8x4xf32>
  et.write_state @values, %v : tensor<1x1x8x4xf32>
  func.return %y : tensor<1x2x3x4xf32>
}

// -----

// Keys are cast to what they are, as GPT-J does before it computes scores in float32.

et.state @keys : tensor<1x1x8x4xf32>
et.state @values : tensor<1x1x8x4xf32>

// CHECK-LABEL: func.func @cast
func.func @cast(%q: tensor<1x1x3x4xf32>, %newk: tensor<1x1x3x4xf32>, %newv: tensor<1x1x3x4xf32>, %positions: tensor<3xi64>) -> tensor<1x1x3x4xf32> {
  %start = aten.select.int(%positions, dim = 0, index = 0) : (tensor<3xi64>) -> tensor<i64>
  %a = aten.arange.default(end = 3) : () -> tensor<3xi64>
  %p = aten.add.Tensor(%a, %start) : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %rows = aten.unsqueeze.default(%p, dim = 1) : (tensor<3xi64>) -> tensor<3x1xi64>
  %keys = aten.arange.default(end = 8) : () -> tensor<8xi64>
  %seen = aten.le.Tensor(%keys, %rows) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %mask = aten.expand.default(%seen, size = [1, 1, 3, 8]) : (tensor<3x8xi1>) -> tensor<1x1x3x8xi1>
  %kc = et.read_state @keys : tensor<1x1x8x4xf32>
  %vc = et.read_state @values : tensor<1x1x8x4xf32>
  %k = aten.index_copy.default(%kc, dim = 2, %p, %newk) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  %v = aten.index_copy.default(%vc, dim = 2, %p, %newv) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  %same = aten.to.dtype(%k, dtype = f32) : (tensor<1x1x8x4xf32>) -> tensor<1x1x8x4xf32>
  // WHY: 'attend-by-position' rewrote 'aten.scaled_dot_product_attention.default'
  // CHECK: aten.transpose.int(%k, dim0 = 1, dim1 = 2)
  // CHECK: llama.custom_sdpa.default
  // CHECK-NOT: scaled_dot_product
  %y = aten.scaled_dot_product_attention.default(%q, %same, %v, %mask, scale = 0.25) : (tensor<1x1x3x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x3x8xi1>) -> tensor<1x1x3x4xf32>
  et.write_state @keys, %k : tensor<1x1x8x4xf32>
  et.write_state @values, %v : tensor<1x1x8x4xf32>
  func.return %y : tensor<1x1x3x4xf32>
}

// -----

// Chunks as long as the cache: all positions, which are those that are written, are in the first one.

et.state @keys : tensor<1x1x8x4xf32>
et.state @values : tensor<1x1x8x4xf32>

// CHECK-LABEL: func.func @long_chunks
func.func @long_chunks(%q: tensor<1x1x3x4xf32>, %newk: tensor<1x1x3x4xf32>, %newv: tensor<1x1x3x4xf32>, %positions: tensor<3xi64>) -> tensor<1x1x3x4xf32> {
  %start = aten.select.int(%positions, dim = 0, index = 0) : (tensor<3xi64>) -> tensor<i64>
  %a = aten.arange.default(end = 3) : () -> tensor<3xi64>
  %p = aten.add.Tensor(%a, %start) : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %rows = aten.unsqueeze.default(%p, dim = 1) : (tensor<3xi64>) -> tensor<3x1xi64>
  %keys = aten.arange.default(end = 8) : () -> tensor<8xi64>
  %before = aten.le.Tensor(%keys, %rows) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %chunk = aten.floor_divide.default(%keys, 8) : (tensor<8xi64>) -> tensor<8xi64>
  %own = aten.floor_divide.default(%rows, 8) : (tensor<3x1xi64>) -> tensor<3x1xi64>
  %more = aten.eq.Tensor(%chunk, %own) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %seen = aten.bitwise_and.Tensor(%before, %more) : (tensor<3x8xi1>, tensor<3x8xi1>) -> tensor<3x8xi1>
  %kc = et.read_state @keys : tensor<1x1x8x4xf32>
  %vc = et.read_state @values : tensor<1x1x8x4xf32>
  %k = aten.index_copy.default(%kc, dim = 2, %p, %newk) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  %v = aten.index_copy.default(%vc, dim = 2, %p, %newv) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  // WHY: 'attend-by-position' rewrote 'aten.scaled_dot_product_attention.default'
  // CHECK: llama.custom_sdpa.default
  // CHECK-NOT: scaled_dot_product
  %y = aten.scaled_dot_product_attention.default(%q, %k, %v, %seen) : (tensor<1x1x3x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<3x8xi1>) -> tensor<1x1x3x4xf32>
  et.write_state @keys, %k : tensor<1x1x8x4xf32>
  et.write_state @values, %v : tensor<1x1x8x4xf32>
  func.return %y : tensor<1x1x3x4xf32>
}

// -----

// Shorter chunks: a query does not see the chunks before its own.

et.state @keys : tensor<1x1x8x4xf32>
et.state @values : tensor<1x1x8x4xf32>

// CHECK-LABEL: func.func @short_chunks
func.func @short_chunks(%q: tensor<1x1x3x4xf32>, %newk: tensor<1x1x3x4xf32>, %newv: tensor<1x1x3x4xf32>, %positions: tensor<3xi64>) -> tensor<1x1x3x4xf32> {
  %start = aten.select.int(%positions, dim = 0, index = 0) : (tensor<3xi64>) -> tensor<i64>
  %a = aten.arange.default(end = 3) : () -> tensor<3xi64>
  %p = aten.add.Tensor(%a, %start) : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %rows = aten.unsqueeze.default(%p, dim = 1) : (tensor<3xi64>) -> tensor<3x1xi64>
  %keys = aten.arange.default(end = 8) : () -> tensor<8xi64>
  %before = aten.le.Tensor(%keys, %rows) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %chunk = aten.floor_divide.default(%keys, 7) : (tensor<8xi64>) -> tensor<8xi64>
  %own = aten.floor_divide.default(%rows, 7) : (tensor<3x1xi64>) -> tensor<3x1xi64>
  %more = aten.eq.Tensor(%chunk, %own) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %seen = aten.bitwise_and.Tensor(%before, %more) : (tensor<3x8xi1>, tensor<3x8xi1>) -> tensor<3x8xi1>
  %kc = et.read_state @keys : tensor<1x1x8x4xf32>
  %vc = et.read_state @values : tensor<1x1x8x4xf32>
  %k = aten.index_copy.default(%kc, dim = 2, %p, %newk) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  %v = aten.index_copy.default(%vc, dim = 2, %p, %newv) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  // WHY: the mask hides other keys than those after the query
  // CHECK: aten.scaled_dot_product_attention.default
  %y = aten.scaled_dot_product_attention.default(%q, %k, %v, %seen) : (tensor<1x1x3x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<3x8xi1>) -> tensor<1x1x3x4xf32>
  et.write_state @keys, %k : tensor<1x1x8x4xf32>
  et.write_state @values, %v : tensor<1x1x8x4xf32>
  func.return %y : tensor<1x1x3x4xf32>
}

// -----

// A mask for padding that says of every token that it is none.

et.state @keys : tensor<1x1x8x4xf32>
et.state @values : tensor<1x1x8x4xf32>

// CHECK-LABEL: func.func @no_padding
func.func @no_padding(%q: tensor<1x1x3x4xf32>, %newk: tensor<1x1x3x4xf32>, %newv: tensor<1x1x3x4xf32>, %positions: tensor<3xi64>) -> tensor<1x1x3x4xf32> {
  %start = aten.select.int(%positions, dim = 0, index = 0) : (tensor<3xi64>) -> tensor<i64>
  %a = aten.arange.default(end = 3) : () -> tensor<3xi64>
  %p = aten.add.Tensor(%a, %start) : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %rows = aten.unsqueeze.default(%p, dim = 1) : (tensor<3xi64>) -> tensor<3x1xi64>
  %keys = aten.arange.default(end = 8) : () -> tensor<8xi64>
  %before = aten.le.Tensor(%keys, %rows) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %ones = aten.ones.default(size = [1, 8], dtype = i64) : () -> tensor<1x8xi64>
  %tokens = aten.to.dtype(%ones, dtype = i1) : (tensor<1x8xi64>) -> tensor<1x8xi1>
  %batch = aten.zeros.default(size = [1, 1], dtype = i64) : () -> tensor<1x1xi64>
  %one = aten.index.Tensor(%tokens, [%batch, %keys]) : (tensor<1x8xi1>, tensor<1x1xi64>, tensor<8xi64>) -> tensor<1x8xi1>
  %more = aten.expand.default(%one, size = [3, 8]) : (tensor<1x8xi1>) -> tensor<3x8xi1>
  %seen = aten.bitwise_and.Tensor(%before, %more) : (tensor<3x8xi1>, tensor<3x8xi1>) -> tensor<3x8xi1>
  %kc = et.read_state @keys : tensor<1x1x8x4xf32>
  %vc = et.read_state @values : tensor<1x1x8x4xf32>
  %k = aten.index_copy.default(%kc, dim = 2, %p, %newk) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  %v = aten.index_copy.default(%vc, dim = 2, %p, %newv) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  // WHY: 'attend-by-position' rewrote 'aten.scaled_dot_product_attention.default'
  // CHECK: llama.custom_sdpa.default
  // CHECK-NOT: scaled_dot_product
  %y = aten.scaled_dot_product_attention.default(%q, %k, %v, %seen) : (tensor<1x1x3x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<3x8xi1>) -> tensor<1x1x3x4xf32>
  et.write_state @keys, %k : tensor<1x1x8x4xf32>
  et.write_state @values, %v : tensor<1x1x8x4xf32>
  func.return %y : tensor<1x1x3x4xf32>
}

// -----

// One that is too short for the keys: an error, which must stay one.

et.state @keys : tensor<1x1x8x4xf32>
et.state @values : tensor<1x1x8x4xf32>

// CHECK-LABEL: func.func @short_padding
func.func @short_padding(%q: tensor<1x1x3x4xf32>, %newk: tensor<1x1x3x4xf32>, %newv: tensor<1x1x3x4xf32>, %positions: tensor<3xi64>) -> tensor<1x1x3x4xf32> {
  %start = aten.select.int(%positions, dim = 0, index = 0) : (tensor<3xi64>) -> tensor<i64>
  %a = aten.arange.default(end = 3) : () -> tensor<3xi64>
  %p = aten.add.Tensor(%a, %start) : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %rows = aten.unsqueeze.default(%p, dim = 1) : (tensor<3xi64>) -> tensor<3x1xi64>
  %keys = aten.arange.default(end = 8) : () -> tensor<8xi64>
  %before = aten.le.Tensor(%keys, %rows) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %ones = aten.ones.default(size = [1, 7], dtype = i64) : () -> tensor<1x7xi64>
  %tokens = aten.to.dtype(%ones, dtype = i1) : (tensor<1x7xi64>) -> tensor<1x7xi1>
  %batch = aten.zeros.default(size = [1, 1], dtype = i64) : () -> tensor<1x1xi64>
  %one = aten.index.Tensor(%tokens, [%batch, %keys]) : (tensor<1x7xi1>, tensor<1x1xi64>, tensor<8xi64>) -> tensor<1x8xi1>
  %more = aten.expand.default(%one, size = [3, 8]) : (tensor<1x8xi1>) -> tensor<3x8xi1>
  %seen = aten.bitwise_and.Tensor(%before, %more) : (tensor<3x8xi1>, tensor<3x8xi1>) -> tensor<3x8xi1>
  %kc = et.read_state @keys : tensor<1x1x8x4xf32>
  %vc = et.read_state @values : tensor<1x1x8x4xf32>
  %k = aten.index_copy.default(%kc, dim = 2, %p, %newk) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  %v = aten.index_copy.default(%vc, dim = 2, %p, %newv) : (tensor<1x1x8x4xf32>, tensor<3xi64>, tensor<1x1x3x4xf32>) -> tensor<1x1x8x4xf32>
  // WHY: nothing is known about the mask
  // CHECK: aten.scaled_dot_product_attention.default
  %y = aten.scaled_dot_product_attention.default(%q, %k, %v, %seen) : (tensor<1x1x3x4xf32>, tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>, tensor<3x8xi1>) -> tensor<1x1x3x4xf32>
  et.write_state @keys, %k : tensor<1x1x8x4xf32>
  et.write_state @values, %v : tensor<1x1x8x4xf32>
  func.return %y : tensor<1x1x3x4xf32>
}

// -----

// A mask by a number hides the same keys.

et.state @keys : tensor<1x2x8x4xf32>
et.state @values : tensor<1x2x8x4xf32>

// CHECK-LABEL: func.func @half_mask
func.func @half_mask(%q: tensor<1x2x3x4xf32>, %newk: tensor<1x2x3x4xf32>, %newv: tensor<1x2x3x4xf32>, %positions: tensor<3xi64>) -> tensor<1x2x3x4xf32> {
  %start = aten.select.int(%positions, dim = 0, index = 0) : (tensor<3xi64>) -> tensor<i64>
  %a = aten.arange.default(end = 3) : () -> tensor<3xi64>
  %p = aten.add.Tensor(%a, %start) : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %rows = aten.unsqueeze.default(%p, dim = 1) : (tensor<3xi64>) -> tensor<3x1xi64>
  %keys = aten.arange.default(end = 8) : () -> tensor<8xi64>
  %seen = aten.le.Tensor(%keys, %rows) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %zero = aten.zeros.default(size = [], dtype = f32) : () -> tensor<f32>
  %mask = aten.where.ScalarOther(%seen, %zero, other = -3.4028234663852886e+38) : (tensor<3x8xi1>, tensor<f32>) -> tensor<3x8xf32>
  %kc = et.read_state @keys : tensor<1x2x8x4xf32>
  %vc = et.read_state @values : tensor<1x2x8x4xf32>
  %k = aten.index_copy.default(%kc, dim = 2, %p, %newk) : (tensor<1x2x8x4xf32>, tensor<3xi64>, tensor<1x2x3x4xf32>) -> tensor<1x2x8x4xf32>
  %v = aten.index_copy.default(%vc, dim = 2, %p, %newv) : (tensor<1x2x8x4xf32>, tensor<3xi64>, tensor<1x2x3x4xf32>) -> tensor<1x2x8x4xf32>
  // WHY: 'attend-by-position' rewrote 'aten.scaled_dot_product_attention.default'
  // CHECK: llama.custom_sdpa.default
  // CHECK-NOT: scaled_dot_product
  %more = aten.mul.Tensor(%mask, 0.5) : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %y = aten.scaled_dot_product_attention.default(%q, %k, %v, %more) : (tensor<1x2x3x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<3x8xf32>) -> tensor<1x2x3x4xf32>
  et.write_state @keys, %k : tensor<1x2x8x4xf32>
  et.write_state @values, %v : tensor<1x2x8x4xf32>
  func.return %y : tensor<1x2x3x4xf32>
}

// -----

// By one that is too small it does not.

et.state @keys : tensor<1x2x8x4xf32>
et.state @values : tensor<1x2x8x4xf32>

// CHECK-LABEL: func.func @small_mask
func.func @small_mask(%q: tensor<1x2x3x4xf32>, %newk: tensor<1x2x3x4xf32>, %newv: tensor<1x2x3x4xf32>, %positions: tensor<3xi64>) -> tensor<1x2x3x4xf32> {
  %start = aten.select.int(%positions, dim = 0, index = 0) : (tensor<3xi64>) -> tensor<i64>
  %a = aten.arange.default(end = 3) : () -> tensor<3xi64>
  %p = aten.add.Tensor(%a, %start) : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %rows = aten.unsqueeze.default(%p, dim = 1) : (tensor<3xi64>) -> tensor<3x1xi64>
  %keys = aten.arange.default(end = 8) : () -> tensor<8xi64>
  %seen = aten.le.Tensor(%keys, %rows) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %zero = aten.zeros.default(size = [], dtype = f32) : () -> tensor<f32>
  %mask = aten.where.ScalarOther(%seen, %zero, other = -3.4028234663852886e+38) : (tensor<3x8xi1>, tensor<f32>) -> tensor<3x8xf32>
  %kc = et.read_state @keys : tensor<1x2x8x4xf32>
  %vc = et.read_state @values : tensor<1x2x8x4xf32>
  %k = aten.index_copy.default(%kc, dim = 2, %p, %newk) : (tensor<1x2x8x4xf32>, tensor<3xi64>, tensor<1x2x3x4xf32>) -> tensor<1x2x8x4xf32>
  %v = aten.index_copy.default(%vc, dim = 2, %p, %newv) : (tensor<1x2x8x4xf32>, tensor<3xi64>, tensor<1x2x3x4xf32>) -> tensor<1x2x8x4xf32>
  // WHY: nothing is known about the mask
  // CHECK: aten.scaled_dot_product_attention.default
  %more = aten.mul.Tensor(%mask, 1.0e-10) : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %y = aten.scaled_dot_product_attention.default(%q, %k, %v, %more) : (tensor<1x2x3x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<3x8xf32>) -> tensor<1x2x3x4xf32>
  et.write_state @keys, %k : tensor<1x2x8x4xf32>
  et.write_state @values, %v : tensor<1x2x8x4xf32>
  func.return %y : tensor<1x2x3x4xf32>
}
