// RUN: not et-opt --verify-native --split-input-file %s 2>&1 | filecheck %s

// Groups that were changed by hand, one mistake each. The first function is right and says nothing.
func.func private @correct(%x: tensor<5x24xf32>, %y: tensor<5x40xf32>) -> tensor<40x5xf32> attributes {backend.delegate = "native"} {
  %w = et.constant dense<0.5> : tensor<40x24xf32>
  %0 = native.group "product"(%x, %w, %y) : (tensor<5x24xf32>, tensor<40x24xf32>, tensor<5x40xf32>) -> tensor<5x40xf32> {
  ^bb0(%a: tensor<5x24xf32>, %b: tensor<40x24xf32>, %c: tensor<5x40xf32>):
    %1 = edge.aten.linear.default(%a, %b, none) : (tensor<5x24xf32>, tensor<40x24xf32>) -> tensor<5x40xf32>
    %2 = edge.aten.add.Tensor(%1, %c) : (tensor<5x40xf32>, tensor<5x40xf32>) -> tensor<5x40xf32>
    native.yield %2 : tensor<5x40xf32>
  }
  %3 = edge.aten.permute_copy.default(%0, dims = [1, 0]) : (tensor<5x40xf32>) -> tensor<40x5xf32>
  func.return %3 : tensor<40x5xf32>
}

// -----

// CHECK-NOT: correct
// An operator that is in no group: the lowering would pass it over.
// CHECK: verify-native.mlir:22:3: error[E1165]: 'aten.relu.default' is in no group, and is no view
func.func private @loose(%x: tensor<4xf32>) -> tensor<4xf32> attributes {backend.delegate = "native"} {
  %0 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

// CHECK: error[E1165]: the group 'softmax' starts with 'aten.relu.default', which is a 'map'
func.func private @other_kind(%x: tensor<4xf32>) -> tensor<4xf32> attributes {backend.delegate = "native"} {
  %0 = native.group "softmax"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %1 = edge.aten.relu.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    native.yield %1 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}

// -----

// CHECK: error[E1165]: 'aten.relu.default' in the group 'map' is not what the delegate takes: dtype float64, takes float32
func.func private @other_numbers(%x: tensor<4x5xf64>) -> tensor<4x5xf64> attributes {backend.delegate = "native"} {
  %0 = native.group "map"(%x) : (tensor<4x5xf64>) -> tensor<4x5xf64> {
  ^bb0(%a: tensor<4x5xf64>):
    %1 = edge.aten.relu.default(%a) : (tensor<4x5xf64>) -> tensor<4x5xf64>
    native.yield %1 : tensor<4x5xf64>
  }
  func.return %0 : tensor<4x5xf64>
}

// -----

// CHECK: error[E1165]: 'aten.logcumsumexp.default' in the group 'map' is not what the delegate takes: no pattern
func.func private @unknown_operator(%x: tensor<4xf32>) -> tensor<4xf32> attributes {backend.delegate = "native"} {
  %0 = native.group "map"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %1 = edge.aten.logcumsumexp.default(%a, dim = 0) : (tensor<4xf32>) -> tensor<4xf32>
    native.yield %1 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}

// -----

// CHECK: error[E1165]: 'aten.add.Tensor' in the group 'map' {{.*}}operands that do not fit
func.func private @other_sizes(%x: tensor<4xf32>, %y: tensor<3xf32>) -> tensor<4xf32> attributes {backend.delegate = "native"} {
  %0 = native.group "map"(%x, %y) : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<3xf32>):
    %1 = edge.aten.add.Tensor(%a, %b) : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
    native.yield %1 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}

// -----

// CHECK: error[E1165]: the group 'map' yields what its last operator computes
func.func private @yields_another(%x: tensor<4xf32>) -> tensor<4xf32> attributes {backend.delegate = "native"} {
  %0 = native.group "map"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %1 = edge.aten.relu.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = edge.aten.exp.default(%1) : (tensor<4xf32>) -> tensor<4xf32>
    native.yield %1 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}

// -----

// CHECK: error[E1165]: 'aten.linear.default' in the group 'product' {{.*}}operands that do not fit
func.func private @weights_do_not_fit(%x: tensor<5x23xf32>) -> tensor<5x40xf32> attributes {backend.delegate = "native"} {
  %w = et.constant dense<0.5> : tensor<40x24xf32>
  %0 = native.group "product"(%x, %w) : (tensor<5x23xf32>, tensor<40x24xf32>) -> tensor<5x40xf32> {
  ^bb0(%a: tensor<5x23xf32>, %b: tensor<40x24xf32>):
    %1 = edge.aten.linear.default(%a, %b, none) : (tensor<5x23xf32>, tensor<40x24xf32>) -> tensor<5x40xf32>
    native.yield %1 : tensor<5x40xf32>
  }
  func.return %0 : tensor<5x40xf32>
}

// -----

// CHECK: error[E1165]: {{.*}}softmax.default' after 'aten.relu.default' is not elementwise
func.func private @no_epilogue(%x: tensor<4xf32>) -> tensor<4xf32> attributes {backend.delegate = "native"} {
  %0 = native.group "map"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %1 = edge.aten.relu.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = edge.aten._softmax.default(%1, dim = 0, half_to_float = false) : (tensor<4xf32>) -> tensor<4xf32>
    native.yield %2 : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
