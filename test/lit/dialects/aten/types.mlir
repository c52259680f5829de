// RUN: %roundtrip
// RUN: %generic

// CHECK-LABEL: func.func @element_types
func.func @element_types(
  // CHECK-SAME: %0: tensor<ui8>, %1: tensor<i8>, %2: tensor<i16>, %3: tensor<i32>, %4: tensor<i64>
  %0: tensor<ui8>, %1: tensor<i8>, %2: tensor<i16>, %3: tensor<i32>, %4: tensor<i64>,
  // CHECK-SAME: %5: tensor<f16>, %6: tensor<bf16>, %7: tensor<f32>, %8: tensor<f64>, %9: tensor<i1>
  %5: tensor<f16>, %6: tensor<bf16>, %7: tensor<f32>, %8: tensor<f64>, %9: tensor<i1>,
  // CHECK-SAME: %10: tensor<complex<f32>>, %11: tensor<complex<f64>>
  %10: tensor<complex<f32>>, %11: tensor<complex<f64>>,
  // CHECK-SAME: %12: tensor<ui16>, %13: tensor<ui32>, %14: tensor<ui64>
  %12: tensor<ui16>, %13: tensor<ui32>, %14: tensor<ui64>,
  // CHECK-SAME: %15: tensor<f8E5M2>, %16: tensor<f8E4M3FN>
  %15: tensor<f8E5M2>, %16: tensor<f8E4M3FN>,
  // Types that MLIR has no spelling for.
  // CHECK-SAME: %17: tensor<4x!et.dtype<qint8>>, %18: tensor<4x!et.dtype<quint4x2>>
  %17: tensor<4x!et.dtype<qint8>>, %18: tensor<4x!et.dtype<quint4x2>>) {
  func.return
}

// CHECK-LABEL: func.func @dtype_arguments
func.func @dtype_arguments(%x: tensor<4xf32>) {
  // CHECK-NEXT: dtype = bf16
  %0 = aten.to.dtype(%x, dtype = bf16) : (tensor<4xf32>) -> tensor<4xbf16>
  // CHECK-NEXT: dtype = ui8
  %1 = aten.to.dtype(%x, dtype = ui8) : (tensor<4xf32>) -> tensor<4xui8>
  // CHECK-NEXT: dtype = i1
  %2 = aten.to.dtype(%x, dtype = i1) : (tensor<4xf32>) -> tensor<4xi1>
  // CHECK-NEXT: dtype = complex<f32>
  %3 = aten.to.dtype(%x, dtype = complex<f32>) : (tensor<4xf32>) -> tensor<4xcomplex<f32>>
  func.return
}
