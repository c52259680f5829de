// RUN: et-opt -p 'partition{backend="reference{leave=aten.erfinv.default}"}' %s | filecheck %s
// RUN: et-opt -p 'partition{backend="reference{only=aten.mul.Tensor}",reference}' %s | filecheck %s --check-prefix=TWO
// RUN: et-opt -p 'partition{backend="reference{leave=aten.erfinv.default}" min-ops=2}' %s | filecheck %s --check-prefix=MIN
// RUN: et-opt -p 'partition{backend="reference{leave=aten.erfinv.default}" exclude=aten.relu.default}' %s | filecheck %s --check-prefix=EXCLUDE
// RUN: et-opt -p 'partition{backend=reference split}' %s | filecheck %s --check-prefix=SPLIT
// RUN: et-opt -p 'partition{backend=reference cut=late_reference:3}' %s | filecheck %s --check-prefix=CUT
// RUN: et-opt -p 'partition{backend="reference{leave=aten.erfinv.default}" cut=tables_reference:4}' %s | filecheck %s --check-prefix=TABLES
// RUN: et-opt -p 'partition{backend=reference own-state}' %s | filecheck %s --check-prefix=STATE

// The module says with which options the backends were asked.
// CHECK: builtin.module attributes {backend.delegates = ["reference{leave=aten.erfinv.default}"]}

// MIN-LABEL: func.func @line
// MIN-NOT: backend.partition
// MIN-LABEL: func.func @residual

