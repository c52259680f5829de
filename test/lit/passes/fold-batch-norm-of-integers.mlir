// RUN: et-opt -p fold-batch-norm --split-input-file %s | filecheck %s

// What training that knows of quantization leaves: the batch norm's factor, 2 / sqrt(4) = 1, divides the result, and an
// offset follows. The weight stays as it is, the bias is ((5 * 1 / 1 + 2) - 3) * 1 + 1 = 5.

et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.weight @w : tensor<1x1x3x3xi8> = #et.synthetic<seed = 1>

// CHECK-LABEL: func.func @trained
func.func @trained(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x2x2xf32> {
  %w = et.get_weight @w : tensor<1x1x3x3xi8>
  %s = et.constant dense<0.5> : tensor<1xf32>
  %z = et.constant dense<0> : tensor<1xi64>
  // CHECK: %[[W:.*]] = edge.quantized_decomposed.dequantize_per_channel.default(%w, %s, %z,
  %f = edge.quantized_decomposed.dequantize_per_channel.default(%w, %s, %z, axis = 0, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<1x1x3x3xi8>, tensor<1xf32>, tensor<1xi64>) -> tensor<1x1x3x3xf32>
  %b = et.constant dense<5.0> : tensor<1xf32>
  %gamma = et.constant dense<2.0> : tensor<1xf32>
  %beta = et.constant dense<1.0> : tensor<1xf32>
  %mean = et.constant dense<3.0> : tensor<1xf32>
  %var = et.constant dense<4.0> : tensor<1xf32>
  %factor = et.constant dense<1.0> : tensor<1x1x1x1xf32>
  %offset = et.constant dense<2.0> : tensor<1x1x1xf32>
  // CHECK: %[[B:.*]] = et.constant dense<5.000000e+00> : tensor<1xf32>
  // CHECK-NEXT: %y = edge.aten.convolution.default(%x, %[[W]], %[[B]],
  // CHECK-NOT: batch_norm
  // CHECK: func.return %y
  %c = edge.aten.convolution.default(%x, %f, %b, stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x1x4x4xf32>, tensor<1x1x3x3xf32>, tensor<1xf32>) -> tensor<1x1x2x2xf32>
  %d = edge.aten.div.Tensor(%c, %factor) : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x2x2xf32>
  %o = edge.aten.add.Tensor(%d, %offset) : (tensor<1x1x2x2xf32>, tensor<1x1x1xf32>) -> tensor<1x1x2x2xf32>
  %y, %m, %v = edge.aten._native_batch_norm_legit_no_training.default(%o, %gamma, %beta, %mean, %var, momentum = 0.1, eps = 0.0) : (tensor<1x1x2x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<1x1x2x2xf32>, tensor<0xf32>, tensor<0xf32>)
  func.return %y : tensor<1x1x2x2xf32>
}

// -----

// A factor of 2 multiplies the scale; one for the whole weight becomes one for each channel. A negative one does not fit.

et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.weight @w : tensor<1x1x3x3xi8> = #et.synthetic<seed = 1>

// CHECK-LABEL: func.func @scaled
func.func @scaled(%x: tensor<1x1x4x4xf32>) -> (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) {
  %w = et.get_weight @w : tensor<1x1x3x3xi8>
  %f = edge.quantized_decomposed.dequantize_per_tensor.default(%w, scale = 0.5, zero_point = 0, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<1x1x3x3xi8>) -> tensor<1x1x3x3xf32>
  %gamma = et.constant dense<4.0> : tensor<1xf32>
  %minus = et.constant dense<-4.0> : tensor<1xf32>
  %zero = et.constant dense<0.0> : tensor<1xf32>
  %var = et.constant dense<4.0> : tensor<1xf32>
  // CHECK: %[[S:.*]] = et.constant dense<1.000000e+00> : tensor<1xf32>
  // CHECK: %[[W:.*]] = edge.quantized_decomposed.dequantize_per_channel.default(%w, %[[S]], %{{.*}}, axis = 0, quant_min = -127, quant_max = 127, dtype = i8)
  // CHECK: edge.aten.convolution.default(%x, %[[W]],
  // CHECK: edge.aten._native_batch_norm_legit_no_training.default
  %c = edge.aten.convolution.default(%x, %f, stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x1x4x4xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x2x2xf32>
  %y, %m, %v = edge.aten._native_batch_norm_legit_no_training.default(%c, %gamma, %zero, %zero, %var, momentum = 0.1, eps = 0.0) : (tensor<1x1x2x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<1x1x2x2xf32>, tensor<0xf32>, tensor<0xf32>)
  %e = edge.aten.convolution.default(%x, %f, stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x1x4x4xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x2x2xf32>
  %z, %n, %u = edge.aten._native_batch_norm_legit_no_training.default(%e, %minus, %zero, %zero, %var, momentum = 0.1, eps = 0.0) : (tensor<1x1x2x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<1x1x2x2xf32>, tensor<0xf32>, tensor<0xf32>)
  func.return %y, %z : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>
}
