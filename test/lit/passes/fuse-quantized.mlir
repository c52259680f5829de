// RUN: et-opt -p 'fuse-quantized{target=etir}' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'decompose-preserved{target=etir},fuse-quantized{target=etir}' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'fuse-quantized' --split-input-file %s | filecheck %s --check-prefix=STOCK
// RUN: et-opt -p 'fuse-quantized{target=etir}' --split-input-file --explain-match=operator-on-integers --no-output %s 2>&1 | filecheck %s --check-prefix=WHY

// A layer: weights are packed, the bias is in the unit of the sums and has the zero points in it, relu is a limit.
// The sums are of x + 128: with a zero point of -3, the bias is 1 / (0.5 * 0.25) less 125 times the sum of a row.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK: et.schema "etir::int8_linear(Tensor input, Tensor weight, Tensor bias, Tensor factors, int zero_point, int low, int high) -> Tensor"
// CHECK-LABEL: func.func @layer
// STOCK-NOT: etir
func.func @layer(%q: tensor<2x2xi8>) -> tensor<2x2xi8> {
  // CHECK: %[[B:.*]] = et.constant dense<[-367, 1758]> : tensor<2xi32>
  // CHECK: %[[F:.*]] = et.constant dense<[1.250000e-01, 2.500000e-01]> : tensor<2xf32>
  // CHECK-NEXT: %[[Y:.*]] = edge.etir.int8_linear.default(%q, %{{.*}}, %[[B]], %[[F]], zero_point = -28, low = -28, high = 127)
  // CHECK-SAME: (tensor<2x2xi8>, tensor<1x1x16x4xi8>, tensor<2xi32>, tensor<2xf32>) -> tensor<2x2xi8>
  // CHECK-NEXT: func.return %[[Y]]
  %x = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.5, zero_point = -3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %wi = et.constant dense<[[1, 2], [-5, -9]]> : tensor<2x2xi8>
  %ws = et.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %w = edge.quantized_decomposed.dequantize_per_channel.default(%wi, %ws, axis = 0, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<2x2xi8>, tensor<2xf32>) -> tensor<2x2xf32>
  %b = et.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = edge.aten.linear.default(%x, %w, %b) : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %r = edge.aten.relu.default(%y) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %o = edge.quantized_decomposed.quantize_per_tensor.default(%r, scale = 1.0, zero_point = -28, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x2xf32>) -> tensor<2x2xi8>
  func.return %o : tensor<2x2xi8>
}

// -----

