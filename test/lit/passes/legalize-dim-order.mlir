// RUN: et-opt --legalize-dim-order %s | filecheck %s
// RUN: et-opt --legalize-dim-order --legalize-dim-order %s | filecheck %s
// RUN: et-opt -p 'legalize-dim-order{target=etir}' %s | filecheck %s --check-prefix=OWN
// RUN: et-opt --legalize-dim-order --print-debuginfo %s | filecheck %s --check-prefix=LOC

// The stock runtime's pooling takes contiguous tensors only: a copy before it, one after each result that had another
// order. Every new operation is at the place of the one that it stands beside, and results keep their names.
// CHECK-LABEL: func.func @pooling
// OWN-LABEL: func.func @pooling
func.func @pooling(%x: tensor<1x8x6x6xf32, #et.layout<order = [0, 2, 3, 1]>>) -> (tensor<1x8x3x3xf32, #et.layout<order = [0, 2, 3, 1]>>, tensor<1x8x3x3xi64, #et.layout<order = [0, 2, 3, 1]>>) {
  // CHECK-NEXT: %0 = edge.dim_order_ops._to_dim_order_copy.default(%x, dim_order = [0, 1, 2, 3]) : (tensor<1x8x6x6xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x8x6x6xf32>
  // CHECK-NEXT: %1, %2 = edge.aten.max_pool2d_with_indices.default(%0, kernel_size = [2, 2]) : (tensor<1x8x6x6xf32>) -> (tensor<1x8x3x3xf32>, tensor<1x8x3x3xi64>)
  // CHECK-NEXT: %y = edge.dim_order_ops._to_dim_order_copy.default(%1, dim_order = [0, 2, 3, 1]) : (tensor<1x8x3x3xf32>) -> tensor<1x8x3x3xf32, #et.layout<order = [0, 2, 3, 1]>>
  // CHECK-NEXT: %i = edge.dim_order_ops._to_dim_order_copy.default(%2, dim_order = [0, 2, 3, 1])
  // CHECK-NEXT: func.return %y, %i
  // LOC: _to_dim_order_copy.default(%x, {{.*}} loc("m.py":5:1)
  // LOC: max_pool2d_with_indices.default({{.*}} loc("m.py":5:1)
  // LOC: %y = {{.*}} loc("m.py":5:1)
  // OWN-NEXT: %y, %i = edge.aten.max_pool2d_with_indices.default(%x
  // OWN-NEXT: func.return
  %y, %i = edge.aten.max_pool2d_with_indices.default(%x, kernel_size = [2, 2]) : (tensor<1x8x6x6xf32, #et.layout<order = [0, 2, 3, 1]>>) -> (tensor<1x8x3x3xf32, #et.layout<order = [0, 2, 3, 1]>>, tensor<1x8x3x3xi64, #et.layout<order = [0, 2, 3, 1]>>) loc("m.py":5:1)
  func.return %y, %i : tensor<1x8x3x3xf32, #et.layout<order = [0, 2, 3, 1]>>, tensor<1x8x3x3xi64, #et.layout<order = [0, 2, 3, 1]>>
}

// A kernel that takes the order stays, and so does one that is contiguous already.
// CHECK-LABEL: func.func @taken
func.func @taken(%x: tensor<1x8x6x6xf32, #et.layout<order = [0, 2, 3, 1]>>, %z: tensor<1x8x6x6xf32>) -> (tensor<1x8x6x6xf32, #et.layout<order = [0, 2, 3, 1]>>, tensor<1x8x3x3xf32>) {
  // CHECK-NEXT: edge.aten.relu.default(%x)
  // CHECK-NEXT: edge.aten.max_pool2d_with_indices.default(%z
  // CHECK-NEXT: func.return
  %0 = edge.aten.relu.default(%x) : (tensor<1x8x6x6xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x8x6x6xf32, #et.layout<order = [0, 2, 3, 1]>>
  %1, %2 = edge.aten.max_pool2d_with_indices.default(%z, kernel_size = [2, 2]) : (tensor<1x8x6x6xf32>) -> (tensor<1x8x3x3xf32>, tensor<1x8x3x3xi64>)
  func.return %0, %1 : tensor<1x8x6x6xf32, #et.layout<order = [0, 2, 3, 1]>>, tensor<1x8x3x3xf32>
}

// What the kernel refuses in either order is left to verify-link: complex numbers here.
// CHECK-LABEL: func.func @refused_either_way
func.func @refused_either_way(%x: tensor<1x8x6x6xcomplex<f32>, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x8x6x6xcomplex<f32>, #et.layout<order = [0, 2, 3, 1]>> {
  // CHECK-NEXT: edge.aten.acos.default(%x)
  // CHECK-NEXT: func.return
  %0 = edge.aten.acos.default(%x) : (tensor<1x8x6x6xcomplex<f32>, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x8x6x6xcomplex<f32>, #et.layout<order = [0, 2, 3, 1]>>
  func.return %0 : tensor<1x8x6x6xcomplex<f32>, #et.layout<order = [0, 2, 3, 1]>>
}

// Tensors of a list each get their copy; one that is contiguous needs none.
// CHECK-LABEL: func.func @list
func.func @list(%x: tensor<1x8x6x6xf32, #et.layout<order = [0, 2, 3, 1]>>, %z: tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32> {
  // CHECK-NEXT: %0 = edge.dim_order_ops._to_dim_order_copy.default(%x, dim_order = [0, 1, 2, 3])
  // CHECK-NEXT: edge.aten.cat.default([%0, %z], dim = 1)
  // CHECK-NEXT: func.return
  %0 = edge.aten.cat.default([%x, %z], dim = 1) : (tensor<1x8x6x6xf32, #et.layout<order = [0, 2, 3, 1]>>, tensor<1x8x6x6xf32>) -> tensor<1x16x6x6xf32>
  func.return %z : tensor<1x8x6x6xf32>
}
