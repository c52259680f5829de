// RUN: et-opt -p last-logits --split-input-file %s | filecheck %s
// RUN: et-opt -p last-logits --explain-match=last-logits --no-output --split-input-file %s 2>&1 | filecheck %s --check-prefix=WHY
// RUN: et-opt -p 'last-logits{methods=prefill}' --split-input-file %s | filecheck %s --check-prefix=NAMED

// Norm and head of the last position; the sum before is of a mixture of positions.

// CHECK-LABEL: func.func @prefill
// CHECK-SAME: -> tensor<1x9xf32>
func.func @prefill(%x: tensor<1x4x6xf32>, %w: tensor<6xf32>, %head: tensor<9x6xf32>) -> tensor<1x4x9xf32> {
  // CHECK-NEXT: %[[MIXED:.*]] = aten.cumsum.default
  // CHECK-NEXT: %[[LAST:.*]] = aten.slice.Tensor(%[[MIXED]], dim = 1, start = -1, {{.*}} -> tensor<1x1x6xf32>
  // CHECK-NEXT: %[[SQUARE:.*]] = aten.mul.Tensor(%[[LAST]], %[[LAST]])
  // CHECK-NEXT: %[[MEAN:.*]] = aten.mean.dim(%[[SQUARE]], dim = [-1], keepdim = true)
  // CHECK-NEXT: %[[N:.*]] = aten.mul.Tensor(%[[LAST]], %[[MEAN]])
  // CHECK-NEXT: %[[Y:.*]] = aten.linear.default(%[[N]], %head) : (tensor<1x1x6xf32>, tensor<9x6xf32>) -> tensor<1x1x9xf32>
  // CHECK-NEXT: %[[ROW:.*]] = aten.select.int(%[[Y]], dim = 1, index = 0)
  // CHECK-NEXT: func.return %[[ROW]] : tensor<1x9xf32>
  %mixed = aten.cumsum.default(%x, dim = 1) : (tensor<1x4x6xf32>) -> tensor<1x4x6xf32>
  %square = aten.mul.Tensor(%mixed, %mixed) : (tensor<1x4x6xf32>, tensor<1x4x6xf32>) -> tensor<1x4x6xf32>
  %mean = aten.mean.dim(%square, dim = [-1], keepdim = true) : (tensor<1x4x6xf32>) -> tensor<1x4x1xf32>
  %n = aten.mul.Tensor(%mixed, %mean) : (tensor<1x4x6xf32>, tensor<1x4x1xf32>) -> tensor<1x4x6xf32>
  %like = aten.type_as.default(%n, %x) : (tensor<1x4x6xf32>, tensor<1x4x6xf32>) -> tensor<1x4x6xf32>
  %y = aten.linear.default(%like, %head) : (tensor<1x4x6xf32>, tensor<9x6xf32>) -> tensor<1x4x9xf32>
  // WHY: 'last-logits' rewrote 'func.return'
  func.return %y : tensor<1x4x9xf32>
}

// -----

// Rows of a product in two dims, as GPT-2 has them. What a state keeps is needed whole.

et.state @kept : tensor<4x6xf32>

// CHECK-LABEL: func.func @rows
// NAMED-LABEL: func.func @rows
// NAMED-SAME: -> tensor<1x4x9xf32>
func.func @rows(%x: tensor<1x4x6xf32>, %b: tensor<9xf32>, %head: tensor<6x9xf32>) -> tensor<1x4x9xf32> {
  %s = aten.silu.default(%x) : (tensor<1x4x6xf32>) -> tensor<1x4x6xf32>
  // CHECK: %[[FLAT:.*]] = aten.view.default(%s, size = [-1, 6])
  %flat = aten.view.default(%s, size = [-1, 6]) : (tensor<1x4x6xf32>) -> tensor<4x6xf32>
  et.write_state @kept, %flat : tensor<4x6xf32>
  // CHECK: %[[LAST:.*]] = aten.slice.Tensor(%[[FLAT]], start = -1, {{.*}} -> tensor<1x6xf32>
  // CHECK-NEXT: %[[P:.*]] = aten.addmm.default(%b, %[[LAST]], %head)
  // CHECK-NEXT: %[[Y:.*]] = aten.view.default(%[[P]], size = [1, 1, 9])
  // CHECK-NEXT: aten.select.int(%[[Y]], dim = 1, index = 0)
  %p = aten.addmm.default(%b, %flat, %head) : (tensor<9xf32>, tensor<4x6xf32>, tensor<6x9xf32>) -> tensor<4x9xf32>
  %y = aten.view.default(%p, size = [1, 4, 9]) : (tensor<4x9xf32>) -> tensor<1x4x9xf32>
  func.return %y : tensor<1x4x9xf32>
}

// -----

// CHECK-LABEL: func.func @one
// CHECK-SAME: -> tensor<1x1x9xf32>
func.func @one(%x: tensor<1x1x6xf32>, %head: tensor<9x6xf32>) -> tensor<1x1x9xf32> {
  %y = aten.linear.default(%x, %head) : (tensor<1x1x6xf32>, tensor<9x6xf32>) -> tensor<1x1x9xf32>
  // WHY: the result is not [1, n, V] of several positions
  func.return %y : tensor<1x1x9xf32>
}

// -----

// CHECK-LABEL: func.func @two
func.func @two(%x: tensor<1x4x6xf32>) -> (tensor<1x4x6xf32>, tensor<1x4x6xf32>) {
  // WHY: the method has several results
  // CHECK-NEXT: func.return %x, %x
  func.return %x, %x : tensor<1x4x6xf32>, tensor<1x4x6xf32>
}

// -----

// CHECK-LABEL: func.func @numbers
func.func @numbers(%x: tensor<1x4x6xi64>) -> tensor<1x4x6xi64> {
  // WHY: the result is no tensor of floating-point numbers
  func.return %x : tensor<1x4x6xi64>
}
