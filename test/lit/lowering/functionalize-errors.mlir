// All changes that cannot be made functional are reported, each at its place.

// RUN: not et-opt -p functionalize %s 2>&1 | filecheck %s
// CHECK-NOT: Traceback

et.schema "mylib::stir(Tensor(a!) x, int n) -> ()"
et.weight @w : tensor<4xf32> = #et.synthetic<seed = 1>

func.func @forward(%x: tensor<1x4xf32>) -> tensor<3x4xf32> {
  %w = et.get_weight @w : tensor<4xf32>
  // CHECK: functionalize-errors.mlir:13:3: error[E0413]: 'aten.relu_.default' changes the weight @w, which is a constant of the program
  // CHECK: help: make it a buffer (register_buffer), or change a clone of it
  %0 = aten.relu_.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.expand.default(%x, size = [3, 4]) : (tensor<1x4xf32>) -> tensor<3x4xf32>
  // CHECK: functionalize-errors.mlir:17:3: error[E0413]: 'aten.relu_.default' changes a tensor through 'aten.expand.default': several of its elements are one element of the expanded tensor
  // CHECK: help: write it without overlapping views, or clone the tensor before changing it
  %2 = aten.relu_.default(%1) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %3 = aten.unfold.default(%x, dimension = 1, size = 2, step = 1) : (tensor<1x4xf32>) -> tensor<1x3x2xf32>
  // CHECK: error[E0413]: 'aten.neg_.default' changes a tensor through 'aten.unfold.default': its windows overlap
  %4 = aten.neg_.default(%3) : (tensor<1x3x2xf32>) -> tensor<1x3x2xf32>
  // CHECK: error[E0413]: 'mylib.stir.default' has no functional overload
  // CHECK: help: register mylib::stir with the same arguments that returns the new contents of what it changes, after its own results
  mylib.stir.default(%x, n = 2) : (tensor<1x4xf32>) -> ()
  // CHECK: error[E0413]: 'aten.unsqueeze_.default' changes the sizes of an input of the method
  %5 = aten.unsqueeze_.default(%x, dim = 0) : (tensor<1x4xf32>) -> tensor<1x1x4xf32>
  // CHECK: error[E0413]: 'aten.resize_.default' gives a tensor more elements than its storage has, or it is not known how many
  %6 = aten.neg.default(%x) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %7 = aten.resize_.default(%6, size = [6]) : (tensor<1x4xf32>) -> tensor<6xf32>
  func.return %1 : tensor<3x4xf32>
}
