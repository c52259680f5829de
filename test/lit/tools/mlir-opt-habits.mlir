// What people who know mlir-opt write.

// A single hyphen before passes and options.
// RUN: et-opt -cse -dce %s | filecheck %s
// RUN: et-opt -pass-pipeline='cse,dce' -split-input-file %s | filecheck %s
// RUN: et-opt -partition='backend=reference' -outline-delegates -dump-pass-pipeline -no-output %s 2>&1 | filecheck %s --check-prefix=SINGLE
// SINGLE: partition{{{.*}}backend=reference{{.*}}},outline-delegates
// RUN: not et-opt -ces %s 2>&1 | filecheck %s --check-prefix=UNKNOWN
// UNKNOWN: error[E0901]: et-opt: unknown option '-ces'

// Nested pipelines, as mlir-opt prints them.
// RUN: et-opt -p 'builtin.module(func.func(cse,dce),canonicalize)' %s | filecheck %s
// RUN: et-opt -p 'builtin.module( func.func( cse ), any(dce), builtin.module(), et.method(canonicalize) )' %s | filecheck %s
// RUN: et-opt -p 'func.func(cse,dce)' --dump-pass-pipeline --no-output %s 2>&1 | filecheck %s --check-prefix=FLAT
// FLAT: {{^}}cse,dce{{$}}
// RUN: not et-opt -p 'builtin.module(scf.for(cse))' %s 2>&1 | filecheck %s --check-prefix=ANCHOR
// ANCHOR: <pipeline>:1:16: error[E0506]: passes are nested in one of builtin.module, func.func, et.method, any, not in 'scf.for'
// RUN: not et-opt -p 'func.func(builtin.module(cse))' %s 2>&1 | filecheck %s --check-prefix=INSIDE
// INSIDE: <pipeline>:1:11: error[E0506]: 'builtin.module' does not stand in 'func.func'
// RUN: not et-opt -p 'builtin.module(func.func(cse)' %s 2>&1 | filecheck %s --check-prefix=OPEN
// OPEN: error[E0506]: expected ',' or ')', found the end

// The verifier always runs.
// RUN: et-opt --verify-each --cse --dce %s | filecheck %s
// RUN: et-opt -verify-each=1 -cse -dce %s | filecheck %s
// RUN: et-opt --verify-each=true --cse --dce %s | filecheck %s
// RUN: not et-opt --verify-each=false --cse %s 2>&1 | filecheck %s --check-prefix=VERIFY
// RUN: not et-opt -verify-each=0 --cse %s 2>&1 | filecheck %s --check-prefix=VERIFY
// VERIFY: error[E0901]: et-opt: the verifier runs after every pass, and nothing turns it off: leave --verify-each out
// RUN: not et-opt --verify-each=perhaps %s 2>&1 | filecheck %s --check-prefix=PERHAPS
// PERHAPS: error[E0901]: et-opt: --verify-each is true or false, not 'perhaps'

// Constants without their values; a splat is one element. Nothing reads such text back.
// RUN: et-opt --mlir-elide-elementsattrs-if-larger=3 %s | filecheck %s --check-prefix=ELIDED
// RUN: et-opt --mlir-elide-elementsattrs-if-larger=3 --print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: et-opt --mlir-elide-elementsattrs-if-larger=4 %s | filecheck %s --check-prefix=WHOLE
// RUN: et-opt --mlir-elide-elementsattrs-if-larger=3 %s -o %t.elided.mlir
// RUN: not et-opt %t.elided.mlir 2>&1 | filecheck %s --check-prefix=BACK
// ELIDED: et.constant dense_resource<__elided__> : tensor<4xf32>
// ELIDED: et.constant dense<1.000000e+00> : tensor<8xf32>
// GENERIC: "et.constant"() <{value = dense_resource<__elided__> : tensor<4xf32>}>
// WHOLE: et.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32>
// BACK: error[E0101]: the values of this constant were left out when it was printed

// RUN: et-opt --show-dialects | filecheck %s --check-prefix=DIALECTS
// DIALECTS: aten {{.*}} operations

// An option whose value may be left out does not take the name of the file for it.
// RUN: et-opt --cse --explain-match %s | filecheck %s --check-prefix=KEPT
// RUN: et-opt -p 'fold-constants' --explain-match %s --no-output 2>&1 | filecheck %s --check-prefix=EXPLAIN --allow-empty
// RUN: et-opt --cse --print-ir-after %s --no-output 2>&1 | filecheck %s --check-prefix=KEPT
// RUN: not et-opt --explain-match silu %s 2>&1 | filecheck %s --check-prefix=TWO
// KEPT: func.func @forward
// EXPLAIN-NOT: error
// TWO: error[E0901]: et-opt: one input is read, and there are two: 'silu' and '{{.*}}mlir-opt-habits.mlir'
// TWO-NEXT: help: a value of an option is written with =, as in --explain-match=NAME

// CHECK-LABEL: func.func @forward
func.func @forward(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<8xf32>) {
  %c = et.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %s = et.constant dense<1.0> : tensor<8xf32>
  // CHECK: %0 = aten.relu.default(%x)
  // CHECK-NOT: aten.relu
  // CHECK: func.return %0
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1, %c, %s : tensor<4xf32>, tensor<4xf32>, tensor<8xf32>
}
