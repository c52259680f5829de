// RUN: et-opt --fold-constants --split-input-file %s | filecheck %s
// RUN: et-opt -p 'fold-constants{limit=0}' --split-input-file %s | filecheck %s --check-prefix=NONE
// RUN: et-opt -p 'fold-constants{limit=0}' --split-input-file --print-debuginfo %s | filecheck %s --check-prefix=LOC
// RUN: et-opt -p 'fold-constants{limit=0 expand=true}' --split-input-file %s | filecheck %s --check-prefix=EXPAND
// RUN: et-opt -p 'fold-constants{limit=64}' --split-input-file %s | filecheck %s --check-prefix=PART

// A transposed weight is computed now: it is no larger than the weight it is made from, so no limit holds it back.
// CHECK: et.weight @w : tensor<8x4xf32>
// CHECK-NEXT: et.weight @w_folded : tensor<4x8xf32> = #et.blob<"sha256:{{[0-9a-f]+}}", 128> {kind = "constant"}
// LOC: et.weight @w_folded {{.*}} loc("m.py":3:1)
et.weight @w : tensor<8x4xf32> = #et.synthetic<seed = 1>

// CHECK-LABEL: func.func @transposed
func.func @transposed(%x: tensor<2x4xf32>) -> tensor<2x8xf32> {
  %0 = et.get_weight @w : tensor<8x4xf32>
  // CHECK: %1 = et.get_weight @w_folded : tensor<4x8xf32>
  // LOC: et.get_weight @w_folded : tensor<4x8xf32> loc("m.py":3:1)
  %1 = edge.aten.permute_copy.default(%0, dims = [1, 0]) : (tensor<8x4xf32>) -> tensor<4x8xf32> loc("m.py":3:1)
  // CHECK: edge.aten.mm.default(%x, %1)
  %2 = edge.aten.mm.default(%x, %1) : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  func.return %2 : tensor<2x8xf32>
}

// -----

// Chains fold to their ends; what only the chain used is left to dce. Small results stand in the text.
// CHECK-LABEL: func.func @chain
func.func @chain(%x: tensor<3xi64>) -> tensor<3xi64> {
  // CHECK: %[[C:.*]] = et.constant dense<[2, 4, 6]> : tensor<3xi64>
  // CHECK-NEXT: edge.aten.add.Tensor(%x, %[[C]])
  %0 = et.constant dense<[1, 2, 3]> : tensor<3xi64>
  %1 = edge.aten.neg.default(%0) : (tensor<3xi64>) -> tensor<3xi64>
  %2 = edge.aten.mul.Scalar(%1, other = -2) : (tensor<3xi64>) -> tensor<3xi64>
  %3 = edge.aten.add.Tensor(%x, %2) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  func.return %3 : tensor<3xi64>
}

// -----

// Operators without operands fold up to the limit. With limit = 0 nothing grows.
// CHECK-LABEL: func.func @made_from_nothing
// NONE-LABEL: func.func @made_from_nothing
func.func @made_from_nothing() -> (tensor<2x2xf32>, tensor<1000x1000xf32>) {
  // CHECK-NEXT: et.constant dense<1.000000e+00> : tensor<2x2xf32>
  // NONE-NEXT: edge.aten.full.default
  %0 = edge.aten.full.default(size = [2, 2], fill_value = 1.0) : () -> tensor<2x2xf32>
  // CHECK-NEXT: edge.aten.full.default
  // NONE-NEXT: edge.aten.full.default
  %1 = edge.aten.full.default(size = [1000, 1000], fill_value = 1.0) : () -> tensor<1000x1000xf32>
  func.return %0, %1 : tensor<2x2xf32>, tensor<1000x1000xf32>
}

// -----

