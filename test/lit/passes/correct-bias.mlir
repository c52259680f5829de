// RUN: python -c "import numpy; numpy.savez('%t.npz', numpy.full((3, 1, 2), 4.0, 'float32'))"
// RUN: et-opt -p 'correct-bias{data="%t.npz"}' %s | filecheck %s
// RUN: not et-opt -p correct-bias %s 2>&1 | filecheck %s --check-prefix=NONE
// NONE: error[E1503]: correct-bias needs to see inputs

// The weight 0.3 is stored as 38 / 127, which is -0.00078 away: 4 * 0.00078 comes off the first channel, nothing off the
// second, whose numbers are exact. A layer without a bias gets one; one without the mark is left alone.

// CHECK-LABEL: func.func @forward
func.func @forward(%x: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  %w = et.constant dense<[[1.0, 0.3], [1.0, 1.0]]> : tensor<2x2xf32>
  %u = et.constant dense<[[1.0, 0.3], [1.0, 0.0]]> : tensor<2x2xf32>
  // CHECK: %[[B:.*]] = et.constant dense<[0.0031{{.*}}, 0.000000e+00]> : tensor<2xf32>
  // CHECK: edge.aten.linear.default(%x, %w, %[[B]]) {quant.weight = #quant.uniform<i8, axis = 0>}
  %y = edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i8, axis = 0>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  // CHECK: edge.aten.linear.default(%x, %u) :
  %z = edge.aten.linear.default(%x, %u) : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %y, %z : tensor<1x2xf32>, tensor<1x2xf32>
}
