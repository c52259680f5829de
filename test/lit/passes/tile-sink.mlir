// RUN: et-opt -p tile-sink,tile-plan,verify-tile %s | filecheck %s
// RUN: et-opt -p tile-plan,verify-tile %s | filecheck --check-prefix=BEFORE %s
// RUN: et-opt -p tile-sink,tile-plan{workspace},verify-tile %s | filecheck --check-prefix=WITHIN %s

// The border is written after the image, when the copy that it is computed of is there: %woven is where the image ends.
func.func @border(%x: memref<4x256xf32>, %y: memref<256x4xf32>) attributes {native.outputs = 1 : i64} {
  %image = tile.buffer : memref<258x4xf32>
  %first = memref.reinterpret_cast %image to offset: [0], sizes: [1, 4], strides: [4, 1] : memref<258x4xf32> to memref<1x4xf32, strided<[4, 1]>>
  tile.map %first() : memref<1x4xf32, strided<[4, 1]>>() {
    %0 = arith.constant 0.0 : f32
    tile.yield %0 : f32
  }
  %last = memref.reinterpret_cast %image to offset: [1028], sizes: [1, 4], strides: [4, 1] : memref<258x4xf32> to memref<1x4xf32, strided<[4, 1]>>
  tile.map %last() : memref<1x4xf32, strided<[4, 1]>>() {
    %0 = arith.constant 0.0 : f32
    tile.yield %0 : f32
  }
  %woven = tile.buffer : memref<256x4xf32>
  %columns = memref.reinterpret_cast %woven to offset: [0], sizes: [4, 256], strides: [1, 4] : memref<256x4xf32> to memref<4x256xf32, strided<[1, 4]>>
  tile.map %columns(%x) : memref<4x256xf32, strided<[1, 4]>>(memref<4x256xf32>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %inside = memref.reinterpret_cast %image to offset: [4], sizes: [256, 4], strides: [4, 1] : memref<258x4xf32> to memref<256x4xf32, strided<[4, 1]>>
  tile.map %inside(%woven) : memref<256x4xf32, strided<[4, 1]>>(memref<256x4xf32>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  tile.map %y(%inside) : memref<256x4xf32>(memref<256x4xf32, strided<[4, 1]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @border
// CHECK:        tile.map %columns(%x)
// CHECK:        tile.map %inside(%woven)
// CHECK:        tile.map %first()
// CHECK:        tile.map %last()
// CHECK-NEXT:     arith.constant
// CHECK:        tile.map %y(%inside)

// BEFORE:     tile.map %first()
// BEFORE:     tile.map %columns(%x)

// The input's bytes are the image's once it has been read; the output's are those of the copy.
// WITHIN:     func.func @border
// WITHIN-SAME:  native.places = array<i64: 0, 4160>
