// A file of patterns is checked when it is loaded; all its problems are reported.

// RUN: not et-opt -p 'apply-pdl{file=%S/inputs/bad.pdl.mlir}' %s 2>&1 | filecheck %s
// CHECK: bad.pdl.mlir:3:3: error[E0508]: there is no operation 'aten.rellu.default'; did you mean 'aten.relu.default'?
// CHECK-NEXT: note: in pass 'apply-pdl'
// CHECK: bad.pdl.mlir:4:3: error[E0508]: pdl.rewrite needs a root operation and a body, and takes no external function
// CHECK: bad.pdl.mlir:11:3: error[E0508]: 'pdl.apply_native_constraint' is not supported in this place
// CHECK-NOT: Traceback

// RUN: not et-opt -p 'apply-pdl{file=%t.missing}' %s 2>&1 | filecheck %s --check-prefix=MISSING
// MISSING: error[E0508]: cannot read the patterns '{{.*}}missing': {{.*}}No such file or directory
// RUN: not et-opt -p 'apply-pdl{file=%s}' %s 2>&1 | filecheck %s --check-prefix=NONE
// NONE: error[E0508]: '{{.*}}' has no pdl.pattern
// RUN: not et-opt -p 'apply-pdl{file=%S/inputs/loop.pdl.mlir}' %s 2>&1 | filecheck %s --check-prefix=LOOP
// LOOP: error[E0501]: {{[0-9]+}} rewrites of {{[0-9]+}} operations; the busiest patterns are 'there' ({{[0-9]+}} times), 'back' ({{[0-9]+}} times)

func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
