// RUN: et-opt --print-debuginfo %s | filecheck %s
// RUN: et-opt --mlir-print-debuginfo %s | et-opt --print-debuginfo | filecheck %s
// RUN: et-opt --print-debuginfo --print-op-generic %s | et-opt --print-debuginfo | filecheck %s
// RUN: et-opt --verify-roundtrip --no-output %s

// CHECK: et.weight @w : tensor<4xf32> = #et.synthetic<seed = 1> loc("model.py":3:1)
et.weight @w : tensor<4xf32> = #et.synthetic<seed = 1> loc("model.py":3:1)

// CHECK: func.func @forward(%x: tensor<4xf32> loc("model.py":1:1)) -> tensor<4xf32> {
func.func @forward(%x: tensor<4xf32> loc("model.py":1:1)) -> tensor<4xf32> {
  // CHECK-NEXT: aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("model.py":12:5)
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("model.py":12:5)
  // CHECK-NEXT: loc("layers.0"("model.py":13:5))
  %1 = aten.relu.default(%0) : (tensor<4xf32>) -> tensor<4xf32> loc("layers.0"("model.py":13:5))
  // CHECK-NEXT: loc(fused["model.py":14:5, "model.py":15:5])
  %2 = aten.relu.default(%1) : (tensor<4xf32>) -> tensor<4xf32> loc(fused["model.py":14:5, "model.py":15:5])
  // What has no location of its own is where it stands in this file.
  // CHECK-NEXT: locations.mlir":19:3)
  func.return %2 : tensor<4xf32>
}

// A program from the importer has a location everywhere; passes have to keep them.
// RUN: et-opt --require-locations --no-output %s
