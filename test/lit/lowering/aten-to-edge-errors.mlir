// Everything that has no place at the edge level comes in one report.
// RUN: not et-opt --aten-to-edge %s 2>&1 | filecheck %s

func.func @forward(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: m.py:3: error[E0414]: 'aten.add_.Tensor' writes its arguments (E1): run functionalize first
  %0 = aten.add_.Tensor(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("m.py":3:0)
  // CHECK: m.py:4: error[E0410]: 'mylib.strange' is not supported: "a node of kind call_module"
  %1 = aten.opaque "mylib.strange"(%0) {reason = "a node of kind call_module"} : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("m.py":4:0)
  func.return %1 : tensor<2x3xf32>
}
