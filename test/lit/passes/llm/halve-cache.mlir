// RUN: et-opt -p 'halve-cache{target=etir}' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'halve-cache{target=etir}' --explain-match=halve-cache --no-output --split-input-file %s 2>&1 | filecheck %s --check-prefix=WHY
// RUN: et-opt -p 'halve-cache{libraries=custom_ops}' --explain-match=halve-cache --no-output --split-input-file %s 2>&1 | filecheck %s --check-prefix=STOCK
// RUN: et-opt -p 'halve-cache{target=etir dtype=bf16}' --split-input-file %s | filecheck %s --check-prefix=BF16
// RUN: et-opt -p 'halve-cache{libraries=custom_ops dtype=bf16}' --explain-match=halve-cache --no-output --split-input-file %s 2>&1 | filecheck %s --check-prefix=STOCK16

// CHECK: et.state @keys : tensor<1x8x1x4xf16>
// CHECK-NEXT: et.state @values : tensor<1x8x1x4xf16>
// BF16: et.state @keys : tensor<1x8x1x4xbf16>
// BF16-NEXT: et.state @values : tensor<1x8x1x4xbf16>
et.schema "llama::custom_sdpa(Tensor query, Tensor key, Tensor value, SymInt start_pos, Tensor? attn_mask=None, float drpout_p=0., bool is_causal=False, float? scale=None) -> Tensor"
et.state @keys : tensor<1x8x1x4xf32>
et.state @values : tensor<1x8x1x4xf32>

// CHECK-LABEL: func.func @causal
func.func @causal(%q: tensor<1x3x2x4xf32>, %newk: tensor<1x3x1x4xf32>, %newv: tensor<1x3x1x4xf32>, %p: tensor<3xi64>, %s: i64) -> tensor<1x3x2x4xf32> {
  // CHECK-DAG: %[[KC:.*]] = et.read_state @keys : tensor<1x8x1x4xf16>
  // CHECK-DAG: %[[VC:.*]] = et.read_state @values : tensor<1x8x1x4xf16>
  %kc = et.read_state @keys : tensor<1x8x1x4xf32>
  %vc = et.read_state @values : tensor<1x8x1x4xf32>
  // BF16: %[[N:.*]] = aten._to_copy.default(%newk, dtype = bf16)
  // BF16-NEXT: aten.index_copy.default(%{{.*}}, dim = 1, %p, %[[N]]) : (tensor<1x8x1x4xbf16>
  // CHECK: %[[N:.*]] = aten._to_copy.default(%newk, dtype = f16)
  // CHECK-NEXT: %[[K:.*]] = aten.index_copy.default(%[[KC]], dim = 1, %p, %[[N]]) : (tensor<1x8x1x4xf16>
  %k = aten.index_copy.default(%kc, dim = 1, %p, %newk) : (tensor<1x8x1x4xf32>, tensor<3xi64>, tensor<1x3x1x4xf32>) -> tensor<1x8x1x4xf32>
  // CHECK: %[[M:.*]] = aten._to_copy.default(%newv, dtype = f16)
  // CHECK-NEXT: %[[V:.*]] = aten.index_copy.default(%[[VC]], dim = 1, %p, %[[M]]) : (tensor<1x8x1x4xf16>
  %v = aten.index_copy.default(%vc, dim = 1, %p, %newv) : (tensor<1x8x1x4xf32>, tensor<3xi64>, tensor<1x3x1x4xf32>) -> tensor<1x8x1x4xf32>
  // WHY: 'halve-cache' rewrote 'llama.custom_sdpa.default'
  // STOCK: cache 'keys' stays float32: 'llama::custom_sdpa.out' of target 'executorch': unsupported dtypes: 'key' is HALF
  // STOCK16: cache 'keys' stays float32: 'llama::custom_sdpa.out' of target 'executorch': unsupported dtypes: 'key' is BFLOAT16
  // CHECK: llama.custom_sdpa.default(%q, %[[K]], %[[V]], start_pos = %s, is_causal = true, scale = 0.5) : (tensor<1x3x2x4xf32>, tensor<1x8x1x4xf16>, tensor<1x8x1x4xf16>, i64) -> tensor<1x3x2x4xf32>
  // BF16: llama.custom_sdpa.default(%q, {{.*}}) : (tensor<1x3x2x4xf32>, tensor<1x8x1x4xbf16>, tensor<1x8x1x4xbf16>, i64) -> tensor<1x3x2x4xf32>
  // BF16: et.write_state @keys, %{{.*}} : tensor<1x8x1x4xbf16>
  %y = llama.custom_sdpa.default(%q, %k, %v, start_pos = %s, is_causal = true, scale = 0.5) : (tensor<1x3x2x4xf32>, tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>, i64) -> tensor<1x3x2x4xf32>
  // CHECK: et.write_state @keys, %[[K]] : tensor<1x8x1x4xf16>
  // CHECK-NEXT: et.write_state @values, %[[V]] : tensor<1x8x1x4xf16>
  et.write_state @keys, %k : tensor<1x8x1x4xf32>
  et.write_state @values, %v : tensor<1x8x1x4xf32>
  func.return %y : tensor<1x3x2x4xf32>
}

// -----

// The sum reads the values: both caches stay.

// CHECK: et.state @keys : tensor<1x8x1x4xf32>
// BF16: et.state @keys : tensor<1x8x1x4xf32>
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
  // WHY: cache 'keys' stays float32: the cache beside it cannot be: 'aten.sum.default' reads it
  // CHECK: llama.custom_sdpa.default({{.*}}) : (tensor<1x3x2x4xf32>, tensor<1x8x1x4xf32>
  %y = llama.custom_sdpa.default(%q, %k, %v, start_pos = %s, is_causal = true) : (tensor<1x3x2x4xf32>, tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>, i64) -> tensor<1x3x2x4xf32>
  %z = aten.sum.default(%v) : (tensor<1x8x1x4xf32>) -> tensor<f32>
  et.write_state @sum, %z : tensor<f32>
  et.write_state @keys, %k : tensor<1x8x1x4xf32>
  et.write_state @values, %v : tensor<1x8x1x4xf32>
  func.return %y : tensor<1x3x2x4xf32>
}
