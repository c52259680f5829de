// RUN: et-opt -p propagate-quantization --split-input-file %s | filecheck %s

// A chain of moves, a join and a pad between pairs of one scale: integers all the way.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @moves
func.func @moves(%q: tensor<2x8xi8>) -> tensor<4x10xi8> {
  // CHECK-NEXT: %[[V:.*]] = edge.aten.permute_copy.default(%q, dims = [1, 0]) : (tensor<2x8xi8>) -> tensor<8x2xi8>
  // CHECK-NEXT: %[[W:.*]] = edge.aten.view_copy.default(%[[V]], size = [2, 8]) : (tensor<8x2xi8>) -> tensor<2x8xi8>
  // CHECK-NEXT: %[[C:.*]] = edge.aten.cat.default([%[[W]], %q]) : (tensor<2x8xi8>, tensor<2x8xi8>) -> tensor<4x8xi8>
  // CHECK-NEXT: %[[P:.*]] = edge.aten.constant_pad_nd.default(%[[C]], pad = [1, 1], value = 3) : (tensor<4x8xi8>) -> tensor<4x10xi8>
  // CHECK-NEXT: func.return %[[P]]
  %d = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x8xi8>) -> tensor<2x8xf32>
  %p = edge.aten.permute_copy.default(%d, dims = [1, 0]) : (tensor<2x8xf32>) -> tensor<8x2xf32>
  %v = edge.aten.view_copy.default(%p, size = [2, 8]) : (tensor<8x2xf32>) -> tensor<2x8xf32>
  %r = edge.quantized_decomposed.quantize_per_tensor.default(%v, scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x8xf32>) -> tensor<2x8xi8>
  %e = edge.quantized_decomposed.dequantize_per_tensor.default(%r, scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x8xi8>) -> tensor<2x8xf32>
  %c = edge.aten.cat.default([%e, %d]) : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  %s = edge.quantized_decomposed.quantize_per_tensor.default(%c, scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<4x8xf32>) -> tensor<4x8xi8>
  %f = edge.quantized_decomposed.dequantize_per_tensor.default(%s, scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<4x8xi8>) -> tensor<4x8xf32>
  %g = edge.aten.constant_pad_nd.default(%f, pad = [1, 1]) : (tensor<4x8xf32>) -> tensor<4x10xf32>
  %h = edge.quantized_decomposed.quantize_per_tensor.default(%g, scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<4x10xf32>) -> tensor<4x10xi8>
  func.return %h : tensor<4x10xi8>
}

// -----

// Left alone: another scale, a narrower range, a reader in floating point.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @others
func.func @others(%q: tensor<2x8xi8>) -> (tensor<2x8xi8>, tensor<2x8xi8>, tensor<8x2xf32>) {
  // CHECK-COUNT-2: edge.quantized_decomposed.quantize_per_tensor.default
  // CHECK: edge.aten.permute_copy.default(%{{.*}}, dims = [1, 0]) : (tensor<2x8xf32>) -> tensor<8x2xf32>
  %d = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x8xi8>) -> tensor<2x8xf32>
  %0 = edge.quantized_decomposed.quantize_per_tensor.default(%d, scale = 0.25, zero_point = 3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x8xf32>) -> tensor<2x8xi8>
  %1 = edge.quantized_decomposed.quantize_per_tensor.default(%d, scale = 0.5, zero_point = 3, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<2x8xf32>) -> tensor<2x8xi8>
  %2 = edge.aten.permute_copy.default(%d, dims = [1, 0]) : (tensor<2x8xf32>) -> tensor<8x2xf32>
  func.return %0, %1, %2 : tensor<2x8xi8>, tensor<2x8xi8>, tensor<8x2xf32>
}
