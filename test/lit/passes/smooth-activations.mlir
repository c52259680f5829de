// RUN: python -c "import numpy; numpy.savez('%t.npz', numpy.array([[[[1.0, -1.0]]], [[[1.0, 1.0]]]], 'float32').reshape(2, 1, 2))"
// RUN: et-opt -p 'smooth-activations{data="%t.npz"}' %s | filecheck %s
// RUN: et-opt -p 'smooth-activations{alpha=0 data="%t.npz"}' %s | filecheck %s --check-prefix=SAME
// RUN: not et-opt -p smooth-activations %s 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not et-opt -p 'smooth-activations{alpha=1.5 data="%t.npz"}' %s 2>&1 | filecheck %s --check-prefix=ALPHA
// NONE: error[E1503]: smooth-activations needs to see inputs
// ALPHA: error[E1501]: smoothing with alpha 1.5, which is not from 0 to 1

// The second channel of the norm is 256 times the first: half of the octaves, one for each side of the middle, move into
// the weights of the layer. Nothing moves where weights alone count, which are equal.

// CHECK-LABEL: func.func @forward
// SAME-LABEL: func.func @forward
func.func @forward(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  // CHECK-DAG: dense<[4.000000e+00, 6.400000e+01]> : tensor<2xf32>
  // CHECK-DAG: dense<{{\[\[}}2.500000e-01, 4.000000e+00], [2.500000e-01, 4.000000e+00]]> : tensor<2x2xf32>
  // SAME: dense<[1.000000e+00, 2.560000e+02]> : tensor<2xf32>
  %gamma = et.constant dense<[1.0, 256.0]> : tensor<2xf32>
  %w = et.constant dense<1.0> : tensor<2x2xf32>
  %y, %m, %r = edge.aten.native_layer_norm.default(%x, %gamma, normalized_shape = [2], eps = 1.0) : (tensor<1x2xf32>, tensor<2xf32>) -> (tensor<1x2xf32>, tensor<1x1xf32>, tensor<1x1xf32>)
  %z = edge.aten.linear.default(%y, %w) : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %z : tensor<1x2xf32>
}
