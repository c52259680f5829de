// RUN: %roundtrip
// RUN: %generic

// Expressions of dims: sums of products, floordiv, ceildiv, mod, min, max. One normal form for equal expressions, so that
// equality of types is equality of shapes.

sym.dim @s0 in [1, 64]
sym.dim @s1 in [1, 64]
sym.dim @s2 in [1, 64]

// CHECK-LABEL: func.func @normal_forms
func.func @normal_forms(
  // CHECK-SAME: %0: tensor<?xf32, #et.layout<dims = [s0 + s1]>>, %1: tensor<?xf32, #et.layout<dims = [s0 + s1]>>
  %0: tensor<?xf32, #et.layout<dims = [s0 + s1]>>, %1: tensor<?xf32, #et.layout<dims = [s1 + s0]>>,
  // CHECK-SAME: %2: tensor<?xf32, #et.layout<dims = [s0 * s1]>>
  %2: tensor<?xf32, #et.layout<dims = [s1 * s0]>>,
  // CHECK-SAME: %3: tensor<?xf32, #et.layout<dims = [3 * s0]>>
  %3: tensor<?xf32, #et.layout<dims = [s0 + 2 * s0]>>,
  // CHECK-SAME: %4: tensor<?xf32, #et.layout<dims = [s0 floordiv 2]>>
  %4: tensor<?xf32, #et.layout<dims = [s0 floordiv 2]>>,
  // CHECK-SAME: %5: tensor<?xf32, #et.layout<dims = [s0 mod 4]>>
  %5: tensor<?xf32, #et.layout<dims = [s0 mod 4]>>,
  // CHECK-SAME: %6: tensor<?xf32, #et.layout<dims = [min(s0, s1)]>>
  %6: tensor<?xf32, #et.layout<dims = [min(s1, s0)]>>,
  // CHECK-SAME: %7: tensor<?xf32, #et.layout<dims = [max(s0, 8)]>>
  %7: tensor<?xf32, #et.layout<dims = [max(8, s0)]>>,
  // What cancels out leaves a static dim beside the symbolic one.
  // CHECK-SAME: %8: tensor<4x?xf32, #et.layout<dims = [4, s2]>>
  %8: tensor<4x?xf32, #et.layout<dims = [s0 + 4 - s0, s2]>>) {
  func.return
}
