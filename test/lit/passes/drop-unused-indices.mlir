// RUN: et-opt -p 'drop-unused-indices{target=etir}' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'drop-unused-indices' --split-input-file %s | filecheck %s --check-prefix=STOCK
// RUN: et-opt -p 'drop-unused-indices{target=etir}' --split-input-file --explain-match=drop-unused-indices --no-output %s 2>&1 | filecheck %s --check-prefix=WHY

// The values of windows in two and three dims, with the arguments that are given. Their schemas are declared once.

// CHECK: et.schema "etir::max_pool2d(Tensor self
// CHECK-NEXT: et.schema "etir::max_pool2d.out(Tensor self
// CHECK-NEXT: et.schema "etir::max_pool3d(Tensor self
// CHECK-NEXT: et.schema "etir::max_pool3d.out(Tensor self
// CHECK-LABEL: func.func @values
// STOCK-LABEL: func.func @values
func.func @values(%x: tensor<1x2x8x8xf32>, %z: tensor<2x4x4x4xf16>) -> (tensor<1x2x4x4xf32>, tensor<2x2x2x2xf16>) {
  // CHECK-NEXT: %[[A:.*]] = edge.etir.max_pool2d.default(%x, kernel_size = [3, 3], stride = [1, 1], padding = [1, 1]) : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  // CHECK-NEXT: %[[B:.*]] = edge.etir.max_pool2d.default(%[[A]], kernel_size = [2, 2], ceil_mode = true) : (tensor<1x2x8x8xf32>) -> tensor<1x2x4x4xf32>
  // CHECK-NEXT: %[[C:.*]] = edge.etir.max_pool3d.default(%z, kernel_size = [2, 2, 2]) : (tensor<2x4x4x4xf16>) -> tensor<2x2x2x2xf16>
  // CHECK-NEXT: func.return %[[B]], %[[C]]
  // STOCK-NEXT: edge.aten.max_pool2d_with_indices.default
  // STOCK-NEXT: edge.aten.max_pool2d_with_indices.default
  // STOCK-NEXT: edge.aten.max_pool3d_with_indices.default
  %a, %i = edge.aten.max_pool2d_with_indices.default(%x, kernel_size = [3, 3], stride = [1, 1], padding = [1, 1]) : (tensor<1x2x8x8xf32>) -> (tensor<1x2x8x8xf32>, tensor<1x2x8x8xi64>)
  %b, %j = edge.aten.max_pool2d_with_indices.default(%a, kernel_size = [2, 2], ceil_mode = true) : (tensor<1x2x8x8xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xi64>)
  %c, %k = edge.aten.max_pool3d_with_indices.default(%z, kernel_size = [2, 2, 2]) : (tensor<2x4x4x4xf16>) -> (tensor<2x2x2x2xf16>, tensor<2x2x2x2xi64>)
  func.return %b, %c : tensor<1x2x4x4xf32>, tensor<2x2x2x2xf16>
}

// -----

// Indices that somebody reads stay, also where the values have no reader.

// CHECK-NOT: et.schema
// CHECK-LABEL: func.func @indices
func.func @indices(%x: tensor<1x2x8x8xf32>) -> tensor<1x2x4x4xi64> {
  // CHECK-NEXT: edge.aten.max_pool2d_with_indices.default
  // WHY: the indices are read
  %a, %i = edge.aten.max_pool2d_with_indices.default(%x, kernel_size = [2, 2]) : (tensor<1x2x8x8xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xi64>)
  func.return %i : tensor<1x2x4x4xi64>
}