// Left alone: random numbers, what reads an input, weights whose bytes are elsewhere, dynamic results, runtime
// scalars.
sym.dim @s in [1, 8]
et.weight @missing : tensor<2xf32> = #et.blob<"sha256:00000000000000000000000000000000", 8>
et.weight @outside : tensor<2xf32> = #et.synthetic<seed = 1> {external = "weights"}

// CHECK-LABEL: func.func @left_alone
func.func @left_alone(%x: tensor<?xf32, #et.layout<dims = [s]>>, %n: i64) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<?xf32, #et.layout<dims = [s]>>) {
  %0 = et.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // CHECK: edge.aten.rand_like.default
  %1 = edge.aten.rand_like.default(%0) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = et.get_weight @missing : tensor<2xf32>
  // CHECK: edge.aten.neg.default
  %3 = edge.aten.neg.default(%2) : (tensor<2xf32>) -> tensor<2xf32>
  %4 = et.get_weight @outside : tensor<2xf32>
  // CHECK: edge.aten.neg.default
  %5 = edge.aten.neg.default(%4) : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK: edge.aten.mul.Scalar
  %6 = edge.aten.mul.Scalar(%0, other = %n) : (tensor<2xf32>, i64) -> tensor<2xf32>
  // CHECK: edge.aten.neg.default
  %7 = edge.aten.neg.default(%x) : (tensor<?xf32, #et.layout<dims = [s]>>) -> tensor<?xf32, #et.layout<dims = [s]>>
  func.return %1, %3, %5, %6, %7 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<?xf32, #et.layout<dims = [s]>>
}

// -----

// An operator that fails on its constants is left to fail where the user sees it.
// CHECK-LABEL: func.func @fails
func.func @fails() -> tensor<1x2xf32> {
  %0 = et.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = et.constant dense<[5]> : tensor<1xi64>
  // CHECK: edge.aten.index_select.default
  %2 = edge.aten.index_select.default(%0, dim = 0, index = %1) : (tensor<2xf32>, tensor<1xi64>) -> tensor<1x2xf32>
  func.return %2 : tensor<1x2xf32>
}

// -----

// Inside regions as well; a constant of several results only where they are used.
// CHECK-LABEL: func.func @regions
func.func @regions(%p: i1, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = et.constant dense<[[1.0, 5.0], [3.0, 2.0]]> : tensor<2x2xf32>
  %1 = control.cond %p : i1 -> (tensor<2xf32>) {
    // CHECK: %[[V:.*]] = et.constant dense<[5.000000e+00, 3.000000e+00]> : tensor<2xf32>
    // CHECK-NEXT: control.yield %[[V]]
    %2, %3 = edge.aten.max.dim(%0, dim = 1) : (tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2xi64>)
    control.yield %2 : tensor<2xf32>
  } else {
    control.yield %x : tensor<2xf32>
  }
  func.return %1 : tensor<2xf32>
}

// -----

// What is made of no weight is named like the value, if that has a name.
// CHECK: et.weight @folded : tensor<64x64xf32>
// CHECK: et.weight @table : tensor<64x64xf32>
// CHECK-LABEL: func.func @names
func.func @names() -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  // CHECK-NEXT: %table = et.get_weight @table
  // CHECK-NEXT: %{{.*}} = et.get_weight @folded
  %table = edge.aten.full.default(size = [64, 64], fill_value = 2.0) : () -> tensor<64x64xf32>
  %0 = edge.aten.full.default(size = [64, 64], fill_value = 3.0) : () -> tensor<64x64xf32>
  %1 = edge.aten.neg.default(%0) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  func.return %table, %1 : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// Integers of 32 bits, a layer's bias, are numbers of the same size: multiplied out now. Those of 8 bits stay but with `expand`.

et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @integers
// EXPAND-LABEL: func.func @integers
func.func @integers() -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = et.constant dense<[2, -4, 6]> : tensor<3xi32>
  // CHECK: et.constant dense<[1.000000e+00, -2.000000e+00, 3.000000e+00]> : tensor<3xf32>
  %1 = edge.quantized_decomposed.dequantize_per_tensor.default(%0, scale = 0.5, zero_point = 0, quant_min = -2147483648, quant_max = 2147483647, dtype = i32) : (tensor<3xi32>) -> tensor<3xf32>
  %2 = et.constant dense<[2, -4, 6]> : tensor<3xi8>
  // CHECK: edge.quantized_decomposed.dequantize_per_tensor.default
  // EXPAND-COUNT-2: et.constant dense<[1.000000e+00, -2.000000e+00, 3.000000e+00]> : tensor<3xf32>
  // EXPAND-NOT: edge.quantized_decomposed
  %3 = edge.quantized_decomposed.dequantize_per_tensor.default(%2, scale = 0.5, zero_point = 0, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<3xi8>) -> tensor<3xf32>
  func.return %1, %3 : tensor<3xf32>, tensor<3xf32>
}

