// RUN: et-opt -p legalize-delegates %s --split-input-file --verify-diagnostics

func.func private @given(%x: tensor<1x2xf32>) -> tensor<1x2xf32> attributes {backend.delegate = "xnnpack"} {
  // expected-error @below [E1106] {{'edge.aten.erfinv.default': no form of it is known}}
  %0 = edge.aten.erfinv.default(%x) : (tensor<1x2xf32>) -> tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}

// -----

// A backend that is not there.
func.func private @given(%x: tensor<1x2xf32>) -> tensor<1x2xf32> attributes {backend.delegate = "nobody"} {
  func.return %x : tensor<1x2xf32>
}
// expected-error @unknown [E1101] {{no backend named 'nobody' is installed}}
