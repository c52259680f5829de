// RUN: not et-opt -p verify-types --split-input-file %s 2>&1 | filecheck %s

// What follows from the operands, and what no rule speaks of, says nothing.
sym.dim @s0 in [2, 16]
func.func @right(%x: tensor<?x3xf32, #et.layout<dims = [s0, 3]>>, %i: tensor<4xi64>) -> tensor<?x3xf32, #et.layout<dims = [s0, 3]>> {
  %0 = aten.add.Tensor(%x, %x) : (tensor<?x3xf32, #et.layout<dims = [s0, 3]>>, tensor<?x3xf32, #et.layout<dims = [s0, 3]>>) -> tensor<?x3xf32, #et.layout<dims = [s0, 3]>>
  %1 = aten.bincount.default(%i) : (tensor<4xi64>) -> tensor<7xi64>
  func.return %0 : tensor<?x3xf32, #et.layout<dims = [s0, 3]>>
}

// -----

// CHECK-NOT: right
// CHECK: error[E0310]: 'aten.add.Tensor' gives result 0 type tensor<2x4xf32>; its rule gives tensor<2x3xf32>
func.func @sizes(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
  %0 = aten.add.Tensor(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x4xf32>
  func.return %0 : tensor<2x4xf32>
}

// -----

// CHECK: error[E0310]: 'edge.aten.eq.Tensor' gives result 0 element type f32; its rule gives i1
func.func @element(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = edge.aten.eq.Tensor(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %0 : tensor<2x3xf32>
}

// -----

// CHECK: error[E0310]: 'aten.mm.default' takes operands that do not fit: the dims that are multiplied have the sizes 3 and 4
func.func @operands(%x: tensor<2x3xf32>, %y: tensor<4x5xf32>) -> tensor<2x5xf32> {
  %0 = aten.mm.default(%x, %y) : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  func.return %0 : tensor<2x5xf32>
}

// -----

// Numbers that sizes are divided by.
// CHECK: error[E0310]: 'aten.slice.Tensor' takes operands that do not fit: a step, a stride or a count that sizes are divided by is 0
// CHECK: error[E0310]: 'aten.unfold.default' takes operands that do not fit: a step, a stride or a count that sizes are divided by is 0
func.func @zeros(%x: tensor<2x6xf32>) {
  %0 = aten.slice.Tensor(%x, dim = 1, start = 0, end = 3, step = 0) : (tensor<2x6xf32>) -> tensor<2x3xf32>
  %1 = aten.unfold.default(%x, dimension = 1, size = 2, step = 0) : (tensor<2x6xf32>) -> tensor<2x3x2xf32>
  func.return
}

// -----

// Everything that has to be equal in a product: batches, what is multiplied, channels; and in what is joined.
// CHECK: error[E0310]: 'aten.bmm.default' takes operands that do not fit: the batches have the sizes 2 and 3
// CHECK: error[E0310]: 'aten.bmm.default' takes operands that do not fit: the dims that are multiplied have the sizes 4 and 5
// CHECK: error[E0310]: 'aten.addmm.default' takes operands that do not fit: the dims that are multiplied have the sizes 4 and 2
// CHECK: error[E0310]: 'aten.linear.default' takes operands that do not fit: the dims that are multiplied have the sizes 4 and 5
// CHECK: error[E0310]: 'aten.cat.default' takes operands that do not fit: dim 1 of the tensors that are joined have the sizes
func.func @products(%a: tensor<2x3x4xf32>, %b: tensor<3x4x5xf32>, %c: tensor<2x5x3xf32>, %m: tensor<2x4xf32>, %n: tensor<7x5xf32>) {
  %0 = aten.bmm.default(%a, %b) : (tensor<2x3x4xf32>, tensor<3x4x5xf32>) -> tensor<2x3x5xf32>
  %1 = aten.bmm.default(%a, %c) : (tensor<2x3x4xf32>, tensor<2x5x3xf32>) -> tensor<2x3x3xf32>
  %2 = aten.addmm.default(%m, %m, %m) : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = aten.linear.default(%a, %n) : (tensor<2x3x4xf32>, tensor<7x5xf32>) -> tensor<2x3x7xf32>
  %4 = aten.cat.default([%m, %n]) : (tensor<2x4xf32>, tensor<7x5xf32>) -> tensor<9x4xf32>
  func.return
}

// -----

// A symbolic size that no value of the symbol makes equal.
// CHECK: error[E0310]: 'aten.relu.default' gives result 0 type
sym.dim @s0 in [2, 16]
func.func @symbolic(%x: tensor<?xf32, #et.layout<dims = [s0]>>) -> tensor<?xf32, #et.layout<dims = [s0 + 1]>> {
  %0 = aten.relu.default(%x) : (tensor<?xf32, #et.layout<dims = [s0]>>) -> tensor<?xf32, #et.layout<dims = [s0 + 1]>>
  func.return %0 : tensor<?xf32, #et.layout<dims = [s0 + 1]>>
}

// -----

// CHECK: error[E0310]: 'aten.sum.dim_IntList' takes operands that do not fit: dim 2 is out of range for 2 dims
func.func @dim(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  %0 = aten.sum.dim_IntList(%x, dim = [2]) : (tensor<2x3xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
