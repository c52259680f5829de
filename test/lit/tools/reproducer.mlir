// A failing pass leaves a file with the module it was given and the command that is left to run.

// RUN: not et-opt -p 'cse,apply-pdl{file=%S/inputs/wrong.pdl.mlir},dce' --reproducer=%t.mlir %s 2>&1 | filecheck %s
// CHECK: wrong.pdl.mlir:6:5: error[E0508]: pattern 'wrong': 'aten.softmax.int' cannot be made: aten.softmax.int needs argument 'dim'
// CHECK: note: in pass 'apply-pdl'
// CHECK: note: reproducer written: et-opt --run-reproducer {{.*}}.mlir

// RUN: filecheck %s --check-prefix=FILE < %t.mlir
// FILE: // 'apply-pdl' failed with E0508: pattern 'wrong'
// FILE-NEXT: // et-opt -p 'apply-pdl{file={{.*}}/inputs/wrong.pdl.mlir},dce'
// FILE-NEXT: // Rerun this file: et-opt --run-reproducer FILE
// FILE-NEXT: builtin.module {
// FILE: aten.relu.default(%x) {{.*}} loc(fused[
// FILE-NOT: aten.relu.default

// RUN: not et-opt --run-reproducer %t.mlir 2>&1 | filecheck %s --check-prefix=AGAIN
// AGAIN: wrong.pdl.mlir:6:5: error[E0508]: pattern 'wrong'

// Only a file that carries a command is one, and it may not choose where output goes.
// RUN: not et-opt --run-reproducer %S/inputs/relu.mlir 2>&1 | filecheck %s --check-prefix=NONE
// NONE: error[E0507]: {{.*}} has no line '// et-opt -p ...'
// RUN: printf '// et-opt -p cse -o /tmp/x\nbuiltin.module {}' > %t.evil.mlir
// RUN: not et-opt --run-reproducer %t.evil.mlir 2>&1 | filecheck %s --check-prefix=EVIL
// EVIL: error[E0507]: a reproducer may not carry '-o'
// RUN: not et-opt --run-reproducer %t.mlir -p cse 2>&1 | filecheck %s --check-prefix=USAGE
// USAGE: error[E0901]: et-opt: --run-reproducer takes pipeline and input from its file

func.func @forward(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
