// RUN: et-opt -p 'fuse-rotary{target=etir},dce' --split-input-file %s | filecheck %s
// RUN: et-opt -p fuse-rotary --split-input-file %s | filecheck %s --check-prefix=STOCK
// RUN: et-opt -p 'fuse-rotary{target=etir}' --explain-match=rotary-of-halves --no-output --split-input-file %s 2>&1 | filecheck %s --check-prefix=WHY

// CHECK: et.schema "etir::rotary(Tensor input
// CHECK-NEXT: et.schema "etir::rotary.out(Tensor input
// CHECK-LABEL: func.func @rotary
// STOCK-LABEL: func.func @rotary
func.func @rotary(%h: tensor<1x3x2x8xf32>, %cos: tensor<1x3x8xf32>, %sin: tensor<1x3x8xf32>) -> tensor<1x2x3x8xf32> {
  // CHECK-NEXT: %[[R:.*]] = edge.etir.rotary.default(%h, %cos, %sin) : (tensor<1x3x2x8xf32>, tensor<1x3x8xf32>, tensor<1x3x8xf32>) -> tensor<1x3x2x8xf32>
  // CHECK-NEXT: %y = edge.aten.permute_copy.default(%[[R]], dims = [0, 2, 1, 3])
  // CHECK-NEXT: func.return %y
  // STOCK: edge.aten.cat.default
  %x = edge.aten.permute_copy.default(%h, dims = [0, 2, 1, 3]) : (tensor<1x3x2x8xf32>) -> tensor<1x2x3x8xf32>
  %c = edge.aten.unsqueeze_copy.default(%cos, dim = 1) : (tensor<1x3x8xf32>) -> tensor<1x1x3x8xf32>
  %s = edge.aten.unsqueeze_copy.default(%sin, dim = 1) : (tensor<1x3x8xf32>) -> tensor<1x1x3x8xf32>
  %0 = edge.aten.mul.Tensor(%x, %c) : (tensor<1x2x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32>
  %1 = edge.aten.slice_copy.Tensor(%x, dim = 3, start = 0, end = 4) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x4xf32>
  %2 = edge.aten.slice_copy.Tensor(%x, dim = 3, start = 4, end = 9223372036854775807) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x4xf32>
  %3 = edge.aten.neg.default(%2) : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %4 = edge.aten.cat.default([%3, %1], dim = -1) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x8xf32>
  %5 = edge.aten.mul.Tensor(%4, %s) : (tensor<1x2x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32>
  %y = edge.aten.add.Tensor(%0, %5) : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  func.return %y : tensor<1x2x3x8xf32>
}

// -----

// The halves the other way round turn the other way: the sign would be wrong.

// CHECK-NOT: et.schema
// CHECK-LABEL: func.func @backwards
// CHECK-NOT: rotary.default
func.func @backwards(%h: tensor<1x3x2x8xf32>, %cos: tensor<1x3x8xf32>, %sin: tensor<1x3x8xf32>) -> tensor<1x2x3x8xf32> {
  // WHY: no sum of a tensor and of its turned halves, times one table each
  %x = edge.aten.permute_copy.default(%h, dims = [0, 2, 1, 3]) : (tensor<1x3x2x8xf32>) -> tensor<1x2x3x8xf32>
  %c = edge.aten.unsqueeze_copy.default(%cos, dim = 1) : (tensor<1x3x8xf32>) -> tensor<1x1x3x8xf32>
  %s = edge.aten.unsqueeze_copy.default(%sin, dim = 1) : (tensor<1x3x8xf32>) -> tensor<1x1x3x8xf32>
  %0 = edge.aten.mul.Tensor(%x, %c) : (tensor<1x2x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32>
  %1 = edge.aten.slice_copy.Tensor(%x, dim = 3, start = 0, end = 4) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x4xf32>
  %2 = edge.aten.slice_copy.Tensor(%x, dim = 3, start = 4, end = 8) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x4xf32>
  %3 = edge.aten.neg.default(%1) : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %4 = edge.aten.cat.default([%2, %3], dim = -1) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x8xf32>
  %5 = edge.aten.mul.Tensor(%4, %s) : (tensor<1x2x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32>
  %y = edge.aten.add.Tensor(%0, %5) : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  func.return %y : tensor<1x2x3x8xf32>
}

// -----

// A table with a row for each head, and heads that nothing turned.

// CHECK-NOT: et.schema
// CHECK-LABEL: func.func @others
// CHECK-NOT: rotary.default
func.func @others(%h: tensor<1x3x2x8xf32>, %x2: tensor<1x2x3x8xf32>, %c: tensor<1x2x3x8xf32>, %s: tensor<1x2x3x8xf32>) -> (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) {
  // WHY: a table that is not that of the positions
  // WHY: the heads were not made from rows
  %x = edge.aten.permute_copy.default(%h, dims = [0, 2, 1, 3]) : (tensor<1x3x2x8xf32>) -> tensor<1x2x3x8xf32>
  %0 = edge.aten.mul.Tensor(%x, %c) : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %1 = edge.aten.slice_copy.Tensor(%x, dim = 3, start = 0, end = 4) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x4xf32>
  %2 = edge.aten.slice_copy.Tensor(%x, dim = 3, start = 4, end = 8) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x4xf32>
  %3 = edge.aten.neg.default(%2) : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %4 = edge.aten.cat.default([%3, %1], dim = -1) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x8xf32>
  %5 = edge.aten.mul.Tensor(%4, %s) : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %y = edge.aten.add.Tensor(%0, %5) : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %6 = edge.aten.mul.Tensor(%x2, %c) : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %7 = edge.aten.slice_copy.Tensor(%x2, dim = 3, start = 0, end = 4) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x4xf32>
  %8 = edge.aten.slice_copy.Tensor(%x2, dim = 3, start = 4, end = 8) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x4xf32>
  %9 = edge.aten.neg.default(%8) : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %10 = edge.aten.cat.default([%9, %7], dim = -1) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x8xf32>
  %11 = edge.aten.mul.Tensor(%10, %s) : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %z = edge.aten.add.Tensor(%6, %11) : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  func.return %y, %z : tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>
}
