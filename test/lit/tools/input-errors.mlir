// What cannot be read or written.

// RUN: not et-opt %t.missing.mlir 2>&1 | filecheck %s --check-prefix=MISSING
// MISSING: error[E0902]: cannot read '{{.*}}': No such file or directory
// RUN: printf 'ML\357R\001' > %t.mlirbc
// RUN: not et-opt %t.mlirbc 2>&1 | filecheck %s --check-prefix=BYTECODE
// BYTECODE: error[E0902]: {{.*}} is not text: it is MLIR bytecode
// RUN: printf '\030\000\000\000ET12' > %t.pte
// RUN: not et-opt %t.pte 2>&1 | filecheck %s --check-prefix=PTE
// PTE: error[E0902]: {{.*}} is a .pte file; turn it into text with et-translate --pte-to-mlir
// RUN: printf 'func.func \377' > %t.bin
// RUN: not et-opt %t.bin 2>&1 | filecheck %s --check-prefix=UTF8
// UTF8: error[E0902]: {{.*}} is not UTF-8 text: byte 10 is 0xff
// RUN: not et-opt %s -o %t.nowhere/out.mlir 2>&1 | filecheck %s --check-prefix=OUTPUT
// OUTPUT: error[E0903]: cannot write
// RUN: et-opt %s -o /dev/null
// RUN: et-opt %s -o - | filecheck %s
// CHECK: builtin.module {

// RUN: not et-opt --split-input-files %s 2>&1 | filecheck %s --check-prefix=USAGE
// USAGE: error[E0901]: et-opt: unknown option '--split-input-files'; did you mean --split-input-file?

func.func @forward() {
  func.return
}
