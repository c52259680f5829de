// RUN: et-opt --decompose-aten --split-input-file %s | filecheck %s
// RUN: et-opt -p 'decompose-aten{target=none}' --split-input-file %s | filecheck %s --check-prefix=WHOLE
// RUN: et-opt -p 'decompose-aten{keep=aten.silu.default}' --split-input-file %s | filecheck %s --check-prefix=KEEP
// RUN: et-opt -p 'decompose-aten{only=conv}' --split-input-file %s | filecheck %s --check-prefix=ONLY
// RUN: et-opt --decompose-aten --split-input-file --print-debuginfo %s | filecheck %s --check-prefix=LOC

// An activation becomes core operators, at the location of the one that it was.
// CHECK-LABEL: func.func @silu
// KEEP-LABEL: func.func @silu
// ONLY-LABEL: func.func @silu
// LOC-LABEL: func.func @silu
func.func @silu(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  // CHECK-NEXT: %[[S:.*]] = aten.sigmoid.default(%x)
  // CHECK-NEXT: %[[Y:.*]] = aten.mul.Tensor(%x, %[[S]])
  // CHECK-NEXT: func.return %[[Y]]
  // KEEP-NEXT: aten.silu.default
  // ONLY-NEXT: aten.silu.default
  // LOC: aten.sigmoid.default{{.*}} loc("model.py":12:4)
  // LOC-NEXT: aten.mul.Tensor{{.*}} loc("model.py":12:4)
  %0 = aten.silu.default(%x) : (tensor<2x8xf32>) -> tensor<2x8xf32> loc("model.py":12:4)
  func.return %0 : tensor<2x8xf32>
}

// -----

