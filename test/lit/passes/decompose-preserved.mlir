// RUN: et-opt -p 'decompose-preserved{backend="reference{leave=aten.hardswish.default}"}' %s | filecheck %s
// RUN: et-opt -p 'decompose-preserved{backend=reference}' %s | filecheck %s --check-prefix=TAKEN
// RUN: et-opt -p 'decompose-preserved' %s | filecheck %s --check-prefix=NONE

// The target executorch has no kernel for hardswish. What was kept for a backend that does not take it is decomposed; what is
// in a partition stays.
// CHECK-LABEL: func.func @left
// NONE-LABEL: func.func @left
// TAKEN-LABEL: func.func @left
func.func @left(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NOT: edge.aten.hardswish.default(%x)
  // NONE-NOT: edge.aten.hardswish.default(%x)
  // What it is decomposed into is at the edge level again.
  // CHECK-NOT: {{= aten[.]}}
  // NONE-NOT: {{= aten[.]}}
  // CHECK: edge.aten.hardswish.default(%y) {backend.partition
  // TAKEN: edge.aten.hardswish.default(%x) : (
  // NONE: edge.aten.hardswish.default(%y) {backend.partition = "reference:0"}
  %0 = edge.aten.hardswish.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.hardswish.default(%y) {backend.partition = "reference:0"} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NOT: {{= aten[.]}}
  // CHECK: func.return
  // NONE-NOT: {{= aten[.]}}
  // NONE: func.return
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
