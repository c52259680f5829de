// Named phases: the passes between two of them, from one table.

// RUN: not et-opt --compile-to=edgy %s 2>&1 | filecheck %s --check-prefix=UNKNOWN
// UNKNOWN: error[E0908]: there is no phase 'edgy'; the phases are aten, core, edge, backend, et
// RUN: not et-opt --compile-from=et --compile-to=edge %s 2>&1 | filecheck %s --check-prefix=ORDER
// ORDER: error[E0908]: phase 'edge' comes before 'et'; the order is aten, core, edge, backend, et
// RUN: not et-opt --compile-to=edge -p cse %s 2>&1 | filecheck %s --check-prefix=BOTH
// BOTH: error[E0901]: --compile-to and --compile-from are pipelines and do not go with -p

// From a phase to itself nothing runs.
// RUN: et-opt --compile-from=edge --compile-to=edge --dump-pass-pipeline --no-output %s
// RUN: et-opt --compile-to=aten %s | filecheck %s
// CHECK: func.func @forward

func.func @forward() {
  func.return
}
