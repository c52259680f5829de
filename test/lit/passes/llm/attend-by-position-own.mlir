// RUN: et-opt -p 'attend-by-position{target=etir}' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'attend-by-position{target=etir}' --explain-match=attend-by-position --no-output --split-input-file %s 2>&1 | filecheck %s --check-prefix=WHY
// RUN: et-opt -p 'attend-by-position{libraries=custom_ops}' --explain-match=attend-by-position --no-output --split-input-file %s 2>&1 | filecheck %s --check-prefix=STOCK

// What etir's own operator has, and ExecuTorch's has not.

// A soft cap of the scores.

et.state @keys : tensor<1x2x8x4xf32>
et.state @values : tensor<1x2x8x4xf32>

// CHECK-LABEL: func.func @cap
func.func @cap(%q: tensor<1x2x3x4xf32>, %newk: tensor<1x2x3x4xf32>, %newv: tensor<1x2x3x4xf32>, %positions: tensor<3xi64>) -> tensor<1x2x3x4xf32> {
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
  // WHY: 'attend-by-position' rewrote 'aten.matmul.default'
  // STOCK: target 'executorch' has no kernel 'etir::cached_attention.out'
  // CHECK: etir.cached_attention.default(%{{.*}}, %{{.*}}, %{{.*}}, start_pos = %{{.*}}, is_causal = true, scale = 0.25, softcap = 50.0)
  // CHECK-NOT: softmax
  // CHECK-NOT: scaled_dot_product
  %t = aten.transpose.int(%k, dim0 = 2, dim1 = 3) : (tensor<1x2x8x4xf32>) -> tensor<1x2x4x8xf32>
  %0 = aten.matmul.default(%q, %t) : (tensor<1x2x3x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x8xf32>
  %1 = aten.mul.Tensor(%0, 0.25) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %2 = aten.div.Tensor(%1, 50.0) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %3 = aten.tanh.default(%2) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %4 = aten.mul.Tensor(%3, 50.0) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %5 = aten.add.Tensor(%4, %mask) : (tensor<1x2x3x8xf32>, tensor<3x8xf32>) -> tensor<1x2x3x8xf32>
  %w = aten.softmax.int(%5, dim = -1) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %y = aten.matmul.default(%w, %v) : (tensor<1x2x3x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x3x4xf32>
  et.write_state @keys, %k : tensor<1x2x8x4xf32>
  et.write_state @values, %v : tensor<1x2x8x4xf32>
  func.return %y : tensor<1x2x3x4xf32>
}

// -----

// What looks like one, and is none.

et.state @keys : tensor<1x2x8x4xf32>
et.state @values : tensor<1x2x8x4xf32>

// CHECK-LABEL: func.func @other_cap
func.func @other_cap(%q: tensor<1x2x3x4xf32>, %newk: tensor<1x2x3x4xf32>, %newv: tensor<1x2x3x4xf32>, %positions: tensor<3xi64>) -> tensor<1x2x3x4xf32> {
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
  // WHY: the scores are not scaled products and a mask
  // CHECK: aten.softmax.int
  %t = aten.transpose.int(%k, dim0 = 2, dim1 = 3) : (tensor<1x2x8x4xf32>) -> tensor<1x2x4x8xf32>
  %0 = aten.matmul.default(%q, %t) : (tensor<1x2x3x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x8xf32>
  %1 = aten.mul.Tensor(%0, 0.25) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %2 = aten.div.Tensor(%1, 50.0) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %3 = aten.tanh.default(%2) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %4 = aten.mul.Tensor(%3, 30.0) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %5 = aten.add.Tensor(%4, %mask) : (tensor<1x2x3x8xf32>, tensor<3x8xf32>) -> tensor<1x2x3x8xf32>
  %w = aten.softmax.int(%5, dim = -1) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %y = aten.matmul.default(%w, %v) : (tensor<1x2x3x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x3x4xf32>
  et.write_state @keys, %k : tensor<1x2x8x4xf32>
  et.write_state @values, %v : tensor<1x2x8x4xf32>
  func.return %y : tensor<1x2x3x4xf32>
}

// -----

// Sinks: one more score of each head.

et.state @keys : tensor<1x2x8x4xf32>
et.state @values : tensor<1x2x8x4xf32>

// CHECK-LABEL: func.func @sinks
func.func @sinks(%q: tensor<1x2x3x4xf32>, %newk: tensor<1x2x3x4xf32>, %newv: tensor<1x2x3x4xf32>, %positions: tensor<3xi64>, %sinks: tensor<2xf32>) -> tensor<1x2x3x4xf32> {
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
  // WHY: 'attend-by-position' rewrote 'aten.matmul.default'
  // STOCK: target 'executorch' has no kernel 'etir::cached_attention.out'
  // CHECK: etir.cached_attention.default(%{{.*}}, %{{.*}}, %{{.*}}, start_pos = %{{.*}}, is_causal = true, scale = 0.25, none, %sinks)
  // CHECK-NOT: softmax
  // CHECK-NOT: scaled_dot_product
  %t = aten.transpose.int(%k, dim0 = 2, dim1 = 3) : (tensor<1x2x8x4xf32>) -> tensor<1x2x4x8xf32>
  %0 = aten.matmul.default(%q, %t) : (tensor<1x2x3x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x8xf32>
  %1 = aten.mul.Tensor(%0, 0.25) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %5 = aten.add.Tensor(%1, %mask) : (tensor<1x2x3x8xf32>, tensor<3x8xf32>) -> tensor<1x2x3x8xf32>
  %s0 = aten.reshape.default(%sinks, shape = [1, -1, 1, 1]) : (tensor<2xf32>) -> tensor<1x2x1x1xf32>
  %s1 = aten.expand.default(%s0, size = [1, -1, 3, -1]) : (tensor<1x2x1x1xf32>) -> tensor<1x2x3x1xf32>
  %6 = aten.cat.default([%5, %s1], dim = -1) : (tensor<1x2x3x8xf32>, tensor<1x2x3x1xf32>) -> tensor<1x2x3x9xf32>
  %most, %at = aten.max.dim(%6, dim = -1, keepdim = true) : (tensor<1x2x3x9xf32>) -> (tensor<1x2x3x1xf32>, tensor<1x2x3x1xi64>)
  %7 = aten.sub.Tensor(%6, %most) : (tensor<1x2x3x9xf32>, tensor<1x2x3x1xf32>) -> tensor<1x2x3x9xf32>
  %8 = aten.softmax.int(%7, dim = -1, dtype = f32) : (tensor<1x2x3x9xf32>) -> tensor<1x2x3x9xf32>
  %9 = aten.slice.Tensor(%8, dim = 3, start = 0, end = -1) : (tensor<1x2x3x9xf32>) -> tensor<1x2x3x8xf32>
  %w = aten.dropout.default(%9, p = 0.0, train = false) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %y = aten.matmul.default(%w, %v) : (tensor<1x2x3x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x3x4xf32>
  et.write_state @keys, %k : tensor<1x2x8x4xf32>
  et.write_state @values, %v : tensor<1x2x8x4xf32>
  func.return %y : tensor<1x2x3x4xf32>
}

// -----

// The first weight is left out, not that of the sink.

et.state @keys : tensor<1x2x8x4xf32>
et.state @values : tensor<1x2x8x4xf32>

// CHECK-LABEL: func.func @other_sinks
func.func @other_sinks(%q: tensor<1x2x3x4xf32>, %newk: tensor<1x2x3x4xf32>, %newv: tensor<1x2x3x4xf32>, %positions: tensor<3xi64>, %sinks: tensor<2xf32>) -> tensor<1x2x3x4xf32> {
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
  // WHY: what is left out of the weights is no sink
  // CHECK: aten.softmax.int
  %t = aten.transpose.int(%k, dim0 = 2, dim1 = 3) : (tensor<1x2x8x4xf32>) -> tensor<1x2x4x8xf32>
  %0 = aten.matmul.default(%q, %t) : (tensor<1x2x3x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x8xf32>
  %1 = aten.mul.Tensor(%0, 0.25) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %5 = aten.add.Tensor(%1, %mask) : (tensor<1x2x3x8xf32>, tensor<3x8xf32>) -> tensor<1x2x3x8xf32>
  %s0 = aten.reshape.default(%sinks, shape = [1, -1, 1, 1]) : (tensor<2xf32>) -> tensor<1x2x1x1xf32>
  %s1 = aten.expand.default(%s0, size = [1, -1, 3, -1]) : (tensor<1x2x1x1xf32>) -> tensor<1x2x3x1xf32>
  %6 = aten.cat.default([%5, %s1], dim = -1) : (tensor<1x2x3x8xf32>, tensor<1x2x3x1xf32>) -> tensor<1x2x3x9xf32>
  %most, %at = aten.max.dim(%6, dim = -1, keepdim = true) : (tensor<1x2x3x9xf32>) -> (tensor<1x2x3x1xf32>, tensor<1x2x3x1xi64>)
  %7 = aten.sub.Tensor(%6, %most) : (tensor<1x2x3x9xf32>, tensor<1x2x3x1xf32>) -> tensor<1x2x3x9xf32>
  %8 = aten.softmax.int(%7, dim = -1, dtype = f32) : (tensor<1x2x3x9xf32>) -> tensor<1x2x3x9xf32>
  %9 = aten.slice.Tensor(%8, dim = 3, start = 1, end = 9) : (tensor<1x2x3x9xf32>) -> tensor<1x2x3x8xf32>
  %w = aten.dropout.default(%9, p = 0.0, train = false) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %y = aten.matmul.default(%w, %v) : (tensor<1x2x3x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x3x4xf32>
  et.write_state @keys, %k : tensor<1x2x8x4xf32>
  et.write_state @values, %v : tensor<1x2x8x4xf32>
  func.return %y : tensor<1x2x3x4xf32>
}

// -----

// Values of another size than keys.

et.state @keys : tensor<1x2x8x4xf32>
et.state @values : tensor<1x2x8x2xf32>

// CHECK-LABEL: func.func @narrow_values
func.func @narrow_values(%q: tensor<1x2x3x4xf32>, %newk: tensor<1x2x3x4xf32>, %newv: tensor<1x2x3x2xf32>, %positions: tensor<3xi64>) -> tensor<1x2x3x2xf32> {
  %start = aten.select.int(%positions, dim = 0, index = 0) : (tensor<3xi64>) -> tensor<i64>
  %a = aten.arange.default(end = 3) : () -> tensor<3xi64>
  %p = aten.add.Tensor(%a, %start) : (tensor<3xi64>, tensor<i64>) -> tensor<3xi64>
  %rows = aten.unsqueeze.default(%p, dim = 1) : (tensor<3xi64>) -> tensor<3x1xi64>
  %keys = aten.arange.default(end = 8) : () -> tensor<8xi64>
  %seen = aten.le.Tensor(%keys, %rows) : (tensor<8xi64>, tensor<3x1xi64>) -> tensor<3x8xi1>
  %zero = aten.zeros.default(size = [], dtype = f32) : () -> tensor<f32>
  %mask = aten.where.ScalarOther(%seen, %zero, other = -3.4028234663852886e+38) : (tensor<3x8xi1>, tensor<f32>) -> tensor<3x8xf32>
  %kc = et.read_state @keys : tensor<1x2x8x4xf32>
  %vc = et.read_state @values : tensor<1x2x8x2xf32>
  %k = aten.index_copy.default(%kc, dim = 2, %p, %newk) : (tensor<1x2x8x4xf32>, tensor<3xi64>, tensor<1x2x3x4xf32>) -> tensor<1x2x8x4xf32>
  %v = aten.index_copy.default(%vc, dim = 2, %p, %newv) : (tensor<1x2x8x2xf32>, tensor<3xi64>, tensor<1x2x3x2xf32>) -> tensor<1x2x8x2xf32>
  // WHY: 'attend-by-position' rewrote 'aten.scaled_dot_product_attention.default'
  // STOCK: target 'executorch' has no kernel 'etir::cached_attention.out'
  // CHECK: etir.cached_attention.default(%{{.*}}, %{{.*}}, %{{.*}}, start_pos = %{{.*}}, is_causal = true)
  // CHECK-NOT: softmax
  // CHECK-NOT: scaled_dot_product
  %y = aten.scaled_dot_product_attention.default(%q, %k, %v, %seen) : (tensor<1x2x3x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x2xf32>, tensor<3x8xi1>) -> tensor<1x2x3x2xf32>
  et.write_state @keys, %k : tensor<1x2x8x4xf32>
  et.write_state @values, %v : tensor<1x2x8x2xf32>
  func.return %y : tensor<1x2x3x2xf32>
}
