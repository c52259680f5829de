// RUN: not et-opt --to-out-variant %s 2>&1 | filecheck %s

// What has no form at the executable level comes in one report: operation, count, source line, next step.
et.schema "mylib::thrice(Tensor x) -> Tensor"
sym.dim @s in [1, inf]

func.func @forward(%x: tensor<4xf32>, %d: tensor<?xf32, #et.layout<dims = [s]>>, %n: i64) -> (tensor<4xf32>, i64) {
  // CHECK: error[E0416]: {{.*}}'s'{{.*}}
  // CHECK: help: export with s = torch.export.Dim("s", max=1024) in dynamic_shapes={"d": {0: s}}
  %0 = edge.aten.relu.default(%d) : (tensor<?xf32, #et.layout<dims = [s]>>) -> tensor<?xf32, #et.layout<dims = [s]>> loc("m.py":1:0)
  // CHECK: m.py:2: error[E0417]: 'sym.pow' has no primitive operator at run time
  %1 = sym.pow %n, %n : (i64, i64) -> i64 loc("m.py":2:0)
  // CHECK: m.py:3: error[E0415]: 'mylib::thrice' has no out variant (2 uses, this is the first)
  // CHECK: help: register mylib::thrice.out with the same arguments and 'Tensor(a!) out', or decompose the operator
  %2 = edge.mylib.thrice.default(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("m.py":3:0)
  %3 = edge.mylib.thrice.default(%2) : (tensor<4xf32>) -> tensor<4xf32> loc("m.py":4:0)
  func.return %3, %1 : tensor<4xf32>, i64
}
