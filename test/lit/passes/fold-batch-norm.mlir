// RUN: et-opt --fold-batch-norm --split-input-file %s | filecheck %s
// RUN: et-opt --fold-batch-norm --split-input-file --print-debuginfo %s | filecheck %s --check-prefix=LOC

// gamma 2, beta 1, mean 3, variance 4: with s = 2 / sqrt(4 + 0) = 1, the filter stays and the bias is (5 - 3) * 1 + 1 = 3.
// CHECK-LABEL: func.func @numbers
// LOC-LABEL: func.func @numbers
func.func @numbers(%x: tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32> {
  %w = et.constant dense<7.0> : tensor<1x1x1x1xf32>
  %b = et.constant dense<5.0> : tensor<1xf32>
  %gamma = et.constant dense<2.0> : tensor<1xf32>
  %beta = et.constant dense<1.0> : tensor<1xf32>
  %mean = et.constant dense<3.0> : tensor<1xf32>
  %var = et.constant dense<4.0> : tensor<1xf32>
  // CHECK: %[[W:.*]] = et.constant dense<7.000000e+00> : tensor<1x1x1x1xf32>
  // CHECK: %[[B:.*]] = et.constant dense<3.000000e+00> : tensor<1xf32>
  // CHECK-NEXT: %y = edge.aten.convolution.default(%x, %[[W]], %[[B]],
  // CHECK-NOT: batch_norm
  // CHECK: func.return %y
  // LOC: %y = edge.aten.convolution.default{{.*}} loc(fused["m.py":1:0, "m.py":2:0])
  %c = edge.aten.convolution.default(%x, %w, %b, stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>, tensor<1xf32>) -> tensor<1x1x2x2xf32> loc("m.py":1:0)
  %y, %m, %v = edge.aten._native_batch_norm_legit_no_training.default(%c, %gamma, %beta, %mean, %var, momentum = 0.1, eps = 0.0) : (tensor<1x1x2x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<1x1x2x2xf32>, tensor<0xf32>, tensor<0xf32>) loc("m.py":2:0)
  func.return %y : tensor<1x1x2x2xf32>
}

// -----

// Left alone: a convolution that something else reads, an input that is no convolution, weights whose bytes are elsewhere.
et.weight @missing : tensor<1x1x1x1xf32> = #et.blob<"sha256:00000000000000000000000000000000", 4>

// CHECK-LABEL: func.func @left_alone
func.func @left_alone(%x: tensor<1x1x2x2xf32>) -> (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) {
  %one = et.constant dense<1.0> : tensor<1xf32>
  %w = et.constant dense<7.0> : tensor<1x1x1x1xf32>
  %missing = et.get_weight @missing : tensor<1x1x1x1xf32>
  %c = edge.aten.convolution.default(%x, %w, stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x2x2xf32>
  %d = edge.aten.convolution.default(%x, %missing, stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x2x2xf32>
  // CHECK-COUNT-3: edge.aten._native_batch_norm_legit_no_training.default
  %0, %1, %2 = edge.aten._native_batch_norm_legit_no_training.default(%c, %one, %one, %one, %one, momentum = 0.1, eps = 0.1) : (tensor<1x1x2x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<1x1x2x2xf32>, tensor<0xf32>, tensor<0xf32>)
  %3, %4, %5 = edge.aten._native_batch_norm_legit_no_training.default(%x, %one, %one, %one, %one, momentum = 0.1, eps = 0.1) : (tensor<1x1x2x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<1x1x2x2xf32>, tensor<0xf32>, tensor<0xf32>)
  %6, %7, %8 = edge.aten._native_batch_norm_legit_no_training.default(%d, %one, %one, %one, %one, momentum = 0.1, eps = 0.1) : (tensor<1x1x2x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<1x1x2x2xf32>, tensor<0xf32>, tensor<0xf32>)
  func.return %c, %0, %3, %6 : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>
}
