// RUN: et-opt --elide-views %s | filecheck %s
// RUN: et-opt --elide-views --elide-views %s | filecheck %s

sym.dim @s in [1, 8]
sym.dim @t in [1, 8]

// A view of a weight is a weight over the same bytes. A part of one whose bytes are not loaded stays a view.
// CHECK: et.weight @w : tensor<2x6xf32>
// CHECK: et.weight @unloaded
// CHECK-NEXT: et.weight @unloaded_view : tensor<4xf32> = #et.blob<"sha256:00000000000000000000000000000000", 16> {fqn = "u"}
et.weight @w : tensor<2x6xf32> = #et.synthetic<seed = 1>
et.weight @unloaded : tensor<2x2xf32> = #et.blob<"sha256:00000000000000000000000000000000", 16> {fqn = "u"}

// Any reshape of a contiguous tensor moves no byte; views of views are views of the base.
// CHECK-LABEL: func.func @reshapes
func.func @reshapes(%x: tensor<2x6xf32>) -> (tensor<12xf32>, tensor<4x3xf32>, tensor<1x12xf32>) {
  // CHECK-NEXT: %0 = backend.view %x : tensor<2x6xf32> -> tensor<12xf32>
  // CHECK-NEXT: %1 = backend.view %x : tensor<2x6xf32> -> tensor<4x3xf32>
  // CHECK-NEXT: %2 = backend.view %x : tensor<2x6xf32> -> tensor<1x12xf32>
  %0 = edge.aten.view_copy.default(%x, size = [12]) : (tensor<2x6xf32>) -> tensor<12xf32>
  %1 = edge.aten.view_copy.default(%0, size = [4, 3]) : (tensor<12xf32>) -> tensor<4x3xf32>
  %2 = edge.aten.unsqueeze_copy.default(%0, dim = 0) : (tensor<12xf32>) -> tensor<1x12xf32>
  func.return %0, %1, %2 : tensor<12xf32>, tensor<4x3xf32>, tensor<1x12xf32>
}

