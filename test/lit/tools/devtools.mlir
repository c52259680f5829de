// The tools that read traces and search for wrong rewrites, from the command line.

// RUN: et-opt %s --compile-from=edge --compile-to=et --trace %t.trace --no-output
// RUN: et-inspect %t.trace --explain edge.aten.relu | filecheck %s --check-prefix=EXPLAIN
// RUN: et-inspect --help | filecheck %s --check-prefix=HELP
// RUN: et-inspect --version | filecheck %s --check-prefix=VERSION
// RUN: not et-inspect --color=always --debug %t.trace 2>&1 | filecheck %s --check-prefix=COLOR
// RUN: et-bisect --help | filecheck %s --check-prefix=BISECT
// RUN: et-bisect --version | filecheck %s --check-prefix=VERSION
// RUN: not et-bisect --color=never --debug %s --pass-pipeline=cse 2>&1 | filecheck %s --check-prefix=INPUTS
// RUN: et-explore --help | filecheck %s --check-prefix=EXPLORE
// RUN: et-explore --version | filecheck %s --check-prefix=VERSION
// RUN: et-explore -o %t.html %t.trace && filecheck %s --check-prefix=PAGE --input-file %t.html
// RUN: not et-explore --color=always --debug %s 2>&1 | filecheck %s --check-prefix=NOPAGE
// RUN: et-compare --help | filecheck %s --check-prefix=COMPARE
// RUN: et-compare --version | filecheck %s --check-prefix=VERSION
// RUN: not et-compare --color=never --debug model.pte 2>&1 | filecheck %s --check-prefix=INPUTS
// RUN: et-reduce --help | filecheck %s --check-prefix=REDUCE
// RUN: et-reduce --version | filecheck %s --check-prefix=VERSION
// RUN: not et-reduce --color=never --debug %s -o %t.mlir --pass-pipeline=cse 2>&1 | filecheck %s --check-prefix=FAILS

// EXPLAIN: edge.aten.relu.default (origin
// EXPLAIN: to-out-variant {{.*}}edge.aten.relu.default
// EXPLAIN: et                 instruction 0 of 'forward': aten::relu.out
// HELP: usage: et-inspect
// VERSION: et-{{inspect|bisect|explore|compare|reduce}} 0.1.0
// COLOR: {{.*}}E0901{{.*}}
// BISECT: usage: et-bisect
// EXPLORE: usage: et-explore
// PAGE: <!doctype html>
// NOPAGE: {{.*}}E1420{{.*}}
// COMPARE: usage: et-compare
// REDUCE: usage: et-reduce
// FAILS: error[E0901]: say what fails
// INPUTS: error[E0901]: name what to run the program on

builtin.module {
  func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = edge.aten.relu.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
    func.return %0 : tensor<2xf32>
  }
}
