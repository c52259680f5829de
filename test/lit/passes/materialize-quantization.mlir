// RUN: et-opt -p materialize-quantization %s | filecheck %s
// RUN: et-opt -p 'materialize-quantization{keep}' %s | filecheck %s --check-prefix=KEEP

// CHECK: et.schema "quantized_decomposed::dequantize_per_channel(Tensor input

et.weight @w : tensor<32x16xf32> = #et.synthetic<seed = 1>

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
