// RUN: %roundtrip
// RUN: %generic

// Shape and layout are in the type. Nothing is written for what is static and contiguous.

// CHECK: sym.dim @s0 in [1, 64]
sym.dim @s0 in [1, 64]
// CHECK-NEXT: sym.dim @s1 in [2, 16]
sym.dim @s1 in [2, 16]

// CHECK-LABEL: func.func @layouts
func.func @layouts(
  // CHECK-SAME: %scalar: tensor<f32>
  %scalar: tensor<f32>,
  // CHECK-SAME: %empty: tensor<0x4xf32>
  %empty: tensor<0x4xf32>,
  // CHECK-SAME: %static: tensor<2x4xf32>
  %static: tensor<2x4xf32>,
  // CHECK-SAME: %batch: tensor<?x4xf32, #et.layout<dims = [s0, 4]>>
  %batch: tensor<?x4xf32, #et.layout<dims = [s0, 4]>>,
  // Expressions are kept in one normal form.
  // CHECK-SAME: %expr: tensor<?x?xf32, #et.layout<dims = [2 * s0 + 1, s1 + (s0 - 1) floordiv 2]>>
  %expr: tensor<?x?xf32, #et.layout<dims = [1 + s0 * 2, s1 + (s0 - 1) floordiv 2]>>,
  // CHECK-SAME: %channels_last: tensor<1x8x4x4xf32, #et.layout<order = [0, 2, 3, 1]>>
  %channels_last: tensor<1x8x4x4xf32, #et.layout<order = [0, 2, 3, 1]>>,
  // CHECK-SAME: %both: tensor<?x8x4x4xf32, #et.layout<dims = [s0, 8, 4, 4], order = [0, 2, 3, 1]>>
  %both: tensor<?x8x4x4xf32, #et.layout<dims = [s0, 8, 4, 4], order = [0, 2, 3, 1]>>) {
  func.return
}
