// RUN: et-opt -p 'batched-products-to-layers{target=etir}' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'batched-products-to-layers{target=executorch}' --split-input-file %s | filecheck %s --check-prefix=OTHER
// RUN: et-opt -p 'batched-products-to-layers{target=etir}' --explain-match=batched-products-to-layers --no-output --split-input-file %s 2>&1 | filecheck %s --check-prefix=WHY

// Rows of all matrices lie below each other, and rows of a batch have one number. A target without kernels for that
// keeps its product.

sym.dim @n in [1, 8]
et.weight @w : tensor<4x32x64xf32> = #et.synthetic<seed = 1>

// CHECK: et.weight @w_rows : tensor<256x32xf32>
// CHECK-LABEL: func.func @batch
// CHECK: %[[W:.*]] = et.get_weight @w_rows : tensor<256x32xf32>
// CHECK: %[[X:.*]] = edge.aten.view_copy.default(%x, size = [-1, 32])
// CHECK: edge.aten.expand_copy.default
// CHECK: edge.etir.expert_linear.default(%[[X]], %[[W]], %{{.*}}, columns = 64)
// CHECK: edge.aten.view_copy.default
// CHECK-NOT: bmm
// OTHER-LABEL: func.func @batch
// OTHER: edge.aten.bmm.default
// WHY: 'batched-products-to-layers' rewrote 'edge.aten.bmm.default'
func.func @batch(%x: tensor<4x?x32xf32, #et.layout<dims = [4, n, 32]>>) -> tensor<4x?x64xf32, #et.layout<dims = [4, n, 64]>> {
  %w = et.get_weight @w : tensor<4x32x64xf32>
  %y = edge.aten.bmm.default(%x, %w) : (tensor<4x?x32xf32, #et.layout<dims = [4, n, 32]>>, tensor<4x32x64xf32>) -> tensor<4x?x64xf32, #et.layout<dims = [4, n, 64]>>
  func.return %y : tensor<4x?x64xf32, #et.layout<dims = [4, n, 64]>>
}

// -----

// A depth of no whole groups, few columns, one matrix, and one that is computed.

et.weight @w : tensor<4x24x64xf32> = #et.synthetic<seed = 1>
et.weight @v : tensor<4x32x5xf32> = #et.synthetic<seed = 2>
et.weight @u : tensor<1x32x64xf32> = #et.synthetic<seed = 3>

// CHECK-LABEL: func.func @others
// CHECK-COUNT-4: edge.aten.bmm.default
// WHY: no kernel takes 4 matrices of 24x64
// WHY: no kernel takes 4 matrices of 32x5
// WHY: no kernel takes 1 matrices of 32x64
// WHY: the second factor is no constant
func.func @others(%x: tensor<4x3x24xf32>, %z: tensor<4x3x32xf32>, %o: tensor<1x3x32xf32>, %m: tensor<4x32x64xf32>) -> (tensor<4x3x64xf32>, tensor<4x3x5xf32>, tensor<1x3x64xf32>, tensor<4x3x64xf32>) {
  %w = et.get_weight @w : tensor<4x24x64xf32>
  %v = et.get_weight @v : tensor<4x32x5xf32>
  %u = et.get_weight @u : tensor<1x32x64xf32>
  %0 = edge.aten.bmm.default(%x, %w) : (tensor<4x3x24xf32>, tensor<4x24x64xf32>) -> tensor<4x3x64xf32>
  %1 = edge.aten.bmm.default(%z, %v) : (tensor<4x3x32xf32>, tensor<4x32x5xf32>) -> tensor<4x3x5xf32>
  %2 = edge.aten.bmm.default(%o, %u) : (tensor<1x3x32xf32>, tensor<1x32x64xf32>) -> tensor<1x3x64xf32>
  %3 = edge.aten.bmm.default(%z, %m) : (tensor<4x3x32xf32>, tensor<4x32x64xf32>) -> tensor<4x3x64xf32>
  func.return %0, %1, %2, %3 : tensor<4x3x64xf32>, tensor<4x3x5xf32>, tensor<1x3x64xf32>, tensor<4x3x64xf32>
}
