// RUN: et-opt -p freeze-fake-quantization --split-input-file %s 2> %t.err | filecheck %s
// RUN: filecheck %s --check-prefix=WARNS < %t.err

// Scale, zero point and range of a tensor; the schemas are declared.

// CHECK: et.schema "quantized_decomposed::quantize_per_tensor(Tensor input
// CHECK: et.schema "quantized_decomposed::quantize_per_tensor.out(Tensor input
// CHECK-LABEL: func.func @tensor
func.func @tensor(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  // CHECK-NEXT: %[[Q:.*]] = quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<4x2xf32>) -> tensor<4x2xi8>
  // CHECK-NEXT: %[[Y:.*]] = quantized_decomposed.dequantize_per_tensor.default(%[[Q]], scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<4x2xi8>) -> tensor<4x2xf32>
  // CHECK-NEXT: func.return %[[Y]]
  %y = aten.fake_quantize_per_tensor_affine.default(%x, scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  func.return %y : tensor<4x2xf32>
}

// -----

// Who needs to know what was clamped, a range of more than 16 bits, float16: as they were.

// CHECK-LABEL: func.func @left
func.func @left(%x: tensor<4xf32>, %h: tensor<4xf16>) -> (tensor<4xf32>, tensor<4xi1>, tensor<4xf32>, tensor<4xf16>) {
  // CHECK-NEXT: aten.fake_quantize_per_tensor_affine_cachemask.default
  // CHECK-NEXT: aten.fake_quantize_per_tensor_affine.default
  // CHECK-NEXT: aten.fake_quantize_per_tensor_affine.default
  %y, %m = aten.fake_quantize_per_tensor_affine_cachemask.default(%x, scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  %z = aten.fake_quantize_per_tensor_affine.default(%x, scale = 0.5, zero_point = 3, quant_min = -40000, quant_max = 40000) : (tensor<4xf32>) -> tensor<4xf32>
  %w = aten.fake_quantize_per_tensor_affine.default(%h, scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127) : (tensor<4xf16>) -> tensor<4xf16>
  func.return %y, %m, %z, %w : tensor<4xf32>, tensor<4xi1>, tensor<4xf32>, tensor<4xf16>
}

// -----

// By channel; the mask that nobody reads goes.

// CHECK-LABEL: func.func @channels
func.func @channels(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %s = et.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %p = et.constant dense<[1, -1]> : tensor<2xi32>
  // CHECK: quantized_decomposed.quantize_per_channel.default(%x, %{{.*}}, %{{.*}}, axis = 0, quant_min = -127, quant_max = 127, dtype = i8)
  // CHECK-NEXT: quantized_decomposed.dequantize_per_channel.default(
  %y, %m = aten.fake_quantize_per_channel_affine_cachemask.default(%x, %s, %p, axis = 0, quant_min = -127, quant_max = 127) : (tensor<2x4xf32>, tensor<2xf32>, tensor<2xi32>) -> (tensor<2x4xf32>, tensor<2x4xi1>)
  func.return %y : tensor<2x4xf32>
}

// -----

// An observer that was left on stays at what it found; one that has seen nothing is left alone.

// WARNS: warning[E0524]: 1 observers of fake quantization were on


// CHECK-LABEL: func.func @observed
func.func @observed(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %on = et.constant dense<1> : tensor<1xi64>
  %min = et.constant dense<-1.0> : tensor<f32>
  %none = et.constant dense<0x7F800000> : tensor<f32>
  %max = et.constant dense<1.0> : tensor<f32>
  %scale = et.constant dense<[0.5]> : tensor<1xf32>
  %point = et.constant dense<[2]> : tensor<1xi32>
  // CHECK: quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.5, zero_point = 2, {{.*}}, dtype = i8)
  %y = aten.fused_moving_avg_obs_fake_quant.default(%x, %on, %on, %min, %max, %scale, %point, averaging_const = 0.01, quant_min = -128, quant_max = 127, ch_axis = -1) : (tensor<4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<f32>, tensor<f32>, tensor<1xf32>, tensor<1xi32>) -> tensor<4xf32>
  // CHECK: aten.fused_moving_avg_obs_fake_quant.default
  %z = aten.fused_moving_avg_obs_fake_quant.default(%x, %on, %on, %none, %max, %scale, %point, averaging_const = 0.01, quant_min = -128, quant_max = 127, ch_axis = -1) : (tensor<4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<f32>, tensor<f32>, tensor<1xf32>, tensor<1xi32>) -> tensor<4xf32>
  func.return %y, %z : tensor<4xf32>, tensor<4xf32>
}
