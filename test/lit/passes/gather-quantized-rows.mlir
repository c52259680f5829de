// RUN: et-opt -p gather-quantized-rows --split-input-file %s | filecheck %s
// RUN: et-opt -p 'gather-quantized-rows{target=etir}' --split-input-file %s | filecheck %s --check-prefix=KERNEL
// RUN: et-opt -p 'gather-quantized-rows{libraries=quantized}' --split-input-file %s | filecheck %s --check-prefix=KERNEL

// One scale for each row: a kernel where there is one, else rows and their scales are gathered first.

et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.weight @table : tensor<10x4xi8> = #et.synthetic<seed = 1>
et.weight @scales : tensor<10xf32> = #et.synthetic<seed = 2>

// KERNEL: et.schema "quantized_decomposed::embedding_byte(Tensor weight

// CHECK-LABEL: func.func @rows
// KERNEL-LABEL: func.func @rows
func.func @rows(%i: tensor<3xi64>) -> tensor<3x4xf32> {
  %w = et.get_weight @table : tensor<10x4xi8>
  %s = et.get_weight @scales : tensor<10xf32>
  %t = quantized_decomposed.dequantize_per_channel.default(%w, %s, none, axis = 0, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<10x4xi8>, tensor<10xf32>) -> tensor<10x4xf32>
  // CHECK: %[[R:.*]] = aten.embedding.default(%w, %i) : (tensor<10x4xi8>, tensor<3xi64>) -> tensor<3x4xi8>
  // CHECK: aten.embedding.default({{.*}}, %i) : (tensor<10x1xf32>, tensor<3xi64>) -> tensor<3x1xf32>
  // CHECK: aten.mul.Tensor
  // KERNEL: %[[Y:.*]] = quantized_decomposed.embedding_byte.default(%w, %{{.*}}, weight_quant_min = -128, weight_quant_max = 127, none, %i) : (tensor<10x4xi8>, tensor<10xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  // KERNEL: func.return %[[Y]]
  %y = aten.embedding.default(%t, %i) : (tensor<10x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  func.return %y : tensor<3x4xf32>
}

// -----

// A table that something else reads: as it was.

et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.weight @table : tensor<10x4xi8> = #et.synthetic<seed = 1>
et.weight @scales : tensor<10xf32> = #et.synthetic<seed = 2>

// CHECK-LABEL: func.func @shared
func.func @shared(%i: tensor<3xi64>) -> (tensor<3x4xf32>, tensor<10x4xf32>) {
  %w = et.get_weight @table : tensor<10x4xi8>
  %s = et.get_weight @scales : tensor<10xf32>
  // CHECK: %[[T:.*]] = quantized_decomposed.dequantize_per_channel.default
  // CHECK: aten.embedding.default(%[[T]], %i)
  %t = quantized_decomposed.dequantize_per_channel.default(%w, %s, none, axis = 0, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<10x4xi8>, tensor<10xf32>) -> tensor<10x4xf32>
  %y = aten.embedding.default(%t, %i) : (tensor<10x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  func.return %y, %t : tensor<3x4xf32>, tensor<10x4xf32>
}
