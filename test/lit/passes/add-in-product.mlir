// RUN: et-opt -p 'add-in-product{target=etir}' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'add-in-product' --split-input-file %s | filecheck %s --check-prefix=STOCK
// RUN: et-opt -p 'add-in-product{target=etir}' --split-input-file --explain-match=add-in-product --no-output %s 2>&1 | filecheck %s --check-prefix=WHY

// A convolution, a linear layer and products of matrices over what waits for them, on either side of the sum. The
// schemas of the kernels that are etir's own are declared once.

// CHECK: et.schema "etir::convolution_add(Tensor self
// CHECK-NEXT: et.schema "etir::convolution_add.out(Tensor self
// CHECK-LABEL: func.func @residual
// STOCK-LABEL: func.func @residual
func.func @residual(%r: tensor<1x4x8x8xf32>, %x: tensor<1x2x8x8xf32>, %w: tensor<4x2x3x3xf32>, %b: tensor<4xf32>) -> tensor<1x4x8x8xf32> {
  // CHECK-NEXT: %[[A:.*]] = edge.etir.convolution_add.default(%r, %x, %w, %b, stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1) : (tensor<1x4x8x8xf32>, tensor<1x2x8x8xf32>, tensor<4x2x3x3xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
  // CHECK-NEXT: func.return %[[A]]
  // STOCK-NEXT: edge.aten.convolution.default
  // STOCK-NEXT: edge.aten.add.Tensor
  %y = edge.aten.convolution.default(%x, %w, %b, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x2x8x8xf32>, tensor<4x2x3x3xf32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
  %z = edge.aten.add.Tensor(%y, %r) : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  func.return %z : tensor<1x4x8x8xf32>
}

// -----

// CHECK: et.schema "etir::linear_add(Tensor self
// CHECK-LABEL: func.func @layers
func.func @layers(%r: tensor<3x4xf16>, %x: tensor<3x2xf16>, %w: tensor<4x2xf16>, %m: tensor<2x4xf16>, %p: tensor<1x3x2xf16>, %q: tensor<1x2x4xf16>) -> tensor<1x3x4xf16> {
  // CHECK-NEXT: %[[A:.*]] = edge.etir.linear_add.default(%r, %x, %w) : (tensor<3x4xf16>, tensor<3x2xf16>, tensor<4x2xf16>) -> tensor<3x4xf16>
  // CHECK-NEXT: %[[B:.*]] = edge.etir.matmul_add.default(%[[A]], %x, %m) : (tensor<3x4xf16>, tensor<3x2xf16>, tensor<2x4xf16>) -> tensor<3x4xf16>
  // CHECK-NEXT: %[[V:.*]] = edge.aten.view_copy.default(%[[B]]
  // CHECK-NEXT: %[[C:.*]] = edge.etir.matmul_add.default(%[[V]], %p, %q) : (tensor<1x3x4xf16>, tensor<1x3x2xf16>, tensor<1x2x4xf16>) -> tensor<1x3x4xf16>
  // CHECK-NEXT: func.return %[[C]]
  %a = edge.aten.linear.default(%x, %w) : (tensor<3x2xf16>, tensor<4x2xf16>) -> tensor<3x4xf16>
  %b = edge.aten.add.Tensor(%r, %a) : (tensor<3x4xf16>, tensor<3x4xf16>) -> tensor<3x4xf16>
  %c = edge.aten.mm.default(%x, %m) : (tensor<3x2xf16>, tensor<2x4xf16>) -> tensor<3x4xf16>
  %d = edge.aten.add.Tensor(%c, %b) : (tensor<3x4xf16>, tensor<3x4xf16>) -> tensor<3x4xf16>
  %v = edge.aten.view_copy.default(%d, size = [1, 3, 4]) : (tensor<3x4xf16>) -> tensor<1x3x4xf16>
  %e = edge.aten.bmm.default(%p, %q) : (tensor<1x3x2xf16>, tensor<1x2x4xf16>) -> tensor<1x3x4xf16>
  %f = edge.aten.add.Tensor(%v, %e) : (tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  func.return %f : tensor<1x3x4xf16>
}

// -----

// Of two products the later one adds to the earlier, at its place.

// CHECK-LABEL: func.func @both
func.func @both(%x: tensor<3x2xf32>, %w: tensor<4x2xf32>, %v: tensor<4x2xf32>) -> tensor<3x4xf32> {
  // CHECK-NEXT: %[[A:.*]] = edge.aten.linear.default(%x, %w)
  // CHECK-NEXT: %[[B:.*]] = edge.etir.linear_add.default(%[[A]], %x, %v)
  // CHECK-NEXT: func.return %[[B]]
  %a = edge.aten.linear.default(%x, %w) : (tensor<3x2xf32>, tensor<4x2xf32>) -> tensor<3x4xf32>
  %b = edge.aten.linear.default(%x, %v) : (tensor<3x2xf32>, tensor<4x2xf32>) -> tensor<3x4xf32>
  %c = edge.aten.add.Tensor(%a, %b) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  func.return %c : tensor<3x4xf32>
}

// -----

// What stays.

// CHECK-NOT: et.schema
// CHECK-LABEL: func.func @stays
func.func @stays(%r: tensor<2x2xf32>, %x: tensor<2x2xf32>, %w: tensor<2x2xf32>, %n: tensor<2x2xi32>, %row: tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xi32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  // CHECK-NOT: matmul_add
  // CHECK-NOT: linear_add
  // WHY-DAG: a summand is multiplied
  %a = edge.aten.mm.default(%x, %w) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %b = edge.aten.add.Tensor(%a, %r, alpha = 2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // WHY-DAG: the product has another use
  %c = edge.aten.linear.default(%x, %w) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %d = edge.aten.add.Tensor(%c, %r) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // WHY-DAG: the product reads what is added
  %e = edge.aten.mm.default(%r, %w) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %f = edge.aten.add.Tensor(%e, %r) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // WHY-DAG: the kernels add floating-point numbers
  %g = edge.aten.mm.default(%n, %n) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
  %h = edge.aten.add.Tensor(%g, %n) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
  // WHY-DAG: a summand is broadcast or converted
  %i = edge.aten.mm.default(%x, %w) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %j = edge.aten.add.Tensor(%i, %row) : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  // WHY-DAG: what is added is computed after the product
  %k = edge.aten.mm.default(%x, %w) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %l = edge.aten.neg.default(%r) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %m = edge.aten.add.Tensor(%k, %l) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %b, %c, %d, %f, %h, %j, %m : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xi32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// CHECK-LABEL: func.func @depthwise
// WHY: a transposed or depthwise convolution
func.func @depthwise(%r: tensor<1x4x8x8xf32>, %x: tensor<1x4x8x8xf32>, %w: tensor<4x1x3x3xf32>) -> tensor<1x4x8x8xf32> {
  // CHECK-NEXT: edge.aten.convolution.default
  // CHECK-NEXT: edge.aten.add.Tensor
  %y = edge.aten.convolution.default(%x, %w, none, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 4) : (tensor<1x4x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x8x8xf32>
  %z = edge.aten.add.Tensor(%y, %r) : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  func.return %z : tensor<1x4x8x8xf32>
}

// -----

// CHECK-LABEL: func.func @biases
// WHY-DAG: the bias is broadcast or converted
// WHY-DAG: the weight is a vector
func.func @biases(%r: tensor<1x2x8x8xbf16>, %x: tensor<1x3x8x8xbf16>, %w: tensor<2x3x1x1xbf16>, %b: tensor<2xf32>, %s: tensor<5x3xf32>, %t: tensor<5x4xf32>, %v: tensor<3x4xf32>, %one: tensor<1xf32>, %u: tensor<5xf32>, %f: tensor<4xf32>) -> (tensor<1x2x8x8xbf16>, tensor<5x3xf32>, tensor<5xf32>) {
  // CHECK-NEXT: edge.aten.convolution.default
  // CHECK-NEXT: edge.aten.add.Tensor
  %y = edge.aten.convolution.default(%x, %w, %b, stride = [1, 1], padding = [0, 0], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x3x8x8xbf16>, tensor<2x3x1x1xbf16>, tensor<2xf32>) -> tensor<1x2x8x8xbf16>
  %z = edge.aten.add.Tensor(%y, %r) : (tensor<1x2x8x8xbf16>, tensor<1x2x8x8xbf16>) -> tensor<1x2x8x8xbf16>
  // CHECK-NEXT: edge.aten.linear.default
  // CHECK-NEXT: edge.aten.add.Tensor
  %a = edge.aten.linear.default(%t, %v, %one) : (tensor<5x4xf32>, tensor<3x4xf32>, tensor<1xf32>) -> tensor<5x3xf32>
  %c = edge.aten.add.Tensor(%a, %s) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  // CHECK-NEXT: edge.aten.linear.default
  // CHECK-NEXT: edge.aten.add.Tensor
  %d = edge.aten.linear.default(%t, %f) : (tensor<5x4xf32>, tensor<4xf32>) -> tensor<5xf32>
  %e = edge.aten.add.Tensor(%d, %u) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  func.return %z, %c, %e : tensor<1x2x8x8xbf16>, tensor<5x3xf32>, tensor<5xf32>
}
