// A runtime finds what is kept outside by its name: the first keeps the name that the model has for it, another one of the
// same name, a state or a weight, is found by its symbol. What is inside of the file needs no name.
//
// RUN: et-opt -p lower-delegates %s | filecheck %s

// CHECK: et.weight @inside {{.*}} {fqn = "w"}
et.weight @inside : tensor<4xf32> = #et.synthetic<seed = 1> {fqn = "w"}
// CHECK-NEXT: et.weight @first {{.*}} {fqn = "w", external = "weights"}
et.weight @first : tensor<4xf32> = #et.synthetic<seed = 2> {fqn = "w", external = "weights"}
// CHECK-NEXT: et.state @second {{.*}} {external = "weights"}
et.state @second : tensor<4xf32> = #et.synthetic<seed = 3> {fqn = "w", external = "weights"}
// CHECK-NEXT: et.weight @third {{.*}} {external = "weights"}
et.weight @third : tensor<4xf32> = #et.synthetic<seed = 4> {fqn = "w", external = "weights"}
// CHECK-NEXT: et.weight @other {{.*}} {fqn = "other", external = "weights"}
et.weight @other : tensor<4xf32> = #et.synthetic<seed = 5> {fqn = "other", external = "weights"}

func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = et.get_weight @inside : tensor<4xf32>
  %b = et.get_weight @first : tensor<4xf32>
  %c = et.read_state @second : tensor<4xf32>
  %d = et.get_weight @third : tensor<4xf32>
  %e = et.get_weight @other : tensor<4xf32>
  %0 = edge.aten.mul.Tensor(%x, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.mul.Tensor(%0, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.mul.Tensor(%1, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = edge.aten.mul.Tensor(%2, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = edge.aten.mul.Tensor(%3, %e) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %4 : tensor<4xf32>
}
