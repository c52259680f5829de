// RUN: et-opt --split-input-file --verify-diagnostics -p verify-partitions %s

// Right: what lies between two partitions may be anywhere.
func.func @convex(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = edge.aten.relu.default(%x) {backend.partition = "reference:0"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.erfinv.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.add.Tensor(%0, %1) {backend.partition = "reference:0"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// -----

func.func @cyclic_path(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below [E1105] {{partition 'reference:0' would need its own result: 'aten.relu.default'}}
  %0 = edge.aten.relu.default(%x) {backend.partition = "reference:0"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.erfinv.default(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.abs.default(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = edge.aten.neg.default(%2) {backend.partition = "reference:0"} : (tensor<4xf32>) -> tensor<4xf32>
  func.return %3 : tensor<4xf32>
}

// -----

// Each is convex, but neither can run first.
func.func @cycle(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // expected-error @below [E1105] {{partitions 'reference:0' and 'reference:1' need each other's results}}
  %0 = edge.aten.relu.default(%x) {backend.partition = "reference:0"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.relu.default(%y) {backend.partition = "reference:1"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = edge.aten.abs.default(%1) {backend.partition = "reference:0"} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = edge.aten.abs.default(%0) {backend.partition = "reference:1"} : (tensor<4xf32>) -> tensor<4xf32>
  func.return %2, %3 : tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @unknown(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below [E1101] {{no backend named 'refrence' is installed; did you mean 'reference'?}}
  %0 = edge.aten.relu.default(%x) {backend.partition = "refrence:0"} : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @malformed(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below [E1109] {{'edge.aten.relu.default' is in partition 'reference'}}
  %0 = edge.aten.relu.default(%x) {backend.partition = "reference"} : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

et.state @s : tensor<4xf32>
func.func @state(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below [E1109] {{partition 'reference:0' owns @s, which 'et.write_state'}}
  %0 = et.read_state @s {backend.partition = "reference:0"} : tensor<4xf32>
  %1 = edge.aten.add.Tensor(%0, %x) {backend.partition = "reference:0"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  et.write_state @s, %1 : tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
