// RUN: %roundtrip
// RUN: %generic

// CHECK-LABEL: func.func @tensors_by_position
func.func @tensors_by_position(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<4xf32>) {
  // An argument that equals its default is left out.
  // CHECK: aten.conv2d.default(%x, %w, %b) :
  %0 = aten.conv2d.default(%x, %w, %b, stride = [1, 1], groups = 1) : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<1x4x6x6xf32>
  // So is a tensor that is missing at the end, whether or not the schema has a default for it.
  // CHECK-NEXT: aten.convolution.default(%x, %w, stride = [2, 2], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) :
  %1 = aten.convolution.default(%x, %w, none, stride = [2, 2], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x4x4xf32>
  // CHECK-NEXT: aten.conv2d.default(%x, %w) :
  %2 = aten.conv2d.default(%x, %w, none) : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  // A tensor that is missing between others is none.
  // CHECK-NEXT: aten.clamp.Tensor(%b, none, %b) :
  %3 = aten.clamp.Tensor(%b, none, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// CHECK-LABEL: func.func @literals
func.func @literals(%x: tensor<2x4xf32>) {
  // CHECK-NEXT: aten.softmax.int(%x, dim = -1) :
  %0 = aten.softmax.int(%x, dim = -1) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: aten.layer_norm.default(%x, normalized_shape = [4], eps = 1.0e-12) :
  %1 = aten.layer_norm.default(%x, normalized_shape = [4], eps = 1.0e-12) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: aten.to.dtype(%x, dtype = f16) :
  %2 = aten.to.dtype(%x, dtype = f16) : (tensor<2x4xf32>) -> tensor<2x4xf16>
  // CHECK-NEXT: aten.gelu.default(%x, approximate = "tanh") :
  %3 = aten.gelu.default(%x, approximate = "tanh") : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: aten.clone.default(%x, memory_format = contiguous_format) :
  %4 = aten.clone.default(%x, memory_format = contiguous_format) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: aten.full.default(size = [2, 4], fill_value = -inf, dtype = f32) :
  %5 = aten.full.default(size = [2, 4], fill_value = -inf, dtype = f32) : () -> tensor<2x4xf32>
  // Scalar keeps int, float and bool apart: torch promotes them differently.
  // CHECK-NEXT: aten.full.default(size = [], fill_value = 1) :
  %6 = aten.full.default(size = [], fill_value = 1) : () -> tensor<i64>
  // CHECK-NEXT: aten.full.default(size = [], fill_value = 1.0) :
  %7 = aten.full.default(size = [], fill_value = 1.0) : () -> tensor<f32>
  // CHECK-NEXT: aten.full.default(size = [], fill_value = true) :
  %8 = aten.full.default(size = [], fill_value = true) : () -> tensor<i1>
  // CHECK-NEXT: aten.full.default(size = [], fill_value = complex(1.0, -2.5)) :
  %9 = aten.full.default(size = [], fill_value = complex(1.0, -2.5)) : () -> tensor<complex<f32>>
  // CHECK-NEXT: aten.full.default(size = [], fill_value = nan) :
  %10 = aten.full.default(size = [], fill_value = nan) : () -> tensor<f32>
  // CHECK-NEXT: aten.sum.dim_IntList(%x, keepdim = true) :
  %11 = aten.sum.dim_IntList(%x, dim = none, keepdim = true) : (tensor<2x4xf32>) -> tensor<1x1xf32>
  // A number in a tensor slot, as the user wrote it.
  // CHECK-NEXT: aten.add.Tensor(%x, 2.5, alpha = 2) :
  %12 = aten.add.Tensor(%x, 2.5, alpha = 2) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: aten.relu.default(%x) {fast = true} :
  %13 = aten.relu.default(%x) {fast = true} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return
}

// CHECK-LABEL: func.func @lists
func.func @lists(%x: tensor<2x4xf32>, %i: tensor<3xi64>) {
  // CHECK-NEXT: aten.cat.default([%x, %x], dim = 1) :
  %0 = aten.cat.default([%x, %x], dim = 1) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x8xf32>
  // CHECK-NEXT: aten.index.Tensor(%x, [none, %i]) :
  %1 = aten.index.Tensor(%x, [none, %i]) : (tensor<2x4xf32>, tensor<3xi64>) -> tensor<2x3xf32>
  // One result for each tensor of a list.
  // CHECK-NEXT: %2, %3 = aten.split.Tensor(%x, split_size = 2, dim = 1) : (tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
  %2, %3 = aten.split.Tensor(%x, split_size = 2, dim = 1) : (tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
  // CHECK-NEXT: %4, %5 = aten.max.dim(%x, dim = 1) : (tensor<2x4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
  %4, %5 = aten.max.dim(%x, dim = 1) : (tensor<2x4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
  func.return
}

// CHECK-LABEL: func.func @effects
func.func @effects(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: aten.add_.Tensor(%x, %x) :
  %0 = aten.add_.Tensor(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: aten.rand_like.default(%x) :
  %1 = aten.rand_like.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// -----

// Runtime scalars are operands in their place.

sym.dim @s0 in [1, 64]

// CHECK-LABEL: func.func @run_time_numbers
func.func @run_time_numbers(%x: tensor<?x4x32xf32, #et.layout<dims = [s0, 4, 32]>>) -> tensor<?x128xf32, #et.layout<dims = [s0, 128]>> {
  // CHECK-NEXT: %n = aten.sym_size.int(%x, dim = 0) : (tensor<?x4x32xf32, #et.layout<dims = [s0, 4, 32]>>) -> i64
  %n = aten.sym_size.int(%x, dim = 0) : (tensor<?x4x32xf32, #et.layout<dims = [s0, 4, 32]>>) -> i64
  // CHECK-NEXT: aten.view.default(%x, size = [%n, 128]) : (tensor<?x4x32xf32, #et.layout<dims = [s0, 4, 32]>>, i64) -> tensor<?x128xf32, #et.layout<dims = [s0, 128]>>
  %0 = aten.view.default(%x, size = [%n, 128]) : (tensor<?x4x32xf32, #et.layout<dims = [s0, 4, 32]>>, i64) -> tensor<?x128xf32, #et.layout<dims = [s0, 128]>>
  func.return %0 : tensor<?x128xf32, #et.layout<dims = [s0, 128]>>
}

// -----

// Operators of other libraries carry their schema; what has none is opaque.

// CHECK: et.schema "mylib::scale(Tensor x, float by=2.0) -> Tensor"
et.schema "mylib::scale(Tensor x, float by=2.0) -> Tensor"

// CHECK-LABEL: func.func @custom
func.func @custom(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: mylib.scale.default(%x, by = 3.0) :
  %0 = mylib.scale.default(%x, by = 3.0) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: aten.opaque "triton.add_kernel"(%0) {reason = "no schema"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.opaque "triton.add_kernel"(%0) {reason = "no schema"} : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
