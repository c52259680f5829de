// RUN: et-opt -p commute-transpose-into-matmul --split-input-file %s | filecheck %s

// One row against transposed keys: nothing is transposed, the vector and the result are views.

// CHECK-LABEL: func.func @one_row
func.func @one_row(%q: tensor<4x1x16xf32>, %k: tensor<2x2x32x16xf32>) -> tensor<4x1x32xf32> {
  %t = edge.aten.permute_copy.default(%k, dims = [0, 1, 3, 2]) : (tensor<2x2x32x16xf32>) -> tensor<2x2x16x32xf32>
  %m = edge.aten.view_copy.default(%t, size = [4, 16, 32]) : (tensor<2x2x16x32xf32>) -> tensor<4x16x32xf32>
  // CHECK: %[[K:.*]] = edge.aten.view_copy.default(%k, size = [4, 32, 16])
  // CHECK: %[[Q:.*]] = edge.aten.view_copy.default(%q, size = [4, 16, 1])
  // CHECK: %[[S:.*]] = edge.aten.bmm.default(%[[K]], %[[Q]]) : {{.*}} -> tensor<4x32x1xf32>
  // CHECK: edge.aten.view_copy.default(%[[S]], size = [4, 1, 32])
  %s = edge.aten.bmm.default(%q, %m) : (tensor<4x1x16xf32>, tensor<4x16x32xf32>) -> tensor<4x1x32xf32>
  func.return %s : tensor<4x1x32xf32>
}

// -----

// CHECK-LABEL: func.func @few_rows
func.func @few_rows(%q: tensor<4x3x16xf32>, %k: tensor<4x32x16xf32>) -> tensor<4x3x32xf32> {
  %t = edge.aten.transpose_copy.int(%k, dim0 = 1, dim1 = 2) : (tensor<4x32x16xf32>) -> tensor<4x16x32xf32>
  // CHECK: %[[Q:.*]] = edge.aten.permute_copy.default(%q, dims = [0, 2, 1])
  // CHECK: %[[S:.*]] = edge.aten.bmm.default(%k, %[[Q]])
  // CHECK: edge.aten.permute_copy.default(%[[S]], dims = [0, 2, 1])
  %s = edge.aten.bmm.default(%q, %t) : (tensor<4x3x16xf32>, tensor<4x16x32xf32>) -> tensor<4x3x32xf32>
  func.return %s : tensor<4x3x32xf32>
}

// -----

// As many rows as keys: as it was.

// CHECK-LABEL: func.func @square
func.func @square(%q: tensor<4x32x16xf32>, %k: tensor<4x32x16xf32>) -> tensor<4x32x32xf32> {
  %t = edge.aten.transpose_copy.int(%k, dim0 = 1, dim1 = 2) : (tensor<4x32x16xf32>) -> tensor<4x16x32xf32>
  // CHECK: edge.aten.bmm.default(%q, %t)
  %s = edge.aten.bmm.default(%q, %t) : (tensor<4x32x16xf32>, tensor<4x16x32xf32>) -> tensor<4x32x32xf32>
  func.return %s : tensor<4x32x32xf32>
}

// -----

// Leading dims that are not known are merged by a view whose other shape is not written down: as it was.

sym.dim @s in [1, 8]

// CHECK-LABEL: func.func @dynamic_heads
func.func @dynamic_heads(%q: tensor<?x1x16xf32, #et.layout<dims = [s * 2, 1, 16]>>, %k: tensor<?x2x32x16xf32, #et.layout<dims = [s, 2, 32, 16]>>) -> tensor<?x1x32xf32, #et.layout<dims = [s * 2, 1, 32]>> {
  // CHECK: %[[T:.*]] = edge.aten.permute_copy.default(%k
  // CHECK: %[[M:.*]] = edge.aten.view_copy.default(%[[T]]
  // CHECK: edge.aten.bmm.default(%q, %[[M]])
  %t = edge.aten.permute_copy.default(%k, dims = [0, 1, 3, 2]) : (tensor<?x2x32x16xf32, #et.layout<dims = [s, 2, 32, 16]>>) -> tensor<?x2x16x32xf32, #et.layout<dims = [s, 2, 16, 32]>>
  %m = edge.aten.view_copy.default(%t, size = [-1, 16, 32]) : (tensor<?x2x16x32xf32, #et.layout<dims = [s, 2, 16, 32]>>) -> tensor<?x16x32xf32, #et.layout<dims = [s * 2, 16, 32]>>
  %s = edge.aten.bmm.default(%q, %m) : (tensor<?x1x16xf32, #et.layout<dims = [s * 2, 1, 16]>>, tensor<?x16x32xf32, #et.layout<dims = [s * 2, 16, 32]>>) -> tensor<?x1x32xf32, #et.layout<dims = [s * 2, 1, 32]>>
  func.return %s : tensor<?x1x32xf32, #et.layout<dims = [s * 2, 1, 32]>>
}
