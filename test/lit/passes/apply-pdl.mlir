// RUN: et-opt -p 'apply-pdl{file=%S/../tools/inputs/silu.pdl.mlir}' --print-debuginfo %s | filecheck %s --check-prefix=SILU
// RUN: et-opt -p 'apply-pdl{file=%S/inputs/fusions.pdl.mlir}' %s | filecheck %s

// x * sigmoid(x) is silu(x), at the place of both.
// SILU-LABEL: func.func @silu
func.func @silu(%x: tensor<4xf32>) -> tensor<4xf32> {
  // SILU-NEXT: %y = aten.silu.default(%x) : (tensor<4xf32>) -> tensor<4xf32> loc(fused["m.py":3:1, "m.py":4:1])
  // SILU-NEXT: func.return %y
  %0 = aten.sigmoid.default(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("m.py":3:1)
  %y = aten.mul.Tensor(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("m.py":4:1)
  func.return %y : tensor<4xf32>
}

// A pattern of two operands does not match a call whose second operand belongs to another argument.
// CHECK-LABEL: func.func @segments
func.func @segments(%x: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: aten.maximum.default(%x, %b)
  %0 = aten.clamp.Tensor(%x, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: aten.clamp.Tensor(%x, none, %b)
  %1 = aten.clamp.Tensor(%x, none, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// A default argument matches its value, and is handed on like one that is written.
// CHECK-LABEL: func.func @defaults
func.func @defaults(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: aten.rsub.Tensor(%y, %x) :
  %0 = aten.sub.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: aten.rsub.Tensor(%y, %x, alpha = 2) :
  %1 = aten.sub.Tensor(%x, %y, alpha = 2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // Only alpha = 1 folds.
  // CHECK-NEXT: aten.mul.Tensor(%x, 2) :
  %2 = aten.add.Tensor(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @alpha
func.func @alpha(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: aten.add.Tensor(%x, %x, alpha = 3)
  %0 = aten.add.Tensor(%x, %x, alpha = 3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// The pattern names result 0: a use of result 1 is something else.
// CHECK-LABEL: func.func @result_index
func.func @result_index(%x: tensor<2x4xf32>) -> (tensor<2xf32>, tensor<2xi64>) {
  // CHECK-NEXT: %0 = aten.amax.default(%x, dim = [1]) :
  // CHECK-NEXT: %1, %2 = aten.max.dim(%x, dim = 1)
  // CHECK-NEXT: %3 = aten.neg.default(%2)
  // CHECK-NEXT: func.return %0, %3
  %0, %1 = aten.max.dim(%x, dim = 1) : (tensor<2x4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
  %2 = aten.alias.default(%0) : (tensor<2xf32>) -> tensor<2xf32>
  %3, %4 = aten.max.dim(%x, dim = 1) : (tensor<2x4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
  %5 = aten.neg.default(%4) : (tensor<2xi64>) -> tensor<2xi64>
  func.return %2, %5 : tensor<2xf32>, tensor<2xi64>
}

// Lists of tensors, values that exist, and types that only some calls have.
// CHECK-LABEL: func.func @rest
func.func @rest(%x: tensor<4xf32>, %y: tensor<2x2xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>) {
  // CHECK-NEXT: %0 = aten.neg.default(%y)
  // CHECK-NEXT: func.return %x, %x, %0
  %0 = aten.cat.default([%x]) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.neg.default(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = aten.neg.default(%y) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %0, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>
}