// A path that leaves the backend and comes back needs two partitions.
// CHECK-LABEL: func.func @line
func.func @line(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: edge.aten.relu.default(%x) {backend.partition = "reference:0"}
  // CHECK-NEXT: edge.aten.erfinv.default(%0) : (
  // CHECK-NEXT: edge.aten.abs.default(%1) {backend.partition = "reference:1"}
  %0 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.erfinv.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.abs.default(%1) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// What is not on that path joins the partition where fewer bytes cross: %0 could go with either, but only the addition
// uses it, so that it crosses no boundary there.
// CHECK-LABEL: func.func @residual
// EXCLUDE-LABEL: func.func @residual
func.func @residual(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: edge.aten.relu.default(%x) {backend.partition = "reference:0"}
  // CHECK-NEXT: edge.aten.erfinv.default(%x) : (
  // CHECK-NEXT: edge.aten.add.Tensor(%0, %1) {backend.partition = "reference:0"}
  // EXCLUDE-NEXT: edge.aten.relu.default(%x) : (
  // EXCLUDE-NEXT: edge.aten.erfinv.default(%x) : (
  // EXCLUDE-NEXT: edge.aten.add.Tensor(%0, %1) {backend.partition = "reference:0"}
  %0 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.erfinv.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.add.Tensor(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// %0 feeds both sides: it stays in the first partition, whose result the second one needs anyway.
// CHECK-LABEL: func.func @diamond
func.func @diamond(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: edge.aten.abs.default(%x) {backend.partition = "reference:0"}
  // CHECK-NEXT: edge.aten.erfinv.default(%0) : (
  // CHECK-NEXT: edge.aten.relu.default(%0) {backend.partition = "reference:1"}
  // CHECK-NEXT: edge.aten.add.Tensor(%1, %2) {backend.partition = "reference:1"}
  %0 = edge.aten.abs.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.erfinv.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.relu.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = edge.aten.add.Tensor(%1, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %3 : tensor<4xf32>
}

// Two parts that do not touch are one partition, unless `split` wants one for each.
// CHECK-LABEL: func.func @apart
// SPLIT-LABEL: func.func @apart
func.func @apart(%x: tensor<4xf32>, %y: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  // CHECK-NEXT: edge.aten.relu.default(%x) {backend.partition = "reference:0"}
  // CHECK-NEXT: edge.aten.relu.default(%y) {backend.partition = "reference:0"}
  // SPLIT-NEXT: edge.aten.relu.default(%x) {backend.partition = "reference:0"}
  // SPLIT-NEXT: edge.aten.relu.default(%y) {backend.partition = "reference:1"}
  %0 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.relu.default(%y) : (tensor<8xf32>) -> tensor<8xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<8xf32>
}

// Blocks of control flow have partitions of their own; weights belong to none, and numbers stay in the method.
// CHECK-LABEL: func.func @regions
et.weight @w : tensor<4xf32> = #et.synthetic<seed = 1>
func.func @regions(%p: i1, %x: tensor<4xf32>) -> (tensor<4xf32>, i64) {
  // CHECK-NEXT: %w = et.get_weight @w : tensor<4xf32>
  // CHECK: edge.aten.relu.default(%w) {backend.partition = "reference:1"}
  // CHECK: edge.aten.add.Tensor(%x, %w) {backend.partition = "reference:2"}
  // CHECK: edge.aten.abs.default({{.*}}) {backend.partition = "reference:0"}
  // CHECK: edge.aten.sym_size.int({{.*}}) : (
  %w = et.get_weight @w : tensor<4xf32>
  %0 = control.cond %p : i1 -> (tensor<4xf32>) {
    %3 = edge.aten.relu.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
    control.yield %3 : tensor<4xf32>
  } else {
    %4 = edge.aten.add.Tensor(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    control.yield %4 : tensor<4xf32>
  }
  %1 = edge.aten.abs.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.sym_size.int(%1, dim = 0) : (tensor<4xf32>) -> i64
  func.return %1, %2 : tensor<4xf32>, i64
}

// A cut before the first operator that reads %y: what is before it does not wait for %y.
// CUT-LABEL: func.func @late
func.func @late(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  // CUT-NEXT: edge.aten.relu.default(%x) {backend.partition = "reference:0"}
  // CUT-NEXT: edge.aten.abs.default(%0) {backend.partition = "reference:0"}
  // CUT-NEXT: edge.aten.add.Tensor(%1, %y) {backend.partition = "reference:1"}
  // CUT-NEXT: edge.aten.relu.default(%2) {backend.partition = "reference:1"}
  %0 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.abs.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.add.Tensor(%1, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = edge.aten.relu.default(%2) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %3 : tensor<4xf32>
}

// What is made for the second part alone is made just before it.
// TABLES-LABEL: func.func @tables
func.func @tables(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  // TABLES-NEXT: edge.aten.relu.default(%x) {backend.partition = "reference:0"}
  // TABLES-NEXT: edge.aten.abs.default(%0) {backend.partition = "reference:0"}
  // TABLES-NEXT: edge.aten.erfinv.default(%y) : (
  // TABLES-NEXT: edge.aten.add.Tensor(%1, %2) {backend.partition = "reference:1"}
  %0 = edge.aten.erfinv.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.abs.default(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = edge.aten.add.Tensor(%2, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %3 : tensor<4xf32>
}

// A buffer that one partition alone reads and writes is its own, when that is asked for. @seen is returned as it was.
// CHECK-LABEL: func.func @state
// STATE-LABEL: func.func @state
et.state @kept : tensor<4xf32>
et.state @seen : tensor<4xf32>
func.func @state(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %0 = et.read_state @kept : tensor<4xf32>
  // STATE-NEXT: %0 = et.read_state @kept {backend.partition = "reference:0"} : tensor<4xf32>
  // STATE-NEXT: %1 = et.read_state @seen : tensor<4xf32>
  // STATE: et.write_state @kept, %2 {backend.partition = "reference:0"} : tensor<4xf32>
  // STATE-NEXT: et.write_state @seen, %3 : tensor<4xf32>
  %0 = et.read_state @kept : tensor<4xf32>
  %1 = et.read_state @seen : tensor<4xf32>
  %2 = edge.aten.add.Tensor(%0, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = edge.aten.mul.Tensor(%2, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  et.write_state @kept, %2 : tensor<4xf32>
  et.write_state @seen, %3 : tensor<4xf32>
  func.return %1, %3 : tensor<4xf32>, tensor<4xf32>
}

// Several backends: the first takes what it wants, the second what is left, around the first one's partitions.
// TWO-LABEL: func.func @state
// TWO: edge.aten.mul.Tensor(%2, %1) {backend.partition = "reference:0"}
