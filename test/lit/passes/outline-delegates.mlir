// RUN: et-opt -p outline-delegates %s | filecheck %s
// RUN: et-opt -p 'outline-delegates{shared-constants=pass}' %s | filecheck %s --check-prefix=PASS
// RUN: et-opt -p outline-delegates %s | et-opt | filecheck %s

et.weight @w : tensor<4xf32> = #et.synthetic<seed = 1>
et.state @s : tensor<4xf32>

// The function reads its weights itself; what is used outside comes back as a result. The call stands where the first
// operation stood; %1, which the partition needs, moves before it, everything else keeps its order.
// CHECK:      func.func private @f_reference_0(%x: tensor<4xf32>, %0: tensor<4xf32>) -> tensor<4xf32> attributes {backend.delegate = "reference"} {
// CHECK-NEXT:   %w = et.get_weight @w : tensor<4xf32>
// CHECK-NEXT:   %1 = edge.aten.mul.Tensor(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:   %2 = edge.aten.add.Tensor(%1, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:   func.return %2 : tensor<4xf32>
// CHECK-LABEL: func.func @f(
// PASS-LABEL: func.func private @f_reference_0(%x: tensor<4xf32>, %w: tensor<4xf32>, %0: tensor<4xf32>) -> tensor<4xf32>
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %0 = edge.aten.erfinv.default(%x)
  // CHECK-NEXT: %1 = backend.call_delegate @f_reference_0(%x, %0) on "EtirReferenceBackend" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %w = et.get_weight @w : tensor<4xf32>
  // CHECK-NEXT: %2 = edge.aten.erfinv.default(%w)
  // CHECK-NEXT: func.return %1, %2
  %w = et.get_weight @w : tensor<4xf32>
  %0 = edge.aten.mul.Tensor(%x, %w) {backend.partition = "reference:0"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.erfinv.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.add.Tensor(%0, %1) {backend.partition = "reference:0"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = edge.aten.erfinv.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %2, %3 : tensor<4xf32>, tensor<4xf32>
}

// A buffer that the delegate owns is read and written inside of the function.
// CHECK-LABEL: func.func private @state_reference_0(
// CHECK-NEXT:   %0 = et.read_state @s : tensor<4xf32>
// CHECK-NEXT:   %1 = edge.aten.add.Tensor(%0, %x)
// CHECK-NEXT:   et.write_state @s, %1 : tensor<4xf32>
// CHECK-NEXT:   func.return %1 : tensor<4xf32>
// CHECK-LABEL: func.func @state(
// CHECK-NEXT:   %0 = backend.call_delegate @state_reference_0(%x) on "EtirReferenceBackend"
// CHECK-NEXT:   func.return %0
func.func @state(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = et.read_state @s {backend.partition = "reference:0"} : tensor<4xf32>
  %1 = edge.aten.add.Tensor(%0, %x) {backend.partition = "reference:0"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  et.write_state @s, %1 {backend.partition = "reference:0"} : tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// Inside a region a delegate may use values from around it.
// CHECK-LABEL: func.func private @region_reference_0(%x: tensor<4xf32>) -> tensor<4xf32>
// CHECK-LABEL: func.func @region(
func.func @region(%p: i1, %x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: backend.call_delegate @region_reference_0(%x)
  %0 = control.cond %p : i1 -> (tensor<4xf32>) {
    %1 = edge.aten.relu.default(%x) {backend.partition = "reference:0"} : (tensor<4xf32>) -> tensor<4xf32>
    control.yield %1 : tensor<4xf32>
  } else {
    control.yield %x : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}

// A copy of a weight in another order is as much a constant as the weight: each partition that reads it has its own.

// CHECK-LABEL: func.func private @ordered_reference_0(
// CHECK:         edge.dim_order_ops._to_dim_order_copy.default
// CHECK-LABEL: func.func private @ordered_reference_1(%{{.*}}: tensor<1x2x2x2xf32, #et.layout<order = [0, 2, 3, 1]>>) ->
// CHECK-NEXT:    et.get_weight @k
// CHECK-NEXT:    edge.dim_order_ops._to_dim_order_copy.default
// CHECK-NEXT:    edge.aten.mul.Tensor
// CHECK-LABEL: func.func @ordered(
et.weight @k : tensor<1x2x2x2xf32> = #et.synthetic<seed = 3>
func.func @ordered(%x: tensor<1x2x2x2xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x2x2x2xf32, #et.layout<order = [0, 2, 3, 1]>> {
  %k = et.get_weight @k : tensor<1x2x2x2xf32>
  %0 = edge.dim_order_ops._to_dim_order_copy.default(%k, dim_order = [0, 2, 3, 1]) {backend.partition = "reference:0"} : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32, #et.layout<order = [0, 2, 3, 1]>>
  %1 = edge.aten.mul.Tensor(%x, %0) {backend.partition = "reference:0"} : (tensor<1x2x2x2xf32, #et.layout<order = [0, 2, 3, 1]>>, tensor<1x2x2x2xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x2x2x2xf32, #et.layout<order = [0, 2, 3, 1]>>
  %2 = edge.aten.erfinv.default(%1) : (tensor<1x2x2x2xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x2x2x2xf32, #et.layout<order = [0, 2, 3, 1]>>
  %3 = edge.aten.mul.Tensor(%2, %0) {backend.partition = "reference:1"} : (tensor<1x2x2x2xf32, #et.layout<order = [0, 2, 3, 1]>>, tensor<1x2x2x2xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x2x2x2xf32, #et.layout<order = [0, 2, 3, 1]>>
  func.return %3 : tensor<1x2x2x2xf32, #et.layout<order = [0, 2, 3, 1]>>
}
