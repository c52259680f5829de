// RUN: et-opt -p 'decompose-aten{target=none},dce' %s | filecheck %s
// RUN: et-opt -p 'decompose-aten{target=none keep=aten._safe_softmax.default},dce' %s | filecheck --check-prefix=KEPT %s

// The choice that torch makes of a softmax with hidden rows looks at every score; what is made of it again looks at the
// largest one of each row.
func.func @safe(%x: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %p = aten._softmax.default(%x, dim = -1, half_to_float = false) : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %e = aten.eq.Scalar(%x, other = -inf) : (tensor<2x3x5xf32>) -> tensor<2x3x5xi1>
  %n = aten.logical_not.default(%e) : (tensor<2x3x5xi1>) -> tensor<2x3x5xi1>
  %a = aten.any.dim(%n, dim = 2, keepdim = true) : (tensor<2x3x5xi1>) -> tensor<2x3x1xi1>
  %h = aten.logical_not.default(%a) : (tensor<2x3x1xi1>) -> tensor<2x3x1xi1>
  %z = aten.full_like.default(%p, fill_value = 0) : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %y = aten.where.self(%h, %z, %p) : (tensor<2x3x1xi1>, tensor<2x3x5xf32>, tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  func.return %y : tensor<2x3x5xf32>
}
// CHECK:      func.func @safe
// CHECK-NEXT:   [[P:%[^ ]+]] = aten._softmax.default
// CHECK-NEXT:   [[M:%[^ ]+]] = aten.amax.default(%x, dim = [2], keepdim = true)
// CHECK-NEXT:   [[H:%[^ ]+]] = aten.eq.Scalar([[M]], other = -inf) : (tensor<2x3x1xf32>)
// CHECK:        aten.where.self([[H]], {{.*}}, [[P]])
// CHECK-NEXT:   func.return
// KEPT:      func.func @safe
// KEPT-NEXT:   aten._safe_softmax.default(%x, dim = 2)
// KEPT-NEXT:   func.return

// Another dim than the softmax's is another choice.
func.func @columns(%x: tensor<5x5xf32>) -> tensor<5x5xf32> {
  %p = aten._softmax.default(%x, dim = 1, half_to_float = false) : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %e = aten.eq.Scalar(%x, other = -inf) : (tensor<5x5xf32>) -> tensor<5x5xi1>
  %n = aten.logical_not.default(%e) : (tensor<5x5xi1>) -> tensor<5x5xi1>
  %a = aten.any.dim(%n, dim = 0, keepdim = true) : (tensor<5x5xi1>) -> tensor<1x5xi1>
  %h = aten.logical_not.default(%a) : (tensor<1x5xi1>) -> tensor<1x5xi1>
  %z = aten.full_like.default(%p, fill_value = 0) : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %y = aten.where.self(%h, %z, %p) : (tensor<1x5xi1>, tensor<5x5xf32>, tensor<5x5xf32>) -> tensor<5x5xf32>
  func.return %y : tensor<5x5xf32>
}
// KEPT:      func.func @columns
// KEPT:        aten.where.self

// So are other numbers than zeros.
func.func @ones(%x: tensor<5x5xf32>) -> tensor<5x5xf32> {
  %p = aten._softmax.default(%x, dim = 1, half_to_float = false) : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %e = aten.eq.Scalar(%x, other = -inf) : (tensor<5x5xf32>) -> tensor<5x5xi1>
  %n = aten.logical_not.default(%e) : (tensor<5x5xi1>) -> tensor<5x5xi1>
  %a = aten.any.dim(%n, dim = 1, keepdim = true) : (tensor<5x5xi1>) -> tensor<5x1xi1>
  %h = aten.logical_not.default(%a) : (tensor<5x1xi1>) -> tensor<5x1xi1>
  %z = aten.full_like.default(%p, fill_value = 1) : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %y = aten.where.self(%h, %z, %p) : (tensor<5x1xi1>, tensor<5x5xf32>, tensor<5x5xf32>) -> tensor<5x5xf32>
  func.return %y : tensor<5x5xf32>
}
// KEPT:      func.func @ones
// KEPT:        aten.where.self
