// RUN: et-opt -p fuse-quantized --split-input-file %s | filecheck %s
// RUN: et-opt -p 'fuse-quantized{target=etir}' --split-input-file %s | filecheck %s --check-prefix=KERNELS

// A constant of four bits, through the view that gives groups: two numbers in a byte, the first half of a row low.

et.weight @w : tensor<32x64xi8> = #et.blob<"sha256:cdc76ac2ef07c4f3bd4a2e7f9a2dbf9ae04ea0d6c6a5c6f9f8c2b4c9f0a7c3d1", 2048>

// CHECK-LABEL: func.func @not_loaded
// KERNELS-LABEL: func.func @not_loaded
func.func @not_loaded() -> tensor<64x32xf32> {
  // CHECK: edge.dim_order_ops._to_dim_order_copy.default
  // CHECK-NEXT: func.return
  // KERNELS: edge.dim_order_ops._to_dim_order_copy.default
  %w = et.get_weight @w : tensor<32x64xi8>
  %v = edge.aten.view_copy.default(%w, size = [64, 32]) : (tensor<32x64xi8>) -> tensor<64x32xi8>
  %y = edge.dim_order_ops._to_dim_order_copy.default(%v, dtype = f32, dim_order = [0, 1]) : (tensor<64x32xi8>) -> tensor<64x32xf32>
  func.return %y : tensor<64x32xf32>
}

// -----

// CHECK-LABEL: func.func @halves
// KERNELS-LABEL: func.func @halves
func.func @halves() -> tensor<64x32xf32> {
  // CHECK: %[[P:.*]] = et.get_weight @weight_halves : tensor<64x16xui8>
  // CHECK-NEXT: %[[X:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%[[P]], dtype = f32, dim_order = [0, 1])
  // CHECK-NEXT: %[[S:.*]] = edge.aten.mul.Scalar(%[[X]], other = 0.0625)
  // CHECK-NEXT: %[[H:.*]] = edge.aten.floor.default(%[[S]])
  // CHECK-NEXT: %[[L:.*]] = edge.aten.sub.Tensor(%[[X]], %[[H]], alpha = 16)
  // CHECK-NEXT: %[[C:.*]] = edge.aten.cat.default([%[[L]], %[[H]]], dim = 1)
  // CHECK-NEXT: %[[Y:.*]] = edge.aten.sub.Scalar(%[[C]], other = 8)
  // CHECK-NEXT: func.return %[[Y]]
  // KERNELS-NOT: floor
  %w = et.constant dense<2> : tensor<32x64xi8>
  %v = edge.aten.view_copy.default(%w, size = [64, 32]) : (tensor<32x64xi8>) -> tensor<64x32xi8>
  %y = edge.dim_order_ops._to_dim_order_copy.default(%v, dtype = f32, dim_order = [0, 1]) : (tensor<64x32xi8>) -> tensor<64x32xf32>
  func.return %y : tensor<64x32xf32>
}

// -----

// Scales that float16 holds have 16 bits in the file; the second ones need float32.

// CHECK-LABEL: func.func @scales
func.func @scales() -> (tensor<64x32xf32>, tensor<64x32xf32>) {
  // CHECK: %[[S:.*]] = et.get_weight @scales_float16 : tensor<64x1xf16>
  // CHECK: %[[F:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%[[S]], dtype = f32, dim_order = [0, 1])
  // CHECK: edge.aten.mul.Tensor(%{{.*}}, %[[F]])
  // CHECK: %[[T:.*]] = edge.aten.view_copy.default(%{{.*}}, size = [64, 1]) : (tensor<32x2xf32>)
  // CHECK: edge.aten.mul.Tensor(%{{.*}}, %[[T]])
  %w = et.constant dense<2> : tensor<64x32xi8>
  %s = et.constant dense<0.25> : tensor<32x2xf32>
  %t = et.constant dense<0.1> : tensor<32x2xf32>
  %x = edge.dim_order_ops._to_dim_order_copy.default(%w, dtype = f32, dim_order = [0, 1]) : (tensor<64x32xi8>) -> tensor<64x32xf32>
  %sv = edge.aten.view_copy.default(%s, size = [64, 1]) : (tensor<32x2xf32>) -> tensor<64x1xf32>
  %y = edge.aten.mul.Tensor(%x, %sv) : (tensor<64x32xf32>, tensor<64x1xf32>) -> tensor<64x32xf32>
  %z = edge.dim_order_ops._to_dim_order_copy.default(%w, dtype = f32, dim_order = [0, 1]) : (tensor<64x32xi8>) -> tensor<64x32xf32>
  %tv = edge.aten.view_copy.default(%t, size = [64, 1]) : (tensor<32x2xf32>) -> tensor<64x1xf32>
  %a = edge.aten.mul.Tensor(%z, %tv) : (tensor<64x32xf32>, tensor<64x1xf32>) -> tensor<64x32xf32>
  func.return %y, %a : tensor<64x32xf32>, tensor<64x32xf32>
}

// -----

// What else reads the scales may come before the numbers.

// CHECK-LABEL: func.func @shared
func.func @shared(%q: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<64x32xf32>) {
  // CHECK: %[[F:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%{{.*}}, dtype = f32, dim_order = [0, 1]) : (tensor<64x1xf16>)
  // CHECK: edge.aten.mul.Tensor(%q, %[[F]])
  // CHECK: edge.aten.mul.Tensor(%{{.*}}, %[[F]])
  %w = et.constant dense<2> : tensor<64x32xi8>
  %s = et.constant dense<0.25> : tensor<32x2xf32>
  %sv = edge.aten.view_copy.default(%s, size = [64, 1]) : (tensor<32x2xf32>) -> tensor<64x1xf32>
  %e = edge.aten.mul.Tensor(%q, %sv) : (tensor<64x32xf32>, tensor<64x1xf32>) -> tensor<64x32xf32>
  %x = edge.dim_order_ops._to_dim_order_copy.default(%w, dtype = f32, dim_order = [0, 1]) : (tensor<64x32xi8>) -> tensor<64x32xf32>
  %y = edge.aten.mul.Tensor(%x, %sv) : (tensor<64x32xf32>, tensor<64x1xf32>) -> tensor<64x32xf32>
  func.return %e, %y : tensor<64x32xf32>, tensor<64x32xf32>
}
