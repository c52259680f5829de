// RUN: et-opt -p native-group,native-to-tile %s | filecheck %s

et.weight @w : tensor<40x24xf32> = #et.synthetic<seed = 1> {fqn = "w"}
et.weight @b : tensor<40xf32> = #et.synthetic<seed = 2> {fqn = "b"}
func.func private @forward_native_0(%x: tensor<5x24xf32>, %y: tensor<5x40xf32>) -> tensor<5x40xf32> attributes {backend.delegate = "native"} {
  %w = et.get_weight @w : tensor<40x24xf32>
  %b = et.get_weight @b : tensor<40xf32>
  %0 = edge.aten.linear.default(%x, %w, %b) : (tensor<5x24xf32>, tensor<40x24xf32>, tensor<40xf32>) -> tensor<5x40xf32>
  %1 = edge.aten.relu.default(%0) : (tensor<5x40xf32>) -> tensor<5x40xf32>
  %2 = edge.aten.add.Tensor(%1, %y) : (tensor<5x40xf32>, tensor<5x40xf32>) -> tensor<5x40xf32>
  %3 = edge.aten._softmax.default(%2, dim = 1, half_to_float = false) : (tensor<5x40xf32>) -> tensor<5x40xf32>
  func.return %3 : tensor<5x40xf32>
}

// The weight is read in panels of 32 columns, the bias for every row; what the function returns is its last argument.
// CHECK:      func.func private @forward_native_0(%x: memref<5x24xf32>, %y: memref<5x40xf32>, %0: memref<5x40xf32>)
// CHECK-NEXT:   %1 = tile.weight "b" : memref<40xf32>
// CHECK-NEXT:   %2 = tile.buffer : memref<5x40xf32>
// CHECK-NEXT:   %3 = tile.weight "w" panel 32 : i64 transposed 1 : i64 : memref<2x24x32xf32>
// CHECK-NEXT:   memref.reinterpret_cast %1 to offset: [0], sizes: [5, 40], strides: [0, 1]
// CHECK-NEXT:   tile.brgemm %x, %3, %2(%4, %y)
// CHECK-NEXT:   ^bb0(%5: f32, %6: f32, %7: f32):
// CHECK-NEXT:     arith.addf %5, %6
// CHECK-NEXT:     arith.constant 0.0
// CHECK-NEXT:     arith.maximumf
// CHECK-NEXT:     arith.addf
// CHECK-NEXT:     tile.yield
// CHECK:        tile.softmax %2, %0

// A transposed right operand is packed from the strides that it has; permutations copy nothing.
func.func private @forward_native_1(%x: tensor<2x6x8xf32>, %y: tensor<2x5x8xf32>) -> tensor<2x6x5xf32> attributes {backend.delegate = "native"} {
  %0 = edge.aten.permute_copy.default(%y, dims = [0, 2, 1]) : (tensor<2x5x8xf32>) -> tensor<2x8x5xf32>
  %1 = edge.aten.bmm.default(%x, %0) : (tensor<2x6x8xf32>, tensor<2x8x5xf32>) -> tensor<2x6x5xf32>
  func.return %1 : tensor<2x6x5xf32>
}
// CHECK:      @forward_native_1
// CHECK-NEXT:   tile.buffer : memref<2x1x8x16xf32>
// CHECK-NEXT:   memref.reinterpret_cast %y to offset: [0], sizes: [2, 8, 5], strides: [40, 1, 8]
// CHECK-NEXT:   tile.pack
// CHECK-NEXT:   tile.brgemm

