// RUN: et-opt -p 'annotate-quantization{target=etir reduce_range=true}' %s | filecheck %s
// RUN: et-opt -p 'annotate-quantization{recipe=dynamic-int8 target=etir reduce_range=true}' %s | filecheck %s --check-prefix=DYNAMIC
// RUN: et-opt -p 'annotate-quantization{target=etir reduce_range=true},materialize-quantization' %s | filecheck %s --check-prefix=WRITTEN
// RUN: not et-opt -p 'annotate-quantization{recipe=weight-int8 reduce_range=true}' %s 2>&1 | filecheck %s --check-prefix=REFUSED
// RUN: not et-opt -p 'annotate-quantization{recipe=8da4w target=etir reduce_range=true}' %s 2>&1 | filecheck %s --check-prefix=REFUSED

// Weights that integers are multiplied by are marked; a dequantize operator has the same bounds as for all others, so
// that every backend that takes those takes these.

et.weight @w : tensor<16x32xf32> = #et.synthetic<seed = 1>

// CHECK-LABEL: func.func @layer
// REFUSED: error[E1501]: '{{8da4w|weight-int8}}' with weights of a reduced range
func.func @layer(%x: tensor<2x32xf32>) -> tensor<2x16xf32> {
  // CHECK: edge.aten.linear.default({{.*}}, %w) {quant.weight = #quant.uniform<i8<-63:63>, axis = 0>, quant.integers}
  // DYNAMIC: edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i8<-63:63>, axis = 0>, quant.dynamic = ["input"]}
  // WRITTEN: edge.quantized_decomposed.dequantize_per_channel.default({{.*}}quant_min = -127, quant_max = 127
  %w = et.get_weight @w : tensor<16x32xf32>
  %y = edge.aten.linear.default(%x, %w) : (tensor<2x32xf32>, tensor<16x32xf32>) -> tensor<2x16xf32>
  func.return %y : tensor<2x16xf32>
}
