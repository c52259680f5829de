// RUN: et-opt -p 'quantize-cache{target=etir}' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'quantize-cache{libraries=custom_ops,quantized}' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'quantize-cache{target=etir}' --explain-match=quantize-cache --no-output --split-input-file %s 2>&1 | filecheck %s --check-prefix=WHY
// RUN: et-opt -p quantize-cache --explain-match=quantize-cache --no-output --split-input-file %s 2>&1 | filecheck %s --check-prefix=STOCK

// CHECK: et.state @keys : tensor<1x8x1x4xi8>
// CHECK-NEXT: et.state @keys.scales : tensor<1x8x1x1xf32>
// CHECK-NEXT: et.state @keys.zero_points : tensor<1x8x1x1xi8>
// CHECK-NEXT: et.state @values : tensor<1x8x1x4xi8>
et.schema "llama::custom_sdpa(Tensor query, Tensor key, Tensor value, SymInt start_pos, Tensor? attn_mask=None, float drpout_p=0., bool is_causal=False, float? scale=None) -> Tensor"
et.state @keys : tensor<1x8x1x4xf32>
et.state @values : tensor<1x8x1x4xf32>

// CHECK-LABEL: func.func @causal
func.func @causal(%q: tensor<1x3x2x4xf32>, %newk: tensor<1x3x1x4xf32>, %newv: tensor<1x3x1x4xf32>, %p: tensor<3xi64>, %s: i64) -> tensor<1x3x2x4xf32> {
  %kc = et.read_state @keys : tensor<1x8x1x4xf32>
  %vc = et.read_state @values : tensor<1x8x1x4xf32>
  %k = aten.index_copy.default(%kc, dim = 1, %p, %newk) : (tensor<1x8x1x4xf32>, tensor<3xi64>, tensor<1x3x1x4xf32>) -> tensor<1x8x1x4xf32>
  %v = aten.index_copy.default(%vc, dim = 1, %p, %newv) : (tensor<1x8x1x4xf32>, tensor<3xi64>, tensor<1x3x1x4xf32>) -> tensor<1x8x1x4xf32>
  // WHY: 'quantize-cache' rewrote 'llama.custom_sdpa.default'
  // STOCK: library 'custom_ops' of target 'executorch', which has 'llama::custom_quantized_sdpa.out', is not linked
  // CHECK: %[[QS:.*]], %[[QZ:.*]] = quantized_decomposed.choose_qparams_per_token_asymmetric.default(%q, dtype = i8)
  // CHECK-NEXT: %[[Q:.*]] = quantized_decomposed.quantize_per_token.default(%q, %[[QS]], %[[QZ]], quant_min = -128, quant_max = 127, dtype = i8)
  // CHECK: %[[KS:.*]], %[[KZ:.*]] = quantized_decomposed.choose_qparams_per_token_asymmetric.default(%newk, dtype = i8)
  // CHECK: %[[K:.*]] = aten.index_copy.default(%{{.*}}, dim = 1, %p, %{{.*}}) : (tensor<1x8x1x4xi8>
  // CHECK-NEXT: %[[S:.*]] = aten.index_copy.default(%{{.*}}, dim = 1, %p, %{{.*}}) : (tensor<1x8x1x1xf32>
  // CHECK-NEXT: %[[Z:.*]] = aten.index_copy.default(%{{.*}}, dim = 1, %p, %{{.*}}) : (tensor<1x8x1x1xi8>
  // CHECK: llama.custom_quantized_sdpa.default(%[[Q]], %[[K]], {{.*}} start_pos = %s, is_causal = true
  %y = llama.custom_sdpa.default(%q, %k, %v, start_pos = %s, is_causal = true) : (tensor<1x3x2x4xf32>, tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>, i64) -> tensor<1x3x2x4xf32>
  // CHECK: et.write_state @keys, %[[K]] : tensor<1x8x1x4xi8>
  // CHECK-NEXT: et.write_state @keys.scales, %[[S]]
  // CHECK-NEXT: et.write_state @keys.zero_points, %[[Z]]
  et.write_state @keys, %k : tensor<1x8x1x4xf32>
  et.write_state @values, %v : tensor<1x8x1x4xf32>
  func.return %y : tensor<1x3x2x4xf32>
}

