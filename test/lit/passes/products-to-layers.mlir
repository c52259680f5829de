// RUN: et-opt -p products-to-layers %s | filecheck %s

et.weight @w : tensor<16x32xf32> = #et.synthetic<seed = 1>
et.weight @b : tensor<32xf32> = #et.synthetic<seed = 2>
et.weight @m : tensor<1x16x32xf32> = #et.synthetic<seed = 3>
et.weight @two : tensor<2x16x32xf32> = #et.synthetic<seed = 4>

// CHECK-LABEL: func.func @products
func.func @products(%x: tensor<4x16xf32>, %y: tensor<1x4x16xf32>) -> (tensor<4x32xf32>, tensor<4x32xf32>, tensor<1x4x32xf32>) {
  %w = et.get_weight @w : tensor<16x32xf32>
  %b = et.get_weight @b : tensor<32xf32>
  %m = et.get_weight @m : tensor<1x16x32xf32>
  // CHECK: %[[W:.*]] = et.get_weight @w_rows : tensor<32x16xf32>
  // CHECK: edge.aten.linear.default(%x, %[[W]]) :
  // CHECK: edge.aten.linear.default(%x, %{{.*}}, %b) :
  // CHECK: %[[M:.*]] = et.get_weight @m_rows : tensor<32x16xf32>
  // CHECK: edge.aten.linear.default(%y, %[[M]]) : (tensor<1x4x16xf32>, tensor<32x16xf32>) -> tensor<1x4x32xf32>
  %0 = edge.aten.mm.default(%x, %w) : (tensor<4x16xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
  %1 = edge.aten.addmm.default(%b, %x, %w) : (tensor<32xf32>, tensor<4x16xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
  %2 = edge.aten.bmm.default(%y, %m) : (tensor<1x4x16xf32>, tensor<1x16x32xf32>) -> tensor<1x4x32xf32>
  func.return %0, %1, %2 : tensor<4x32xf32>, tensor<4x32xf32>, tensor<1x4x32xf32>
}

// What is computed, several matrices, factors, a bias that is no row: as they were.

// CHECK-LABEL: func.func @others
func.func @others(%x: tensor<4x16xf32>, %w: tensor<16x32xf32>, %y: tensor<2x4x16xf32>, %c: tensor<4x32xf32>) -> (tensor<4x32xf32>, tensor<2x4x32xf32>, tensor<4x32xf32>, tensor<4x32xf32>) {
  %k = et.get_weight @w : tensor<16x32xf32>
  %b = et.get_weight @b : tensor<32xf32>
  %m = et.get_weight @two : tensor<2x16x32xf32>
  // CHECK: edge.aten.mm.default
  // CHECK: edge.aten.bmm.default
  // CHECK: edge.aten.addmm.default
  // CHECK: edge.aten.addmm.default
  %0 = edge.aten.mm.default(%x, %w) : (tensor<4x16xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
  %1 = edge.aten.bmm.default(%y, %m) : (tensor<2x4x16xf32>, tensor<2x16x32xf32>) -> tensor<2x4x32xf32>
  %2 = edge.aten.addmm.default(%b, %x, %k, alpha = 2) : (tensor<32xf32>, tensor<4x16xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
  %3 = edge.aten.addmm.default(%c, %x, %k) : (tensor<4x32xf32>, tensor<4x16xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
  func.return %0, %1, %2, %3 : tensor<4x32xf32>, tensor<2x4x32xf32>, tensor<4x32xf32>, tensor<4x32xf32>
}
