// RUN: et-opt -p fuse-eager-attention %s | filecheck %s
// RUN: et-opt -p fuse-eager-attention --explain-match=fuse-eager-attention --no-output %s 2>&1 | filecheck %s --check-prefix=WHY

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>, %mask: tensor<1x1x3x8xf32>) -> tensor<1x2x3x4xf32> {
  // Dropout would keep what it reads.
  // CHECK-NOT: aten.dropout
  // CHECK: %[[Y:.*]] = aten.scaled_dot_product_attention.default(%q, %k, %v, %mask, scale = 0.25)
  // CHECK-NEXT: func.return %[[Y]]
  %t = aten.transpose.int(%k, dim0 = -1, dim1 = -2) : (tensor<1x2x8x4xf32>) -> tensor<1x2x4x8xf32>
  %0 = aten.matmul.default(%q, %t) : (tensor<1x2x3x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x8xf32>
  %1 = aten.mul.Tensor(%0, 0.25) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %2 = aten.add.Tensor(%1, %mask) : (tensor<1x2x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32>
  %3 = aten.softmax.int(%2, dim = -1, dtype = f32) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %4 = aten.to.dtype(%3, dtype = f32) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %5 = aten.dropout.default(%4, p = 0.1, train = false) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  // WHY: 'fuse-eager-attention' rewrote 'aten.matmul.default'
  %y = aten.matmul.default(%5, %v) : (tensor<1x2x3x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x3x4xf32>
  func.return %y : tensor<1x2x3x4xf32>
}

// A soft cap of the scores has no place in the operator.

// CHECK-LABEL: func.func @soft_cap
func.func @soft_cap(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>, %mask: tensor<1x1x3x8xf32>) -> tensor<1x2x3x4xf32> {
  %t = aten.transpose.int(%k, dim0 = 2, dim1 = 3) : (tensor<1x2x8x4xf32>) -> tensor<1x2x4x8xf32>
  %0 = aten.matmul.default(%q, %t) : (tensor<1x2x3x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x8xf32>
  %1 = aten.tanh.default(%0) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %2 = aten.mul.Tensor(%1, 50.0) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %3 = aten.add.Tensor(%2, %mask) : (tensor<1x2x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32>
  %4 = aten.softmax.int(%3, dim = -1) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  // WHY: the scores are not scaled products and a mask
  // CHECK: aten.matmul.default
  // CHECK: aten.matmul.default
  %y = aten.matmul.default(%4, %v) : (tensor<1x2x3x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x3x4xf32>
  func.return %y : tensor<1x2x3x4xf32>
}

// What is multiplied after the mask multiplies the mask, too.

// CHECK-LABEL: func.func @scale_after_mask
func.func @scale_after_mask(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>, %mask: tensor<1x1x3x8xf32>) -> tensor<1x2x3x4xf32> {
  // CHECK: %[[MASK:.*]] = aten.mul.Scalar(%mask, other = 0.5)
  // CHECK-NEXT: %[[Y:.*]] = aten.scaled_dot_product_attention.default(%q, %k, %v, %[[MASK]], scale = 0.5)
  // CHECK-NEXT: func.return %[[Y]]
  %t = aten.transpose.int(%k, dim0 = 2, dim1 = 3) : (tensor<1x2x8x4xf32>) -> tensor<1x2x4x8xf32>
  %0 = aten.matmul.default(%q, %t) : (tensor<1x2x3x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x8xf32>
  %1 = aten.add.Tensor(%0, %mask) : (tensor<1x2x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32>
  %2 = aten.div.Tensor(%1, 2.0) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %3 = aten.softmax.int(%2, dim = -1) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %y = aten.matmul.default(%3, %v) : (tensor<1x2x3x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x3x4xf32>
  func.return %y : tensor<1x2x3x4xf32>
}

// A product of heads in three dims, which is added to zeros.

// CHECK-LABEL: func.func @batched
func.func @batched(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>, %mask: tensor<1x1x3x8xf32>) -> tensor<1x2x3x4xf32> {
  // CHECK: %[[Y:.*]] = aten.scaled_dot_product_attention.default(%q, %k, %v, %mask, scale = 0.25)
  // CHECK-NEXT: func.return %[[Y]]
  %q3 = aten.view.default(%q, size = [2, 3, 4]) : (tensor<1x2x3x4xf32>) -> tensor<2x3x4xf32>
  %k3 = aten.view.default(%k, size = [2, 8, 4]) : (tensor<1x2x8x4xf32>) -> tensor<2x8x4xf32>
  %t = aten.transpose.int(%k3, dim0 = 1, dim1 = 2) : (tensor<2x8x4xf32>) -> tensor<2x4x8xf32>
  %zeros = aten.zeros.default(size = [2, 3, 8], dtype = f32) : () -> tensor<2x3x8xf32>
  %0 = aten.baddbmm.default(%zeros, %q3, %t, beta = 1.0, alpha = 0.25) : (tensor<2x3x8xf32>, tensor<2x3x4xf32>, tensor<2x4x8xf32>) -> tensor<2x3x8xf32>
  %1 = aten.view.default(%0, size = [1, 2, 3, 8]) : (tensor<2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %2 = aten.add.Tensor(%1, %mask) : (tensor<1x2x3x8xf32>, tensor<1x1x3x8xf32>) -> tensor<1x2x3x8xf32>
  %3 = aten.softmax.int(%2, dim = -1) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %y = aten.matmul.default(%3, %v) : (tensor<1x2x3x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x3x4xf32>
  func.return %y : tensor<1x2x3x4xf32>
}

// A product that is added to something.

// CHECK-LABEL: func.func @added
func.func @added(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>, %bias: tensor<2x3x8xf32>) -> tensor<1x2x3x4xf32> {
  %q3 = aten.view.default(%q, size = [2, 3, 4]) : (tensor<1x2x3x4xf32>) -> tensor<2x3x4xf32>
  %k3 = aten.view.default(%k, size = [2, 8, 4]) : (tensor<1x2x8x4xf32>) -> tensor<2x8x4xf32>
  %t = aten.transpose.int(%k3, dim0 = 1, dim1 = 2) : (tensor<2x8x4xf32>) -> tensor<2x4x8xf32>
  // CHECK: aten.baddbmm.default
  %0 = aten.baddbmm.default(%bias, %q3, %t, beta = 1.0, alpha = 0.25) : (tensor<2x3x8xf32>, tensor<2x3x4xf32>, tensor<2x4x8xf32>) -> tensor<2x3x8xf32>
  %1 = aten.view.default(%0, size = [1, 2, 3, 8]) : (tensor<2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %3 = aten.softmax.int(%1, dim = -1) : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  // CHECK: aten.matmul.default
  %y = aten.matmul.default(%3, %v) : (tensor<1x2x3x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x3x4xf32>
  func.return %y : tensor<1x2x3x4xf32>
}
