// RUN: et-opt --decompose-aten --split-input-file --verify-diagnostics %s

// Training mode has no place in a program for inference.
func.func @batch_norm(%x: tensor<2x3x4xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>) -> tensor<2x3x4xf32> {
  // expected-error @+1 {{aten.batch_norm.default updates its running statistics}}
  %0 = aten.batch_norm.default(%x, none, none, %m, %v, training = true, momentum = 0.1, eps = 0.00001, cudnn_enabled = false) : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4xf32>
  func.return %0 : tensor<2x3x4xf32>
}

// -----

// Steps are unrolled: their number must be known.
sym.dim @s0 in [1, 8]
func.func @gru(%x: tensor<?x1x4xf32, #et.layout<dims = [s0, 1, 4]>>, %h: tensor<1x1x2xf32>, %w: tensor<6x4xf32>, %u: tensor<6x2xf32>) -> (tensor<?x1x2xf32, #et.layout<dims = [s0, 1, 2]>>, tensor<1x1x2xf32>) {
  // expected-error @+1 {{aten.gru.input runs over s0 steps}}
  %0, %1 = aten.gru.input(%x, %h, [%w, %u], has_biases = false, num_layers = 1, dropout = 0.0, train = false, bidirectional = false, batch_first = false) : (tensor<?x1x4xf32, #et.layout<dims = [s0, 1, 4]>>, tensor<1x1x2xf32>, tensor<6x4xf32>, tensor<6x2xf32>) -> (tensor<?x1x2xf32, #et.layout<dims = [s0, 1, 2]>>, tensor<1x1x2xf32>)
  func.return %0, %1 : tensor<?x1x2xf32, #et.layout<dims = [s0, 1, 2]>>, tensor<1x1x2xf32>
}
