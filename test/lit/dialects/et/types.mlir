// RUN: %roundtrip
// RUN: %generic

// Payloads: bytes by content, or made from a seed; `et.weight` takes no others.

// CHECK: et.weight @blob : tensor<2x3xf16> = #et.blob<"sha256:00112233445566778899aabbccddeeff", 12>
et.weight @blob : tensor<2x3xf16> = #et.blob<"sha256:00112233445566778899aabbccddeeff", 12>
// CHECK-NEXT: et.weight @made : tensor<2x3xbf16> = #et.synthetic<seed = 0>
et.weight @made : tensor<2x3xbf16> = #et.synthetic<seed = 0>
// CHECK-NEXT: et.weight @scalar : tensor<i64> = #et.blob<"sha256:00112233445566778899aabbccddeeff", 8>
et.weight @scalar : tensor<i64> = #et.blob<"sha256:00112233445566778899aabbccddeeff", 8>
// CHECK-NEXT: et.weight @ordered : tensor<1x8x4x4xf32, #et.layout<order = [0, 2, 3, 1]>> = #et.synthetic<seed = 3>
et.weight @ordered : tensor<1x8x4x4xf32, #et.layout<order = [0, 2, 3, 1]>> = #et.synthetic<seed = 3>
// CHECK-NEXT: et.weight @quantized : tensor<4x!et.dtype<qint8>> = #et.blob<"sha256:00112233445566778899aabbccddeeff", 4>
et.weight @quantized : tensor<4x!et.dtype<qint8>> = #et.blob<"sha256:00112233445566778899aabbccddeeff", 4>

// What is no tensor has types of its own.
// CHECK: func.func @values(%n: !et.none, %s: !et.string, %i: i64, %f: f64, %b: i1)
func.func @values(%n: !et.none, %s: !et.string, %i: i64, %f: f64, %b: i1) {
  func.return
}

// Small constants keep their bits.
// CHECK-LABEL: func.func @constants
func.func @constants() {
  // CHECK-NEXT: et.constant dense<true> : tensor<i1>
  %0 = et.constant dense<true> : tensor<i1>
  // CHECK-NEXT: et.constant dense<[-1.000000e+00, 1.000000e-01, 0.33333333333333331]> : tensor<3xf64>
  %1 = et.constant dense<[-1.0, 0.1, 0.3333333333333333]> : tensor<3xf64>
  // CHECK-NEXT{LITERAL}: et.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %2 = et.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  func.return
}
