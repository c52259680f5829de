// RUN: python -c "import numpy; numpy.savez('%t.npz', numpy.full((3, 1, 2), 4.0, 'float32'))"
// RUN: et-opt -p 'search-precision{budget=60 data="%t.npz"}' %s | filecheck %s
// RUN: et-opt -p 'search-precision{budget=5 data="%t.npz"}' %s | filecheck %s --check-prefix=ENOUGH
// RUN: not et-opt -p search-precision %s 2>&1 | filecheck %s --check-prefix=NONE
// NONE: error[E1503]: search-precision needs to see inputs

// A scale of 3 loses 4.0; nothing that reads or makes the value is on integers afterwards, so that its observer goes.

// CHECK-LABEL: func.func @forward
func.func @forward(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = et.constant dense<[[1.0, 0.0], [0.0, 1.0]]> : tensor<2x2xf32>
  // CHECK-NOT: quant.observe
  // CHECK: edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i8, axis = 0>} :
  // ENOUGH-COUNT-2: quant.observe
  %0 = quant.observe %x {as = #quant.uniform<i8, scale = 3.0, zero_point = 0>} : tensor<1x2xf32>
  %1 = edge.aten.linear.default(%0, %w) {quant.weight = #quant.uniform<i8, axis = 0>, quant.integers} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %2 = quant.observe %1 {as = #quant.uniform<i8, scale = 3.0, zero_point = 0>} : tensor<1x2xf32>
  func.return %2 : tensor<1x2xf32>
}
