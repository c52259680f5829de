// RUN: et-opt -p experts-to-layers --split-input-file %s | filecheck %s
// RUN: et-opt -p experts-to-layers,lower-expert-layers --split-input-file %s | filecheck %s --check-prefix=BACK

// The rows of all matrices lie below each other. A weight that is not of integers is a loop again.

et.weight @w : tensor<3x8x16xf32> = #et.synthetic<seed = 1>

// CHECK: et.schema "etir::expert_linear(Tensor input, Tensor weight, Tensor experts, int columns) -> Tensor"
// CHECK: et.weight @w_rows : tensor<48x8xf32>
// CHECK-LABEL: func.func @loop
// CHECK-NOT: control.scan
// CHECK: %[[W:.*]] = et.get_weight @w_rows : tensor<48x8xf32>
// CHECK: edge.etir.expert_linear.default(%x, %[[W]], %n, columns = 16) : (tensor<6x8xf32>, tensor<48x8xf32>, tensor<6xi64>) -> tensor<6x16xf32>
// BACK-LABEL: func.func @loop
// BACK: control.scan over (%[[R:.*]] = %x, %[[N:.*]] = %n)
// BACK: edge.aten.index_select.default({{.*}}, dim = 0, {{.*}}) : (tensor<3x8x16xf32>, tensor<1xi64>) -> tensor<1x8x16xf32>
// BACK: edge.aten.mm.default({{.*}}) : (tensor<1x8xf32>, tensor<8x16xf32>) -> tensor<1x16xf32>
func.func @loop(%x: tensor<6x8xf32>, %n: tensor<6xi64>) -> tensor<6x16xf32> {
  %w = et.get_weight @w : tensor<3x8x16xf32>
  %y = control.scan over (%r = %x, %i = %n) : (), (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<6x16xf32>) {
    %0 = edge.aten.unsqueeze_copy.default(%i, dim = 0) : (tensor<i64>) -> tensor<1xi64>
    %1 = edge.aten.index_select.default(%w, dim = 0, %0) : (tensor<3x8x16xf32>, tensor<1xi64>) -> tensor<1x8x16xf32>
    %2 = edge.aten.unsqueeze_copy.default(%r, dim = 0) : (tensor<8xf32>) -> tensor<1x8xf32>
    %3 = edge.aten.view_copy.default(%1, size = [8, 16]) : (tensor<1x8x16xf32>) -> tensor<8x16xf32>
    %4 = edge.aten.mm.default(%2, %3) : (tensor<1x8xf32>, tensor<8x16xf32>) -> tensor<1x16xf32>
    %5 = edge.aten.squeeze_copy.dims(%4, dim = [0]) : (tensor<1x16xf32>) -> tensor<16xf32>
    control.yield %5 : tensor<16xf32>
  }
  func.return %y : tensor<6x16xf32>
}

// -----

// Another number than the row's, matrices that are computed, and a row that is changed first: as they were.

et.weight @w : tensor<3x8x8xf32> = #et.synthetic<seed = 1>

// CHECK-LABEL: func.func @others
// CHECK-COUNT-3: control.scan
func.func @others(%x: tensor<6x8xf32>, %n: tensor<6xi64>, %m: tensor<3x8x8xf32>, %one: tensor<1xi64>) -> (tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>) {
  %w = et.get_weight @w : tensor<3x8x8xf32>
  %a = control.scan over (%r = %x, %i = %n) : (), (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<6x8xf32>) {
    %1 = edge.aten.index_select.default(%w, dim = 0, %one) : (tensor<3x8x8xf32>, tensor<1xi64>) -> tensor<1x8x8xf32>
    %2 = edge.aten.view_copy.default(%r, size = [1, 1, 8]) : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %3 = edge.aten.bmm.default(%2, %1) : (tensor<1x1x8xf32>, tensor<1x8x8xf32>) -> tensor<1x1x8xf32>
    %4 = edge.aten.view_copy.default(%3, size = [8]) : (tensor<1x1x8xf32>) -> tensor<8xf32>
    control.yield %4 : tensor<8xf32>
  }
  %b = control.scan over (%r = %x, %i = %n) : (), (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<6x8xf32>) {
    %0 = edge.aten.unsqueeze_copy.default(%i, dim = 0) : (tensor<i64>) -> tensor<1xi64>
    %1 = edge.aten.index_select.default(%m, dim = 0, %0) : (tensor<3x8x8xf32>, tensor<1xi64>) -> tensor<1x8x8xf32>
    %2 = edge.aten.view_copy.default(%r, size = [1, 1, 8]) : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %3 = edge.aten.bmm.default(%2, %1) : (tensor<1x1x8xf32>, tensor<1x8x8xf32>) -> tensor<1x1x8xf32>
    %4 = edge.aten.view_copy.default(%3, size = [8]) : (tensor<1x1x8xf32>) -> tensor<8xf32>
    control.yield %4 : tensor<8xf32>
  }
  %c = control.scan over (%r = %x, %i = %n) : (), (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<6x8xf32>) {
    %0 = edge.aten.unsqueeze_copy.default(%i, dim = 0) : (tensor<i64>) -> tensor<1xi64>
    %1 = edge.aten.index_select.default(%w, dim = 0, %0) : (tensor<3x8x8xf32>, tensor<1xi64>) -> tensor<1x8x8xf32>
    %s = edge.aten.relu.default(%r) : (tensor<8xf32>) -> tensor<8xf32>
    %2 = edge.aten.view_copy.default(%s, size = [1, 1, 8]) : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %3 = edge.aten.bmm.default(%2, %1) : (tensor<1x1x8xf32>, tensor<1x8x8xf32>) -> tensor<1x1x8xf32>
    %4 = edge.aten.view_copy.default(%3, size = [8]) : (tensor<1x1x8xf32>) -> tensor<8xf32>
    control.yield %4 : tensor<8xf32>
  }
  func.return %a, %b, %c : tensor<6x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>
}

// -----

// A row that is read as two: no row of a layer.

et.weight @w : tensor<3x8x8xf32> = #et.synthetic<seed = 1>

// CHECK-LABEL: func.func @halves
// CHECK: control.scan
// CHECK-NOT: expert_linear
func.func @halves(%x: tensor<6x16xf32>, %n: tensor<6xi64>) -> tensor<6x16xf32> {
  %w = et.get_weight @w : tensor<3x8x8xf32>
  %y = control.scan over (%r = %x, %i = %n) : (), (tensor<6x16xf32>, tensor<6xi64>) -> (tensor<6x16xf32>) {
    %0 = edge.aten.unsqueeze_copy.default(%i, dim = 0) : (tensor<i64>) -> tensor<1xi64>
    %1 = edge.aten.index_select.default(%w, dim = 0, %0) : (tensor<3x8x8xf32>, tensor<1xi64>) -> tensor<1x8x8xf32>
    %2 = edge.aten.view_copy.default(%r, size = [2, 8]) : (tensor<16xf32>) -> tensor<2x8xf32>
    %3 = edge.aten.view_copy.default(%1, size = [8, 8]) : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    %4 = edge.aten.mm.default(%2, %3) : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
    %5 = edge.aten.view_copy.default(%4, size = [16]) : (tensor<2x8xf32>) -> tensor<16xf32>
    control.yield %5 : tensor<16xf32>
  }
  func.return %y : tensor<6x16xf32>
}
