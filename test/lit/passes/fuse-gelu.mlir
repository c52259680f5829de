// RUN: et-opt -p 'fuse-gelu' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'fuse-gelu' --split-input-file --explain-match=gelu-of-tanh --no-output %s 2>&1 | filecheck %s --check-prefix=WHY

// With a third power, as GPT-2 has it.

// CHECK-LABEL: func.func @cube
func.func @cube(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // CHECK-NEXT: %[[A:.*]] = edge.aten.gelu.default(%x, approximate = "tanh") : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: func.return %[[A]]
  %h = edge.aten.mul.Scalar(%x, other = 0.5) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %c = edge.aten.pow.Tensor_Scalar(%x, exponent = 3.0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = edge.aten.mul.Scalar(%c, other = 0.044715) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %a = edge.aten.add.Tensor(%x, %m) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %i = edge.aten.mul.Scalar(%a, other = 0.7978845608028654) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %t = edge.aten.tanh.default(%i) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %p = edge.aten.add.Scalar(%t, other = 1.0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %y = edge.aten.mul.Tensor(%h, %p) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// -----

// With a square that is factored out, as BLOOM has it, and half of the sum instead of half of the operand.

// CHECK-LABEL: func.func @square
func.func @square(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // CHECK-NEXT: %[[N:.*]] = edge.aten.neg.default(%x)
  // CHECK-NEXT: %[[A:.*]] = edge.aten.gelu.default(%[[N]], approximate = "tanh") : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: func.return %[[A]]
  %n = edge.aten.neg.default(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %s = edge.aten.mul.Scalar(%n, other = 0.79788456) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %m = edge.aten.mul.Scalar(%n, other = 0.044715) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %q = edge.aten.mul.Tensor(%m, %n) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %a = edge.aten.add.Scalar(%q, other = 1) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %i = edge.aten.mul.Tensor(%s, %a) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %t = edge.aten.tanh.default(%i) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %p = edge.aten.add.Scalar(%t, other = 1) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %h = edge.aten.mul.Scalar(%p, other = 0.5) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %y = edge.aten.mul.Tensor(%n, %h) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// -----

// Another constant, another weight, a tangent that is needed, another type.

// CHECK-LABEL: func.func @others
func.func @others(%x: tensor<4xf32>, %z: tensor<4xf32>, %d: tensor<4xf64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf64>) {
  // CHECK-NOT: gelu
  // WHY-DAG: the tangent is not that of a GELU's polynomial
  %c0 = edge.aten.pow.Tensor_Scalar(%x, exponent = 3.0) : (tensor<4xf32>) -> tensor<4xf32>
  %m0 = edge.aten.mul.Scalar(%c0, other = 0.0447) : (tensor<4xf32>) -> tensor<4xf32>
  %a0 = edge.aten.add.Tensor(%x, %m0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %i0 = edge.aten.mul.Scalar(%a0, other = 0.7978845608028654) : (tensor<4xf32>) -> tensor<4xf32>
  %t0 = edge.aten.tanh.default(%i0) : (tensor<4xf32>) -> tensor<4xf32>
  %p0 = edge.aten.add.Scalar(%t0, other = 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %h0 = edge.aten.mul.Scalar(%x, other = 0.5) : (tensor<4xf32>) -> tensor<4xf32>
  %y0 = edge.aten.mul.Tensor(%h0, %p0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // WHY-DAG: the tangent does not weigh what it was computed from
  %c1 = edge.aten.pow.Tensor_Scalar(%x, exponent = 3.0) : (tensor<4xf32>) -> tensor<4xf32>
  %m1 = edge.aten.mul.Scalar(%c1, other = 0.044715) : (tensor<4xf32>) -> tensor<4xf32>
  %a1 = edge.aten.add.Tensor(%x, %m1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %i1 = edge.aten.mul.Scalar(%a1, other = 0.7978845608028654) : (tensor<4xf32>) -> tensor<4xf32>
  %t1 = edge.aten.tanh.default(%i1) : (tensor<4xf32>) -> tensor<4xf32>
  %p1 = edge.aten.add.Scalar(%t1, other = 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %h1 = edge.aten.mul.Scalar(%z, other = 0.5) : (tensor<4xf32>) -> tensor<4xf32>
  %y1 = edge.aten.mul.Tensor(%h1, %p1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // WHY-DAG: a part of it has another use
  %t2 = edge.aten.tanh.default(%i1) : (tensor<4xf32>) -> tensor<4xf32>
  %p2 = edge.aten.add.Scalar(%t2, other = 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %h2 = edge.aten.mul.Scalar(%x, other = 0.5) : (tensor<4xf32>) -> tensor<4xf32>
  %y2 = edge.aten.mul.Tensor(%h2, %p2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // WHY-DAG: not of float32
  %t3 = edge.aten.tanh.default(%d) : (tensor<4xf64>) -> tensor<4xf64>
  func.return %y0, %y1, %p2, %y2, %t3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf64>
}
