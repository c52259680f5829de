// RUN: et-opt --list-passes | filecheck %s --check-prefix=PASSES
// PASSES: apply-pdl
// PASSES-NEXT: Apply the PDL patterns of a file until none matches.
// PASSES-NEXT: file=str  (required)
// PASSES: cse
// PASSES-NEXT: Merge pure operations that compute the same.
// PASSES: plan-memory
// PASSES-NEXT: {{ +}}{{.+}}
// PASSES-NEXT: algorithm=auto|{{.*}}  (default auto)

// RUN: et-opt --list-dialects | filecheck %s --check-prefix=DIALECTS
// DIALECTS: aten {{ *}}3111 operations
// DIALECTS: control {{ *}}4 operations
// DIALECTS: edge
// DIALECTS: et
// DIALECTS: sym

// RUN: %{process} et-opt --version | filecheck %s --check-prefix=VERSION
// VERSION: et-opt {{[0-9]+\.[0-9]+}}{{.*}} (xdsl 0.74.0)
