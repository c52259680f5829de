// RUN: not et-opt --verify-edge %s 2>&1 | filecheck %s

// All violations of the edge level's rules come in one report; rules E1 to E5 are those of docs/reference/dialects/edge.md.
sym.dim @s in [1, 8]

func.func @forward(%x: tensor<2x3xf32>, %n: tensor<2x3xi64>, %d: tensor<?xf32, #et.layout<dims = [s]>>) -> tensor<2x3xf32> {
  // A correct operator says nothing, nor does a dynamic dim that the rule cannot know.
  // CHECK-NOT: edge.aten.relu
  %0 = edge.aten.relu.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = edge.aten.relu.default(%d) : (tensor<?xf32, #et.layout<dims = [s]>>) -> tensor<?xf32, #et.layout<dims = [s]>>
  // CHECK: m.py:1: error[E0414]: 'aten.relu.default' is an ATen operator: run aten-to-edge
  %2 = aten.relu.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("m.py":1:0)
  // CHECK: m.py:2: error[E0414]: 'edge.aten.add_.Tensor' writes its arguments (E1)
  %3 = edge.aten.add_.Tensor(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("m.py":2:0)
  // CHECK: m.py:3: error[E0414]: 'edge.aten.view.default' is a view (E2)
  %4 = edge.aten.view.default(%x, size = [6]) : (tensor<2x3xf32>) -> tensor<6xf32> loc("m.py":3:0)
  // CHECK: m.py:4: error[E0414]: 'edge.aten.add.Tensor' has a number in tensor slot 'other' (E3)
  %5 = edge.aten.add.Tensor(%x, 1) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("m.py":4:0)
  // CHECK: m.py:5: error[E0414]: 'edge.aten.clone.default' has a memory format ('memory_format') instead of a dim order (E4)
  %6 = edge.aten.clone.default(%x, memory_format = "channels_last") : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("m.py":5:0)
  // CHECK: m.py:6: error[E0414]: 'edge.aten.add.Tensor' gives result 0 element type i64; its rule gives f32 (E5)
  %7 = edge.aten.add.Tensor(%x, %n) : (tensor<2x3xf32>, tensor<2x3xi64>) -> tensor<2x3xi64> loc("m.py":6:0)
  // CHECK: m.py:7: error[E0414]: 'edge.aten.permute_copy.default' gives result 0 type tensor<2x3xf32>; its rule gives tensor<3x2xf32> (E5)
  %8 = edge.aten.permute_copy.default(%x, dims = [1, 0]) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("m.py":7:0)
  func.return %0 : tensor<2x3xf32>
}
