// RUN: et-opt -p 'round-weights{method=nearest}' %s | filecheck %s
// RUN: not et-opt -p 'round-weights{method=gptq}' %s 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not et-opt -p 'round-weights{method=best}' %s 2>&1 | filecheck %s --check-prefix=UNKNOWN
// NONE: error[E1503]: rounding weights by 'gptq' needs to see inputs
// UNKNOWN: error[E0503]

et.weight @w : tensor<4x64xf32> = #et.synthetic<seed = 1>

// CHECK-DAG: et.weight @w_int4 : tensor<4x64xi8>
// CHECK-LABEL: func.func @layer
func.func @layer(%x: tensor<2x64xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %w = et.get_weight @w : tensor<4x64xf32>
  // A scale for each 32 numbers; the mark stays, so that a report knows.
  // CHECK: %[[W:.*]] = edge.quantized_decomposed.dequantize_per_channel_group.default({{.*}}, quant_min = -8, quant_max = 7, dtype = i8, group_size = 32
  // CHECK: edge.aten.linear.default(%x, %[[W]]) {quant.weight = #quant.uniform<i4, axis = 0, block = 32>}
  %y = edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i4, axis = 0, block = 32>} : (tensor<2x64xf32>, tensor<4x64xf32>) -> tensor<2x4xf32>
  // Not marked: left alone.
  // CHECK: edge.aten.linear.default(%x, %w) :
  %z = edge.aten.linear.default(%x, %w) : (tensor<2x64xf32>, tensor<4x64xf32>) -> tensor<2x4xf32>
  func.return %y, %z : tensor<2x4xf32>, tensor<2x4xf32>
}
