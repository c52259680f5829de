// RUN: et-opt --cse %s | filecheck %s
// RUN: et-opt --cse --cse %s | filecheck %s
// RUN: et-opt --cse --print-debuginfo %s | filecheck %s --check-prefix=LOC

// Equal operands, arguments and types: one operation, at both places.
// CHECK-LABEL: func.func @equal
// LOC-LABEL: func.func @equal
func.func @equal(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %0 = aten.relu.default(%x)
  // LOC-NEXT: %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32> loc(fused["m.py":3:1, "m.py":7:1, "m.py":9:1])
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("m.py":3:1)
  %1 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("m.py":7:1)
  %2 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("m.py":9:1)
  // CHECK-NEXT: aten.add.Tensor(%0, %0)
  // LOC-NEXT: loc("m.py":11:1)
  %3 = aten.add.Tensor(%1, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("m.py":11:1)
  func.return %3 : tensor<4xf32>
}

// Chains fall together in one run.
// CHECK-LABEL: func.func @chain
func.func @chain(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %0 = aten.relu.default(%x)
  // CHECK-NEXT: %1 = aten.neg.default(%0)
  // CHECK-NEXT: aten.add.Tensor(%1, %1)
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.neg.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = aten.neg.default(%2) : (tensor<4xf32>) -> tensor<4xf32>
  %4 = aten.add.Tensor(%1, %3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %4 : tensor<4xf32>
}

// What differs in an argument, an attribute, a type or the order of operands stays. So do numbers of another kind: 1 is
// not 1.0, and -0.0 is not 0.0.
// CHECK-LABEL: func.func @different
func.func @different(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // CHECK-COUNT-2: aten.softmax.int
  %0 = aten.softmax.int(%x, dim = 0) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.softmax.int(%x, dim = -1) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-COUNT-2: aten.relu.default
  %2 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = aten.relu.default(%x) {keep = true} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-COUNT-2: aten.to.dtype
  %4 = aten.to.dtype(%x, dtype = f16) : (tensor<4xf32>) -> tensor<4xf16>
  %5 = aten.to.dtype(%x, dtype = bf16) : (tensor<4xf32>) -> tensor<4xbf16>
  // CHECK-COUNT-2: aten.sub.Tensor
  %6 = aten.sub.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %7 = aten.sub.Tensor(%y, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-COUNT-2: aten.mul.Scalar
  %8 = aten.mul.Scalar(%x, other = 1) : (tensor<4xf32>) -> tensor<4xf32>
  %9 = aten.mul.Scalar(%x, other = 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-COUNT-2: aten.mul.Scalar
  %10 = aten.mul.Scalar(%x, other = 0.0) : (tensor<4xf32>) -> tensor<4xf32>
  %11 = aten.mul.Scalar(%x, other = -0.0) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: func.return
  func.return
}

// Random operators give other values each time.
// CHECK-LABEL: func.func @random
func.func @random(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-COUNT-2: aten.rand_like.default
  %0 = aten.rand_like.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.rand_like.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// With an in-place operator in the function, equal calls may be different storage: %0 changes, %1 must not.
// CHECK-LABEL: func.func @in_place
func.func @in_place(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-COUNT-2: aten.relu.default
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.add_.Tensor(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// An operation around a region serves it; two branches do not serve each other, nor what follows.
// CHECK-LABEL: func.func @regions
func.func @regions(%p: i1, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %0 = aten.relu.default(%x)
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = control.cond %p : i1 -> (tensor<4xf32>) {
    // CHECK: %2 = aten.neg.default(%x)
    // CHECK-NEXT: %3 = aten.add.Tensor(%0, %2)
    %2 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %3 = aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %4 = aten.add.Tensor(%2, %3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    control.yield %4 : tensor<4xf32>
  // CHECK: } else {
  } else {
    // CHECK-NEXT: %4 = aten.neg.default(%x)
    %5 = aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    control.yield %5 : tensor<4xf32>
  }
  // CHECK: %5 = aten.neg.default(%x)
  %6 = aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1, %6 : tensor<4xf32>, tensor<4xf32>
}

// Functions do not share.
// CHECK-LABEL: func.func @other
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: aten.relu.default
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// Blocks: one serves those that it dominates. In a method, weights are read once.
et.weight @w : tensor<4xf32> = #et.synthetic<seed = 1>
// CHECK: et.method @blocks {
et.method @blocks {
  // CHECK-NEXT: %p = et.scalar true
  %p = et.scalar true
  // CHECK-NEXT: %a = et.get_weight @w
  %a = et.get_weight @w : tensor<4xf32>
  // CHECK-NEXT: et.inputs
  %b = et.get_weight @w : tensor<4xf32>
  et.inputs %p
  et.jump_false %p, ^else, ^then
^then:
  // CHECK: et.move %a to %a
  et.move %a to %b
  et.jump ^else
^else:
  // CHECK: et.return %a, %a
  et.return %a, %b
}
