// RUN: et-opt -p 'lower-expert-layers{target=etir}' --split-input-file %s | filecheck %s
// RUN: et-opt -p lower-expert-layers --split-input-file %s | filecheck %s --check-prefix=STOCK

// Four bits in blocks: one call where there is a kernel, else a loop that multiplies out two numbers of each byte.

et.schema "etir::expert_linear(Tensor input, Tensor weight, Tensor experts, int columns) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor"

// CHECK: et.schema "etir::int4_group_expert_linear(Tensor input, Tensor experts, Tensor weight, Tensor scales, Tensor? minimums, int columns) -> Tensor"
// CHECK-LABEL: func.func @four_bits
// CHECK: %[[C:.*]] = edge.aten.clamp.default(%n, min = -2147483648, max = 2147483647)
// CHECK: %[[N:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%[[C]], dtype = i32, dim_order = [0])
// CHECK: edge.etir.int4_group_expert_linear.default(%x, %[[N]], %{{.*}}, columns = 16) : (tensor<5x64xf32>, tensor<5xi32>, tensor<3x8x64xui8>, tensor<3x2x16xf16>) -> tensor<5x16xf32>
// STOCK-LABEL: func.func @four_bits
// STOCK-NOT: etir
// STOCK: control.scan over
// STOCK: edge.aten.index_select.default({{.*}}) : (tensor<3x64x8xui8>, tensor<1xi64>) -> tensor<1x64x8xui8>
// STOCK: edge.aten.index_select.default({{.*}}) : (tensor<3x2x16xf32>, tensor<1xi64>) -> tensor<1x2x16xf32>
// STOCK: edge.aten.mm.default({{.*}}) : (tensor<1x64xf32>, tensor<64x16xf32>) -> tensor<1x16xf32>
func.func @four_bits(%x: tensor<5x64xf32>, %n: tensor<5xi64>) -> tensor<5x16xf32> {
  %i = et.constant dense<3> : tensor<48x64xi8>
  %s = et.constant dense<0.25> : tensor<48x2xf32>
  %w = edge.quantized_decomposed.dequantize_per_channel_group.default(%i, %s, quant_min = -8, quant_max = 7, dtype = i8, group_size = 32, output_dtype = f32) : (tensor<48x64xi8>, tensor<48x2xf32>) -> tensor<48x64xf32>
  %y = edge.etir.expert_linear.default(%x, %w, %n, columns = 16) : (tensor<5x64xf32>, tensor<48x64xf32>, tensor<5xi64>) -> tensor<5x16xf32>
  func.return %y : tensor<5x16xf32>
}

// -----

// Eight bits and one scale a row: in a loop the scales are multiplied with the product. Fewer columns than a panel
// would be much larger packed.

et.schema "etir::expert_linear(Tensor input, Tensor weight, Tensor experts, int columns) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @eight_bits
// CHECK: control.scan
// STOCK-LABEL: func.func @eight_bits
// STOCK: edge.aten.index_select.default({{.*}}) : (tensor<4x64x5xi8>, tensor<1xi64>) -> tensor<1x64x5xi8>
// STOCK: %[[P:.*]] = edge.aten.mm.default({{.*}}) : (tensor<1x64xf32>, tensor<64x5xf32>) -> tensor<1x5xf32>
// STOCK: edge.aten.mul.Tensor(%[[P]], %{{.*}}) : (tensor<1x5xf32>, tensor<1x5xf32>) -> tensor<1x5xf32>
func.func @eight_bits(%x: tensor<5x64xf32>, %n: tensor<5xi64>) -> tensor<5x5xf32> {
  %i = et.constant dense<100> : tensor<20x64xi8>
  %s = et.constant dense<0.25> : tensor<20xf32>
  %z = et.constant dense<0> : tensor<20xi64>
  %w = edge.quantized_decomposed.dequantize_per_channel.default(%i, %s, %z, axis = 0, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<20x64xi8>, tensor<20xf32>, tensor<20xi64>) -> tensor<20x64xf32>
  %y = edge.etir.expert_linear.default(%x, %w, %n, columns = 5) : (tensor<5x64xf32>, tensor<20x64xf32>, tensor<5xi64>) -> tensor<5x5xf32>
  func.return %y : tensor<5x5xf32>
}
