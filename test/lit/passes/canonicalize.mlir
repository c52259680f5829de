// RUN: et-opt --canonicalize %s | filecheck %s
// RUN: et-opt --canonicalize --canonicalize %s | filecheck %s

sym.dim @s in [1, 8]

// --- copy-to-same-type: a copy whose result has its operand's type gives the operand ---------------------------------

// CHECK-LABEL: func.func @copies
func.func @copies(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: func.return %x
  %0 = edge.dim_order_ops._clone_dim_order.default(%x, dim_order = [0, 1]) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = edge.aten.view_copy.default(%0, size = [2, 3]) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = edge.aten.expand_copy.default(%1, size = [2, 3]) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = edge.aten.squeeze_copy.dims(%2, dim = [0]) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %3 : tensor<2x3xf32>
}

// A cast and a change of dim order stay.
// CHECK-LABEL: func.func @copies_that_change
func.func @copies_that_change(%x: tensor<1x2x3x4xf32>) -> (tensor<1x2x3x4xf16>, tensor<1x2x3x4xf32, #et.layout<order = [0, 2, 3, 1]>>) {
  // CHECK-COUNT-2: edge.dim_order_ops._to_dim_order_copy.default
  %0 = edge.dim_order_ops._to_dim_order_copy.default(%x, dtype = f16, dim_order = [0, 1, 2, 3]) : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf16>
  %1 = edge.dim_order_ops._to_dim_order_copy.default(%x, dim_order = [0, 2, 3, 1]) : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32, #et.layout<order = [0, 2, 3, 1]>>
  func.return %0, %1 : tensor<1x2x3x4xf16>, tensor<1x2x3x4xf32, #et.layout<order = [0, 2, 3, 1]>>
}

// --- reshape-of-reshape: only the last one matters -------------------------------------------------------------------

// CHECK-LABEL: func.func @reshapes
func.func @reshapes(%x: tensor<2x6xf32>) -> tensor<4x3xf32> {
  // CHECK-NEXT: %[[R:.*]] = edge.aten.view_copy.default(%x, size = [4, 3])
  // CHECK-NEXT: func.return %[[R]]
  %0 = edge.aten.view_copy.default(%x, size = [12]) : (tensor<2x6xf32>) -> tensor<12xf32>
  %1 = edge.aten.unsqueeze_copy.default(%0, dim = 0) : (tensor<12xf32>) -> tensor<1x12xf32>
  %2 = edge.aten.view_copy.default(%1, size = [4, 3]) : (tensor<1x12xf32>) -> tensor<4x3xf32>
  func.return %2 : tensor<4x3xf32>
}

// There and back again is nothing.
// CHECK-LABEL: func.func @there_and_back
func.func @there_and_back(%x: tensor<2x6xf32>) -> tensor<2x6xf32> {
  // CHECK-NEXT: func.return %x
  %0 = edge.aten.view_copy.default(%x, size = [12]) : (tensor<2x6xf32>) -> tensor<12xf32>
  %1 = edge.aten.view_copy.default(%0, size = [2, 6]) : (tensor<12xf32>) -> tensor<2x6xf32>
  func.return %1 : tensor<2x6xf32>
}

// --- permutation-of-permutation --------------------------------------------------------------------------------------

// CHECK-LABEL: func.func @permutations
func.func @permutations(%x: tensor<2x3x4xf32>) -> (tensor<3x4x2xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  // CHECK-NEXT: %[[P:.*]] = edge.aten.permute_copy.default(%x, dims = [1, 2, 0])
  // CHECK-NEXT: func.return %[[P]], %x, %x
  %0 = edge.aten.transpose_copy.int(%x, dim0 = 0, dim1 = 1) : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
  %1 = edge.aten.permute_copy.default(%0, dims = [0, 2, 1]) : (tensor<3x2x4xf32>) -> tensor<3x4x2xf32>
  %2 = edge.aten.transpose_copy.int(%0, dim0 = -3, dim1 = -2) : (tensor<3x2x4xf32>) -> tensor<2x3x4xf32>
  %3 = edge.aten.permute_copy.default(%x, dims = [0, -2, 2]) : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  func.return %1, %2, %3 : tensor<3x4x2xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>
}

