// RUN: et-opt -p 'annotate-quantization{backend=xnnpack}' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'annotate-quantization{recipe=weight-int8}' --split-input-file %s | filecheck %s --check-prefix=WEIGHT
// RUN: et-opt -p 'annotate-quantization{recipe=dynamic-int8 backend=xnnpack}' --split-input-file %s | filecheck %s --check-prefix=DYNAMIC
// RUN: et-opt -p 'annotate-quantization{recipe=8da4w backend=xnnpack}' --split-input-file %s | filecheck %s --check-prefix=FOUR
// RUN: et-opt -p 'annotate-quantization{recipe=weight-int4}' --split-input-file %s | filecheck %s --check-prefix=FOUR-WEIGHT
// RUN: et-opt -p 'annotate-quantization{backend=xnnpack skip=aten.linear.default}' --split-input-file %s | filecheck %s --check-prefix=SKIP
// RUN: et-opt -p 'annotate-quantization{backend=reference}' --split-input-file %s | filecheck %s --check-prefix=NONE
// RUN: et-opt -p 'annotate-quantization{target=etir}' --split-input-file %s | filecheck %s --check-prefix=KERNELS

// A layer and the clamp that alone reads it; the next layer reads what is stored, through a move.

et.weight @w : tensor<16x32xf32> = #et.synthetic<seed = 1>

// CHECK-LABEL: func.func @layers
// NONE-NOT: quant.
func.func @layers(%x: tensor<2x32xf32>) -> tensor<16x2xf32> {
  // CHECK: %[[X:.*]] = quant.observe %x : tensor<2x32xf32>
  // CHECK: %[[Y:.*]] = edge.aten.linear.default(%[[X]], %w) {quant.weight = #quant.uniform<i8, axis = 0>, quant.integers}
  // WEIGHT: edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i8, axis = 0>}
  // DYNAMIC: edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i8, axis = 0>, quant.dynamic = ["input"]}
  // FOUR: edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i4, axis = 0, block = 32>, quant.dynamic = ["input"]}
  // FOUR-WEIGHT: edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i4, axis = 0, block = 32>}
  // SKIP: edge.aten.linear.default(%x, %w) {quant.why = "skipped by 'aten.linear.default'"}
  // CHECK-NEXT: %[[R:.*]] = edge.aten.relu.default(%[[Y]])
  // CHECK-NEXT: %[[O:.*]] = quant.observe %[[R]]
  // CHECK-NEXT: %[[T:.*]] = edge.aten.permute_copy.default(%[[O]]
  // CHECK-NEXT: %[[S:.*]] = edge.aten.add.Tensor(%[[T]], %[[T]]) {quant.integers}
  // CHECK-NEXT: %[[Z:.*]] = quant.observe %[[S]]
  // CHECK-NEXT: func.return %[[Z]]
  %w = et.get_weight @w : tensor<16x32xf32>
  %y = edge.aten.linear.default(%x, %w) : (tensor<2x32xf32>, tensor<16x32xf32>) -> tensor<2x16xf32>
  %r = edge.aten.relu.default(%y) : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %t = edge.aten.permute_copy.default(%r, dims = [1, 0]) : (tensor<2x16xf32>) -> tensor<16x2xf32>
  %z = edge.aten.add.Tensor(%t, %t) : (tensor<16x2xf32>, tensor<16x2xf32>) -> tensor<16x2xf32>
  func.return %z : tensor<16x2xf32>
}

// -----

// Why not: an operator with a weight that is computed, a sum of a multiple. Who reads floats keeps reading them.

// CHECK-LABEL: func.func @refused
func.func @refused(%x: tensor<2x32xf32>, %w: tensor<16x32xf32>) -> (tensor<2x16xf32>, tensor<2x32xf32>, tensor<2x32xf32>) {
  // CHECK: edge.aten.linear.default(%x, %w) {quant.why = "'weight' is computed, not a weight"}
  // CHECK: edge.aten.add.Tensor(%x, %x, alpha = 2) {quant.why = "alpha = 2"}
  // CHECK: edge.aten.exp.default(%x) :
  %y = edge.aten.linear.default(%x, %w) : (tensor<2x32xf32>, tensor<16x32xf32>) -> tensor<2x16xf32>
  %z = edge.aten.add.Tensor(%x, %x, alpha = 2) : (tensor<2x32xf32>, tensor<2x32xf32>) -> tensor<2x32xf32>
  %e = edge.aten.exp.default(%x) : (tensor<2x32xf32>) -> tensor<2x32xf32>
  func.return %y, %z, %e : tensor<2x16xf32>, tensor<2x32xf32>, tensor<2x32xf32>
}

// -----

// Rows that are no blocks have 8 bits; a convolution is not quantized when it runs; tables are looked up.

et.weight @w : tensor<16x30xf32> = #et.synthetic<seed = 1>
et.weight @c : tensor<8x8x3xf32> = #et.synthetic<seed = 2>
et.weight @e : tensor<10x30xf32> = #et.synthetic<seed = 3>