// A slice or selection along the first dim that is longer than 1 starts at an offset, counted in elements: row 2 of
// 3 x 4 is 8 elements in; rows 1 to 3 of the middle dim (the first is 1) are 4 elements in.
// CHECK-LABEL: func.func @slices
func.func @slices(%x: tensor<3x4xf32>, %y: tensor<1x3x4xf32>) -> (tensor<4xf32>, tensor<1x2x4xf32>, tensor<2xf32>) {
  // CHECK-NEXT: %0 = backend.view %x {offset = 8 : i64} : tensor<3x4xf32> -> tensor<4xf32>
  %0 = edge.aten.select_copy.int(%x, dim = 0, index = -1) : (tensor<3x4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %1 = backend.view %y {offset = 4 : i64} : tensor<1x3x4xf32> -> tensor<1x2x4xf32>
  %1 = edge.aten.slice_copy.Tensor(%y, dim = 1, start = 1, end = 3) : (tensor<1x3x4xf32>) -> tensor<1x2x4xf32>
  // CHECK-NEXT: %2 = backend.view %x {offset = 9 : i64} : tensor<3x4xf32> -> tensor<2xf32>
  %2 = edge.aten.slice_copy.Tensor(%0, dim = 0, start = 1, end = 3) : (tensor<4xf32>) -> tensor<2xf32>
  func.return %0, %1, %2 : tensor<4xf32>, tensor<1x2x4xf32>, tensor<2xf32>
}

// Permutations that only move dims of size 1, and expansions that repeat nothing.
// CHECK-LABEL: func.func @of_size_one
func.func @of_size_one(%x: tensor<1x3x1x4xf32>) -> (tensor<3x1x4x1xf32>, tensor<1x1x3x1x4xf32>) {
  // CHECK-NEXT: %0 = backend.view %x
  // CHECK-NEXT: %1 = backend.view %x
  %0 = edge.aten.permute_copy.default(%x, dims = [1, 0, 3, 2]) : (tensor<1x3x1x4xf32>) -> tensor<3x1x4x1xf32>
  %1 = edge.aten.expand_copy.default(%x, size = [1, 1, 3, 1, 4]) : (tensor<1x3x1x4xf32>) -> tensor<1x1x3x1x4xf32>
  func.return %0, %1 : tensor<3x1x4x1xf32>, tensor<1x1x3x1x4xf32>
}

// Where bytes move, the copy stays: another order, a slice of an inner dim, steps, repetition, a channels-last tensor.
// CHECK-LABEL: func.func @copies
func.func @copies(%x: tensor<3x4xf32>, %y: tensor<3x1xf32>, %z: tensor<1x2x3x4xf32, #et.layout<order = [0, 2, 3, 1]>>) -> (tensor<4x3xf32>, tensor<3x2xf32>, tensor<2x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) {
  // CHECK-NOT: backend.view
  // CHECK: func.return
  %0 = edge.aten.permute_copy.default(%x, dims = [1, 0]) : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %1 = edge.aten.slice_copy.Tensor(%x, dim = 1, start = 0, end = 2) : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %2 = edge.aten.slice_copy.Tensor(%x, dim = 0, start = 0, end = 3, step = 2) : (tensor<3x4xf32>) -> tensor<2x4xf32>
  %3 = edge.aten.expand_copy.default(%y, size = [3, 4]) : (tensor<3x1xf32>) -> tensor<3x4xf32>
  %4 = edge.aten.select_copy.int(%x, dim = 1, index = 0) : (tensor<3x4xf32>) -> tensor<3xf32>
  func.return %0, %1, %2, %3, %3 : tensor<4x3xf32>, tensor<3x2xf32>, tensor<2x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
}

// One dynamic dim follows from the number of elements. Several need their sizes at run time: the operand's, or those that
// the operator names. A dynamic offset is never known.
// CHECK-LABEL: func.func @dynamic
func.func @dynamic(%x: tensor<?x4xf32, #et.layout<dims = [s, 4]>>, %y: tensor<?x?xf32, #et.layout<dims = [s, t]>>, %n: i64, %m: i64) -> (tensor<?x2x2xf32, #et.layout<dims = [s, 2, 2]>>, tensor<1x?x?xf32, #et.layout<dims = [1, s, t]>>, tensor<?x?x1xf32, #et.layout<dims = [t, s, 1]>>, tensor<4xf32>) {
  // CHECK-NEXT: %0 = backend.view %x
  %0 = edge.aten.view_copy.default(%x, size = [-1, 2, 2]) : (tensor<?x4xf32, #et.layout<dims = [s, 4]>>) -> tensor<?x2x2xf32, #et.layout<dims = [s, 2, 2]>>
  // CHECK-NEXT: %[[S:.*]] = edge.aten.sym_size.int(%y, dim = 0)
  // CHECK-NEXT: %[[T:.*]] = edge.aten.sym_size.int(%y, dim = 1)
  // CHECK-NEXT: backend.view %y sizes(%[[S]], %[[T]] : i64, i64)
  %1 = edge.aten.unsqueeze_copy.default(%y, dim = 0) : (tensor<?x?xf32, #et.layout<dims = [s, t]>>) -> tensor<1x?x?xf32, #et.layout<dims = [1, s, t]>>
  // CHECK-NEXT: backend.view %y sizes(%n, %m : i64, i64)
  %2 = edge.aten.view_copy.default(%y, size = [%n, %m, 1]) : (tensor<?x?xf32, #et.layout<dims = [s, t]>>, i64, i64) -> tensor<?x?x1xf32, #et.layout<dims = [t, s, 1]>>
  // CHECK-NEXT: edge.aten.select_copy.int
  %3 = edge.aten.select_copy.int(%x, dim = 0, index = -1) : (tensor<?x4xf32, #et.layout<dims = [s, 4]>>) -> tensor<4xf32>
  func.return %0, %1, %2, %3 : tensor<?x2x2xf32, #et.layout<dims = [s, 2, 2]>>, tensor<1x?x?xf32, #et.layout<dims = [1, s, t]>>, tensor<?x?x1xf32, #et.layout<dims = [t, s, 1]>>, tensor<4xf32>
}

// What a loop carries is overwritten while views of it may be alive: the copy stays.
// CHECK-LABEL: func.func @carried
func.func @carried(%x: tensor<4xf32>, %go: tensor<i1>) -> tensor<4xf32> {
  %0 = control.while carry (%a = %x) : (tensor<4xf32>) {
    control.yield %go : tensor<i1>
  } do {
  ^bb0(%b: tensor<4xf32>):
    // CHECK: edge.aten.view_copy.default
    %1 = edge.aten.view_copy.default(%b, size = [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
    // CHECK: edge.aten.neg.default
    // CHECK-NEXT: backend.view
    %2 = edge.aten.neg.default(%1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %3 = edge.aten.view_copy.default(%2, size = [4]) : (tensor<2x2xf32>) -> tensor<4xf32>
    control.yield %3 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}

// Bytes under another element type. Of views of views the offsets add up in bytes: 16 + 4 are 5 floats; but 12 bytes are no
// number of elements of 8, so that this view stays one of a view.
// CHECK-LABEL: func.func @reinterpret
func.func @reinterpret(%x: tensor<4x2xf32>, %go: tensor<i1>) -> (tensor<4x2xi32>, tensor<4x1xi64>, tensor<1xf32>, tensor<1xi64>) {
  // CHECK-NEXT: backend.view %x : tensor<4x2xf32> -> tensor<4x2xi32>
  %0 = edge.aten.view_copy.dtype(%x, dtype = i32) : (tensor<4x2xf32>) -> tensor<4x2xi32>
  // CHECK-NEXT: backend.view %x : tensor<4x2xf32> -> tensor<4x1xi64>
  %1 = edge.aten.view_copy.dtype(%x, dtype = i64) : (tensor<4x2xf32>) -> tensor<4x1xi64>
  // CHECK-NEXT: %[[AMID:.*]] = backend.view %x {offset = 3 : i64} : tensor<4x2xf32> -> tensor<2xf32>
  // CHECK-NEXT: backend.view %[[AMID]] : tensor<2xf32> -> tensor<1xi64>
  // CHECK-NEXT: backend.view %x {offset = 5 : i64} : tensor<4x2xf32> -> tensor<1xf32>
  %2 = edge.aten.view_copy.default(%x, size = [8]) : (tensor<4x2xf32>) -> tensor<8xf32>
  %3 = edge.aten.slice_copy.Tensor(%2, dim = 0, start = 3, end = 5) : (tensor<8xf32>) -> tensor<2xf32>
  %4 = edge.aten.view_copy.dtype(%3, dtype = i64) : (tensor<2xf32>) -> tensor<1xi64>
  %5 = edge.aten.select_copy.int(%1, dim = 0, index = 2) : (tensor<4x1xi64>) -> tensor<1xi64>
  %6 = edge.aten.view_copy.dtype(%5, dtype = f32) : (tensor<1xi64>) -> tensor<2xf32>
  %7 = edge.aten.slice_copy.Tensor(%6, dim = 0, start = 1, end = 2) : (tensor<2xf32>) -> tensor<1xf32>
  func.return %0, %1, %7, %4 : tensor<4x2xi32>, tensor<4x1xi64>, tensor<1xf32>, tensor<1xi64>
}

// What a loop carries is copied, since no runtime has to have a kernel for the dtype.
// CHECK-LABEL: func.func @reinterpret_carried
func.func @reinterpret_carried(%x: tensor<4xf32>, %go: tensor<i1>) -> tensor<4xf32> {
  %0 = control.while carry (%a = %x) : (tensor<4xf32>) {
    control.yield %go : tensor<i1>
  } do {
  ^bb0(%b: tensor<4xf32>):
    // CHECK: %[[COPY:.*]] = edge.dim_order_ops._to_dim_order_copy.default(%b, dim_order = [0])
    // CHECK-NEXT: backend.view %[[COPY]] : tensor<4xf32> -> tensor<4xi32>
    %1 = edge.aten.view_copy.dtype(%b, dtype = i32) : (tensor<4xf32>) -> tensor<4xi32>
    %2 = edge.aten.neg.default(%1) : (tensor<4xi32>) -> tensor<4xi32>
    %3 = edge.aten.view_copy.dtype(%2, dtype = f32) : (tensor<4xi32>) -> tensor<4xf32>
    control.yield %3 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @weights
func.func @weights() -> (tensor<4xf32>, tensor<2xf32>) {
  // CHECK-NEXT: %[[W:.*]] = et.get_weight @unloaded : tensor<2x2xf32>
  // CHECK-NEXT: %[[V:.*]] = et.get_weight @unloaded_view : tensor<4xf32>
  %0 = et.get_weight @unloaded : tensor<2x2xf32>
  %1 = edge.aten.view_copy.default(%0, size = [4]) : (tensor<2x2xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %[[PART:.*]] = backend.view %[[W]] {offset = 2 : i64} : tensor<2x2xf32> -> tensor<2xf32>
  %2 = edge.aten.select_copy.int(%0, dim = 0, index = 1) : (tensor<2x2xf32>) -> tensor<2xf32>
  // CHECK-NEXT: func.return %[[V]], %[[PART]]
  func.return %1, %2 : tensor<4xf32>, tensor<2xf32>
}
