// Several errors in one run, each with its place, the line, a caret and what to do.

// RUN: not et-opt %s 2>&1 | filecheck %s
// RUN: not et-opt --color=always %s 2>&1 | filecheck %s --check-prefix=COLOR
// RUN: not et-opt %s -o %t.mlir
// RUN: test ! -e %t.mlir

func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: {{.*}}diagnostics.mlir:12:3: error[E0301]: 'aten.relu.default' result 0: torch has no element type i4 (S5)
  // CHECK-NEXT: %0 = aten.relu.default(%x)
  // CHECK-NEXT: {{^ +\^}}
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xi4>
  // CHECK-NEXT: help: {{.+}}
  // CHECK-NEXT: {{.*}}diagnostics.mlir:16:3: error[E0303]: there is no weight @w
  // COLOR: diagnostics.mlir:16:3: {{.}}[1;31merror[E0303]:{{.}}[0m there is no weight @w
  %w = et.get_weight @w : tensor<4xf32>
  func.return %x : tensor<4xf32>
}