// -----

// What is computed of a weight may be larger than what it is made from, up to a 128th of what all weights have: 3,125
// bytes here. What is made of nothing may not, and a row that is only repeated stays one.
et.weight @large : tensor<1000x100xf32> = #et.synthetic<seed = 1>
et.weight @table : tensor<17x1xf32> = #et.synthetic<seed = 2>
et.weight @row : tensor<1x30xf32> = #et.synthetic<seed = 3>
et.weight @wider : tensor<1x50xf32> = #et.synthetic<seed = 4>

// PART-LABEL: func.func @of_weights
// NONE-LABEL: func.func @of_weights
func.func @of_weights() -> (tensor<17x30xf32>, tensor<17x50xf32>, tensor<17x30xf32>, tensor<17x30xf32>) {
  %0 = et.get_weight @table : tensor<17x1xf32>
  %1 = et.get_weight @row : tensor<1x30xf32>
  %2 = et.get_weight @wider : tensor<1x50xf32>
  // PART: %[[A:.*]] = et.get_weight @table_folded : tensor<17x30xf32>
  // NONE: %[[A:.*]] = edge.aten.mul.Tensor
  %3 = edge.aten.mul.Tensor(%0, %1) : (tensor<17x1xf32>, tensor<1x30xf32>) -> tensor<17x30xf32>
  // PART-NEXT: %[[B:.*]] = edge.aten.mul.Tensor
  %4 = edge.aten.mul.Tensor(%0, %2) : (tensor<17x1xf32>, tensor<1x50xf32>) -> tensor<17x50xf32>
  // PART-NEXT: %[[C:.*]] = edge.aten.expand_copy.default
  %5 = edge.aten.expand_copy.default(%0, size = [17, 30]) : (tensor<17x1xf32>) -> tensor<17x30xf32>
  // PART-NEXT: %[[D:.*]] = edge.aten.full.default
  %6 = edge.aten.full.default(size = [17, 30], fill_value = 0.5) : () -> tensor<17x30xf32>
  // PART-NEXT: func.return %[[A]], %[[B]], %[[C]], %[[D]]
  func.return %3, %4, %5, %6 : tensor<17x30xf32>, tensor<17x50xf32>, tensor<17x30xf32>, tensor<17x30xf32>
}

// -----

// All of it together may be a 32nd: 3,128 bytes of 100,116 here. Two methods share that, so the first one has its three
// products of 760 bytes as constants, and the second one computes its own two.
et.weight @large : tensor<25000xf32> = #et.synthetic<seed = 1>
et.weight @ten : tensor<10x1xf32> = #et.synthetic<seed = 2>
et.weight @nineteen : tensor<1x19xf32> = #et.synthetic<seed = 3>