// CHECK-LABEL: func.func @others
func.func @others(%x: tensor<2x30xf32>, %y: tensor<1x8x9xf32>, %i: tensor<3xi64>) -> (tensor<2x16xf32>, tensor<1x8x7xf32>, tensor<3x30xf32>) {
  // FOUR: edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i8, axis = 0>, quant.dynamic = ["input"]}
  // FOUR: edge.aten.convolution.default({{.*}}) {quant.why = "a convolution whose input gets scales at run time is far slower than in float32: use static-int8 or weight-int8"}
  // FOUR-WEIGHT: edge.aten.linear.default(%x, %w) {quant.weight = #quant.uniform<i8, axis = 0>}
  // FOUR-WEIGHT: edge.aten.convolution.default({{.*}}) {quant.why = "a weight of 192 numbers"}
  // FOUR-WEIGHT: edge.aten.embedding.default(%e, %i) {quant.weight = #quant.uniform<i8, axis = 0>}
  %w = et.get_weight @w : tensor<16x30xf32>
  %c = et.get_weight @c : tensor<8x8x3xf32>
  %e = et.get_weight @e : tensor<10x30xf32>
  %0 = edge.aten.linear.default(%x, %w) : (tensor<2x30xf32>, tensor<16x30xf32>) -> tensor<2x16xf32>
  %1 = edge.aten.convolution.default(%y, %c, none, stride = [1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 1) : (tensor<1x8x9xf32>, tensor<8x8x3xf32>) -> tensor<1x8x7xf32>
  %2 = edge.aten.embedding.default(%e, %i) : (tensor<10x30xf32>, tensor<3xi64>) -> tensor<3x30xf32>
  func.return %0, %1, %2 : tensor<2x16xf32>, tensor<1x8x7xf32>, tensor<3x30xf32>
}

// -----

// A sum and a function beside a layer are integers with it; among floating point they stay so.

et.weight @w : tensor<32x32xf32> = #et.synthetic<seed = 1>

// CHECK-LABEL: func.func @beside
func.func @beside(%x: tensor<2x32xf32>, %y: tensor<2x32xf32>) -> tensor<2x32xf32> {
  // CHECK: %[[X:.*]] = quant.observe %x
  // CHECK: %[[L:.*]] = edge.aten.linear.default(%[[X]], %w)
  // CHECK: %[[M:.*]] = quant.observe %[[L]]
  // CHECK: edge.aten.gelu.default(%[[M]]) {quant.integers}
  // CHECK: edge.aten.add.Tensor(%{{.*}}, %[[X]]) {quant.integers}
  // CHECK: edge.aten.sigmoid.default(%y) {quant.why = "reads float32: integers would be made for it alone"}
  // CHECK: edge.aten.mul.Tensor({{.*}}) {quant.why = "reads float32: integers would be made for it alone"}
  %w = et.get_weight @w : tensor<32x32xf32>
  %l = edge.aten.linear.default(%x, %w) : (tensor<2x32xf32>, tensor<32x32xf32>) -> tensor<2x32xf32>
  %g = edge.aten.gelu.default(%l) : (tensor<2x32xf32>) -> tensor<2x32xf32>
  %a = edge.aten.add.Tensor(%g, %x) : (tensor<2x32xf32>, tensor<2x32xf32>) -> tensor<2x32xf32>
  %s = edge.aten.sigmoid.default(%y) : (tensor<2x32xf32>) -> tensor<2x32xf32>
  %m = edge.aten.mul.Tensor(%a, %s) : (tensor<2x32xf32>, tensor<2x32xf32>) -> tensor<2x32xf32>
  func.return %m : tensor<2x32xf32>
}

// -----

// Kernels give float32 where no operator reads the result of a layer as integers: moved and clamped on its way out.

et.weight @w : tensor<16x32xf32> = #et.synthetic<seed = 1>
et.weight @v : tensor<4x16xf32> = #et.synthetic<seed = 2>

// KERNELS-LABEL: func.func @outputs
func.func @outputs(%x: tensor<2x32xf32>) -> tensor<4x2xf32> {
  // KERNELS: edge.aten.linear.default
  // KERNELS-NEXT: quant.observe %{{.*}} : tensor<2x16xf32>
  // KERNELS: edge.aten.linear.default
  // KERNELS-NEXT: edge.aten.relu.default
  // KERNELS-NEXT: quant.observe %{{.*}} {quant.float} : tensor<2x4xf32>
  // CHECK-LABEL: func.func @outputs
  // CHECK-NOT: quant.float
  %w = et.get_weight @w : tensor<16x32xf32>
  %v = et.get_weight @v : tensor<4x16xf32>
  %y = edge.aten.linear.default(%x, %w) : (tensor<2x32xf32>, tensor<16x32xf32>) -> tensor<2x16xf32>
  %z = edge.aten.linear.default(%y, %v) : (tensor<2x16xf32>, tensor<4x16xf32>) -> tensor<2x4xf32>
  %r = edge.aten.relu.default(%z) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %t = edge.aten.permute_copy.default(%r, dims = [1, 0]) : (tensor<2x4xf32>) -> tensor<4x2xf32>
  func.return %t : tensor<4x2xf32>
}

// -----

// A sum that stands before the layer reads the same observed value.

et.weight @w : tensor<32x32xf32> = #et.synthetic<seed = 1>

// CHECK-LABEL: func.func @sum_first
func.func @sum_first(%x: tensor<2x32xf32>) -> (tensor<2x32xf32>, tensor<2x32xf32>) {
  // CHECK: %[[H:.*]] = edge.aten.sin.default
  // CHECK: %[[O:.*]] = quant.observe %[[H]]
  // CHECK: edge.aten.add.Tensor(%[[O]], %[[O]]) {quant.integers}
  // CHECK: edge.aten.linear.default(%[[O]], %w)
  %w = et.get_weight @w : tensor<32x32xf32>
  %h = edge.aten.sin.default(%x) : (tensor<2x32xf32>) -> tensor<2x32xf32>
  %a = edge.aten.add.Tensor(%h, %h) : (tensor<2x32xf32>, tensor<2x32xf32>) -> tensor<2x32xf32>
  %l = edge.aten.linear.default(%h, %w) : (tensor<2x32xf32>, tensor<32x32xf32>) -> tensor<2x32xf32>
  func.return %a, %l : tensor<2x32xf32>, tensor<2x32xf32>
}
