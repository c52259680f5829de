// RUN: et-opt -p sequence-first-cache %s | filecheck %s

// Both methods are changed with the state; what reads it as it was gets it so. Another state stays.

// CHECK: et.state @keys : tensor<1x8x2x4xf32>
// CHECK: et.state @plain : tensor<1x2x8x4xf32>
et.state @keys : tensor<1x2x8x4xf32> {fqn = "keys"}
et.state @plain : tensor<1x2x8x4xf32>

// CHECK-LABEL: func.func @decode
func.func @decode(%p: tensor<3xi64>, %new: tensor<1x2x3x4xf32>) -> tensor<1x8x2x4xf32> {
  // CHECK-NEXT: %c = et.read_state @keys : tensor<1x8x2x4xf32>
  // CHECK-NEXT: %[[NEW:.*]] = aten.transpose.int(%new, dim0 = 1, dim1 = 2)
  // CHECK-NEXT: %[[K:.*]] = aten.index_copy.default(%c, dim = 1, %p, %[[NEW]])
  // CHECK-NEXT: et.write_state @keys, %[[K]] : tensor<1x8x2x4xf32>
  // CHECK-NEXT: func.return %[[K]]
  %c = et.read_state @keys : tensor<1x2x8x4xf32>
  %k = aten.index_copy.default(%c, dim = 2, %p, %new) : (tensor<1x2x8x4xf32>, tensor<3xi64>, tensor<1x2x3x4xf32>) -> tensor<1x2x8x4xf32>
  %t = aten.transpose.int(%k, dim0 = 1, dim1 = 2) : (tensor<1x2x8x4xf32>) -> tensor<1x8x2x4xf32>
  et.write_state @keys, %k : tensor<1x2x8x4xf32>
  func.return %t : tensor<1x8x2x4xf32>
}

// CHECK-LABEL: func.func @look
func.func @look() -> (tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>) {
  // CHECK-NEXT: %c = et.read_state @keys : tensor<1x8x2x4xf32>
  // CHECK-NEXT: %[[C:.*]] = aten.transpose.int(%c, dim0 = 1, dim1 = 2)
  // CHECK-NEXT: %d = et.read_state @plain
  // CHECK-NEXT: func.return %[[C]], %d
  %c = et.read_state @keys : tensor<1x2x8x4xf32>
  %d = et.read_state @plain : tensor<1x2x8x4xf32>
  func.return %c, %d : tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>
}