// --- slice-of-everything, cat-of-one, padding-by-nothing, product-with-one -------------------------------------------

// CHECK-LABEL: func.func @nothing_happens
func.func @nothing_happens(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: func.return %x
  %0 = edge.aten.slice_copy.Tensor(%x, dim = 1, start = 0, end = 9223372036854775807) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = edge.aten.cat.default([%0]) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = edge.aten.constant_pad_nd.default(%1, pad = [0, 0, 0, 0]) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = edge.aten.mul.Scalar(%2, other = 1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = edge.aten.div.Scalar(%3, other = 1.0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %4 : tensor<2x3xf32>
}

// An integer times 1.0 is a float, 0.0 + x is not x for x = -0.0, and half of a tensor is not the tensor.
// CHECK-LABEL: func.func @something_happens
func.func @something_happens(%n: tensor<2xi64>, %x: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2x3xf32>, tensor<1x3xf32>, tensor<2x3xf32>) {
  // CHECK-NEXT: edge.aten.mul.Scalar
  // CHECK-NEXT: edge.aten.add.Scalar
  // CHECK-NEXT: edge.aten.slice_copy.Tensor
  // CHECK-NEXT: edge.aten.mul.Scalar
  %0 = edge.aten.mul.Scalar(%n, other = 1.0) : (tensor<2xi64>) -> tensor<2xf32>
  %1 = edge.aten.add.Scalar(%x, other = 0.0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = edge.aten.slice_copy.Tensor(%x, dim = 0, start = 0, end = 2, step = 2) : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %3 = edge.aten.mul.Scalar(%x, other = -1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %0, %1, %2, %3 : tensor<2xf32>, tensor<2x3xf32>, tensor<1x3xf32>, tensor<2x3xf32>
}

// --- cat-with-nothing, expanded-mask ---------------------------------------------------------------------------------

// What has no elements adds nothing: a cache of shape (0), or one with the other dims in place.
// CHECK-LABEL: func.func @cat_with_nothing
func.func @cat_with_nothing(%x: tensor<2x3xf32>, %y: tensor<2x1xf32>, %e: tensor<0xf32>, %z: tensor<2x0xf32>) -> (tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x0xf32>) {
  // CHECK-NEXT: %[[C:.*]] = edge.aten.cat.default([%x, %y], dim = -1)
  // CHECK-NEXT: %[[E:.*]] = edge.aten.cat.default([%z, %z], dim = 1)
  // CHECK-NEXT: func.return %x, %[[C]], %[[E]]
  %0 = edge.aten.cat.default([%e, %x], dim = -2) : (tensor<0xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = edge.aten.cat.default([%z, %x, %e, %y], dim = -1) : (tensor<2x0xf32>, tensor<2x3xf32>, tensor<0xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %2 = edge.aten.cat.default([%z, %z], dim = 1) : (tensor<2x0xf32>, tensor<2x0xf32>) -> tensor<2x0xf32>
  func.return %0, %1, %2 : tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x0xf32>
}

// It decides the type of the result.
// CHECK-LABEL: func.func @cat_with_another_type
func.func @cat_with_another_type(%n: tensor<2xi64>, %e: tensor<0xf32>) -> tensor<2xf32> {
  // CHECK-NEXT: edge.aten.cat.default([%e, %n])
  %0 = edge.aten.cat.default([%e, %n]) : (tensor<0xf32>, tensor<2xi64>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}

// CHECK-LABEL: func.func @expanded_mask
func.func @expanded_mask(%m: tensor<2x1x1x3xi1>, %x: tensor<2x4x3x3xf32>, %s: tensor<f32>) -> (tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) {
  // CHECK-NEXT: %[[A:.*]] = edge.aten.masked_fill.Scalar(%x, %m, value = -1.0)
  // CHECK-NEXT: %[[B:.*]] = edge.aten.where.self(%m, %s, %x)
  // CHECK-NEXT: %[[W:.*]] = edge.aten.where.self(%m, %s, %s)
  // CHECK-NEXT: %[[C:.*]] = edge.aten.expand_copy.default(%[[W]], size = [2, 4, 3, 3])
  // CHECK-NEXT: func.return %[[A]], %[[B]], %[[C]]
  %0 = edge.aten.expand_copy.default(%m, size = [2, 4, 3, 3]) : (tensor<2x1x1x3xi1>) -> tensor<2x4x3x3xi1>
  %1 = edge.aten.masked_fill.Scalar(%x, %0, value = -1.0) : (tensor<2x4x3x3xf32>, tensor<2x4x3x3xi1>) -> tensor<2x4x3x3xf32>
  %2 = edge.aten.where.self(%0, %s, %x) : (tensor<2x4x3x3xi1>, tensor<f32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %3 = edge.aten.where.self(%0, %s, %s) : (tensor<2x4x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x4x3x3xf32>
  func.return %1, %2, %3 : tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>
}

// --- and-with-true, choice-of-numbers, index-of-everything -----------------------------------------------------------

// What is true everywhere says nothing, and what is chosen by it alone is as small as the other truth values.
// CHECK-LABEL: func.func @and_with_true
func.func @and_with_true(%x: tensor<1x1x1x3xi1>, %y: tensor<1x1x2x3xi1>) -> (tensor<1x1x2x3xf32>, tensor<1x1x2x3xi1>) {
  %true = et.constant dense<true> : tensor<1x1x2x1xi1>
  %zero = et.constant dense<0.0> : tensor<f32>
  %low = et.constant dense<-1.0> : tensor<f32>
  // CHECK: %[[W:.*]] = edge.aten.where.self(%x, %zero, %low)
  // CHECK-SAME: -> tensor<1x1x1x3xf32>
  // CHECK-NEXT: %[[E:.*]] = edge.aten.expand_copy.default(%[[W]], size = [1, 1, 2, 3])
  // CHECK-NEXT: func.return %[[E]], %y
  %0 = edge.aten.bitwise_and.Tensor(%true, %x) : (tensor<1x1x2x1xi1>, tensor<1x1x1x3xi1>) -> tensor<1x1x2x3xi1>
  %1 = edge.aten.where.self(%0, %zero, %low) : (tensor<1x1x2x3xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x2x3xf32>
  %2 = edge.aten.logical_and.default(%y, %true) : (tensor<1x1x2x3xi1>, tensor<1x1x2x1xi1>) -> tensor<1x1x2x3xi1>
  func.return %1, %2 : tensor<1x1x2x3xf32>, tensor<1x1x2x3xi1>
}

// One that is false counts, and numbers have other bits.
// CHECK-LABEL: func.func @and_with_others
func.func @and_with_others(%x: tensor<2xi1>, %n: tensor<2xi64>) -> (tensor<2xi1>, tensor<2xi64>) {
  %some = et.constant dense<[true, false]> : tensor<2xi1>
  %ones = et.constant dense<1> : tensor<2xi64>
  // CHECK-COUNT-2: edge.aten.bitwise_and.Tensor
  %0 = edge.aten.bitwise_and.Tensor(%x, %some) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  %1 = edge.aten.bitwise_and.Tensor(%n, %ones) : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  func.return %0, %1 : tensor<2xi1>, tensor<2xi64>
}

// A choice from a tensor, and of sizes known at run time, is not expanded later.
// CHECK-LABEL: func.func @choice_of_tensor
func.func @choice_of_tensor(%m: tensor<1x3xi1>, %x: tensor<1x3xf32>) -> tensor<2x3xf32> {
  %zero = et.constant dense<0.0> : tensor<f32>
  // CHECK: edge.aten.expand_copy.default(%m
  // CHECK-NEXT: edge.aten.where.self
  %0 = edge.aten.expand_copy.default(%m, size = [2, 3]) : (tensor<1x3xi1>) -> tensor<2x3xi1>
  %1 = edge.aten.where.self(%0, %x, %zero) : (tensor<2x3xi1>, tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  func.return %1 : tensor<2x3xf32>
}

// Keys of each batch, one after the other, as a mask of padding is read. From the end they are the same.
// CHECK-LABEL: func.func @index_of_everything
func.func @index_of_everything(%x: tensor<2x3xi1>) -> (tensor<2x1x1x3xi1>, tensor<2x3xi1>) {
  %batch = et.constant dense<[[[[0]]], [[[1]]]]> : tensor<2x1x1x1xi64>
  %key = et.constant dense<[[[[0, 1, -1]]]]> : tensor<1x1x1x3xi64>
  %rows = et.constant dense<[[0], [1]]> : tensor<2x1xi64>
  %columns = et.constant dense<[0, 1, 2]> : tensor<3xi64>
  // CHECK: %[[V:.*]] = edge.aten.view_copy.default(%x, size = [2, 1, 1, 3])
  // CHECK-NEXT: func.return %[[V]], %x
  %0 = edge.aten.index.Tensor(%x, [%batch, %key]) : (tensor<2x3xi1>, tensor<2x1x1x1xi64>, tensor<1x1x1x3xi64>) -> tensor<2x1x1x3xi1>
  %1 = edge.aten.index.Tensor(%x, [%rows, %columns]) : (tensor<2x3xi1>, tensor<2x1xi64>, tensor<3xi64>) -> tensor<2x3xi1>
  func.return %0, %1 : tensor<2x1x1x3xi1>, tensor<2x3xi1>
}

// Another order, a part, one dim for all, and an index that is not known.
// CHECK-LABEL: func.func @index_of_others
func.func @index_of_others(%x: tensor<2x2xf32>, %i: tensor<2xi64>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %rows = et.constant dense<[[0], [1]]> : tensor<2x1xi64>
  %columns = et.constant dense<[1, 0]> : tensor<2xi64>
  %plain = et.constant dense<[0, 1]> : tensor<2xi64>
  // CHECK-COUNT-4: edge.aten.index.Tensor
  %0 = edge.aten.index.Tensor(%x, [%rows, %columns]) : (tensor<2x2xf32>, tensor<2x1xi64>, tensor<2xi64>) -> tensor<2x2xf32>
  %1 = edge.aten.index.Tensor(%x, [%plain, %plain]) : (tensor<2x2xf32>, tensor<2xi64>, tensor<2xi64>) -> tensor<2xf32>
  %2 = edge.aten.index.Tensor(%x, [%plain]) : (tensor<2x2xf32>, tensor<2xi64>) -> tensor<2x2xf32>
  %3 = edge.aten.index.Tensor(%x, [%rows, %i]) : (tensor<2x2xf32>, tensor<2x1xi64>, tensor<2xi64>) -> tensor<2x2xf32>
  func.return %0, %1, %2, %3 : tensor<2x2xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// --- static-size, arithmetic-on-literals, literal-arguments ----------------------------------------------------------

// Sizes that the type knows reach the arguments that use them.
// CHECK-LABEL: func.func @sizes
func.func @sizes(%x: tensor<2x6xf32>) -> tensor<4x3xf32> {
  // CHECK: edge.aten.view_copy.default(%x, size = [4, 3])
  %0 = edge.aten.sym_size.int(%x, dim = 1) : (tensor<2x6xf32>) -> i64
  %1 = sym.constant 2
  %2 = sym.floordiv %0, %1 : (i64, i64) -> i64
  %3 = edge.aten.sym_numel.default(%x) : (tensor<2x6xf32>) -> i64
  %4 = sym.floordiv %3, %2 : (i64, i64) -> i64
  %5 = edge.aten.view_copy.default(%x, size = [%4, %2]) : (tensor<2x6xf32>, i64, i64) -> tensor<4x3xf32>
  func.return %5 : tensor<4x3xf32>
}

// A symbolic size is dynamic; the one beside it is static. Division by zero is left to fail there.
// CHECK-LABEL: func.func @symbolic_sizes
func.func @symbolic_sizes(%x: tensor<?x6xf32, #et.layout<dims = [s, 6]>>) -> (i64, i64, i64) {
  // CHECK-NEXT: %[[S:.*]] = edge.aten.sym_size.int(%x, dim = 0)
  %0 = edge.aten.sym_size.int(%x, dim = 0) : (tensor<?x6xf32, #et.layout<dims = [s, 6]>>) -> i64
  // CHECK-NEXT: %[[SIX:.*]] = sym.constant 6
  %1 = edge.aten.sym_size.int(%x, dim = -1) : (tensor<?x6xf32, #et.layout<dims = [s, 6]>>) -> i64
  %2 = sym.constant 0
  // CHECK: %[[D:.*]] = sym.floordiv
  %3 = sym.floordiv %1, %2 : (i64, i64) -> i64
  // CHECK-NEXT: func.return %[[S]], %[[SIX]], %[[D]]
  func.return %0, %1, %3 : i64, i64, i64
}

// A result that no 64-bit number holds stays an operation.
// CHECK-LABEL: func.func @too_large
func.func @too_large() -> (i64, f64) {
  %0 = sym.constant 9223372036854775807
  // CHECK: sym.mul
  %1 = sym.mul %0, %0 : (i64, i64) -> i64
  %2 = sym.constant -8.0 : f64
  %3 = sym.constant 0.5 : f64
  // CHECK: sym.pow
  %4 = sym.pow %2, %3 : (f64, f64) -> f64
  func.return %1, %4 : i64, f64
}

// --- assertion-that-holds --------------------------------------------------------------------------------------------

// CHECK-LABEL: func.func @assertions
func.func @assertions(%n: i64) {
  %0 = sym.constant true
  // CHECK-NOT: "always"
  sym.assert %0, "always"
  %1 = sym.constant 3
  %2 = sym.gt %n, %1 : (i64, i64) -> i1
  // CHECK: "sometimes"
  sym.assert %2, "sometimes"
  %3 = sym.constant false
  // CHECK: "never"
  sym.assert %3, "never"
  func.return
}

// --- windows-side-by-side, gather-of-rows, gather-of-repeated-rows, resize-to-same-size ------------------------------

// Patches of an image, and the image of patches.
// CHECK-LABEL: func.func @patches
func.func @patches(%x: tensor<2x3x4x6xf32>) -> (tensor<2x18x4xf32>, tensor<2x3x4x6xf32>) {
  // CHECK: %[[A:.*]] = edge.aten.view_copy.default(%x, size = [2, 3, 2, 2, 2, 3])
  // CHECK-NEXT: %[[B:.*]] = edge.aten.permute_copy.default(%[[A]], dims = [0, 1, 3, 5, 2, 4])
  // CHECK-NEXT: %[[C:.*]] = edge.aten.view_copy.default(%[[B]], size = [2, 18, 4])
  // CHECK-NOT: col2im
  %0 = edge.aten.im2col.default(%x, kernel_size = [2, 3], dilation = [1, 1], padding = [0, 0], stride = [2, 3]) : (tensor<2x3x4x6xf32>) -> tensor<2x18x4xf32>
  %1 = edge.aten.col2im.default(%0, output_size = [4, 6], kernel_size = [2, 3], dilation = [1, 1], padding = [0, 0], stride = [2, 3]) : (tensor<2x18x4xf32>) -> tensor<2x3x4x6xf32>
  func.return %0, %1 : tensor<2x18x4xf32>, tensor<2x3x4x6xf32>
}

// Windows that lie over each other, and those that leave a column out, stay.
// CHECK-LABEL: func.func @other_windows
func.func @other_windows(%x: tensor<3x4x7xf32>) -> (tensor<12x18xf32>, tensor<12x6xf32>) {
  // CHECK-COUNT-2: edge.aten.im2col.default
  %0 = edge.aten.im2col.default(%x, kernel_size = [2, 2], dilation = [1, 1], padding = [0, 0], stride = [1, 1]) : (tensor<3x4x7xf32>) -> tensor<12x18xf32>
  %1 = edge.aten.im2col.default(%x, kernel_size = [2, 2], dilation = [1, 1], padding = [0, 0], stride = [2, 2]) : (tensor<3x4x7xf32>) -> tensor<12x6xf32>
  func.return %0, %1 : tensor<12x18xf32>, tensor<12x6xf32>
}

// Rows by a column of numbers.
// CHECK-LABEL: func.func @gather_of_rows
func.func @gather_of_rows(%x: tensor<5x4xf32>, %n: tensor<3x1xi64>) -> tensor<3x4xf32> {
  // CHECK: %[[V:.*]] = edge.aten.view_copy.default(%n, size = [3])
  // CHECK-NEXT: edge.aten.index_select.default(%x, dim = 0, %[[V]])
  %0 = edge.aten.expand_copy.default(%n, size = [3, 4]) : (tensor<3x1xi64>) -> tensor<3x4xi64>
  %1 = edge.aten.gather.default(%x, dim = 0, %0) : (tensor<5x4xf32>, tensor<3x4xi64>) -> tensor<3x4xf32>
  func.return %1 : tensor<3x4xf32>
}

// Rows of numbers that are repeated for two heads, then viewed and cast, are expanded along a dim of their own.
// CHECK-LABEL: func.func @gather_of_repeated_rows
func.func @gather_of_repeated_rows(%x: tensor<12x4xf32>, %n: tensor<1x3x5xi32>) -> tensor<12x5xf32> {
  // CHECK: %[[C:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%n, dtype = i64, dim_order = [0, 1, 2])
  // CHECK-NEXT: %[[V:.*]] = edge.aten.view_copy.default(%[[C]], size = [1, 1, 3, 5])
  // CHECK-NEXT: %[[E:.*]] = edge.aten.expand_copy.default(%[[V]], size = [2, 2, 3, 5])
  // CHECK-NEXT: %[[X:.*]] = edge.aten.view_copy.default(%x, size = [2, 2, 3, 4])
  // CHECK-NEXT: %[[G:.*]] = edge.aten.gather.default(%[[X]], dim = 3, %[[E]])
  // CHECK-NEXT: edge.aten.view_copy.default(%[[G]], size = [12, 5])
  %0 = edge.aten.repeat.default(%n, repeats = [2, 2, 1]) : (tensor<1x3x5xi32>) -> tensor<2x6x5xi32>
  %1 = edge.aten.view_copy.default(%0, size = [12, 5]) : (tensor<2x6x5xi32>) -> tensor<12x5xi32>
  %2 = edge.dim_order_ops._to_dim_order_copy.default(%1, dtype = i64, dim_order = [0, 1]) : (tensor<12x5xi32>) -> tensor<12x5xi64>
  %3 = edge.aten.gather.default(%x, dim = 1, %2) : (tensor<12x4xf32>, tensor<12x5xi64>) -> tensor<12x5xf32>
  func.return %3 : tensor<12x5xf32>
}

// Numbers that are repeated along the rows stay, as do those of a part of the rows, and what is cast twice.
// CHECK-LABEL: func.func @other_repetitions
func.func @other_repetitions(%x: tensor<6x4xf32>, %n: tensor<3x2xi64>, %m: tensor<2x2xi64>) -> (tensor<6x4xf32>, tensor<4x2xf32>, tensor<6x2xf32>) {
  // CHECK-COUNT-3: edge.aten.repeat.default
  %0 = edge.aten.repeat.default(%n, repeats = [2, 2]) : (tensor<3x2xi64>) -> tensor<6x4xi64>
  %1 = edge.aten.gather.default(%x, dim = 1, %0) : (tensor<6x4xf32>, tensor<6x4xi64>) -> tensor<6x4xf32>
  %2 = edge.aten.repeat.default(%m, repeats = [2, 1]) : (tensor<2x2xi64>) -> tensor<4x2xi64>
  %3 = edge.aten.gather.default(%x, dim = 1, %2) : (tensor<6x4xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
  %4 = edge.aten.repeat.default(%n, repeats = [2, 1]) : (tensor<3x2xi64>) -> tensor<6x2xi64>
  %5 = edge.dim_order_ops._to_dim_order_copy.default(%4, dtype = i8, dim_order = [0, 1]) : (tensor<6x2xi64>) -> tensor<6x2xi8>
  %6 = edge.dim_order_ops._to_dim_order_copy.default(%5, dtype = i64, dim_order = [0, 1]) : (tensor<6x2xi8>) -> tensor<6x2xi64>
  %7 = edge.aten.gather.default(%x, dim = 1, %6) : (tensor<6x4xf32>, tensor<6x2xi64>) -> tensor<6x2xf32>
  func.return %1, %3, %7 : tensor<6x4xf32>, tensor<4x2xf32>, tensor<6x2xf32>
}

// An image that is resized to its own size: the nearest elements are the elements, and filters add 0 times each of them,
// before what is only viewed between.
// CHECK-LABEL: func.func @resize_to_same_size
func.func @resize_to_same_size(%x: tensor<1x12x5xf32>) -> (tensor<1x5x3x4xf32>, tensor<1x5x3x4xf32>) {
  // CHECK: %[[A:.*]] = edge.aten.add.Tensor(%x, %x, alpha = 0)
  // CHECK-NEXT: %[[P:.*]] = edge.aten.permute_copy.default(%[[A]], dims = [0, 2, 1])
  // CHECK-NEXT: %[[I:.*]] = edge.aten.view_copy.default(%[[P]], size = [1, 5, 3, 4])
  // CHECK-NOT: upsample
  // CHECK: func.return %[[I]], %[[I]]
  %0 = edge.aten.permute_copy.default(%x, dims = [0, 2, 1]) : (tensor<1x12x5xf32>) -> tensor<1x5x12xf32>
  %1 = edge.aten.view_copy.default(%0, size = [1, 5, 3, 4]) : (tensor<1x5x12xf32>) -> tensor<1x5x3x4xf32>
  %2 = edge.aten.upsample_bilinear2d.vec(%1, output_size = [3, 4], align_corners = false) : (tensor<1x5x3x4xf32>) -> tensor<1x5x3x4xf32>
  %3 = edge.aten.upsample_nearest2d.vec(%2, output_size = [3, 4]) : (tensor<1x5x3x4xf32>) -> tensor<1x5x3x4xf32>
  func.return %2, %3 : tensor<1x5x3x4xf32>, tensor<1x5x3x4xf32>
}

// Numbers of each column, and a part of the columns, are a gather.
// CHECK-LABEL: func.func @gather_of_elements
func.func @gather_of_elements(%x: tensor<5x4xf32>, %n: tensor<4xi64>, %m: tensor<3x1xi64>) -> (tensor<3x4xf32>, tensor<3x2xf32>) {
  // CHECK-COUNT-2: edge.aten.gather.default
  %0 = edge.aten.expand_copy.default(%n, size = [3, 4]) : (tensor<4xi64>) -> tensor<3x4xi64>
  %1 = edge.aten.gather.default(%x, dim = 0, %0) : (tensor<5x4xf32>, tensor<3x4xi64>) -> tensor<3x4xf32>
  %2 = edge.aten.expand_copy.default(%m, size = [3, 2]) : (tensor<3x1xi64>) -> tensor<3x2xi64>
  %3 = edge.aten.gather.default(%x, dim = 0, %2) : (tensor<5x4xf32>, tensor<3x2xi64>) -> tensor<3x2xf32>
  func.return %1, %3 : tensor<3x4xf32>, tensor<3x2xf32>
}
