// RUN: et-opt --cse-symbolic-sizes %s | filecheck %s
// RUN: et-opt --cse-symbolic-sizes --cse-symbolic-sizes %s | filecheck %s

sym.dim @s0 in [1, 8]
sym.dim @s1 in [1, 8]

// One symbol read from two tensors is one number: the later read goes, whatever dimension it stands in.
// CHECK-LABEL: func.func @two_tensors
func.func @two_tensors(%x: tensor<?x8xf32, #et.layout<dims = [s0, 8]>>, %y: tensor<4x?xf32, #et.layout<dims = [4, s0]>>) -> i64 {
  // CHECK-NEXT: %0 = edge.aten.sym_size.int(%x, dim = 0)
  %0 = edge.aten.sym_size.int(%x, dim = 0) : (tensor<?x8xf32, #et.layout<dims = [s0, 8]>>) -> i64
  // CHECK-NOT: sym_size
  %1 = edge.aten.sym_size.int(%y, dim = 1) : (tensor<4x?xf32, #et.layout<dims = [4, s0]>>) -> i64
  // CHECK-NEXT: sym.mul %0, %0
  %2 = sym.mul %0, %1 : (i64, i64) -> i64
  func.return %2 : i64
}

// Sizes are compared as expressions, in the form that all equal ones have: 2 * s0 is s0 + s0, and s0 is neither s1 nor
// 2 * s0.
// CHECK-LABEL: func.func @expressions
func.func @expressions(%x: tensor<?x?xf32, #et.layout<dims = [2 * s0, s0]>>, %y: tensor<?x?xf32, #et.layout<dims = [s0 + s0, s1]>>) -> (i64, i64, i64, i64) {
  // CHECK-NEXT: %0 = edge.aten.sym_size.int(%x, dim = 0)
  %0 = edge.aten.sym_size.int(%x, dim = 0) : (tensor<?x?xf32, #et.layout<dims = [2 * s0, s0]>>) -> i64
  // CHECK-NEXT: %1 = edge.aten.sym_size.int(%x, dim = 1)
  %1 = edge.aten.sym_size.int(%x, dim = 1) : (tensor<?x?xf32, #et.layout<dims = [2 * s0, s0]>>) -> i64
  %2 = edge.aten.sym_size.int(%y, dim = 0) : (tensor<?x?xf32, #et.layout<dims = [2 * s0, s1]>>) -> i64
  // CHECK-NEXT: %2 = edge.aten.sym_size.int(%y, dim = 1)
  %3 = edge.aten.sym_size.int(%y, dim = 1) : (tensor<?x?xf32, #et.layout<dims = [2 * s0, s1]>>) -> i64
  // CHECK-NEXT: func.return %0, %1, %0, %2
  func.return %0, %1, %2, %3 : i64, i64, i64, i64
}

// A read in a branch uses the one before the branch; one in another branch is not there, nor is one in a branch that has
// ended.
// CHECK-LABEL: func.func @branches
func.func @branches(%p: i1, %x: tensor<?xf32, #et.layout<dims = [s0]>>, %y: tensor<?xf32, #et.layout<dims = [s1]>>) -> (i64, i64) {
  // CHECK-NEXT: %[[S0:.*]] = edge.aten.sym_size.int(%x, dim = 0)
  %0 = edge.aten.sym_size.int(%x, dim = 0) : (tensor<?xf32, #et.layout<dims = [s0]>>) -> i64
  // CHECK-NEXT: %[[C:.*]] = control.cond %p
  %1 = control.cond %p : i1 -> (i64) {
    // CHECK-NEXT: %[[A:.*]] = edge.aten.sym_size.int(%y, dim = 0)
    // CHECK-NEXT: sym.add %[[S0]], %[[A]]
    %2 = edge.aten.sym_size.int(%x, dim = 0) : (tensor<?xf32, #et.layout<dims = [s0]>>) -> i64
    %3 = edge.aten.sym_size.int(%y, dim = 0) : (tensor<?xf32, #et.layout<dims = [s1]>>) -> i64
    %4 = sym.add %2, %3 : (i64, i64) -> i64
    control.yield %4 : i64
  // CHECK: else
  } else {
    // CHECK-NEXT: %[[B:.*]] = edge.aten.sym_size.int(%y, dim = 0)
    // CHECK-NEXT: control.yield %[[B]]
    %5 = edge.aten.sym_size.int(%y, dim = 0) : (tensor<?xf32, #et.layout<dims = [s1]>>) -> i64
    control.yield %5 : i64
  }
  // CHECK: %[[S1:.*]] = edge.aten.sym_size.int(%y, dim = 0)
  %6 = edge.aten.sym_size.int(%y, dim = 0) : (tensor<?xf32, #et.layout<dims = [s1]>>) -> i64
  // CHECK-NEXT: func.return %[[C]], %[[S1]]
  func.return %1, %6 : i64, i64
}

// Two methods run at different times: nothing is shared. A size that is a number is canonicalize's.
// CHECK-LABEL: func.func @other_method
func.func @other_method(%x: tensor<?x8xf32, #et.layout<dims = [s0, 8]>>) -> (i64, i64, i64) {
  // CHECK-NEXT: edge.aten.sym_size.int(%x, dim = 0)
  %0 = edge.aten.sym_size.int(%x, dim = 0) : (tensor<?x8xf32, #et.layout<dims = [s0, 8]>>) -> i64
  // CHECK-COUNT-2: edge.aten.sym_size.int(%x, dim = 1)
  %1 = edge.aten.sym_size.int(%x, dim = 1) : (tensor<?x8xf32, #et.layout<dims = [s0, 8]>>) -> i64
  %2 = edge.aten.sym_size.int(%x, dim = 1) : (tensor<?x8xf32, #et.layout<dims = [s0, 8]>>) -> i64
  func.return %0, %1, %2 : i64, i64, i64
}
