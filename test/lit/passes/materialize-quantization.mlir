// RUN: et-opt -p materialize-quantization %s | filecheck %s
// RUN: et-opt -p 'materialize-quantization{keep}' %s | filecheck %s --check-prefix=KEEP

// CHECK: et.schema "quantized_decomposed::dequantize_per_channel(Tensor input

et.weight @w : tensor<32x16xf32> = #et.synthetic<seed = 1>
et.weight @d : tensor<32x64xf32> = #et.synthetic<seed = 2>

// CHECK: et.weight @w_int8 : tensor<32x16xi8>

// CHECK-LABEL: func.func @layer
func.func @layer(%x: tensor<2x16xf32>) -> tensor<2x32xf32> {
  // CHECK: %[[Q:.*]] = edge.quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.5, zero_point = -3, quant_min = -128, quant_max = 127, dtype = i8)
  // CHECK: %[[X:.*]] = edge.quantized_decomposed.dequantize_per_tensor.default(%[[Q]], scale = 0.5, zero_point = -3, quant_min = -128, quant_max = 127, dtype = i8)
  // CHECK-NOT: quant.
  // KEEP: quant.observe
  %0 = quant.observe %x {as = #quant.uniform<i8, scale = 0.5, zero_point = -3>} : tensor<2x16xf32>
  %w = et.get_weight @w : tensor<32x16xf32>
  // CHECK: %[[W:.*]] = edge.quantized_decomposed.dequantize_per_channel.default({{.*}}, axis = 0, quant_min = -127, quant_max = 127, dtype = i8)
  // CHECK: %[[Y:.*]] = edge.aten.linear.default(%[[X]], %[[W]]) :
  %1 = edge.aten.linear.default(%0, %w) {quant.weight = #quant.uniform<i8, axis = 0>, quant.integers} : (tensor<2x16xf32>, tensor<32x16xf32>) -> tensor<2x32xf32>
  // Nothing was chosen: floating point.
  // CHECK-NEXT: func.return %[[Y]]
  %2 = quant.observe %1 {seen = #quant.range<0.0, 1.0, samples = 1>} : tensor<2x32xf32>
  func.return %2 : tensor<2x32xf32>
}

// Scales that are found at run time, once for both readers; 4 bits in blocks.

// CHECK-LABEL: func.func @dynamic
func.func @dynamic(%x: tensor<2x64xf32>) -> (tensor<2x32xf32>, tensor<2x32xf32>) {
  // CHECK: %[[S:.*]], %[[Z:.*]] = edge.quantized_decomposed.choose_qparams_per_token_asymmetric.default(%x, dtype = i8) : (tensor<2x64xf32>) -> (tensor<2x1xf64>, tensor<2x1xi64>)
  // CHECK-NEXT: %[[Q:.*]] = edge.quantized_decomposed.quantize_per_token.default(%x, %[[S]], %[[Z]], quant_min = -128, quant_max = 127, dtype = i8)
  // CHECK-NEXT: %[[X:.*]] = edge.quantized_decomposed.dequantize_per_token.default(%[[Q]], %[[S]], %[[Z]], quant_min = -128, quant_max = 127, dtype = i8, output_dtype = f32)
  // CHECK: edge.aten.linear.default(%[[X]],
  // CHECK: %[[W:.*]] = edge.quantized_decomposed.dequantize_per_channel_group.default({{.*}}, quant_min = -8, quant_max = 7, dtype = i8, group_size = 32, output_dtype = f32) : (tensor<32x64xi8>, tensor<32x2xf32>) -> tensor<32x64xf32>
  // CHECK: edge.aten.linear.default(%[[X]], %[[W]])
  %w = et.get_weight @d : tensor<32x64xf32>
  %1 = edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i8, axis = 0>, quant.dynamic = ["input"]} : (tensor<2x64xf32>, tensor<32x64xf32>) -> tensor<2x32xf32>
  %2 = edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i4, axis = 0, block = 32>, quant.dynamic = ["input"]} : (tensor<2x64xf32>, tensor<32x64xf32>) -> tensor<2x32xf32>
  func.return %1, %2 : tensor<2x32xf32>, tensor<2x32xf32>
}
