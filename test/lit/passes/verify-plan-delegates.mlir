// RUN: not et-opt -p legalize-delegates,lower-delegates,plan-memory,verify-plan --split-input-file %s 2>&1 | filecheck %s

// Payloads write what they compute while they read: none of these was made for an output in an input's memory.
func.func private @taken(%x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> attributes {backend.delegate = "reference"} {
  %0 = edge.aten.flip.default(%x, dims = [0]) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.add.Tensor(%0, %z) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
// CHECK: error[E1113]: input 0 and output 0 of @taken have bytes of %x in common
et.method @forward {
  %x = et.buffer : tensor<4xf32>
  %z = et.buffer : tensor<4xf32>
  et.inputs %x, %z
  et.delegate_call @taken(%x, %z, %x)
  et.return %x
}

// -----

func.func private @part(%x: tensor<4xf32>) -> tensor<4xf32> attributes {backend.delegate = "reference"} {
  %0 = edge.aten.flip.default(%x, dims = [0]) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK: error[E1113]: input 0 and output 0 of @part have bytes of %b in common
et.method @forward {
  %b = et.buffer : tensor<6xf32>
  %x = et.view %b at 0 : tensor<4xf32>
  %y = et.view %b at 8 : tensor<4xf32>
  et.inputs %b
  et.delegate_call @part(%x, %y)
  et.return %y
}

// -----

func.func private @both(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {backend.delegate = "reference"} {
  %0 = edge.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = edge.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
// CHECK: error[E1113]: output 0 and output 1 of @both have bytes of %y in common
et.method @forward {
  %x = et.buffer : tensor<4xf32>
  %y = et.buffer : tensor<4xf32>
  et.inputs %x
  et.delegate_call @both(%x, %y, %y)
  et.return %y
}

// -----

func.func private @graph(%x: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {backend.delegate = "xnnpack"} {
  %0 = edge.aten.relu.default(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %0 : tensor<2x4xf32>
}
// CHECK: error[E1113]: input 0 and output 0 of @graph have bytes of %x in common
et.method @forward {
  %x = et.buffer : tensor<2x4xf32>
  et.inputs %x
  et.delegate_call @graph(%x, %x)
  et.return %x
}

// -----

// One tensor may be several inputs, and parts of a buffer that are apart may be anything.
func.func private @sum(%x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> attributes {backend.delegate = "reference"} {
  %0 = edge.aten.add.Tensor(%x, %z) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
// CHECK-NOT: error
et.method @forward {
  %b = et.buffer : tensor<8xf32>
  %x = et.view %b at 0 : tensor<4xf32>
  %y = et.view %b at 16 : tensor<4xf32>
  et.inputs %b
  et.delegate_call @sum(%x, %x, %y)
  et.return %y
}
