// RUN: %roundtrip
// RUN: %generic

// Every kind of node, once. An attribute that is 0 is left out, as is a last operand that is not there.

// What goes in and out, and constants: by the key of their bytes, with scales where they are quantized.
// CHECK-LABEL: func.func @boundary
func.func @boundary(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: %0 = xnn.input(%x) : (tensor<2x3xf32>) -> !xnn.tensor<2x3xfp32>
  %0 = xnn.input(%x) : (tensor<2x3xf32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %w = xnn.constant "key" : !xnn.tensor<4x3xfp32>
  %w = xnn.constant "key" : !xnn.tensor<4x3xfp32>
  // CHECK-NEXT: %c = xnn.constant "w8" scales "s" : !xnn.tensor<4x3xqcint8, channel = 0>
  %c = xnn.constant "w8" scales "s" : !xnn.tensor<4x3xqcint8, channel = 0>
  // CHECK-NEXT: %n = xnn.constant "w8" scales [1.0, 2.0, 3.0, 0.5] : !xnn.tensor<4x3xqcint8, channel = 0>
  %n = xnn.constant "w8" scales [1.0, 2.0, 3.0, 0.5] : !xnn.tensor<4x3xqcint8, channel = 0>
  // CHECK-NEXT: %1 = xnn.output(%0) : (!xnn.tensor<2x3xfp32>) -> tensor<2x3xf32>
  %1 = xnn.output(%0) : (!xnn.tensor<2x3xfp32>) -> tensor<2x3xf32>
  func.return %1 : tensor<2x3xf32>
}

// One operand.
// CHECK-LABEL: func.func @unary
func.func @unary(%x: !xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp16> {
  // CHECK-NEXT: %0 = xnn.softmax(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %0 = xnn.softmax(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %1 = xnn.sigmoid(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %1 = xnn.sigmoid(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %2 = xnn.floor(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %2 = xnn.floor(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %3 = xnn.square_root(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %3 = xnn.square_root(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %4 = xnn.ceiling(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %4 = xnn.ceiling(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %5 = xnn.hardswish(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %5 = xnn.hardswish(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %6 = xnn.negate(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %6 = xnn.negate(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %7 = xnn.square(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %7 = xnn.square(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %8 = xnn.abs(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %8 = xnn.abs(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %9 = xnn.reciprocal_square_root(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %9 = xnn.reciprocal_square_root(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %10 = xnn.log(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %10 = xnn.log(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %11 = xnn.gelu(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %11 = xnn.gelu(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %12 = xnn.tanh(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %12 = xnn.tanh(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %13 = xnn.exp(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %13 = xnn.exp(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %14 = xnn.sin(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %14 = xnn.sin(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %15 = xnn.copy(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %15 = xnn.copy(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %16 = xnn.cos(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %16 = xnn.cos(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %17 = xnn.clamp(%x, clamp = [0.0, 6.0]) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %17 = xnn.clamp(%x, clamp = [0.0, 6.0]) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %18 = xnn.leaky_relu(%x, negative_slope = 0.01) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %18 = xnn.leaky_relu(%x, negative_slope = 0.01) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %19 = xnn.elu(%x, alpha = 1.0) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %19 = xnn.elu(%x, alpha = 1.0) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %20 = xnn.convert(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp16>
  %20 = xnn.convert(%x) : (!xnn.tensor<2x3xfp32>) -> !xnn.tensor<2x3xfp16>
  func.return %20 : !xnn.tensor<2x3xfp16>
}

// Two operands, whose dims are broadcast; a range of the output and the number in a profile where nodes have them.
// CHECK-LABEL: func.func @binary
func.func @binary(%x: !xnn.tensor<2x3xfp32>, %y: !xnn.tensor<1x3xfp32>) -> !xnn.tensor<2x3xfp32> {
  // CHECK-NEXT: %0 = xnn.add(%x, %y, clamp = [0.0, inf], handle = 1) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<1x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %0 = xnn.add(%x, %y, clamp = [0.0, inf], handle = 1) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<1x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %1 = xnn.subtract(%x, %y, clamp = [0.0, inf], handle = 2) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<1x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %1 = xnn.subtract(%x, %y, clamp = [0.0, inf], handle = 2) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<1x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %2 = xnn.multiply(%x, %y, clamp = [0.0, inf], handle = 3) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<1x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %2 = xnn.multiply(%x, %y, clamp = [0.0, inf], handle = 3) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<1x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %3 = xnn.div(%x, %y, clamp = [0.0, inf], handle = 4) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<1x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %3 = xnn.div(%x, %y, clamp = [0.0, inf], handle = 4) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<1x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %4 = xnn.minimum(%x, %y) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<1x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %4 = xnn.minimum(%x, %y) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<1x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %5 = xnn.maximum(%x, %y) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<1x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %5 = xnn.maximum(%x, %y) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<1x3xfp32>) -> !xnn.tensor<2x3xfp32>
  // CHECK-NEXT: %6 = xnn.prelu(%x, %y) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<1x3xfp32>) -> !xnn.tensor<2x3xfp32>
  %6 = xnn.prelu(%x, %y) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<1x3xfp32>) -> !xnn.tensor<2x3xfp32>
  func.return %6 : !xnn.tensor<2x3xfp32>
}

// A filter of (outputs, inputs), with a bias and without; matrices in batches; attention.
// CHECK-LABEL: func.func @products
func.func @products(%x: !xnn.tensor<2x3xfp32>, %w: !xnn.tensor<4x3xfp32>, %b: !xnn.tensor<4xfp32>, %p: !xnn.tensor<2x2x3xfp32>, %q: !xnn.tensor<2x3x5xfp32>, %s: !xnn.tensor<8xfp32>, %m: !xnn.tensor<4x4xfp32>, %a: !xnn.tensor<1x2x4x8xfp32>) -> !xnn.tensor<1x2x4x8xfp32> {
  // CHECK-NEXT: %0 = xnn.fully_connected(%x, %w, %b) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<4x3xfp32>, !xnn.tensor<4xfp32>) -> !xnn.tensor<2x4xfp32>
  %0 = xnn.fully_connected(%x, %w, %b) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<4x3xfp32>, !xnn.tensor<4xfp32>) -> !xnn.tensor<2x4xfp32>
  // CHECK-NEXT: %1 = xnn.fully_connected(%x, %w, none) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<4x3xfp32>) -> !xnn.tensor<2x4xfp32>
  %1 = xnn.fully_connected(%x, %w, none) : (!xnn.tensor<2x3xfp32>, !xnn.tensor<4x3xfp32>) -> !xnn.tensor<2x4xfp32>
  // CHECK-NEXT: %2 = xnn.batch_matrix_multiply(%p, %q) : (!xnn.tensor<2x2x3xfp32>, !xnn.tensor<2x3x5xfp32>) -> !xnn.tensor<2x2x5xfp32>
  %2 = xnn.batch_matrix_multiply(%p, %q) : (!xnn.tensor<2x2x3xfp32>, !xnn.tensor<2x3x5xfp32>) -> !xnn.tensor<2x2x5xfp32>
  // CHECK-NEXT: %3 = xnn.scaled_dot_product_attention(%a, %a, %a, %s, %m) : (!xnn.tensor<1x2x4x8xfp32>, !xnn.tensor<1x2x4x8xfp32>, !xnn.tensor<1x2x4x8xfp32>, !xnn.tensor<8xfp32>, !xnn.tensor<4x4xfp32>) -> !xnn.tensor<1x2x4x8xfp32>
  %3 = xnn.scaled_dot_product_attention(%a, %a, %a, %s, %m) : (!xnn.tensor<1x2x4x8xfp32>, !xnn.tensor<1x2x4x8xfp32>, !xnn.tensor<1x2x4x8xfp32>, !xnn.tensor<8xfp32>, !xnn.tensor<4x4xfp32>) -> !xnn.tensor<1x2x4x8xfp32>
  func.return %3 : !xnn.tensor<1x2x4x8xfp32>
}

