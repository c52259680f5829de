// RUN: et-opt -p 'fuse-quantized{target=etir}' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'fuse-quantized' --split-input-file %s | filecheck %s --check-prefix=STOCK
// RUN: et-opt -p 'fuse-quantized{target=etir}' --split-input-file --explain-match=layer-of-groups --no-output %s 2>&1 | filecheck %s --check-prefix=WHY

// A layer of float32: numbers of four bits have half a byte, scales are float16 where it holds them. A target
// without such kernels is left alone.

et.schema "quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor"

// CHECK: et.schema "etir::int4_group_linear(Tensor input, Tensor weight, Tensor scales, Tensor? minimums, Tensor? bias, int columns) -> Tensor"
// CHECK-LABEL: func.func @four_bits
// STOCK-NOT: etir
func.func @four_bits(%x: tensor<2x64xf32>) -> tensor<2x16xf32> {
  // CHECK: edge.etir.int4_group_linear.default(%x, %{{.*}}, columns = 16) : (tensor<2x64xf32>, tensor<1x8x64xui8>, tensor<1x2x16xf16>) -> tensor<2x16xf32>
  %i = et.constant dense<3> : tensor<16x64xi8>
  %s = et.constant dense<0.25> : tensor<16x2xf32>
  %w = edge.quantized_decomposed.dequantize_per_channel_group.default(%i, %s, quant_min = -8, quant_max = 7, dtype = i8, group_size = 32, output_dtype = f32) : (tensor<16x64xi8>, tensor<16x2xf32>) -> tensor<16x64xf32>
  %y = edge.aten.linear.default(%x, %w) : (tensor<2x64xf32>, tensor<16x64xf32>) -> tensor<2x16xf32>
  func.return %y : tensor<2x16xf32>
}

// -----

// Zero points become minimums; 8 bits, scales that float16 does not hold, and a bias.

et.schema "quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor"

// CHECK-LABEL: func.func @minimums
func.func @minimums(%x: tensor<2x32xf32>, %b: tensor<16xf32>) -> tensor<2x16xf32> {
  // CHECK: edge.etir.int8_group_linear.default(%x, %{{.*}}, %b, columns = 16) : (tensor<2x32xf32>, tensor<1x8x64xui8>, tensor<1x1x16xf32>, tensor<1x1x16xf32>, tensor<16xf32>) -> tensor<2x16xf32>
  %i = et.constant dense<100> : tensor<16x32xi8>
  %s = et.constant dense<0.1> : tensor<16x1xf32>
  %z = et.constant dense<3> : tensor<16x1xi64>
  %w = edge.quantized_decomposed.dequantize_per_channel_group.default(%i, %s, %z, quant_min = -128, quant_max = 127, dtype = i8, group_size = 32, output_dtype = f32) : (tensor<16x32xi8>, tensor<16x1xf32>, tensor<16x1xi64>) -> tensor<16x32xf32>
  %y = edge.aten.linear.default(%x, %w, %b) : (tensor<2x32xf32>, tensor<16x32xf32>, tensor<16xf32>) -> tensor<2x16xf32>
  func.return %y : tensor<2x16xf32>
}

// -----

// An input that is quantized row by row: the kernel does it, and has the sums of the weight's rows for zero points.

et.schema "quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor"
et.schema "quantized_decomposed::choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)"
et.schema "quantized_decomposed::quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype, ScalarType output_dtype) -> Tensor"

// CHECK-LABEL: func.func @by_row
func.func @by_row(%x: tensor<2x32xf32>) -> tensor<2x16xf32> {
  // CHECK: %[[SUMS:.*]] = et.constant dense<2.400000e+01> : tensor<16xf32>
  // CHECK-NEXT: %[[Y:.*]] = edge.etir.int4_group_dynamic_linear.default(%x, %{{.*}}, none, %[[SUMS]], columns = 16)
  // CHECK-NEXT: func.return %[[Y]]
  %p, %z = edge.quantized_decomposed.choose_qparams_per_token_asymmetric.default(%x, dtype = i8) : (tensor<2x32xf32>) -> (tensor<2x1xf64>, tensor<2x1xi64>)
  %q = edge.quantized_decomposed.quantize_per_token.default(%x, %p, %z, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x32xf32>, tensor<2x1xf64>, tensor<2x1xi64>) -> tensor<2x32xi8>
  %d = edge.quantized_decomposed.dequantize_per_token.default(%q, %p, %z, quant_min = -128, quant_max = 127, dtype = i8, output_dtype = f32) : (tensor<2x32xi8>, tensor<2x1xf64>, tensor<2x1xi64>) -> tensor<2x32xf32>
  %i = et.constant dense<3> : tensor<16x32xi8>
  %s = et.constant dense<0.25> : tensor<16x1xf32>
  %w = edge.quantized_decomposed.dequantize_per_channel_group.default(%i, %s, quant_min = -8, quant_max = 7, dtype = i8, group_size = 32, output_dtype = f32) : (tensor<16x32xi8>, tensor<16x1xf32>) -> tensor<16x32xf32>
  %y = edge.aten.linear.default(%d, %w) : (tensor<2x32xf32>, tensor<16x32xf32>) -> tensor<2x16xf32>
  func.return %y : tensor<2x16xf32>
}

