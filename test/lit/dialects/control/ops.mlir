// RUN: %roundtrip
// RUN: %generic

// CHECK-LABEL: func.func @cond
func.func @cond(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %0 = control.cond %p : tensor<i1> -> (tensor<4xf32>) {
  %0 = control.cond %p : tensor<i1> -> (tensor<4xf32>) {
    // CHECK-NEXT: %1 = aten.relu.default(%x)
    %1 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    // CHECK-NEXT: control.yield %1 : tensor<4xf32>
    control.yield %1 : tensor<4xf32>
  // CHECK-NEXT: } else {
  } else {
    // CHECK-NEXT: control.yield %x : tensor<4xf32>
    control.yield %x : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}

sym.dim @a in [0, 8]
sym.dim @b in [0, 4]
sym.dim @u0 in [0, 8] unbacked

// A size that is symbolic in the result is another one in each region.
// CHECK-LABEL: func.func @cond_sizes
func.func @cond_sizes(%p: i1, %x: tensor<?x3xf32, #et.layout<dims = [a, 3]>>, %y: tensor<?x3xf32, #et.layout<dims = [b, 3]>>) {
  // CHECK-NEXT: %0 = control.cond %p : i1 -> (tensor<?x3xf32, #et.layout<dims = [u0, 3]>>) {
  %0 = control.cond %p : i1 -> (tensor<?x3xf32, #et.layout<dims = [u0, 3]>>) {
    // CHECK-NEXT: control.yield %x : tensor<?x3xf32, #et.layout<dims = [a, 3]>>
    control.yield %x : tensor<?x3xf32, #et.layout<dims = [a, 3]>>
  } else {
    // CHECK: control.yield %y : tensor<?x3xf32, #et.layout<dims = [b, 3]>>
    control.yield %y : tensor<?x3xf32, #et.layout<dims = [b, 3]>>
  }
  func.return
}

// CHECK-LABEL: func.func @cond_without_results
func.func @cond_without_results(%p: i1) {
  // CHECK-NEXT: control.cond %p : i1 -> () {
  control.cond %p : i1 -> () {
    // CHECK-NEXT: control.yield
    control.yield
  // CHECK-NEXT: } else {
  } else {
    // CHECK-NEXT: control.yield
    control.yield
  // CHECK-NEXT: } {why = "nothing"}
  } {why = "nothing"}
  func.return
}

// CHECK-LABEL: func.func @while
func.func @while(%i: i64, %x: tensor<4xf32>) -> tensor<4xf32> {
  %n = sym.constant 8 : i64
  %one = sym.constant 1 : i64
  // CHECK: control.while carry (%a = %i, %b = %x) : (i64, tensor<4xf32>) {
  %0, %1 = control.while carry (%a = %i, %b = %x) : (i64, tensor<4xf32>) {
    // CHECK-NEXT: sym.lt %a, %n : (i64, i64) -> i1
    %c = sym.lt %a, %n : (i64, i64) -> i1
    // CHECK-NEXT: control.yield %c : i1
    control.yield %c : i1
  // CHECK-NEXT: } do {
  } do {
  // CHECK-NEXT: ^bb0(%d: i64, %e: tensor<4xf32>):
  ^bb0(%d: i64, %e: tensor<4xf32>):
    %next = sym.add %d, %one : (i64, i64) -> i64
    %y = aten.relu.default(%e) : (tensor<4xf32>) -> tensor<4xf32>
    // CHECK: control.yield %next, %y : i64, tensor<4xf32>
    control.yield %next, %y : i64, tensor<4xf32>
  }
  func.return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @scan
func.func @scan(%init: tensor<4xf32>, %xs: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // CHECK-NEXT: %0, %1 = control.scan carry (%c = %init) over (%x = %xs) : (tensor<4xf32>), (tensor<8x4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>) {
  %0, %1 = control.scan carry (%c = %init) over (%x = %xs) : (tensor<4xf32>), (tensor<8x4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>) {
    // CHECK-NEXT: aten.add.Tensor(%c, %x)
    %sum = aten.add.Tensor(%c, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // CHECK-NEXT: control.yield %sum, %sum
    control.yield %sum, %sum : tensor<4xf32>, tensor<4xf32>
  }
  func.return %1 : tensor<8x4xf32>
}

// torch's map carries nothing.
// CHECK-LABEL: func.func @map
func.func @map(%xs: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // CHECK-NEXT: control.scan over (%x = %xs) : (), (tensor<8x4xf32>) -> (tensor<8x4xf32>) {
  %0 = control.scan over (%x = %xs) : (), (tensor<8x4xf32>) -> (tensor<8x4xf32>) {
    %y = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    control.yield %y : tensor<4xf32>
  }
  func.return %0 : tensor<8x4xf32>
}
