// RUN: et-opt %s | filecheck %s
// RUN: et-opt %s | et-opt | filecheck %s

// Infinities and NaN print as their bits; what prints so reads back as the same number, also among others.

// CHECK: et.constant dense<0xff800000> : tensor<f32>
// CHECK: et.constant dense<0x7c00> : tensor<2xf16>
// CHECK: et.constant dense<0x7f80> : tensor<bf16>
// CHECK: et.constant dense<0x7ff8000000000000> : tensor<f64>
// CHECK: et.constant dense<[1.000000e+00, 0x7f800000, 2.500000e-01]> : tensor<3xf32>
// CHECK: et.constant dense<[(0xff800000,1.000000e+00), (2.000000e+00,3.000000e+00)]> : tensor<2xcomplex<f32>>
// CHECK: et.constant dense<2139095040> : tensor<i64>
// CHECK: et.constant dense<-16> : tensor<i32>
func.func @forward() {
  %0 = et.constant dense<0xff800000> : tensor<f32>
  %1 = et.constant dense<0x7c00> : tensor<2xf16>
  %2 = et.constant dense<0x7f80> : tensor<bf16>
  %3 = et.constant dense<0x7FF8000000000000> : tensor<f64>
  %4 = et.constant dense<[1.0, 0x7f800000, 0x3e800000]> : tensor<3xf32>
  %5 = et.constant dense<[(0xff800000,1.0), (2.0,3.0)]> : tensor<2xcomplex<f32>>
  %6 = et.constant dense<0x7f800000> : tensor<i64>
  %7 = et.constant dense<-0x10> : tensor<i32>
  func.return
}
