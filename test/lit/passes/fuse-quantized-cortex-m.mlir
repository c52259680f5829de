// RUN: et-opt -p 'fuse-quantized{target=executorch libraries=cortex_m}' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'fuse-quantized{target=executorch libraries=cortex_m},decompose-preserved{target=executorch libraries=cortex_m fused=true}' --split-input-file %s | filecheck %s --check-prefix=LEFT
// RUN: et-opt -p 'fuse-quantized' --split-input-file %s | filecheck %s --check-prefix=STOCK

// For ExecuTorch's library for Cortex-M: a layer whose weight has one scale is a linear layer. Its factor, 0.25 * 0.5 / 2,
// is 2^30 * 2^(-3 - 31); the kernel sum is the bias, 1 / (0.25 * 0.5), and 3 times the sum of a row, for processors
// that read it in the bias' place.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK: et.schema "cortex_m::quantized_linear(
// CHECK-LABEL: func.func @layer
// STOCK-NOT: cortex_m
func.func @layer(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  // CHECK: %[[Q:.*]] = edge.cortex_m.quantize_per_tensor.default(%x, scale = 0.5, zero_point = -3, quant_min = -128, quant_max = 127, dtype = i8)
  // CHECK: %[[B:.*]] = et.constant dense<8> : tensor<2xi32>
  // CHECK-NEXT: %[[S:.*]] = et.constant dense<{{\[\[}}17, -34]]> : tensor<1x2xi32>
  // CHECK-NEXT: %[[Y:.*]] = edge.cortex_m.quantized_linear.default(%[[Q]], %{{.*}}, %[[B]], %[[S]], input_offset = 3, filter_offset = 0, output_offset = -28, requantize_multipliers = [1073741824], requantize_shifts = [-3], activation_max = 127, activation_min = -28)
  // CHECK-NEXT: %[[R:.*]] = edge.cortex_m.dequantize_per_tensor.default(%[[Y]], scale = 2.0, zero_point = -28, quant_min = -128, quant_max = 127, dtype = i8)
  // CHECK-NEXT: func.return %[[R]]
  %q = edge.quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.5, zero_point = -3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x2xf32>) -> tensor<2x2xi8>
  %d = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.5, zero_point = -3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %wi = et.constant dense<[[1, 2], [-5, -9]]> : tensor<2x2xi8>
  %w = edge.quantized_decomposed.dequantize_per_tensor.default(%wi, scale = 0.25, zero_point = 0, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %b = et.constant dense<1.0> : tensor<2xf32>
  %y = edge.aten.linear.default(%d, %w, %b) : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %r = edge.aten.relu.default(%y) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %o = edge.quantized_decomposed.quantize_per_tensor.default(%r, scale = 2.0, zero_point = -28, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x2xf32>) -> tensor<2x2xi8>
  %e = edge.quantized_decomposed.dequantize_per_tensor.default(%o, scale = 2.0, zero_point = -28, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x2xi8>) -> tensor<2x2xf32>
  func.return %e : tensor<2x2xf32>
}

// -----

// A softmax has 256 parts of one, which a table brings to another encoding; 0.5 is 2^30 * 2^(26 - 31) of the 5 bits
// before the point that its kernel has.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @shares
func.func @shares(%q: tensor<2x3xi8>) -> (tensor<2x3xi8>, tensor<2x3xi8>) {
  // CHECK-NEXT: %[[S:.*]] = edge.cortex_m.softmax.default(%q, dim = 1, input_zero_point = 4, output_zero_point = -128, input_multiplier = 1073741824, input_shift = 26, diff_min = -31)
  // CHECK-NEXT: %[[T:.*]] = edge.cortex_m.softmax.default(%q, dim = 1
  // CHECK-NEXT: %[[L:.*]] = et.get_weight @lookup_lut
  // CHECK-NEXT: %[[O:.*]] = edge.cortex_m.quantized_activation.default(%[[T]], %[[L]])
  // CHECK-NEXT: func.return %[[S]], %[[O]]
  %d = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.5, zero_point = 4, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x3xi8>) -> tensor<2x3xf32>
  %a = edge.aten._softmax.default(%d, dim = -1, half_to_float = false) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = edge.aten._softmax.default(%d, dim = -1, half_to_float = false) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %s = edge.quantized_decomposed.quantize_per_tensor.default(%a, scale = 0.00390625, zero_point = -128, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x3xf32>) -> tensor<2x3xi8>
  %o = edge.quantized_decomposed.quantize_per_tensor.default(%b, scale = 0.0078125, zero_point = 0, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x3xf32>) -> tensor<2x3xi8>
  func.return %s, %o : tensor<2x3xi8>, tensor<2x3xi8>
}