// -----

// A head and a table of the same numbers are one packed weight.

et.schema "quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor"
et.schema "quantized_decomposed::embedding_byte(Tensor weight, Tensor weight_scales, Tensor? weight_zero_points, int weight_quant_min, int weight_quant_max, Tensor indices) -> Tensor"

// CHECK-LABEL: func.func @tied
func.func @tied(%t: tensor<1x2xi64>) -> tensor<1x2x16xf32> {
  // CHECK: %[[W:.*]] = et.get_weight @[[NAME:.*]] : tensor<1x8x64xui8>
  // CHECK: edge.etir.int8_group_embedding.default(%[[W]], %{{.*}}, none, %t, rows = 16, depth = 32)
  // CHECK: %[[V:.*]] = et.get_weight @[[NAME]] : tensor<1x8x64xui8>
  // CHECK: edge.etir.int8_group_linear.default(%{{.*}}, %[[V]], %{{.*}}, columns = 16)
  %i = et.constant dense<100> : tensor<16x32xi8>
  %s = et.constant dense<0.25> : tensor<16x1xf32>
  %x = edge.quantized_decomposed.embedding_byte.default(%i, %s, weight_quant_min = -128, weight_quant_max = 127, indices = %t) : (tensor<16x32xi8>, tensor<16x1xf32>, tensor<1x2xi64>) -> tensor<1x2x32xf32>
  %w = edge.quantized_decomposed.dequantize_per_channel_group.default(%i, %s, quant_min = -128, quant_max = 127, dtype = i8, group_size = 32, output_dtype = f32) : (tensor<16x32xi8>, tensor<16x1xf32>) -> tensor<16x32xf32>
  %y = edge.aten.linear.default(%x, %w) : (tensor<1x2x32xf32>, tensor<16x32xf32>) -> tensor<1x2x16xf32>
  func.return %y : tensor<1x2x16xf32>
}

// -----

// Groups of another length than the kernels take, and a matrix that packing would make larger, are as they have been.

et.schema "quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor"

// CHECK-LABEL: func.func @left
func.func @left(%x: tensor<2x32xf32>) -> (tensor<2x16xf32>, tensor<2x2xf32>) {
  // CHECK: edge.etir.int4_weight_linear.default
  // CHECK: edge.etir.int4_weight_linear.default
  // WHY: groups of 16 numbers, not of a multiple of 32
  // WHY: a matrix so small that packing would make it much larger
  %i = et.constant dense<3> : tensor<16x32xi8>
  %s = et.constant dense<0.25> : tensor<16x2xf32>
  %w = edge.quantized_decomposed.dequantize_per_channel_group.default(%i, %s, quant_min = -8, quant_max = 7, dtype = i8, group_size = 16, output_dtype = f32) : (tensor<16x32xi8>, tensor<16x2xf32>) -> tensor<16x32xf32>
  %j = et.constant dense<3> : tensor<2x32xi8>
  %r = et.constant dense<0.25> : tensor<2x1xf32>
  %v = edge.quantized_decomposed.dequantize_per_channel_group.default(%j, %r, quant_min = -8, quant_max = 7, dtype = i8, group_size = 32, output_dtype = f32) : (tensor<2x32xi8>, tensor<2x1xf32>) -> tensor<2x32xf32>
  %y = edge.aten.linear.default(%x, %w) : (tensor<2x32xf32>, tensor<16x32xf32>) -> tensor<2x16xf32>
  %u = edge.aten.linear.default(%x, %v) : (tensor<2x32xf32>, tensor<2x32xf32>) -> tensor<2x2xf32>
  func.return %y, %u : tensor<2x16xf32>, tensor<2x2xf32>
}