// Windows of 3x3 by tiles of 2x2: four images of 32 rows whose weights are small (for AVX-512, with 1 MB of a second
// cache) are one operation, 26 tiles at a time for each of four slots. The border is one that nobody writes. Few
// positions are products of the image as it lies, and say why.
et.weight @filters : tensor<64x64x3x3xf32> = #et.synthetic<seed = 3> {fqn = "filters"}
et.weight @deep : tensor<64x64x3x3xf32> = #et.synthetic<seed = 4> {fqn = "deep"}
func.func private @forward_native_2(%x: tensor<4x64x32x32xf32>, %y: tensor<1x64x4x4xf32>) -> (tensor<4x64x32x32xf32>, tensor<1x64x4x4xf32>) attributes {backend.delegate = "native"} {
  %w = et.get_weight @filters : tensor<64x64x3x3xf32>
  %v = et.get_weight @deep : tensor<64x64x3x3xf32>
  %0 = edge.aten.convolution.default(%x, %w, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<4x64x32x32xf32>, tensor<64x64x3x3xf32>) -> tensor<4x64x32x32xf32>
  %1 = edge.aten.relu.default(%0) : (tensor<4x64x32x32xf32>) -> tensor<4x64x32x32xf32>
  %2 = edge.aten.convolution.default(%y, %v, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x64x4x4xf32>, tensor<64x64x3x3xf32>) -> tensor<1x64x4x4xf32>
  func.return %1, %2 : tensor<4x64x32x32xf32>, tensor<1x64x4x4xf32>
}
// CHECK:      @forward_native_2
// CHECK:        %[[U:.*]] = tile.weight "filters" panel 32 : i64 transposed 1 : i64 winograd 2 : i64 : memref<16x2x64x32xf32>
// CHECK:        tile.winograd %{{.*}}, %[[U]], %{{.*}}() memory %{{.*}}, %{{.*}} border [1 : i64, 1 : i64, 1 : i64, 1 : i64] : memref<4x32x32x64xf32>, memref<16x2x64x32xf32>, memref<4x32x32x64xf32>(), memref<4x16x26x64xf32
// CHECK-NEXT:   ^bb0
// CHECK:          arith.maximumf
// CHECK:        tile.brgemm %{{.*}} taps [3 : i64] {native.reason = "by tiles of 2x2 it is {{.*}} of the cycles"}

// Larger weights: blocks of six rows, and a last one of two.
et.weight @wide : tensor<128x128x3x3xf32> = #et.synthetic<seed = 5> {fqn = "wide"}
func.func private @forward_native_3(%x: tensor<4x128x32x32xf32>) -> tensor<4x128x32x32xf32> attributes {backend.delegate = "native"} {
  %w = et.get_weight @wide : tensor<128x128x3x3xf32>
  %0 = edge.aten.convolution.default(%x, %w, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<4x128x32x32xf32>, tensor<128x128x3x3xf32>) -> tensor<4x128x32x32xf32>
  %1 = edge.aten.relu.default(%0) : (tensor<4x128x32x32xf32>) -> tensor<4x128x32x32xf32>
  func.return %1 : tensor<4x128x32x32xf32>
}
// CHECK:      @forward_native_3
// CHECK:        %[[U:.*]] = tile.weight "wide" panel 32 : i64 transposed 1 : i64 winograd 2 : i64 : memref<16x4x128x32xf32>
// CHECK:        tile.winograd_input %{{.*}}, %[[V:.*]] border [1 : i64, 0 : i64, 1 : i64, 1 : i64] : memref<4x7x32x128xf32
// CHECK-NEXT:   tile.brgemm %[[V]], %[[U]], %[[M:.*]]() : memref<16x192x128xf32
// CHECK:        tile.winograd_output %[[M]], %{{.*}}() : memref<16x192x128xf32, {{.*}}memref<4x6x32x128xf32
// CHECK-NEXT:   ^bb0
// CHECK:          arith.maximumf
// CHECK:        tile.winograd_input %{{.*}}, %[[V]] border [0 : i64, 0 : i64, 1 : i64, 1 : i64] : memref<4x8x32x128xf32
// CHECK-NEXT:   tile.brgemm %[[V]], %[[U]], %[[M]]
// CHECK:        tile.winograd_input %{{.*}} border [0 : i64, 1 : i64, 1 : i64, 1 : i64] : memref<4x3x32x128xf32
