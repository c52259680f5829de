// RUN: et-opt --aten-to-edge %s | filecheck %s

// Operators of the same name, defaults left out. What returns its argument is erased.
// CHECK-LABEL: func.func @same
func.func @same(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: %0 = edge.aten.relu.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: func.return %0
  %0 = aten.relu.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = aten.alias.default(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = aten.detach.default(%1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %2 : tensor<2x3xf32>
}

// E2: views become copies, by name or by table; reshape's shape is view's size.
// CHECK-LABEL: func.func @views
func.func @views(%x: tensor<2x6xf32>) -> tensor<1x4x3xf32> {
  // CHECK-NEXT: edge.aten.view_copy.default(%x, size = [12])
  %0 = aten.view.default(%x, size = [12]) : (tensor<2x6xf32>) -> tensor<12xf32>
  // CHECK-NEXT: edge.aten.view_copy.default(%0, size = [3, 4])
  %1 = aten.reshape.default(%0, shape = [3, 4]) : (tensor<12xf32>) -> tensor<3x4xf32>
  // CHECK-NEXT: edge.aten.t_copy.default(%1)
  %2 = aten.t.default(%1) : (tensor<3x4xf32>) -> tensor<4x3xf32>
  // CHECK-NEXT: edge.aten.unsqueeze_copy.default(%2, dim = 0)
  %3 = aten.unsqueeze.default(%2, dim = 0) : (tensor<4x3xf32>) -> tensor<1x4x3xf32>
  func.return %3 : tensor<1x4x3xf32>
}

// E3: a number in a tensor slot becomes the overload that takes numbers, else a constant: f32, f64 beside an f64 tensor,
// i64, i1; a runtime scalar becomes a tensor with one element.
// CHECK-LABEL: func.func @numbers
func.func @numbers(%x: tensor<2xf32>, %y: tensor<2xf64>, %n: i64) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf64>, tensor<2xf32>) {
  // CHECK-NEXT: edge.aten.add.Scalar(%x, other = 1.5)
  %0 = aten.add.Tensor(%x, 1.5) : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK-NEXT: %[[C:.*]] = et.constant dense<2.500000e+00> : tensor<f32>
  // CHECK-NEXT: edge.aten.maximum.default(%x, %[[C]])
  %1 = aten.maximum.default(%x, 2.5) : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK-NEXT: %[[D:.*]] = et.constant dense<1.000000e-01> : tensor<f64>
  // CHECK-NEXT: edge.aten.maximum.default(%y, %[[D]])
  %2 = aten.maximum.default(%y, 0.1) : (tensor<2xf64>) -> tensor<2xf64>
  // CHECK-NEXT: %[[N:.*]] = edge.aten.scalar_tensor.default(s = %n, dtype = i64) : (i64) -> tensor<i64>
  // CHECK-NEXT: edge.aten.maximum.default(%x, %[[N]])
  %3 = aten.maximum.default(%x, %n) : (tensor<2xf32>, i64) -> tensor<2xf32>
  func.return %0, %1, %2, %3 : tensor<2xf32>, tensor<2xf32>, tensor<2xf64>, tensor<2xf32>
}

// A number of a higher category than the tensor's becomes a constant beside additions, whose other overload refuses it.
// CHECK-LABEL: func.func @promotion
func.func @promotion(%x: tensor<2xi64>, %b: tensor<2xi1>) -> (tensor<2xf32>, tensor<2xi64>, tensor<2xi64>) {
  // CHECK-NEXT: %[[H:.*]] = et.constant dense<5.000000e-01> : tensor<f32>
  // CHECK-NEXT: edge.aten.add.Tensor(%x, %[[H]])
  %0 = aten.add.Tensor(%x, 0.5) : (tensor<2xi64>) -> tensor<2xf32>
  // CHECK-NEXT: %[[I:.*]] = et.constant dense<3> : tensor<i64>
  // CHECK-NEXT: edge.aten.add.Tensor(%b, %[[I]])
  %1 = aten.add.Scalar(%b, other = 3) : (tensor<2xi1>) -> tensor<2xi64>
  // CHECK-NEXT: edge.aten.add.Scalar(%x, other = 2)
  %2 = aten.add.Tensor(%x, 2) : (tensor<2xi64>) -> tensor<2xi64>
  func.return %0, %1, %2 : tensor<2xf32>, tensor<2xi64>, tensor<2xi64>
}

// Beside a 0-d tensor a number has the tensor's type as long as it fits.
// CHECK-LABEL: func.func @beside_scalars
func.func @beside_scalars(%x: tensor<i32>, %u: tensor<ui8>) -> (tensor<i32>, tensor<i32>, tensor<i64>, tensor<ui8>) {
  // CHECK-NEXT: et.constant dense<2147483647> : tensor<i32>
  // CHECK: et.constant dense<-2147483648> : tensor<i32>
  // CHECK: et.constant dense<2147483648> : tensor<i64>
  // CHECK: et.constant dense<255> : tensor<ui8>
  %0 = aten.maximum.default(%x, 2147483647) : (tensor<i32>) -> tensor<i32>
  %1 = aten.maximum.default(%x, -2147483648) : (tensor<i32>) -> tensor<i32>
  %2 = aten.maximum.default(%x, 2147483648) : (tensor<i32>) -> tensor<i64>
  %3 = aten.maximum.default(%u, 255) : (tensor<ui8>) -> tensor<ui8>
  func.return %0, %1, %2, %3 : tensor<i32>, tensor<i32>, tensor<i64>, tensor<ui8>
}

// E4: memory formats become dim orders. Pointwise operators and convolutions keep the order of their operand; where a
// kernel does not, or where operands disagree, a copy to the contiguous order comes first.
// CHECK-LABEL: func.func @orders
func.func @orders(%x: tensor<1x3x4x4xf32>, %w: tensor<3x3x1x1xf32>) -> tensor<1x3x4x4xf32> {
  // CHECK-NEXT: %0 = edge.dim_order_ops._to_dim_order_copy.default(%x, dim_order = [0, 2, 3, 1]) : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32, #et.layout<order = [0, 2, 3, 1]>>
  %0 = aten.clone.default(%x, memory_format = "channels_last") : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  // CHECK-NEXT: %1 = edge.aten.relu.default(%0) : (tensor<1x3x4x4xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x3x4x4xf32, #et.layout<order = [0, 2, 3, 1]>>
  %1 = aten.relu.default(%0) : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  // CHECK-NEXT: %2 = edge.dim_order_ops._to_dim_order_copy.default(%1, dim_order = [0, 1, 2, 3])
  // CHECK-NEXT: edge.aten.softmax.int(%2, dim = 1)
  %2 = aten.softmax.int(%1, dim = 1) : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  func.return %2 : tensor<1x3x4x4xf32>
}

// A number is cast, too.
// CHECK-LABEL: func.func @numbers_as_tensors
func.func @numbers_as_tensors(%n: i64) -> (tensor<f32>, tensor<f32>) {
  // CHECK-NEXT: edge.aten.full.default(size = [], fill_value = 4.0, dtype = f32)
  %0 = aten._to_copy.default(4.0, dtype = f32) : () -> tensor<f32>
  // CHECK-NEXT: edge.aten.full.default(size = [], fill_value = %n, dtype = f32)
  %1 = aten._to_copy.default(%n, dtype = f32) : (i64) -> tensor<f32>
  func.return %0, %1 : tensor<f32>, tensor<f32>
}

// A cast keeps the order, one that changes nothing disappears.
// CHECK-LABEL: func.func @casts
func.func @casts(%x: tensor<2xf32>) -> (tensor<2xf16>, tensor<2xf32>) {
  // CHECK-NEXT: %0 = edge.dim_order_ops._to_dim_order_copy.default(%x, dtype = f16, dim_order = [0]) : (tensor<2xf32>) -> tensor<2xf16>
  // CHECK-NEXT: func.return %0, %x
  %0 = aten._to_copy.default(%x, dtype = f16) : (tensor<2xf32>) -> tensor<2xf16>
  %1 = aten.clone.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %0, %1 : tensor<2xf16>, tensor<2xf32>
}

// What a method puts into an input gets the input's dim order: the input itself is a place, and no copy stands for it.
// CHECK-LABEL: func.func @update_channels_last
// CHECK: %{{.*}} = edge.aten.mul.Scalar(%x
// CHECK: et.update_input %x, %{{.*}} : tensor<1x3x4x4xf32, #et.layout<order = [0, 2, 3, 1]>>, tensor<1x3x4x4xf32, #et.layout<order = [0, 2, 3, 1]>>
func.func @update_channels_last(%x: tensor<1x3x4x4xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x3x4x2x2xf32> {
  %0 = aten.mul.Scalar(%x, other = 3) : (tensor<1x3x4x4xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x3x4x4xf32>
  %1 = aten.view.default(%0, size = [1, 3, 4, 2, 2]) : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x2x2xf32>
  et.update_input %x, %0 : tensor<1x3x4x4xf32, #et.layout<order = [0, 2, 3, 1]>>, tensor<1x3x4x4xf32>
  func.return %1 : tensor<1x3x4x2x2xf32>
}

// A number beside integers is brought into their type, as torch does it: 2^31 + 1 is -(2^31) + 1 among 32 bits. A mask
// takes its number as it is, and so does a division, which is computed in float32.
// CHECK-LABEL: func.func @wraps_around
func.func @wraps_around(%x: tensor<2xui8>, %y: tensor<2xi32>, %m: tensor<2xi1>) -> (tensor<2xui8>, tensor<2xui8>, tensor<2xi1>, tensor<2xf32>) {
  // CHECK-NEXT: %0 = edge.aten.clamp.default(%x, min = 253, max = 5)
  %0 = aten.clamp.default(%x, min = -3, max = 5) : (tensor<2xui8>) -> tensor<2xui8>
  // CHECK-NEXT: %1 = edge.aten.sub.Scalar(%0, other = 2, alpha = 253)
  %1 = aten.sub.Scalar(%0, other = 2, alpha = -3) : (tensor<2xui8>) -> tensor<2xui8>
  // CHECK-NEXT: %2 = edge.aten.gt.Scalar(%y, other = -2147483647)
  %2 = aten.gt.Scalar(%y, other = 2147483649) : (tensor<2xi32>) -> tensor<2xi1>
  // CHECK-NEXT: %3 = edge.aten.div.Scalar(%y, other = 4294967296)
  %3 = aten.div.Scalar(%y, other = 4294967296) : (tensor<2xi32>) -> tensor<2xf32>
  func.return %0, %1, %2, %3 : tensor<2xui8>, tensor<2xui8>, tensor<2xi1>, tensor<2xf32>
}
