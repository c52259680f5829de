// RUN: et-opt -p reinplace-scatter --split-input-file %s | filecheck %s

// A slice and a row of a state, one after the other, become index_put along one dim.

et.state @cache : tensor<2x8x3xf32>

// CHECK-LABEL: func.func @slice_and_row
func.func @slice_and_row(%x: tensor<2x2x3xf32>, %row: tensor<2x3xf32>) {
  %c = et.read_state @cache : tensor<2x8x3xf32>
  // CHECK: %[[I:.*]] = et.constant dense<[2, 5]> : tensor<2xi64>
  // CHECK-NEXT: %[[FIRST:.*]] = edge.aten.index_put.default(%c, [none, %[[I]]], %x)
  %0 = edge.aten.slice_scatter.default(%c, %x, dim = 1, start = 2, end = 8, step = 3) : (tensor<2x8x3xf32>, tensor<2x2x3xf32>) -> tensor<2x8x3xf32>
  // CHECK: %[[VALUES:.*]] = edge.aten.view_copy.default(%row, size = [2, 1, 3])
  // CHECK-NEXT: %[[J:.*]] = et.constant dense<7> : tensor<1xi64>
  // CHECK-NEXT: %[[SECOND:.*]] = edge.aten.index_put.default(%[[FIRST]], [none, %[[J]]], %[[VALUES]])
  %1 = edge.aten.select_scatter.default(%0, %row, dim = 1, index = -1) : (tensor<2x8x3xf32>, tensor<2x3xf32>) -> tensor<2x8x3xf32>
  // CHECK-NEXT: et.write_state @cache, %[[SECOND]]
  et.write_state @cache, %1 : tensor<2x8x3xf32>
  func.return
}

// -----

// A start that is a runtime scalar counts from there.

// CHECK-LABEL: func.func @dynamic
func.func @dynamic(%c: tensor<8x3xf32>, %x: tensor<1x3xf32>, %i: i64, %j: i64) {
  // CHECK-NEXT: %[[I:.*]] = edge.aten.arange.start_step(start = %i, end = %j, dtype = i64) : (i64, i64) -> tensor<1xi64>
  // CHECK-NEXT: edge.aten.index_put.default(%c, [%[[I]]], %x)
  %0 = edge.aten.slice_scatter.default(%c, %x, dim = 0, start = %i, end = %j) : (tensor<8x3xf32>, tensor<1x3xf32>, i64, i64) -> tensor<8x3xf32>
  et.update_input %c, %0 : tensor<8x3xf32>, tensor<8x3xf32>
  func.return
}

// -----

// What is not stored stays.

// CHECK-LABEL: func.func @not_stored
func.func @not_stored(%c: tensor<8x3xf32>, %x: tensor<1x3xf32>) -> tensor<8x3xf32> {
  // CHECK-NEXT: edge.aten.slice_scatter.default
  %0 = edge.aten.slice_scatter.default(%c, %x, dim = 0, start = 1, end = 2) : (tensor<8x3xf32>, tensor<1x3xf32>) -> tensor<8x3xf32>
  func.return %0 : tensor<8x3xf32>
}

// -----

// What has no such place stays as it is: the operator says so where it runs.

et.state @empty : tensor<0x3xf32>
et.state @row : tensor<3xf32>
et.state @number : tensor<f32>

// CHECK-LABEL: func.func @no_place
func.func @no_place(%x: tensor<3xf32>, %y: tensor<f32>) {
  %a = et.read_state @empty : tensor<0x3xf32>
  // CHECK: edge.aten.select_scatter.default(%a, %x
  %0 = edge.aten.select_scatter.default(%a, %x, dim = 0, index = 0) : (tensor<0x3xf32>, tensor<3xf32>) -> tensor<0x3xf32>
  et.write_state @empty, %0 : tensor<0x3xf32>
  %b = et.read_state @row : tensor<3xf32>
  // CHECK: edge.aten.select_scatter.default(%b, %y
  %1 = edge.aten.select_scatter.default(%b, %y, dim = 0, index = 3) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  et.write_state @row, %1 : tensor<3xf32>
  %c = et.read_state @number : tensor<f32>
  // CHECK: edge.aten.slice_scatter.default(%c, %y
  %2 = edge.aten.slice_scatter.default(%c, %y, dim = 0, start = 0, end = 1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  et.write_state @number, %2 : tensor<f32>
  func.return
}
