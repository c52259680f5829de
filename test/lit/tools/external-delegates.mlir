// Weights of delegates in a file beside the program.
//
// RUN: rm -rf %t && mkdir %t
// RUN: et-compile %s -o %t/model.pte --delegate xnnpack --external-weights outside
// RUN: et-translate --disassemble %t/model.pte | filecheck %s
// RUN: grep -c '02d1b4c2259210724aa6869ed35d3360' %t/outside.ptd

et.weight @w : tensor<6x4xf32> = #et.synthetic<seed = 3> {fqn = "fc.weight"}

// The bytes are not in the program: the blob names them.
// CHECK: xnn.constant "02d1b4c2259210724aa6869ed35d3360" : !xnn.tensor<6x4xfp32>
func.func @forward(%x: tensor<1x4xf32>) -> tensor<1x6xf32> {
  %w = et.get_weight @w : tensor<6x4xf32>
  %0 = edge.aten.linear.default(%x, %w) : (tensor<1x4xf32>, tensor<6x4xf32>) -> tensor<1x6xf32>
  func.return %0 : tensor<1x6xf32>
}
