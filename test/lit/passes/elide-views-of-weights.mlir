// RUN: et-opt -p elide-views %s | filecheck %s

// Views of a weight are weights over its bytes, and so are views of those; each is there once, under a name that is free.
et.weight @w : tensor<2x2xf32> = #et.blob<"sha256:00000000000000000000000000000000", 16> {fqn = "u"}
// CHECK-DAG: et.weight @w_view1 : tensor<4xf32> = #et.blob<"sha256:00000000000000000000000000000000", 16>
// CHECK-DAG: et.weight @w_view1_view : tensor<1x4xf32> = #et.blob<"sha256:00000000000000000000000000000000", 16>
// CHECK-DAG: et.weight @w_view1_view1 : tensor<4x1xf32> = #et.blob<"sha256:00000000000000000000000000000000", 16>
// CHECK-DAG: et.weight @w_view : tensor<3xf32>
et.weight @w_view : tensor<3xf32> = #et.synthetic<seed = 1>

// CHECK-LABEL: func.func @views
func.func @views() -> (tensor<1x4xf32>, tensor<4x1xf32>, tensor<1x4xf32>) {
  // CHECK-NEXT: %[[A:.*]] = et.get_weight @w_view1_view : tensor<1x4xf32>
  // CHECK-NEXT: %[[B:.*]] = et.get_weight @w_view1_view1 : tensor<4x1xf32>
  // CHECK-NEXT: func.return %[[A]], %[[B]], %[[A]]
  %0 = et.get_weight @w : tensor<2x2xf32>
  %1 = edge.aten.view_copy.default(%0, size = [4]) : (tensor<2x2xf32>) -> tensor<4xf32>
  %2 = edge.aten.view_copy.default(%1, size = [1, 4]) : (tensor<4xf32>) -> tensor<1x4xf32>
  %3 = edge.aten.view_copy.default(%1, size = [4, 1]) : (tensor<4xf32>) -> tensor<4x1xf32>
  func.return %2, %3, %2 : tensor<1x4xf32>, tensor<4x1xf32>, tensor<1x4xf32>
}
