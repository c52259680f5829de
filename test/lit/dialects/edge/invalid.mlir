// RUN: et-opt --split-input-file --verify-diagnostics %s

// What any operator with a schema must keep (S1 to S5) is in ../aten/invalid.mlir.

func.func @unknown_overload(%x: tensor<4xf32>) {
  // expected-error @below [E0102] {{edge.aten.relu is not registered}}
  %0 = edge.aten.relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @schema(%x: tensor<4xf32>) {
  // expected-error @below [E0301] {{'edge.aten.relu.default' has 2 results, the schema returns 1 (S5)}}
  %0, %1 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  func.return
}

// -----

// Layouts: L1 a dynamic dim has an expression, L2 the expressions agree with the shape, L3 one entry for each dim.

func.func @L1(%x: tensor<4xf32>) {
  // expected-error @below [E0301] {{a dynamic dim ('?') needs a name in the encoding: #et.layout<dims = [...]> (L1)}}
  %0 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<?xf32>
  // expected-error @below [E0301] {{a dynamic dim ('?') needs an expression in 'dims' (L1)}}
  %1 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<?x2xf32, #et.layout<order = [1, 0]>>
  func.return
}

// -----

sym.dim @s0 in [1, 64]

func.func @L2(%x: tensor<4xf32>) {
  // expected-error @below [E0301] {{dim 's0' does not agree with 4 in the shape (L2)}}
  %0 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32, #et.layout<dims = [s0]>>
  // expected-error @below [E0301] {{dim '8' does not agree with ? in the shape (L2)}}
  %1 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<?x?xf32, #et.layout<dims = [8, s0]>>
  // expected-error @below [E0301] {{'dims' has 2 entries for 1 dims (L2)}}
  %2 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<?xf32, #et.layout<dims = [s0, 4]>>
  func.return
}

// -----

func.func @L2_without_symbols(%x: tensor<4xf32>) {
  // expected-error @below [E0101] {{'dims' has no symbolic dim: leave it out}}
  %0 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<?xf32, #et.layout<dims = [8]>>
  func.return
}

// -----

func.func @L3(%x: tensor<4xf32>) {
  // expected-error @below [E0301] {{'order' has 2 entries for 1 dims (L3)}}
  %0 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32, #et.layout<order = [1, 0]>>
  func.return
}

// -----

func.func @encoding(%x: tensor<4xf32>) {
  // expected-error @below [E0301] {{the encoding of a tensor type must be #et.layout<...>}}
  %0 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32, "row_major">
  func.return
}

// -----

func.func @undeclared(%x: tensor<4xf32>) {
  // expected-error @below [E0306] {{'edge.aten.relu.default' has a dim 's7' that no sym.dim declares}}
  %0 = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<?xf32, #et.layout<dims = [s7]>>
  func.return
}

// -----

// expected-error @below [E0306] {{'func.func' has a dim 's7' that no sym.dim declares}}
func.func @undeclared_argument(%x: tensor<?xf32, #et.layout<dims = [s7]>>) {
  func.return
}

// -----

// expected-error @below [E0305] {{'func.func' has an argument of type tensor<?xf32>: a dynamic dim ('?') needs a name}}
func.func @unnamed_argument(%x: tensor<?xf32>) {
  func.return
}
