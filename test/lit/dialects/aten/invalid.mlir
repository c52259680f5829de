// RUN: et-opt --split-input-file --verify-diagnostics %s

// expected-error @below [E0102] {{Operation aten.rellu.default is not registered}}
"aten.rellu.default"() : () -> ()

// -----

func.func @unknown_argument(%x: tensor<4xf32>) {
  // expected-error @below [E0101] {{aten.relu.default has no argument 'slope'; it takes aten::relu(Tensor self) -> Tensor}}
  %0 = aten.relu.default(%x, slope = 1) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @missing_argument(%x: tensor<4xf32>) {
  // expected-error @below [E0101] {{aten.softmax.int needs argument 'dim'}}
  %0 = aten.softmax.int(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @wrong_literal(%x: tensor<4xf32>) {
  // expected-error @below [E0101] {{'dim' takes int, not 1.5}}
  %0 = aten.softmax.int(%x, dim = 1.5) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// The constraints of docs/reference/dialects/aten.md, by number. The generic form can express what breaks them.

func.func @S1(%x: tensor<4xf32>) {
  // expected-error @below [E0301] {{'operand_segments' (one operand count for each argument) is missing (S1)}}
  %0 = "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @below [E0301] {{'operand_segments' [2] does not fit 1 arguments and 1 operands (S1)}}
  %1 = "aten.relu.default"(%x) <{operand_segments = array<i32: 2>}> : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @below [E0301] {{argument 'self' takes one value, not 2 (S1)}}
  %2 = "aten.relu.default"(%x, %x) <{operand_segments = array<i32: 2>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @S2(%x: tensor<4xf32>) {
  // expected-error @below [E0301] {{'dim' takes int, not 'a' (S2)}}
  %0 = "aten.softmax.int"(%x) <{operand_segments = array<i32: 1, 0, 0>, dim = "a"}> : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @below [E0301] {{'slope' is not an argument of aten::relu(Tensor self) -> Tensor (S2)}}
  %1 = "aten.relu.default"(%x) <{operand_segments = array<i32: 1>, slope = 1 : i64}> : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @below [E0301] {{'dim' (int) may not be none (S2)}}
  %2 = "aten.softmax.int"(%x) <{operand_segments = array<i32: 1, 0, 0>, dim}> : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @S3(%x: tensor<4xf32>) {
  // expected-error @below [E0301] {{argument 'dim' (int) is missing (S3)}}
  %0 = "aten.softmax.int"(%x) <{operand_segments = array<i32: 1, 0, 0>}> : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @S4(%x: tensor<4xf32>, %i: index) {
  // expected-error @below [E0301] {{operand 'self' must be a tensor, not index (S4)}}
  %0 = aten.relu.default(%i) : (index) -> tensor<4xf32>
  // expected-error @below [E0301] {{operand 'dim' must be int, not tensor<4xf32> (S4)}}
  %1 = aten.softmax.int(%x, dim = %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @S5(%x: tensor<4xf32>) {
  // expected-error @below [E0301] {{has 2 results, the schema returns 1 (S5)}}
  %0, %1 = aten.relu.default(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // expected-error @below [E0301] {{result 0: torch has no element type i4 (S5)}}
  %2 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xi4>
  // expected-error @below [E0301] {{result 0 must be a tensor or a scalar, not index (S5)}}
  %3 = aten.relu.default(%x) : (tensor<4xf32>) -> index
  func.return
}

// -----

func.func @undefined(%x: tensor<4xf32>) {
  // expected-error @below [E0302] {{operand 0 of 'aten.relu.default' is used where its definition does not reach}}
  %0 = aten.relu.default(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

// expected-error @below [E0101] {{mylib}}
et.schema "mylib::scale(Tensor x"