// A convolution takes its core form; an input without a batch dim gets one.
// CHECK-LABEL: func.func @conv
// ONLY-LABEL: func.func @conv
func.func @conv(%x: tensor<3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<4x6x6xf32> {
  // CHECK-NEXT: %[[X:.*]] = aten.unsqueeze.default(%x, dim = 0)
  // CHECK-NEXT: %[[C:.*]] = aten.convolution.default(%[[X]], %w, stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1)
  // CHECK-NEXT: %[[Y:.*]] = aten.squeeze.dims(%[[C]], dim = [0])
  // CHECK-NEXT: func.return %[[Y]]
  // ONLY: aten.convolution.default
  %0 = aten.conv2d.default(%x, %w) : (tensor<3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<4x6x6xf32>
  func.return %0 : tensor<4x6x6xf32>
}

// -----

// The target has a kernel for linear, so that the weight is not transposed; without a target it is a product.
// CHECK-LABEL: func.func @linear
// WHOLE-LABEL: func.func @linear
func.func @linear(%x: tensor<2x5x4xf32>, %w: tensor<3x4xf32>, %b: tensor<3xf32>) -> tensor<2x5x3xf32> {
  // CHECK-NEXT: aten.linear.default(%x, %w, %b)
  // WHOLE-NEXT: %[[X:.*]] = aten.view.default(%x, size = [10, 4])
  // WHOLE-NEXT: %[[W:.*]] = aten.permute.default(%w, dims = [1, 0])
  // WHOLE-NEXT: %[[Y:.*]] = aten.addmm.default(%b, %[[X]], %[[W]])
  // WHOLE-NEXT: aten.view.default(%[[Y]], size = [2, 5, 3])
  %0 = aten.linear.default(%x, %w, %b) : (tensor<2x5x4xf32>, tensor<3x4xf32>, tensor<3xf32>) -> tensor<2x5x3xf32>
  func.return %0 : tensor<2x5x3xf32>
}

// -----

// A reshape with one runtime size needs no arithmetic.
sym.dim @s0 in [1, 8]
// CHECK-LABEL: func.func @flatten
func.func @flatten(%x: tensor<?x3x4xf32, #et.layout<dims = [s0, 3, 4]>>) -> tensor<?x12xf32, #et.layout<dims = [s0, 12]>> {
  // CHECK-NEXT: aten.view.default(%x, size = [-1, 12])
  // CHECK-NEXT: func.return
  %0 = aten.flatten.using_ints(%x, start_dim = 1) : (tensor<?x3x4xf32, #et.layout<dims = [s0, 3, 4]>>) -> tensor<?x12xf32, #et.layout<dims = [s0, 12]>>
  func.return %0 : tensor<?x12xf32, #et.layout<dims = [s0, 12]>>
}

// -----

// Attention without a mask: a scaled query, two products and a softmax.
// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<1x2x5x4xf32>, %k: tensor<1x2x7x4xf32>, %v: tensor<1x2x7x4xf32>) -> tensor<1x2x5x4xf32> {
  // CHECK-NEXT: %[[Q:.*]] = aten.mul.Scalar(%q, other = 0.5)
  // CHECK-NEXT: %[[K:.*]] = aten.permute.default(%k, dims = [0, 1, 3, 2])
  // CHECK: %[[S:.*]] = aten.bmm.default
  // CHECK: %[[P:.*]] = aten._softmax.default
  // CHECK: aten.bmm.default
  // CHECK-NOT: aten.where
  // CHECK: func.return
  %0 = aten.scaled_dot_product_attention.default(%q, %k, %v) : (tensor<1x2x5x4xf32>, tensor<1x2x7x4xf32>, tensor<1x2x7x4xf32>) -> tensor<1x2x5x4xf32>
  func.return %0 : tensor<1x2x5x4xf32>
}

// -----

// A mask that comes from outside may hide a whole row: such a row hides nothing, and its result is multiplied by 0.
// CHECK-LABEL: func.func @masked
func.func @masked(%q: tensor<2x5x4xf32>, %m: tensor<5x5xi1>) -> tensor<2x5x4xf32> {
  // CHECK: %[[V:.*]] = aten.any.dim(%m, dim = 1, keepdim = true)
  // CHECK: %[[HIDDEN:.*]] = aten.logical_not.default(%[[V]])
  // CHECK: %[[SHOWN:.*]] = aten.logical_or.default(%m, %[[HIDDEN]])
  // CHECK: %[[MASK:.*]] = aten.where.self(%[[SHOWN]]
  // CHECK: %[[FACTOR:.*]] = aten._to_copy.default(%[[V]], dtype = f32)
  // CHECK: aten.add.Tensor({{.*}}, %[[MASK]])
  // CHECK: aten._softmax.default
  // CHECK: aten.mul.Tensor({{.*}}, %[[FACTOR]])
  %0 = aten.scaled_dot_product_attention.default(%q, %q, %q, %m) : (tensor<2x5x4xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>, tensor<5x5xi1>) -> tensor<2x5x4xf32>
  func.return %0 : tensor<2x5x4xf32>
}

// -----

// A causal mask leaves each row its own position: nothing guards against hidden rows.
// CHECK-LABEL: func.func @causal
func.func @causal(%q: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {
  // CHECK: %[[M:.*]] = aten.le.Tensor
  // CHECK: %[[MASK:.*]] = aten.where.self(%[[M]]
  // CHECK: aten.add.Tensor({{.*}}, %[[MASK]])
  // CHECK-NOT: aten.any
  // CHECK: func.return
  %0 = aten.scaled_dot_product_attention.default(%q, %q, %q, is_causal = true) : (tensor<2x5x4xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>) -> tensor<2x5x4xf32>
  func.return %0 : tensor<2x5x4xf32>
}

// -----

// Heads that share keys and values are more rows of queries; the repetition of keys and values disappears.
// CHECK-LABEL: func.func @shared_heads
func.func @shared_heads(%q: tensor<1x4x5x8xf32>, %kv: tensor<1x2x7x8xf32>) -> tensor<1x4x5x8xf32> {
  // CHECK-NOT: aten.expand
  // CHECK: aten.view.default({{.*}}, size = [1, 2, 10, 8])
  // CHECK: aten.bmm.default
  // CHECK-NOT: aten.expand
  // CHECK: func.return
  %0 = aten.repeat_interleave.self_int(%kv, repeats = 2, dim = 1) : (tensor<1x2x7x8xf32>) -> tensor<1x4x7x8xf32>
  %1 = aten.scaled_dot_product_attention.default(%q, %0, %0) : (tensor<1x4x5x8xf32>, tensor<1x4x7x8xf32>, tensor<1x4x7x8xf32>) -> tensor<1x4x5x8xf32>
  func.return %1 : tensor<1x4x5x8xf32>
}

// -----

// Dropout is nothing in inference.
// CHECK-LABEL: func.func @dropout
func.func @dropout(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: func.return %x
  %0 = aten.dropout.default(%x, p = 0.5, train = false) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

// A narrow type computes in f32 where torch does.
// CHECK-LABEL: func.func @narrow
func.func @narrow(%x: tensor<4xf16>) -> tensor<4xf16> {
  // CHECK-NEXT: aten._to_copy.default(%x, dtype = f32)
  // CHECK: aten.tanh.default({{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: aten._to_copy.default({{.*}}, dtype = f16)
  %0 = aten.mish.default(%x) : (tensor<4xf16>) -> tensor<4xf16>
  func.return %0 : tensor<4xf16>
}

// -----

// Groups that do not divide a row have no meaning: the operator stays as it is.
et.schema "quantized_decomposed::quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size) -> Tensor"

// CHECK-LABEL: func.func @no_whole_groups
func.func @no_whole_groups(%x: tensor<2x10xf32>, %s: tensor<2x1xf32>, %z: tensor<2x1xi8>) -> tensor<2x10xi8> {
  // CHECK: quantized_decomposed.quantize_per_channel_group.default
  %0 = quantized_decomposed.quantize_per_channel_group.default(%x, %s, %z, quant_min = -8, quant_max = 7, dtype = i8, group_size = 4) : (tensor<2x10xf32>, tensor<2x1xf32>, tensor<2x1xi8>) -> tensor<2x10xi8>
  func.return %0 : tensor<2x10xi8>
}
