// RUN: not et-opt -p verify-calls --split-input-file %s 2>&1 | filecheck %s
// RUN: not et-opt -p 'verify-calls{target=nowhere}' %s 2>&1 | filecheck %s --check-prefix=TARGET

// TARGET: error[E0601]: {{.*}}'nowhere'

// Instructions that were changed by hand, one mistake each. The first method is right and says nothing.
et.method @correct pools [0, 96] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  %a = et.buffer at <1, 32> : tensor<8xf32>
  %y = et.buffer at <1, 64> : tensor<8xf32>
  et.inputs %x
  et.call "aten::relu.out"(%x, %a) -> %a
  et.call "aten::add.out"(%a, %x, 1, %y) -> %y
  et.return %y
}

// -----

// CHECK-NOT: correct
// CHECK: error[E0603]: executorch 1.5.1 has no kernel 'aten::rleu.out'
// CHECK: help: nearest kernels: {{.*}}aten::relu.out
et.method @unknown_kernel pools [0, 64] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  %a = et.buffer at <1, 32> : tensor<8xf32>
  et.inputs %x
  et.call "aten::rleu.out"(%x, %a) -> %a
  et.return %a
}

// -----

// CHECK: error[E0309]: 'aten::add.out' takes 4 arguments (self, other, alpha, out), 3 are given
et.method @missing_argument pools [0, 64] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  %a = et.buffer at <1, 32> : tensor<8xf32>
  et.inputs %x
  et.call "aten::add.out"(%x, %x, %a) -> %a
  et.return %a
}

// -----

// CHECK: error[E0309]: 'aten::add.out' argument 'alpha' takes Scalar, not %x, a tensor<8xf32>
et.method @wrong_kind pools [0, 64] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  %a = et.buffer at <1, 32> : tensor<8xf32>
  et.inputs %x
  et.call "aten::add.out"(%x, %x, %x, %a) -> %a
  et.return %a
}

// -----

// CHECK: error[E0309]: 'aten::relu.out' names another result after '->' than the tensors that it writes
et.method @result_slot pools [0, 96] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  %a = et.buffer at <1, 32> : tensor<8xf32>
  %b = et.buffer at <1, 64> : tensor<8xf32>
  et.inputs %x
  et.call "aten::relu.out"(%x, %a) -> %b
  et.return %a
}

// -----

// CHECK: error[E0309]: 'aten::relu.out' has no result slot: write '-> %out' after its arguments
et.method @no_slot pools [0, 64] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  %a = et.buffer at <1, 32> : tensor<8xf32>
  et.inputs %x
  et.call "aten::relu.out"(%x, %a)
  et.return %a
}

// -----

// The result goes into a buffer that nobody reads, and the one that is read holds nothing.
// CHECK: error[E0308]: 'aten::neg.out' reads %a of type tensor<8xf32>, which nothing before it writes
et.method @wrong_result pools [0, 128] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  %a = et.buffer at <1, 32> : tensor<8xf32>
  %b = et.buffer at <1, 64> : tensor<8xf32>
  %y = et.buffer at <1, 96> : tensor<8xf32>
  et.inputs %x
  et.call "aten::relu.out"(%x, %b) -> %b
  et.call "aten::neg.out"(%a, %y) -> %y
  et.return %y
}

// -----

// CHECK: error[E0309]: 'aten::mm.out' writes %y of type tensor<2x4xf32>; its rule gives tensor<2x5xf32>
et.method @sizes pools [0, 160] {
  %x = et.buffer at <1, 0> : tensor<2x3xf32>
  %w = et.buffer at <1, 32> : tensor<3x5xf32>
  %y = et.buffer at <1, 96> : tensor<2x4xf32>
  et.inputs %x, %w
  et.call "aten::mm.out"(%x, %w, %y) -> %y
  et.return %y
}

// -----

// CHECK: error[E0309]: 'aten::mm.out' writes %x of type tensor<3x3xf32> over argument 'self', which it reads
et.method @over_an_operand pools [0, 48] {
  %x = et.buffer at <1, 0> : tensor<3x3xf32>
  et.inputs %x
  et.call "aten::mm.out"(%x, %x, %x) -> %x
  et.return %x
}

// -----

// CHECK: error[E0604]: kernel 'aten::mm.out' of executorch 1.5.1: unsupported dtypes
et.method @dtypes pools [0, 96] {
  %x = et.buffer at <1, 0> : tensor<3x3xf32>
  %w = et.buffer at <1, 48> : tensor<3x3xf16>
  %y = et.buffer at <1, 0> : tensor<3x3xf32>
  et.inputs %x, %w
  et.call "aten::mm.out"(%x, %w, %y) -> %y
  et.return %y
}

// -----

// CHECK: error[E0309]: 'aten::relu.out' writes %w of type tensor<2xf32>, which is a constant
et.weight @w : tensor<2xf32> = #et.synthetic<seed = 7>
et.method @constant pools [0, 16] {
  %x = et.buffer at <1, 0> : tensor<2xf32>
  %w = et.get_weight @w : tensor<2xf32>
  et.inputs %x
  et.call "aten::relu.out"(%x, %w) -> %w
  et.return %w
}

// -----

// CHECK: error[E0309]: 'et.inputs' names %x of type tensor<2xf32> twice: one input would overwrite the other
et.method @inputs pools [0, 16] {
  %x = et.buffer at <1, 0> : tensor<2xf32>
  et.inputs %x, %x
  et.return %x
}

// -----

// CHECK: error[E0309]: 'executorch_prim::et_view.default' points %v {{.*}} at %a {{.*}}, but it is a view of %x
et.method @view pools [0, 64] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  %a = et.buffer at <1, 32> : tensor<8xf32>
  %v = et.view %x late : tensor<2x4xf32>
  et.inputs %x, %a
  et.call "executorch_prim::et_view.default"(%a, ints[2, 4], %v)
  et.return %v
}

// -----

// CHECK: error[E0309]: 'aten::sym_size.int' writes its result into 3, which is no et.scalar
et.method @number pools [0, 64] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  et.inputs %x
  et.call "aten::sym_size.int"(%x, 0, 3)
  et.return %x
}

// -----

// A library that is not linked, and one of the user's own that nothing describes.
// CHECK: error[E0605]: kernel 'quantized_decomposed::dequantize_per_tensor.out' is in library 'quantized', which is not linked
et.method @library pools [0, 64] {
  %x = et.buffer at <1, 0> : tensor<8xi8>
  %y = et.buffer at <1, 16> : tensor<8xf32>
  %z = et.buffer at <1, 48> : tensor<2xf32>
  et.inputs %x
  et.call "quantized_decomposed::dequantize_per_tensor.out"(%x, 0.5, 0, -128, 127, 1, none, %y) -> %y
  et.call "mylib::anything.out"(%y, %z) -> %z
  et.return %z
}

// -----

// CHECK: error[E0309]: 'aten::slice_copy.Tensor_out' takes operands that do not fit: a step, a stride or a count that sizes are divided by is 0
et.method @step pools [0, 64] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  %y = et.buffer at <1, 32> : tensor<4xf32>
  et.inputs %x
  et.call "aten::slice_copy.Tensor_out"(%x, 0, 0, 4, 0, %y) -> %y
  et.return %y
}
