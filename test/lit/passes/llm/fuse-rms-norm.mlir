// RUN: et-opt -p 'fuse-rms-norm{target=etir}' --split-input-file %s | filecheck %s
// RUN: et-opt -p fuse-rms-norm --split-input-file %s | filecheck %s --check-prefix=STOCK
// RUN: et-opt -p 'fuse-rms-norm{target=etir}' --explain-match=norm-of-mean-square --no-output --split-input-file %s 2>&1 | filecheck %s --check-prefix=WHY

// With a weight on either side, and without one; a square that is a product is one as well.

// CHECK: et.schema "etir::rms_norm(Tensor input
// CHECK-NEXT: et.schema "etir::rms_norm.out(Tensor input
// CHECK-LABEL: func.func @norms
// STOCK-LABEL: func.func @norms
func.func @norms(%x: tensor<2x3x8xf32>, %w: tensor<8xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x8xf32>) {
  // CHECK-NEXT: %y = edge.etir.rms_norm.default(%x, %w, eps = 1.0e-06)
  // CHECK-NEXT: %z = edge.etir.rms_norm.default(%y, eps = 0.5)
  // CHECK-NEXT: func.return %y, %z
  // STOCK: edge.aten.rsqrt.default
  // STOCK: edge.aten.rsqrt.default
  %p = edge.aten.pow.Tensor_Scalar(%x, exponent = 2) : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %m = edge.aten.mean.dim(%p, dim = [-1], keepdim = true) : (tensor<2x3x8xf32>) -> tensor<2x3x1xf32>
  %a = edge.aten.add.Scalar(%m, other = 1.0e-06) : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %r = edge.aten.rsqrt.default(%a) : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %n = edge.aten.mul.Tensor(%x, %r) : (tensor<2x3x8xf32>, tensor<2x3x1xf32>) -> tensor<2x3x8xf32>
  %y = edge.aten.mul.Tensor(%w, %n) : (tensor<8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %q = edge.aten.mul.Tensor(%y, %y) : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %m2 = edge.aten.mean.dim(%q, dim = [2], keepdim = true) : (tensor<2x3x8xf32>) -> tensor<2x3x1xf32>
  %a2 = edge.aten.add.Scalar(%m2, other = 0.5) : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %r2 = edge.aten.rsqrt.default(%a2) : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %z = edge.aten.mul.Tensor(%r2, %y) : (tensor<2x3x1xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  func.return %y, %z : tensor<2x3x8xf32>, tensor<2x3x8xf32>
}

// -----

// Another dim, another power, something else that is scaled, a root with another use, float16.

// CHECK-NOT: et.schema
// CHECK-LABEL: func.func @others
// CHECK-NOT: rms_norm
func.func @others(%x: tensor<3x8xf32>, %h: tensor<3x8xf16>) -> (tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x1xf32>, tensor<3x8xf16>) {
  // WHY: not of a mean of squares over the last dim and a number
  %p = edge.aten.pow.Tensor_Scalar(%x, exponent = 2) : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %m = edge.aten.mean.dim(%p, dim = [0], keepdim = true) : (tensor<3x8xf32>) -> tensor<1x8xf32>
  %a = edge.aten.add.Scalar(%m, other = 1.0e-06) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %r = edge.aten.rsqrt.default(%a) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %0 = edge.aten.mul.Tensor(%x, %r) : (tensor<3x8xf32>, tensor<1x8xf32>) -> tensor<3x8xf32>
  %p1 = edge.aten.pow.Tensor_Scalar(%x, exponent = 3) : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %m1 = edge.aten.mean.dim(%p1, dim = [-1], keepdim = true) : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %a1 = edge.aten.add.Scalar(%m1, other = 1.0e-06) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %r1 = edge.aten.rsqrt.default(%a1) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %1 = edge.aten.mul.Tensor(%x, %r1) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  // WHY: it does not scale what it was computed from
  // WHY: the root has another use
  // WHY: not float32, or a dim order that the kernel does not take
  %m2 = edge.aten.mean.dim(%p, dim = [-1], keepdim = true) : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %a2 = edge.aten.add.Scalar(%m2, other = 1.0e-06) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %r2 = edge.aten.rsqrt.default(%a2) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %2 = edge.aten.mul.Tensor(%1, %r2) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %a3 = edge.aten.add.Scalar(%m2, other = 1.0e-05) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %r3 = edge.aten.rsqrt.default(%a3) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %3 = edge.aten.mul.Tensor(%x, %r3) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %s = edge.aten.add.Tensor(%2, %3) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %p4 = edge.aten.pow.Tensor_Scalar(%h, exponent = 2) : (tensor<3x8xf16>) -> tensor<3x8xf16>
  %m4 = edge.aten.mean.dim(%p4, dim = [-1], keepdim = true) : (tensor<3x8xf16>) -> tensor<3x1xf16>
  %a4 = edge.aten.add.Scalar(%m4, other = 1.0e-06) : (tensor<3x1xf16>) -> tensor<3x1xf16>
  %r4 = edge.aten.rsqrt.default(%a4) : (tensor<3x1xf16>) -> tensor<3x1xf16>
  %4 = edge.aten.mul.Tensor(%h, %r4) : (tensor<3x8xf16>, tensor<3x1xf16>) -> tensor<3x8xf16>
  func.return %0, %1, %s, %r3, %4 : tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x1xf32>, tensor<3x8xf16>
}
