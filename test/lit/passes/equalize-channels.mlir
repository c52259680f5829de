// RUN: et-opt -p equalize-channels --split-input-file %s | filecheck %s

// Channels of 64 and 1 that are read by filters of 1 and 64: both are 8 afterwards, and so is the bias. The median of the
// factors is 1.

// CHECK-LABEL: func.func @layers
func.func @layers(%x: tensor<2x1xf32>) -> tensor<2x1xf32> {
  // CHECK-DAG: dense<8.000000e+00> : tensor<2x1xf32>
  // CHECK-DAG: dense<[1.250000e-01, 8.000000e+00]> : tensor<2xf32>
  // CHECK-DAG: dense<8.000000e+00> : tensor<1x2xf32>
  %w = et.constant dense<[[64.0], [1.0]]> : tensor<2x1xf32>
  %b = et.constant dense<1.0> : tensor<2xf32>
  %v = et.constant dense<[[1.0, 64.0]]> : tensor<1x2xf32>
  %y = edge.aten.linear.default(%x, %w, %b) : (tensor<2x1xf32>, tensor<2x1xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %r = edge.aten.relu.default(%y) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %z = edge.aten.linear.default(%r, %v) : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x1xf32>
  func.return %z : tensor<2x1xf32>
}

// -----

// Left alone: relu6 clips at 6 whatever the factor, and the sum with an input has channels that nobody may scale.

// CHECK-LABEL: func.func @pinned
func.func @pinned(%x: tensor<2x1xf32>, %a: tensor<2x2xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>) {
  // CHECK-COUNT-2: dense<{{\[\[}}6.400000e+01], [1.000000e+00]]> : tensor<2x1xf32>
  %w = et.constant dense<[[64.0], [1.0]]> : tensor<2x1xf32>
  %w2 = et.constant dense<[[64.0], [1.0]]> : tensor<2x1xf32>
  %v = et.constant dense<[[1.0, 64.0]]> : tensor<1x2xf32>
  %v2 = et.constant dense<[[1.0, 64.0]]> : tensor<1x2xf32>
  %y = edge.aten.linear.default(%x, %w) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  %r = edge.aten.relu6.default(%y) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %z = edge.aten.linear.default(%r, %v) : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x1xf32>
  %y2 = edge.aten.linear.default(%x, %w2) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  %s2 = edge.aten.add.Tensor(%y2, %a) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %z2 = edge.aten.linear.default(%s2, %v2) : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x1xf32>
  func.return %z, %z2 : tensor<2x1xf32>, tensor<2x1xf32>
}
