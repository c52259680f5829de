// RUN: et-opt -p native-group %s | filecheck %s

et.weight @w : tensor<40x24xf32> = #et.synthetic<seed = 1> {fqn = "w"}
et.weight @b : tensor<40xf32> = #et.synthetic<seed = 2> {fqn = "b"}
func.func private @forward_native_0(%x: tensor<5x24xf32>, %y: tensor<5x40xf32>) -> tensor<5x40xf32> attributes {backend.delegate = "native"} {
  %w = et.get_weight @w : tensor<40x24xf32>
  %b = et.get_weight @b : tensor<40xf32>
  %0 = edge.aten.linear.default(%x, %w, %b) : (tensor<5x24xf32>, tensor<40x24xf32>, tensor<40xf32>) -> tensor<5x40xf32>
  %1 = edge.aten.relu.default(%0) : (tensor<5x40xf32>) -> tensor<5x40xf32>
  %2 = edge.aten.add.Tensor(%1, %y) : (tensor<5x40xf32>, tensor<5x40xf32>) -> tensor<5x40xf32>
  %3 = edge.aten._softmax.default(%2, dim = 1, half_to_float = false) : (tensor<5x40xf32>) -> tensor<5x40xf32>
  func.return %3 : tensor<5x40xf32>
}

// CHECK:       %0 = native.group "product"(%x, %w, %b, %y)
// CHECK-NEXT:  ^bb0
// CHECK-NEXT:    edge.aten.linear.default
// CHECK-NEXT:    edge.aten.relu.default
// CHECK-NEXT:    edge.aten.add.Tensor
// CHECK-NEXT:    native.yield
// CHECK:       %8 = native.group "softmax"(%0)

// A tensor that two operations read ends a group.
func.func private @forward_native_1(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {backend.delegate = "native"} {
  %0 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.exp.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.neg.default(%1) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %2 : tensor<4xf32>, tensor<4xf32>
}
// CHECK:       @forward_native_1
// CHECK:         native.group "map"(%x)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      edge.aten.relu.default
// CHECK-NEXT:      native.yield
// CHECK:         native.group "map"
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      edge.aten.exp.default
// CHECK-NEXT:      edge.aten.neg.default
// CHECK-NEXT:      native.yield

// Functions of others stay.
func.func private @forward_other_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK:       @forward_other_0
// CHECK-NEXT:    edge.aten.relu.default

// A batch norm with constants is a factor and a summand of each channel, done with the activation after it.
et.weight @gamma : tensor<2xf32> = #et.synthetic<seed = 3> {fqn = "gamma"}
et.weight @mean : tensor<2xf32> = #et.synthetic<seed = 4> {fqn = "mean"}
func.func private @normed(%x: tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32> attributes {backend.delegate = "native"} {
  %gamma = et.get_weight @gamma : tensor<2xf32>
  %mean = et.get_weight @mean : tensor<2xf32>
  %v = et.constant dense<[1.0, 4.0]> : tensor<2xf32>
  %0, %1, %2 = edge.aten._native_batch_norm_legit_no_training.default(%x, %gamma, none, %mean, %v, momentum = 0.1, eps = 0.0) : (tensor<1x2x3x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<1x2x3x3xf32>, tensor<0xf32>, tensor<0xf32>)
  %3 = edge.aten.relu.default(%0) : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  func.return %3 : tensor<1x2x3x3xf32>
}
// CHECK-LABEL: func.func private @normed
// CHECK-NOT:   et.get_weight
// CHECK:       et.constant {{.*}} : tensor<2x1x1xf32>
// CHECK:       et.constant {{.*}} : tensor<2x1x1xf32>
// CHECK:       native.group "map"
// CHECK:         edge.aten.mul.Tensor
// CHECK:         edge.aten.add.Tensor
// CHECK:         edge.aten.relu.default
// CHECK-NOT:   batch_norm

// The other term of a sum is made in the same loop, unless a product can go on with it or somebody else reads it.
func.func private @beside(%x: tensor<5x40xf32>, %y: tensor<5x40xf32>) -> tensor<5x40xf32> attributes {backend.delegate = "native"} {
  %0 = edge.aten.exp.default(%x) : (tensor<5x40xf32>) -> tensor<5x40xf32>
  %1 = edge.aten.tanh.default(%y) : (tensor<5x40xf32>) -> tensor<5x40xf32>
  %2 = edge.aten.neg.default(%1) : (tensor<5x40xf32>) -> tensor<5x40xf32>
  %3 = edge.aten.add.Tensor(%0, %2) : (tensor<5x40xf32>, tensor<5x40xf32>) -> tensor<5x40xf32>
  func.return %3 : tensor<5x40xf32>
}
// CHECK-LABEL: func.func private @beside(
// CHECK:         native.group "map"(%x, %y)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      edge.aten.exp.default
// CHECK-NEXT:      edge.aten.tanh.default
// CHECK-NEXT:      edge.aten.neg.default
// CHECK-NEXT:      edge.aten.add.Tensor
// CHECK-NEXT:      native.yield

func.func private @beside_product(%x: tensor<5x24xf32>, %y: tensor<5x40xf32>) -> tensor<5x40xf32> attributes {backend.delegate = "native"} {
  %w = et.get_weight @w : tensor<40x24xf32>
  %b = et.get_weight @b : tensor<40xf32>
  %0 = edge.aten.exp.default(%y) : (tensor<5x40xf32>) -> tensor<5x40xf32>
  %1 = edge.aten.linear.default(%x, %w, %b) : (tensor<5x24xf32>, tensor<40x24xf32>, tensor<40xf32>) -> tensor<5x40xf32>
  %2 = edge.aten.tanh.default(%1) : (tensor<5x40xf32>) -> tensor<5x40xf32>
  %3 = edge.aten.add.Tensor(%0, %2) : (tensor<5x40xf32>, tensor<5x40xf32>) -> tensor<5x40xf32>
  func.return %3 : tensor<5x40xf32>
}
// CHECK-LABEL: func.func private @beside_product(
// CHECK:         native.group "product"
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      edge.aten.linear.default
// CHECK-NEXT:      edge.aten.tanh.default
// CHECK-NEXT:      native.yield
// CHECK:         native.group "map"
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      edge.aten.exp.default
// CHECK-NEXT:      edge.aten.add.Tensor

func.func private @beside_twice(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {backend.delegate = "native"} {
  %0 = edge.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.tanh.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.add.Tensor(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %1, %2 : tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func private @beside_twice(
// CHECK:         native.group "map"(%y)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      edge.aten.tanh.default
// CHECK-NEXT:      native.yield
// CHECK:         native.group "map"
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      edge.aten.exp.default
// CHECK-NEXT:      edge.aten.add.Tensor