// -----

// The sum reads the keys: both caches stay.

// CHECK: et.state @keys : tensor<1x8x1x4xf32>
et.schema "llama::custom_sdpa(Tensor query, Tensor key, Tensor value, SymInt start_pos, Tensor? attn_mask=None, float drpout_p=0., bool is_causal=False, float? scale=None) -> Tensor"
et.state @sum : tensor<f32>
et.state @keys : tensor<1x8x1x4xf32>
et.state @values : tensor<1x8x1x4xf32>

// CHECK-LABEL: func.func @other_reader
func.func @other_reader(%q: tensor<1x3x2x4xf32>, %newk: tensor<1x3x1x4xf32>, %newv: tensor<1x3x1x4xf32>, %p: tensor<3xi64>, %s: i64) -> tensor<1x3x2x4xf32> {
  %kc = et.read_state @keys : tensor<1x8x1x4xf32>
  %vc = et.read_state @values : tensor<1x8x1x4xf32>
  %k = aten.index_copy.default(%kc, dim = 1, %p, %newk) : (tensor<1x8x1x4xf32>, tensor<3xi64>, tensor<1x3x1x4xf32>) -> tensor<1x8x1x4xf32>
  %v = aten.index_copy.default(%vc, dim = 1, %p, %newv) : (tensor<1x8x1x4xf32>, tensor<3xi64>, tensor<1x3x1x4xf32>) -> tensor<1x8x1x4xf32>
  // WHY: cache 'keys' stays float32: 'aten.sum.default' reads it
  // CHECK: llama.custom_sdpa.default
  %y = llama.custom_sdpa.default(%q, %k, %v, start_pos = %s, is_causal = true) : (tensor<1x3x2x4xf32>, tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>, i64) -> tensor<1x3x2x4xf32>
  %z = aten.sum.default(%k) : (tensor<1x8x1x4xf32>) -> tensor<f32>
  et.write_state @sum, %z : tensor<f32>
  et.write_state @keys, %k : tensor<1x8x1x4xf32>
  et.write_state @values, %v : tensor<1x8x1x4xf32>
  func.return %y : tensor<1x3x2x4xf32>
}

// -----

// What a cache begins with has no integers.

et.schema "llama::custom_sdpa(Tensor query, Tensor key, Tensor value, SymInt start_pos, Tensor? attn_mask=None, float drpout_p=0., bool is_causal=False, float? scale=None) -> Tensor"
et.state @keys : tensor<1x8x1x4xf32> = #et.synthetic<seed = 1>
et.state @values : tensor<1x8x1x4xf32>

// CHECK-LABEL: func.func @begun
func.func @begun(%q: tensor<1x3x2x4xf32>, %newk: tensor<1x3x1x4xf32>, %newv: tensor<1x3x1x4xf32>, %p: tensor<3xi64>, %s: i64) -> tensor<1x3x2x4xf32> {
  %kc = et.read_state @keys : tensor<1x8x1x4xf32>
  %vc = et.read_state @values : tensor<1x8x1x4xf32>
  %k = aten.index_copy.default(%kc, dim = 1, %p, %newk) : (tensor<1x8x1x4xf32>, tensor<3xi64>, tensor<1x3x1x4xf32>) -> tensor<1x8x1x4xf32>
  %v = aten.index_copy.default(%vc, dim = 1, %p, %newv) : (tensor<1x8x1x4xf32>, tensor<3xi64>, tensor<1x3x1x4xf32>) -> tensor<1x8x1x4xf32>
  // WHY: it does not start as zeros
  // CHECK: llama.custom_sdpa.default
  %y = llama.custom_sdpa.default(%q, %k, %v, start_pos = %s, is_causal = true) : (tensor<1x3x2x4xf32>, tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>, i64) -> tensor<1x3x2x4xf32>
  et.write_state @keys, %k : tensor<1x8x1x4xf32>
  et.write_state @values, %v : tensor<1x8x1x4xf32>
  func.return %y : tensor<1x3x2x4xf32>
}
