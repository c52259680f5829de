// Passes that were renamed are found by their former names for a version, with a warning.

// RUN: et-opt -p 'cse,share-sizes' --print-ir-after=share-sizes %s 2>&1 | filecheck %s
// RUN: et-opt --share-sizes --print-pipeline --no-output %s 2>&1 | filecheck %s --check-prefix=OPTION
// CHECK: <pipeline>:1:5: warning[E0509]: pass 'share-sizes' is called 'cse-symbolic-sizes' now
// CHECK: IR dump after cse-symbolic-sizes
// OPTION: <pipeline>:1:1: warning[E0509]: pass 'share-sizes' is called 'cse-symbolic-sizes' now
// OPTION: {{^}}cse-symbolic-sizes{{$}}
func.func @forward() {
  func.return
}
