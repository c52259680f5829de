// RUN: et-opt -p functionalize %s | filecheck %s
// RUN: et-opt -p functionalize,functionalize %s | filecheck %s

et.state @cache : tensor<4x8xf32>
et.weight @mean : tensor<3xf32> = #et.synthetic<seed = 1> {kind = "buffer"}
et.weight @var : tensor<3xf32> = #et.synthetic<seed = 2> {kind = "buffer"}
// A buffer that a method changes becomes state.
// CHECK: et.state @mean : tensor<3xf32> = #et.synthetic<seed = 1> {kind = "buffer"}
// CHECK-NEXT: et.state @var

// A change of a row reaches the buffer, what is returned and what the next call reads.
// CHECK-LABEL: func.func @row
func.func @row(%x: tensor<8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %cache = et.read_state @cache
  %cache = et.read_state @cache : tensor<4x8xf32>
  // CHECK-NEXT: %row = aten.select.int(%cache, dim = 0, index = 1)
  %row = aten.select.int(%cache, dim = 0, index = 1) : (tensor<4x8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: %sum = aten.add.Tensor(%row, %x)
  // CHECK-NEXT: [[NEW:%.*]] = aten.select_scatter.default(%cache, %sum, dim = 0, index = 1)
  %sum = aten.add_.Tensor(%row, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: et.write_state @cache, [[NEW]]
  // CHECK-NEXT: func.return [[NEW]]
  func.return %cache : tensor<4x8xf32>
}

// Two views of one tensor: each sees the other's change when it is used, and not before.
// CHECK-LABEL: func.func @two_views
func.func @two_views(%x: tensor<4xf32>) -> (tensor<3xf32>, tensor<2x2xf32>) {
  // CHECK-NEXT: %0 = aten.neg.default(%x)
  // CHECK-NEXT: %1 = aten.slice.Tensor(%0, start = 1)
  %0 = aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.slice.Tensor(%0, start = 1) : (tensor<4xf32>) -> tensor<3xf32>
  %2 = aten.view.default(%0, size = [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  // CHECK-NEXT: %2 = aten.relu.default(%1)
  // CHECK-NEXT: %3 = aten.slice_scatter.default(%0, %2, start = 1)
  %3 = aten.relu_.default(%1) : (tensor<3xf32>) -> tensor<3xf32>
  // CHECK-NEXT: %4 = aten.view.default(%3, size = [2, 2])
  // CHECK-NEXT: %5 = aten.mul.Scalar(%4, other = 2)
  // CHECK-NEXT: %6 = aten.view.default(%5, size = [4])
  %4 = aten.mul_.Scalar(%2, other = 2) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  // CHECK-NEXT: %7 = aten.slice.Tensor(%6, start = 1)
  // CHECK-NEXT: func.return %7, %5
  func.return %1, %4 : tensor<3xf32>, tensor<2x2xf32>
}

// A full overwrite forgets the old contents; a change of an input is stored into it.
// CHECK-LABEL: func.func @overwritten
func.func @overwritten(%x: tensor<4xf32>, %y: tensor<1xf16>) -> tensor<4xf32> {
  // CHECK-NEXT: %0 = aten._to_copy.default(%y, dtype = f32) : (tensor<1xf16>) -> tensor<1xf32>
  // CHECK-NEXT: %1 = aten.expand.default(%0, size = [4])
  // CHECK-NEXT: et.update_input %x, %1
  // CHECK-NEXT: func.return %1
  %0 = aten.copy_.default(%x, %y) : (tensor<4xf32>, tensor<1xf16>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// An operator in place keeps the dtype of its tensor.
// CHECK-LABEL: func.func @keeps_dtype
func.func @keeps_dtype(%x: tensor<4xf16>, %y: tensor<4xf32>) -> tensor<4xf16> {
  %0 = aten.neg.default(%x) : (tensor<4xf16>) -> tensor<4xf16>
  // CHECK: %1 = aten.add.Tensor(%0, %y) : (tensor<4xf16>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %2 = aten._to_copy.default(%1, dtype = f16)
  // CHECK-NEXT: func.return %2
  %1 = aten.add_.Tensor(%0, %y) : (tensor<4xf16>, tensor<4xf32>) -> tensor<4xf16>
  func.return %1 : tensor<4xf16>
}

// Batch normalization in training changes its statistics although its schema does not say so.
// CHECK-LABEL: func.func @batch_norm
func.func @batch_norm(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: %mean = et.read_state @mean
  %mean = et.get_weight @mean : tensor<3xf32>
  %var = et.get_weight @var : tensor<3xf32>
  // CHECK: %y, [[A:%.*]], [[B:%.*]], [[M:%.*]], [[V:%.*]] = aten._native_batch_norm_legit_functional.default(%x, none, none, %mean, %var, training = true
  %y = aten.batch_norm.default(%x, none, none, %mean, %var, training = true, momentum = 0.1, eps = 0.001, cudnn_enabled = false) : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: et.write_state @mean, [[M]]
  // CHECK-NEXT: et.write_state @var, [[V]]
  func.return %y : tensor<2x3xf32>
}

// What a branch changes is a further result; the branch that does not change it yields what it was.
// CHECK-LABEL: func.func @condition
func.func @condition(%p: i1, %x: tensor<4xf32>) -> tensor<2xf32> {
  %0 = aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %tail = aten.slice.Tensor(%0, start = 2) : (tensor<4xf32>) -> tensor<2xf32>
  // CHECK: [[R:%.*]] = control.cond %p : i1 -> (tensor<4xf32>)
  control.cond %p : i1 -> () {
    // CHECK: control.yield {{%.*}} : tensor<4xf32>
    %1 = aten.relu_.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
    control.yield
  } else {
    // CHECK: control.yield %0 : tensor<4xf32>
    control.yield
  }
  // CHECK: [[T:%.*]] = aten.slice.Tensor([[R]], start = 2)
  // CHECK-NEXT: func.return [[T]]
  func.return %tail : tensor<2xf32>
}

// What a loop changes is carried.
// CHECK-LABEL: func.func @loop
func.func @loop(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %cache = et.read_state @cache : tensor<4x8xf32>
  // CHECK: control.scan carry ([[C:%.*]] = %cache) over ({{%.*}} = %x) : (tensor<4x8xf32>), (tensor<3x4xf32>) -> (tensor<4x8xf32>, tensor<3x4xf32>)
  %ys = control.scan over (%r = %x) : (), (tensor<3x4xf32>) -> (tensor<3x4xf32>) {
    // CHECK: [[N:%.*]] = aten.add.Scalar([[C]], other = 1)
    %1 = aten.add_.Scalar(%cache, other = 1) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: control.yield [[N]], {{%.*}} : tensor<4x8xf32>, tensor<4xf32>
    %2 = aten.neg.default(%r) : (tensor<4xf32>) -> tensor<4xf32>
    control.yield %2 : tensor<4xf32>
  }
  // CHECK: et.write_state @cache
  func.return %ys : tensor<3x4xf32>
}

// Without mutation nothing changes.
// CHECK-LABEL: func.func @pure
func.func @pure(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %0 = aten.view.default(%x, size = [2, 2])
  // CHECK-NEXT: %1 = aten.reshape.default(%0, shape = [-1])
  // CHECK-NEXT: func.return %1
  %0 = aten.view.default(%x, size = [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  %1 = aten.reshape.default(%0, shape = [-1]) : (tensor<2x2xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