// Images are (N, H, W, C), filters (outputs, H, W, inputs of a group).
// CHECK-LABEL: func.func @images
func.func @images(%x: !xnn.tensor<1x8x8x4xfp32>, %w: !xnn.tensor<6x3x3x4xfp32>, %d: !xnn.tensor<1x3x3x4xfp32>, %b: !xnn.tensor<6xfp32>) -> !xnn.tensor<1x16x12x4xfp32> {
  // CHECK-NEXT: %0 = xnn.conv2d(%x, %w, %b, padding_top = 1, padding_right = 1, padding_bottom = 1, padding_left = 1, kernel_height = 3, kernel_width = 3, subsampling_height = 2, subsampling_width = 2, dilation_height = 1, dilation_width = 1, group_input_channels = 4, group_output_channels = 6, groups = 1, clamp = [0.0, inf]) : (!xnn.tensor<1x8x8x4xfp32>, !xnn.tensor<6x3x3x4xfp32>, !xnn.tensor<6xfp32>) -> !xnn.tensor<1x4x4x6xfp32>
  %0 = xnn.conv2d(%x, %w, %b, padding_top = 1, padding_right = 1, padding_bottom = 1, padding_left = 1, kernel_height = 3, kernel_width = 3, subsampling_height = 2, subsampling_width = 2, dilation_height = 1, dilation_width = 1, group_input_channels = 4, group_output_channels = 6, groups = 1, clamp = [0.0, inf]) : (!xnn.tensor<1x8x8x4xfp32>, !xnn.tensor<6x3x3x4xfp32>, !xnn.tensor<6xfp32>) -> !xnn.tensor<1x4x4x6xfp32>
  // CHECK-NEXT: %1 = xnn.depthwise_conv2d(%x, %d, none, padding_top = 1, padding_right = 1, padding_bottom = 1, padding_left = 1, kernel_height = 3, kernel_width = 3, subsampling_height = 2, subsampling_width = 2, dilation_height = 1, dilation_width = 1, group_input_channels = 1, group_output_channels = 1, groups = 4) : (!xnn.tensor<1x8x8x4xfp32>, !xnn.tensor<1x3x3x4xfp32>) -> !xnn.tensor<1x4x4x4xfp32>
  %1 = xnn.depthwise_conv2d(%x, %d, none, padding_top = 1, padding_right = 1, padding_bottom = 1, padding_left = 1, kernel_height = 3, kernel_width = 3, subsampling_height = 2, subsampling_width = 2, dilation_height = 1, dilation_width = 1, group_input_channels = 1, group_output_channels = 1, groups = 4) : (!xnn.tensor<1x8x8x4xfp32>, !xnn.tensor<1x3x3x4xfp32>) -> !xnn.tensor<1x4x4x4xfp32>
  // CHECK-NEXT: %2 = xnn.conv_transpose2d(%x, %w, none, padding_top = 1, padding_right = 1, padding_bottom = 1, padding_left = 1, kernel_height = 3, kernel_width = 3, subsampling_height = 2, subsampling_width = 2, dilation_height = 1, dilation_width = 1, group_input_channels = 4, group_output_channels = 6, groups = 1, adjustment_height = 1, adjustment_width = 1) : (!xnn.tensor<1x8x8x4xfp32>, !xnn.tensor<6x3x3x4xfp32>) -> !xnn.tensor<1x16x16x6xfp32>
  %2 = xnn.conv_transpose2d(%x, %w, none, padding_top = 1, padding_right = 1, padding_bottom = 1, padding_left = 1, kernel_height = 3, kernel_width = 3, subsampling_height = 2, subsampling_width = 2, dilation_height = 1, dilation_width = 1, group_input_channels = 4, group_output_channels = 6, groups = 1, adjustment_height = 1, adjustment_width = 1) : (!xnn.tensor<1x8x8x4xfp32>, !xnn.tensor<6x3x3x4xfp32>) -> !xnn.tensor<1x16x16x6xfp32>
  // CHECK-NEXT: %3 = xnn.avg_pooling2d(%x, pooling_height = 2, pooling_width = 2, stride_height = 2, stride_width = 2, dilation_height = 1, dilation_width = 1) : (!xnn.tensor<1x8x8x4xfp32>) -> !xnn.tensor<1x4x4x4xfp32>
  %3 = xnn.avg_pooling2d(%x, pooling_height = 2, pooling_width = 2, stride_height = 2, stride_width = 2, dilation_height = 1, dilation_width = 1) : (!xnn.tensor<1x8x8x4xfp32>) -> !xnn.tensor<1x4x4x4xfp32>
  // CHECK-NEXT: %4 = xnn.max_pooling2d(%x, pooling_height = 2, pooling_width = 2, stride_height = 2, stride_width = 2, dilation_height = 1, dilation_width = 1) : (!xnn.tensor<1x8x8x4xfp32>) -> !xnn.tensor<1x4x4x4xfp32>
  %4 = xnn.max_pooling2d(%x, pooling_height = 2, pooling_width = 2, stride_height = 2, stride_width = 2, dilation_height = 1, dilation_width = 1) : (!xnn.tensor<1x8x8x4xfp32>) -> !xnn.tensor<1x4x4x4xfp32>
  // CHECK-NEXT: %v, %i = xnn.arg_max_pooling2d(%x, pooling_height = 2, pooling_width = 2) : (!xnn.tensor<1x8x8x4xfp32>) -> (!xnn.tensor<1x4x4x4xfp32>, !xnn.tensor<1x4x4x4xfp32>)
  %v, %i = xnn.arg_max_pooling2d(%x, pooling_height = 2, pooling_width = 2) : (!xnn.tensor<1x8x8x4xfp32>) -> (!xnn.tensor<1x4x4x4xfp32>, !xnn.tensor<1x4x4x4xfp32>)
  // CHECK-NEXT: %5 = xnn.global_avg_pooling2d(%x) : (!xnn.tensor<1x8x8x4xfp32>) -> !xnn.tensor<1x4xfp32>
  %5 = xnn.global_avg_pooling2d(%x) : (!xnn.tensor<1x8x8x4xfp32>) -> !xnn.tensor<1x4xfp32>
  // CHECK-NEXT: %6 = xnn.static_resize_bilinear2d(%x, new_height = 16, new_width = 12) : (!xnn.tensor<1x8x8x4xfp32>) -> !xnn.tensor<1x16x12x4xfp32>
  %6 = xnn.static_resize_bilinear2d(%x, new_height = 16, new_width = 12) : (!xnn.tensor<1x8x8x4xfp32>) -> !xnn.tensor<1x16x12x4xfp32>
  func.return %6 : !xnn.tensor<1x16x12x4xfp32>
}

