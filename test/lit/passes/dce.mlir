// RUN: et-opt --dce --split-input-file %s | filecheck %s

// A chain of unused operations goes at once, and then the weight that only it read. State is never erased.
// CHECK-NOT: @unused
et.weight @unused : tensor<4xf32> = #et.synthetic<seed = 1>
// CHECK: et.weight @used
et.weight @used : tensor<4xf32> = #et.synthetic<seed = 2>
// CHECK: et.state @never_read
et.state @never_read : tensor<4xf32>

// CHECK-LABEL: func.func @chain
func.func @chain(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %0 = et.get_weight @used
  %0 = et.get_weight @used : tensor<4xf32>
  %1 = et.get_weight @unused : tensor<4xf32>
  %2 = aten.mul.Tensor(%x, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = aten.relu.default(%2) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: func.return %0
  func.return %0 : tensor<4xf32>
}

// -----

// What has an effect stays: in-place and random operators, state, updated inputs, assertions; and what they need.
et.state @s : tensor<4xf32>

// CHECK-LABEL: func.func @effects
func.func @effects(%x: tensor<4xf32>, %n: i64) {
  // CHECK-NEXT: aten.add_.Tensor(%x, %x)
  %0 = aten.add_.Tensor(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: aten.rand_like.default(%x)
  %1 = aten.rand_like.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %2 = aten.relu.default(%x)
  %2 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: et.write_state @s, %2
  et.write_state @s, %2 : tensor<4xf32>
  // CHECK-NEXT: %3 = aten.neg.default(%x)
  %3 = aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: et.update_input %x, %3
  et.update_input %x, %3 : tensor<4xf32>, tensor<4xf32>
  // CHECK-NEXT: %4 = sym.constant 4
  %4 = sym.constant 4 : i64
  // CHECK-NEXT: %5 = sym.le %n, %4
  %5 = sym.le %n, %4 : (i64, i64) -> i1
  // CHECK-NEXT: sym.assert %5
  sym.assert %5, "n <= 4"
  // CHECK-NEXT: aten.opaque
  %6 = aten.opaque "mystery"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: func.return
  func.return
}

// -----

// A region without effects goes as a whole; inside one that stays, what is unused goes.
et.state @s : tensor<4xf32>

// CHECK-LABEL: func.func @regions
func.func @regions(%p: i1, %x: tensor<4xf32>) {
  %0 = control.cond %p : i1 -> (tensor<4xf32>) {
    %1 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    control.yield %1 : tensor<4xf32>
  } else {
    control.yield %x : tensor<4xf32>
  }
  // CHECK-NEXT: %0 = control.cond %p
  %2 = control.cond %p : i1 -> (tensor<4xf32>) {
    // CHECK-NEXT: et.write_state @s, %x
    %3 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    et.write_state @s, %x : tensor<4xf32>
    control.yield %x : tensor<4xf32>
  // CHECK: } else {
  } else {
    // CHECK-NEXT: control.yield %x
    %4 = aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    control.yield %x : tensor<4xf32>
  }
  func.return
}

// -----

// Symbols may be named in attributes.
// CHECK: et.weight @named
et.weight @named : tensor<4xf32> = #et.synthetic<seed = 1>
// CHECK-NOT: et.weight
et.weight @unnamed : tensor<4xf32> = #et.synthetic<seed = 1>
func.func @forward() attributes {keep = [{weights = [@named]}]} {
  func.return
}

// -----

// At the executable level, a weight that no instruction names.
// CHECK: et.method @blocks {
// CHECK-NEXT: %p = et.scalar true
// CHECK-NEXT: et.inputs
et.weight @w : tensor<4xf32> = #et.synthetic<seed = 1>
et.method @blocks {
  %p = et.scalar true
  %w = et.get_weight @w : tensor<4xf32>
  et.inputs %p
  et.return %p
}
