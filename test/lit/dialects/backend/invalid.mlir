// RUN: et-opt --split-input-file --verify-diagnostics %s

sym.dim @s0 in [0, 8]

func.func @element_type(%x: tensor<4xf32>) {
  // expected-error @below [E0301] {{a view of a dynamic type keeps the element type, f32 is not i32}}
  %0 = backend.view %x : tensor<4xf32> -> tensor<?xi32, #et.layout<dims = [s0]>>
  func.return
}

// -----

func.func @offset(%x: tensor<4xf32>) {
  // expected-error @below [E0301] {{the offset of a view is not negative}}
  %0 = backend.view %x {offset = -1 : i64} : tensor<4xf32> -> tensor<2xf32>
  func.return
}

// -----

func.func @layout(%x: tensor<4xf32>) {
  // expected-error @below [E0301] {{needs a name in the encoding}}
  %0 = backend.view %x : tensor<4xf32> -> tensor<?xf32>
  func.return
}

// -----

func.func @callee(%x: tensor<4xf32>) {
  // expected-error @below [E0303] {{'backend.call_delegate' names @lowered_0, which is not defined}}
  %0 = backend.call_delegate @lowered_0(%x) on "XnnpackBackend" : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @not_a_tensor(%n: i64) {
  // expected-error @below [E0101] {{i64 should be of base attribute tensor}}
  %0 = backend.view %n : i64 -> tensor<4xf32>
  func.return
}