// Images have their channels innermost between operators; a clamp is the limits of its integers.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @images
func.func @images(%q: tensor<1x2x4x4xi8>) -> tensor<1x2x2x2xi8> {
  // CHECK: %[[X:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%q, dim_order = [0, 2, 3, 1])
  // CHECK: %[[Y:.*]] = edge.etir.int8_conv2d.default(%[[X]], %{{.*}}, input_zero_point = 4, kernel = [3, 3], stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1, zero_point = -28, low = -28, high = -4)
  // CHECK-SAME: tensor<1x1x5x16x4xi8>
  // CHECK-NEXT: %[[P:.*]] = edge.etir.int8_max_pool2d.default(%[[Y]], kernel = [2, 2], stride = [2, 2], padding = [0, 0], dilation = [1, 1])
  // CHECK: %[[D:.*]] = edge.etir.int8_depthwise_conv2d.default(%[[P]], {{.*}}, input_zero_point = -28, kernel = [1, 1], stride = [1, 1], padding = [0, 0], dilation = [1, 1], zero_point = 0, low = -128, high = 127)
  // CHECK-SAME: tensor<1x2xi8>
  // CHECK-NEXT: %[[S:.*]] = edge.etir.int8_add.default(%[[P]], %[[D]], a_multiplier = 524288, b_multiplier = 1048576, bias = 14680064, shift = 19, zero_point = 0, low = -128, high = 127)
  // CHECK-NEXT: %[[Z:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%[[S]], dim_order = [0, 1, 2, 3])
  // CHECK-NEXT: func.return %[[Z]]
  %x = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.5, zero_point = 4, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %wi = et.constant dense<3> : tensor<2x2x3x3xi8>
  %ws = et.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %w = edge.quantized_decomposed.dequantize_per_channel.default(%wi, %ws, axis = 0, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<2x2x3x3xi8>, tensor<2xf32>) -> tensor<2x2x3x3xf32>
  %y = edge.aten.convolution.default(%x, %w, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x2x4x4xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x4x4xf32>
  %c = edge.aten.hardtanh.default(%y, min_val = 0.0, max_val = 6.0) : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %i = edge.quantized_decomposed.quantize_per_tensor.default(%c, scale = 0.25, zero_point = -28, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %j = edge.quantized_decomposed.dequantize_per_tensor.default(%i, scale = 0.25, zero_point = -28, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %p, %at = edge.aten.max_pool2d_with_indices.default(%j, kernel_size = [2, 2]) : (tensor<1x2x4x4xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xi64>)
  %vi = et.constant dense<7> : tensor<2x1x1x1xi8>
  %vs = et.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %v = edge.quantized_decomposed.dequantize_per_channel.default(%vi, %vs, axis = 0, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<2x1x1x1xi8>, tensor<2xf32>) -> tensor<2x1x1x1xf32>
  %d = edge.aten.convolution.default(%p, %v, stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 2) : (tensor<1x2x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  %k = edge.quantized_decomposed.quantize_per_tensor.default(%d, scale = 0.5, zero_point = 0, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xi8>
  %l = edge.quantized_decomposed.dequantize_per_tensor.default(%k, scale = 0.5, zero_point = 0, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<1x2x2x2xi8>) -> tensor<1x2x2x2xf32>
  %s = edge.aten.add.Tensor(%p, %l) : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %o = edge.quantized_decomposed.quantize_per_tensor.default(%s, scale = 0.25, zero_point = 0, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xi8>
  func.return %o : tensor<1x2x2x2xi8>
}

// -----

// Functions of one number are one table; integers of another scale are a table as well, those of the same are as they
// are, also where they are moved.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @tables
func.func @tables(%q: tensor<4xi8>) -> (tensor<4xi8>, tensor<4xi8>, tensor<2x2xi8>) {
  // CHECK: %[[T:.*]] = edge.etir.int8_lookup.default(%q, %{{.*}}) : (tensor<4xi8>, tensor<256xi8>) -> tensor<4xi8>
  // CHECK: %[[U:.*]] = edge.etir.int8_lookup.default(%q,
  // CHECK-NEXT: %[[V:.*]] = edge.aten.view_copy.default(%q, size = [2, 2])
  // CHECK-NEXT: func.return %[[T]], %[[U]], %[[V]]
  %x = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.5, zero_point = 4, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<4xi8>) -> tensor<4xf32>
  %g = edge.aten.gelu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %h = edge.aten.tanh.default(%g) : (tensor<4xf32>) -> tensor<4xf32>
  %a = edge.quantized_decomposed.quantize_per_tensor.default(%h, scale = 0.0078125, zero_point = 0, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<4xf32>) -> tensor<4xi8>
  %b = edge.quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.25, zero_point = 4, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<4xf32>) -> tensor<4xi8>
  %v = edge.aten.view_copy.default(%x, size = [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  %c = edge.quantized_decomposed.quantize_per_tensor.default(%v, scale = 0.5, zero_point = 4, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x2xf32>) -> tensor<2x2xi8>
  func.return %a, %b, %c : tensor<4xi8>, tensor<4xi8>, tensor<2x2xi8>
}

// -----

// A layer of float32 reads its integers; numbers from -8 to 7 are two in a byte.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @weights
func.func @weights(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  // CHECK: edge.etir.int4_weight_linear.default(%x, %{{.*}}) : (tensor<2x2xf32>, tensor<2x1xui8>, tensor<2x1xf32>) -> tensor<2x2xf32>
  // CHECK: edge.etir.int8_weight_linear.default(%x, %{{.*}}) : (tensor<2x2xf32>, tensor<2x2xi8>, tensor<2x1xf32>) -> tensor<2x2xf32>
  %wi = et.constant dense<[[1, 2], [-8, 7]]> : tensor<2x2xi8>
  %ws = et.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %w = edge.quantized_decomposed.dequantize_per_channel.default(%wi, %ws, axis = 0, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<2x2xi8>, tensor<2xf32>) -> tensor<2x2xf32>
  %vi = et.constant dense<[[1, 2], [-9, 7]]> : tensor<2x2xi8>
  %vs = et.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %v = edge.quantized_decomposed.dequantize_per_channel.default(%vi, %vs, axis = 0, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<2x2xi8>, tensor<2xf32>) -> tensor<2x2xf32>
  %y = edge.aten.linear.default(%x, %w) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %z = edge.aten.linear.default(%x, %v) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %y, %z : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// So does one with a scale for each group of a row; with zero points the weight is float32 in the file.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor"

// CHECK-LABEL: func.func @groups
func.func @groups(%x: tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  // CHECK: %[[W:.*]] = et.constant dense<{{.*}}2.500000e-01, 5.000000e-01, -4.000000e+00, 3.500000e+00], [0.000000e+00, 2.500000e-01, 5.000000e-01, 1.000000e+00]]> : tensor<2x4xf32>
  // CHECK: edge.etir.int4_weight_linear.default(%x, %{{.*}}) : (tensor<2x4xf32>, tensor<2x2xui8>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // CHECK: edge.aten.linear.default(%x, %[[W]])
  %i = et.constant dense<[[1, 2, -8, 7], [1, 2, 3, 4]]> : tensor<2x4xi8>
  %s = et.constant dense<[[0.25, 0.5], [0.25, 0.5]]> : tensor<2x2xf32>
  %z = et.constant dense<[[0, 0], [1, 2]]> : tensor<2x2xi64>
  %w = edge.quantized_decomposed.dequantize_per_channel_group.default(%i, %s, quant_min = -8, quant_max = 7, dtype = i8, group_size = 2, output_dtype = f32) : (tensor<2x4xi8>, tensor<2x2xf32>) -> tensor<2x4xf32>
  %v = edge.quantized_decomposed.dequantize_per_channel_group.default(%i, %s, %z, quant_min = -8, quant_max = 7, dtype = i8, group_size = 2, output_dtype = f32) : (tensor<2x4xi8>, tensor<2x2xf32>, tensor<2x2xi64>) -> tensor<2x4xf32>
  %y = edge.aten.linear.default(%x, %w) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x2xf32>
  %u = edge.aten.linear.default(%x, %v) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x2xf32>
  func.return %y, %u : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// A scale for the whole input, or for each row, that is chosen from it.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.schema "quantized_decomposed::choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)"
et.schema "quantized_decomposed::quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype, ScalarType output_dtype) -> Tensor"

// CHECK-LABEL: func.func @chosen
func.func @chosen(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  // CHECK: %[[S:.*]] = et.constant dense<[3, -14]> : tensor<2xi32>
  // CHECK: %[[Y:.*]] = edge.etir.int8_dynamic_linear.default(%x, %{{.*}}, %[[S]], %{{.*}}) : (tensor<2x2xf32>, tensor<1x1x16x4xi8>, tensor<2xi32>, tensor<2xf32>) -> tensor<2x2xf32>
  // CHECK-NEXT: func.return %[[Y]]
  %s, %z = edge.quantized_decomposed.choose_qparams_per_token_asymmetric.default(%x, dtype = i8) : (tensor<2x2xf32>) -> (tensor<2x1xf64>, tensor<2x1xi64>)
  %q = edge.quantized_decomposed.quantize_per_token.default(%x, %s, %z, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x2xf32>, tensor<2x1xf64>, tensor<2x1xi64>) -> tensor<2x2xi8>
  %d = edge.quantized_decomposed.dequantize_per_token.default(%q, %s, %z, quant_min = -128, quant_max = 127, dtype = i8, output_dtype = f32) : (tensor<2x2xi8>, tensor<2x1xf64>, tensor<2x1xi64>) -> tensor<2x2xf32>
  %wi = et.constant dense<[[1, 2], [-5, -9]]> : tensor<2x2xi8>
  %ws = et.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %w = edge.quantized_decomposed.dequantize_per_channel.default(%wi, %ws, axis = 0, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<2x2xi8>, tensor<2xf32>) -> tensor<2x2xf32>
  %y = edge.aten.linear.default(%d, %w) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}

// -----

// What is left as it is, and why.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @left
func.func @left(%q: tensor<2x2xi8>, %f: tensor<2x2xf32>) -> (tensor<2x2xi8>, tensor<2x2xi8>, tensor<2x2xi8>) {
  // CHECK: %[[Y:.*]] = edge.etir.int8_weight_linear.default
  // CHECK-NEXT: quantize_per_tensor.default(%[[Y]]
  // CHECK-NEXT: %[[S:.*]] = edge.aten.sin.default
  // CHECK-NEXT: quantize_per_tensor.default(%[[S]]
  // CHECK-NEXT: quantize_per_tensor.default(%f
  // WHY: aten.linear.default: the bias of channel 1 does not fit 32 bits
  // WHY: no kernel of the target computes aten.sin.default on int8
  // WHY: an input of the program
  %x = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.5, zero_point = -3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %wi = et.constant dense<[[1, 2], [-5, -9]]> : tensor<2x2xi8>
  %ws = et.constant dense<[0.25, 1.0e-10]> : tensor<2xf32>
  %w = edge.quantized_decomposed.dequantize_per_channel.default(%wi, %ws, axis = 0, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<2x2xi8>, tensor<2xf32>) -> tensor<2x2xf32>
  %b = et.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = edge.aten.linear.default(%x, %w, %b) : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %o = edge.quantized_decomposed.quantize_per_tensor.default(%y, scale = 1.0, zero_point = -28, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x2xf32>) -> tensor<2x2xi8>
  %s = edge.aten.sin.default(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p = edge.quantized_decomposed.quantize_per_tensor.default(%s, scale = 1.0, zero_point = -28, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x2xf32>) -> tensor<2x2xi8>
  %r = edge.quantized_decomposed.quantize_per_tensor.default(%f, scale = 1.0, zero_point = -28, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x2xf32>) -> tensor<2x2xi8>
  func.return %o, %p, %r : tensor<2x2xi8>, tensor<2x2xi8>, tensor<2x2xi8>
}

// -----

// A line is an image of one row; between two convolutions nothing is moved.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @lines
func.func @lines(%q: tensor<1x2x8xi8>) -> tensor<1x2x3xi8> {
  // CHECK: %[[U:.*]] = edge.aten.unsqueeze_copy.default(%q, dim = 2)
  // CHECK-NEXT: %[[X:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%[[U]], dim_order = [0, 2, 3, 1])
  // CHECK: %[[Y:.*]] = edge.etir.int8_conv2d.default(%[[X]], %{{.*}}, input_zero_point = 4, kernel = [1, 3], stride = [1, 2], padding = [0, 1], dilation = [1, 1], groups = 1,
  // CHECK: %[[D:.*]] = edge.etir.int8_depthwise_conv2d.default(%[[Y]], %{{.*}}, input_zero_point = -28, kernel = [1, 2], stride = [1, 1],
  // CHECK-NEXT: %[[P:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%[[D]], dim_order = [0, 1, 2, 3])
  // CHECK-NEXT: edge.aten.squeeze_copy.dims(%[[P]], dim = [2])
  %x = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.5, zero_point = 4, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<1x2x8xi8>) -> tensor<1x2x8xf32>
  %wi = et.constant dense<3> : tensor<2x2x3xi8>
  %ws = et.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %w = edge.quantized_decomposed.dequantize_per_channel.default(%wi, %ws, axis = 0, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<2x2x3xi8>, tensor<2xf32>) -> tensor<2x2x3xf32>
  %y = edge.aten.convolution.default(%x, %w, stride = [2], padding = [1], dilation = [1], transposed = false, output_padding = [0], groups = 1) : (tensor<1x2x8xf32>, tensor<2x2x3xf32>) -> tensor<1x2x4xf32>
  %i = edge.quantized_decomposed.quantize_per_tensor.default(%y, scale = 0.25, zero_point = -28, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<1x2x4xf32>) -> tensor<1x2x4xi8>
  %j = edge.quantized_decomposed.dequantize_per_tensor.default(%i, scale = 0.25, zero_point = -28, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<1x2x4xi8>) -> tensor<1x2x4xf32>
  %vi = et.constant dense<7> : tensor<2x1x2xi8>
  %vs = et.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %v = edge.quantized_decomposed.dequantize_per_channel.default(%vi, %vs, axis = 0, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<2x1x2xi8>, tensor<2xf32>) -> tensor<2x1x2xf32>
  %d = edge.aten.convolution.default(%j, %v, stride = [1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 2) : (tensor<1x2x4xf32>, tensor<2x1x2xf32>) -> tensor<1x2x3xf32>
  %o = edge.quantized_decomposed.quantize_per_tensor.default(%d, scale = 0.5, zero_point = 0, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<1x2x3xf32>) -> tensor<1x2x3xi8>
  func.return %o : tensor<1x2x3xi8>
}

// -----

// A transposed convolution: a bias for each phase of the stride, with the sum of the taps that the phase reads. Of a
// kernel of 3 and a stride of 2 the first phase has taps 2 and 0, the second tap 1: 1 / (0.5 * 0.25) less 132 times
// the sums 3 + 1 and 2.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @transposed
func.func @transposed(%q: tensor<1x1x1x4xi8>) -> tensor<1x1x1x9xi8> {
  // CHECK: %[[W:.*]] = et.get_weight @layer_packed : tensor<1x2x16x4xi8>
  // CHECK-NEXT: %[[B:.*]] = et.constant dense<{{\[\[}}-520], [-256]]> : tensor<2x1xi32>
  // CHECK: edge.etir.int8_conv_transpose2d.default(%{{.*}}, %[[W]], %[[B]], %{{.*}}, input_zero_point = 4, kernel = [1, 3], stride = [1, 2], padding = [0, 0], dilation = [1, 1], output_padding = [0, 0], groups = 1, zero_point = 0, low = -128, high = 127)
  %x = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.5, zero_point = 4, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<1x1x1x4xi8>) -> tensor<1x1x1x4xf32>
  %wi = et.constant dense<[[[[1, 2, 3]]]]> : tensor<1x1x1x3xi8>
  %ws = et.constant dense<[0.25]> : tensor<1xf32>
  %w = edge.quantized_decomposed.dequantize_per_channel.default(%wi, %ws, axis = 1, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<1x1x1x3xi8>, tensor<1xf32>) -> tensor<1x1x1x3xf32>
  %b = et.constant dense<[1.0]> : tensor<1xf32>
  %y = edge.aten.convolution.default(%x, %w, %b, stride = [1, 2], padding = [0, 0], dilation = [1, 1], transposed = true, output_padding = [0, 0], groups = 1) : (tensor<1x1x1x4xf32>, tensor<1x1x1x3xf32>, tensor<1xf32>) -> tensor<1x1x1x9xf32>
  %o = edge.quantized_decomposed.quantize_per_tensor.default(%y, scale = 0.5, zero_point = 0, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<1x1x1x9xf32>) -> tensor<1x1x1x9xi8>
  func.return %o : tensor<1x1x1x9xi8>
}

// -----

// Attention: a product with a number is a table, or nothing where the scale says it already; parts of a tensor are
// parts of its integers; softmax has a table of the exponential.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<3x2x4x4xi8>) -> tensor<2x4x4xi8> {
  // CHECK: %[[Q:.*]], %[[K:.*]], %[[V:.*]] = edge.aten.unbind_copy.int(%q)
  // CHECK-NEXT: %[[T:.*]] = edge.aten.permute_copy.default(%[[K]], dims = [0, 2, 1])
  // CHECK-NEXT: %[[P:.*]] = edge.etir.int8_bmm.default(%[[Q]], %[[T]], a_zero_point = 4, b_zero_point = 4, factor = 1.0, zero_point = 1, low = -128, high = 127)
  // CHECK: %[[S:.*]] = edge.etir.int8_softmax.default(%[[P]], %{{.*}}, factor = 256.0, zero_point = -128, low = -128, high = 127)
  // CHECK-NEXT: %[[Y:.*]] = edge.etir.int8_bmm.default(%[[S]], %[[V]], a_zero_point = -128, b_zero_point = 4, factor = 0.00390625,
  // CHECK: edge.etir.int8_lookup.default(%[[Y]],
  %x = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.5, zero_point = 4, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<3x2x4x4xi8>) -> tensor<3x2x4x4xf32>
  %f, %g, %h = edge.aten.unbind_copy.int(%x) : (tensor<3x2x4x4xf32>) -> (tensor<2x4x4xf32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>)
  %m = edge.aten.mul.Scalar(%f, other = 0.5) : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %mi = edge.quantized_decomposed.quantize_per_tensor.default(%m, scale = 0.25, zero_point = 4, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x4x4xf32>) -> tensor<2x4x4xi8>
  %n = edge.quantized_decomposed.dequantize_per_tensor.default(%mi, scale = 0.25, zero_point = 4, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x4x4xi8>) -> tensor<2x4x4xf32>
  %t = edge.aten.permute_copy.default(%g, dims = [0, 2, 1]) : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %p = edge.aten.bmm.default(%n, %t) : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %pi = edge.quantized_decomposed.quantize_per_tensor.default(%p, scale = 0.125, zero_point = 1, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x4x4xf32>) -> tensor<2x4x4xi8>
  %pf = edge.quantized_decomposed.dequantize_per_tensor.default(%pi, scale = 0.125, zero_point = 1, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x4x4xi8>) -> tensor<2x4x4xf32>
  %s = edge.aten._softmax.default(%pf, dim = -1, half_to_float = false) : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %si = edge.quantized_decomposed.quantize_per_tensor.default(%s, scale = 0.00390625, zero_point = -128, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x4x4xf32>) -> tensor<2x4x4xi8>
  %sf = edge.quantized_decomposed.dequantize_per_tensor.default(%si, scale = 0.00390625, zero_point = -128, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x4x4xi8>) -> tensor<2x4x4xf32>
  %y = edge.aten.bmm.default(%sf, %h) : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %yi = edge.quantized_decomposed.quantize_per_tensor.default(%y, scale = 0.5, zero_point = 0, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x4x4xf32>) -> tensor<2x4x4xi8>
  %yf = edge.quantized_decomposed.dequantize_per_tensor.default(%yi, scale = 0.5, zero_point = 0, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x4x4xi8>) -> tensor<2x4x4xf32>
  %k = edge.aten.add.Scalar(%yf, other = 1.0) : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %o = edge.quantized_decomposed.quantize_per_tensor.default(%k, scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x4x4xf32>) -> tensor<2x4x4xi8>
  func.return %o : tensor<2x4x4xi8>
}

// -----

// A result that is not quantized is float32: factors are those of the sums.

et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @not_rounded
func.func @not_rounded(%q: tensor<2x2xi8>, %i: tensor<1x2x4x4xi8>) -> (tensor<2x2xf32>, tensor<1x2x4x4xf32>) {
  // CHECK: %[[B:.*]] = et.constant dense<[-367, 1758]> : tensor<2xi32>
  // CHECK: %[[F:.*]] = et.constant dense<[1.250000e-01, 2.500000e-01]> : tensor<2xf32>
  // CHECK: edge.etir.int8_float_linear.default(%q, %{{.*}}, %[[B]], %[[F]]) : (tensor<2x2xi8>, tensor<1x1x16x4xi8>, tensor<2xi32>, tensor<2xf32>) -> tensor<2x2xf32>
  // CHECK: edge.aten.relu.default
  // CHECK: %[[Y:.*]] = edge.etir.int8_float_conv2d.default(%{{.*}}, input_zero_point = 4, kernel = [3, 3], stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1)
  // CHECK-NEXT: edge.dim_order_ops._to_dim_order_copy.default(%[[Y]], dim_order = [0, 1, 2, 3])
  %x = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.5, zero_point = -3, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %wi = et.constant dense<[[1, 2], [-5, -9]]> : tensor<2x2xi8>
  %ws = et.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %w = edge.quantized_decomposed.dequantize_per_channel.default(%wi, %ws, axis = 0, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<2x2xi8>, tensor<2xf32>) -> tensor<2x2xf32>
  %b = et.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = edge.aten.linear.default(%x, %w, %b) : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %r = edge.aten.relu.default(%y) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %j = edge.quantized_decomposed.dequantize_per_tensor.default(%i, scale = 0.5, zero_point = 4, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %vi = et.constant dense<3> : tensor<2x2x3x3xi8>
  %v = edge.quantized_decomposed.dequantize_per_channel.default(%vi, %ws, axis = 0, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<2x2x3x3xi8>, tensor<2xf32>) -> tensor<2x2x3x3xf32>
  %c = edge.aten.convolution.default(%j, %v, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x2x4x4xf32>, tensor<2x2x3x3xf32>) -> tensor<1x2x4x4xf32>
  func.return %r, %c : tensor<2x2xf32>, tensor<1x2x4x4xf32>
}