// Elements in other places: a size of 0 is the rest.
// CHECK-LABEL: func.func @moves
func.func @moves(%x: !xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<2x15x4xfp32> {
  // CHECK-NEXT: %0 = xnn.static_transpose(%x, perm = [2, 0, 1]) : (!xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<4x2x3xfp32>
  %0 = xnn.static_transpose(%x, perm = [2, 0, 1]) : (!xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<4x2x3xfp32>
  // CHECK-NEXT: %1 = xnn.static_reshape(%x, new_shape = [6, 0]) : (!xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<6x4xfp32>
  %1 = xnn.static_reshape(%x, new_shape = [6, 0]) : (!xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<6x4xfp32>
  // CHECK-NEXT: %2 = xnn.static_slice(%x, offsets = [0, 1, 0], sizes = [0, 2, 3]) : (!xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<2x2x3xfp32>
  %2 = xnn.static_slice(%x, offsets = [0, 1, 0], sizes = [0, 2, 3]) : (!xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<2x2x3xfp32>
  // CHECK-NEXT: %3 = xnn.static_constant_pad(%x, pre_paddings = [0, 1, 0], post_paddings = [0, 0, 2], padding_value = 0.5) : (!xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<2x4x6xfp32>
  %3 = xnn.static_constant_pad(%x, pre_paddings = [0, 1, 0], post_paddings = [0, 0, 2], padding_value = 0.5) : (!xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<2x4x6xfp32>
  // CHECK-NEXT: %4 = xnn.concatenate2(%x, %x, axis = 1) : (!xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<2x6x4xfp32>
  %4 = xnn.concatenate2(%x, %x, axis = 1) : (!xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<2x6x4xfp32>
  // CHECK-NEXT: %5 = xnn.concatenate3(%x, %x, %x, axis = 1) : (!xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<2x9x4xfp32>
  %5 = xnn.concatenate3(%x, %x, %x, axis = 1) : (!xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<2x9x4xfp32>
  // CHECK-NEXT: %6 = xnn.concatenate4(%x, %x, %x, %x, axis = 1) : (!xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<2x12x4xfp32>
  %6 = xnn.concatenate4(%x, %x, %x, %x, axis = 1) : (!xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<2x12x4xfp32>
  // CHECK-NEXT: %7 = xnn.concatenate5(%x, %x, %x, %x, %x, axis = 1) : (!xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<2x15x4xfp32>
  %7 = xnn.concatenate5(%x, %x, %x, %x, %x, axis = 1) : (!xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>, !xnn.tensor<2x3x4xfp32>) -> !xnn.tensor<2x15x4xfp32>
  func.return %7 : !xnn.tensor<2x15x4xfp32>
}