// -----

// Padding of an image is in the order of its memory, the one of others for the last of four dims. What is padded with is
// an integer of the encoding. Only what has the order of its dims is transposed by the library.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @moved
func.func @moved(%q: tensor<2x3xi8>, %i: tensor<1x2x4x4xi8, #et.layout<order = [0, 2, 3, 1]>>, %l: tensor<1x2x1x1xi8>) -> (tensor<4x5xi8>, tensor<1x3x5x6xi8, #et.layout<order = [0, 2, 3, 1]>>, tensor<1x2x3x1xi8>, tensor<3x2xi8>) {
  // CHECK: edge.cortex_m.pad.default(%q, pre_pad = [0, 0, 1, 2], post_pad = [0, 0, 1, 0], pad_value = 3)
  // CHECK: edge.cortex_m.pad.default(%i, pre_pad = [0, 1, 2, 1], post_pad = [0, 0, 0, 0], pad_value = -5)
  // CHECK: edge.aten.constant_pad_nd.default(%l
  // CHECK: edge.cortex_m.transpose.default(%q, perm = [1, 0])
  %d = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.5, zero_point = 1, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x3xi8>) -> tensor<2x3xf32>
  %p = edge.aten.constant_pad_nd.default(%d, pad = [2, 0, 1, 1], value = 1.0) : (tensor<2x3xf32>) -> tensor<4x5xf32>
  %o = edge.quantized_decomposed.quantize_per_tensor.default(%p, scale = 0.5, zero_point = 1, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<4x5xf32>) -> tensor<4x5xi8>
  %a = edge.aten.constant_pad_nd.default(%i, pad = [2, 0, 1, 0, 1, 0], value = -5) : (tensor<1x2x4x4xi8, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x3x5x6xi8, #et.layout<order = [0, 2, 3, 1]>>
  %b = edge.aten.constant_pad_nd.default(%l, pad = [0, 0, 1, 1], value = 0) : (tensor<1x2x1x1xi8>) -> tensor<1x2x3x1xi8>
  %t = edge.aten.permute_copy.default(%q, dims = [-1, 0]) : (tensor<2x3xi8>) -> tensor<3x2xi8>
  func.return %o, %a, %b, %t : tensor<4x5xi8>, tensor<1x3x5x6xi8, #et.layout<order = [0, 2, 3, 1]>>, tensor<1x2x3x1xi8>, tensor<3x2xi8>
}

// -----

// One with a scale for each output is a convolution of images of a pixel. What no kernel computes is decomposed after
// all: the library has none for weights as such.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @several_scales
// LEFT-LABEL: func.func @several_scales
func.func @several_scales(%q: tensor<3x2xi8>, %z: tensor<3x2xf32>) -> (tensor<3x2xi8>, tensor<3x2xf32>) {
  // CHECK: %[[V:.*]] = edge.aten.view_copy.default(%q, size = [3, 2, 1, 1])
  // CHECK-NEXT: %[[X:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%[[V]], dim_order = [0, 2, 3, 1])
  // CHECK-NEXT: %[[S:.*]] = edge.aten.empty.memory_format(size = [64]) : () -> tensor<64xui8>
  // CHECK: %[[Y:.*]] = edge.cortex_m.quantized_conv2d.default(%[[X]], %{{.*}}, stride = [1, 1], padding = [0, 0], dilation = [1, 1], input_offset = 3, output_offset = 0, %{{.*}}, activation_min = -128, activation_max = 127, %[[S]])
  // CHECK: edge.aten.view_copy.default(%{{.*}}, size = [3, 2])
  // LEFT: edge.cortex_m.quantized_conv2d.default
  // LEFT-NOT: quantized_decomposed
  %d = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.5, zero_point = -3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<3x2xi8>) -> tensor<3x2xf32>
  %wi = et.constant dense<[[1, 2], [-5, -9]]> : tensor<2x2xi8>
  %ws = et.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %w = edge.quantized_decomposed.dequantize_per_channel.default(%wi, %ws, axis = 0, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<2x2xi8>, tensor<2xf32>) -> tensor<2x2xf32>
  %y = edge.aten.linear.default(%d, %w) : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %o = edge.quantized_decomposed.quantize_per_tensor.default(%y, scale = 1.0, zero_point = 0, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<3x2xf32>) -> tensor<3x2xi8>
  %u = edge.aten.linear.default(%z, %w) : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  func.return %o, %u : tensor<3x2xi8>, tensor<3x2xf32>
}
