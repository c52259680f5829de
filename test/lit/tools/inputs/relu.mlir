func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.add.Tensor(%0, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