// PART-LABEL: func.func @first
func.func @first() -> (tensor<10x19xf32>, tensor<10x19xf32>, tensor<10x19xf32>) {
  %0 = et.get_weight @ten : tensor<10x1xf32>
  %1 = et.get_weight @nineteen : tensor<1x19xf32>
  // PART-NOT: edge.
  %2 = edge.aten.mul.Tensor(%0, %1) : (tensor<10x1xf32>, tensor<1x19xf32>) -> tensor<10x19xf32>
  %3 = edge.aten.add.Tensor(%0, %1) : (tensor<10x1xf32>, tensor<1x19xf32>) -> tensor<10x19xf32>
  %4 = edge.aten.sub.Tensor(%0, %1) : (tensor<10x1xf32>, tensor<1x19xf32>) -> tensor<10x19xf32>
  // PART: func.return
  func.return %2, %3, %4 : tensor<10x19xf32>, tensor<10x19xf32>, tensor<10x19xf32>
}

// PART-LABEL: func.func @second
func.func @second() -> (tensor<10x19xf32>, tensor<10x19xf32>) {
  %0 = et.get_weight @ten : tensor<10x1xf32>
  %1 = et.get_weight @nineteen : tensor<1x19xf32>
  // PART: edge.aten.div.Tensor
  // PART: edge.aten.maximum.default
  %2 = edge.aten.div.Tensor(%0, %1) : (tensor<10x1xf32>, tensor<1x19xf32>) -> tensor<10x19xf32>
  %3 = edge.aten.maximum.default(%0, %1) : (tensor<10x1xf32>, tensor<1x19xf32>) -> tensor<10x19xf32>
  func.return %2, %3 : tensor<10x19xf32>, tensor<10x19xf32>
}

// -----

// What is computed on the way may be larger, here 1,600 bytes where 64 are allowed, when only what is made of it stays.
et.weight @few : tensor<4x1xf32> = #et.synthetic<seed = 1>
et.weight @many : tensor<1x100xf32> = #et.synthetic<seed = 2>

// PART-LABEL: func.func @on_the_way
func.func @on_the_way() -> tensor<4x1xf32> {
  %0 = et.get_weight @few : tensor<4x1xf32>
  %1 = et.get_weight @many : tensor<1x100xf32>
  // PART-NOT: edge.
  // PART: %[[A:.*]] = et.constant {{.*}} : tensor<4x1xf32>
  %2 = edge.aten.mul.Tensor(%0, %1) : (tensor<4x1xf32>, tensor<1x100xf32>) -> tensor<4x100xf32>
  %3 = edge.aten.amax.default(%2, dim = [1], keepdim = true) : (tensor<4x100xf32>) -> tensor<4x1xf32>
  // PART-NEXT: func.return %[[A]]
  func.return %3 : tensor<4x1xf32>
}

// What something that stays reads stays, and what that is made of.
// PART-LABEL: func.func @read_as_well
func.func @read_as_well(%x: tensor<4x100xf32>) -> (tensor<4x1xf32>, tensor<4x100xf32>) {
  %0 = et.get_weight @few : tensor<4x1xf32>
  %1 = et.get_weight @many : tensor<1x100xf32>
  // PART: %[[B:.*]] = edge.aten.mul.Tensor
  %2 = edge.aten.mul.Tensor(%0, %1) : (tensor<4x1xf32>, tensor<1x100xf32>) -> tensor<4x100xf32>
  // PART-NEXT: %[[C:.*]] = edge.aten.relu.default(%[[B]])
  %3 = edge.aten.relu.default(%2) : (tensor<4x100xf32>) -> tensor<4x100xf32>
  // PART-NOT: edge.aten.amax
  %4 = edge.aten.amax.default(%3, dim = [1], keepdim = true) : (tensor<4x100xf32>) -> tensor<4x1xf32>
  // PART: edge.aten.add.Tensor(%x, %[[C]]
  %5 = edge.aten.add.Tensor(%x, %3) : (tensor<4x100xf32>, tensor<4x100xf32>) -> tensor<4x100xf32>
  func.return %4, %5 : tensor<4x1xf32>, tensor<4x100xf32>
}
