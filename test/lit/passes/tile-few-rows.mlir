// RUN: et-opt -p tile-few-rows,tile-plan,tile-schedule{cpu=x86-64-v4},verify-tile{cpu=x86-64-v4} %s | filecheck %s

// One token's attention over 32 tokens, of two heads, each for four queries: neither keys nor values are copied.
// The scale and the mask of the scores become a map over them.
func.func @decode(%q: memref<2x4x8xf32>, %keys: memref<2x32x8xf32>, %values: memref<2x32x8xf32>, %mask: memref<2x4x32xf32>, %s: memref<2x4x32xf32>, %o: memref<2x4x8xf32>) attributes {native.outputs = 2 : i64} {
  %turned = memref.reinterpret_cast %keys to offset: [0], sizes: [2, 8, 32], strides: [256, 1, 8] : memref<2x32x8xf32> to memref<2x8x32xf32, strided<[256, 1, 8]>>
  %k = tile.buffer : memref<2x1x8x32xf32>
  tile.pack %turned, %k : memref<2x8x32xf32, strided<[256, 1, 8]>>, memref<2x1x8x32xf32>
  tile.brgemm %q, %k, %s(%mask) : memref<2x4x8xf32>, memref<2x1x8x32xf32>, memref<2x4x32xf32> (memref<2x4x32xf32>) {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.addf %0, %1 : f32
    tile.yield %2 : f32
  }
  %v = tile.buffer : memref<2x1x32x32xf32>
  tile.pack %values, %v : memref<2x32x8xf32>, memref<2x1x32x32xf32>
  tile.brgemm %s, %v, %o() : memref<2x4x32xf32>, memref<2x1x32x32xf32>, memref<2x4x8xf32> () {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @decode
// CHECK-NOT:    tile.buffer
// CHECK-NOT:    tile.pack
// CHECK:        tile.reduce "sum" %{{.*}}, %s(%{{.*}}) : memref<2x4x32x8xf32, strided<[256, 0, 8, 1]>>, memref<2x4x32xf32>(memref<2x4x32x8xf32, strided<[32, 8, 0, 1]>>)
// CHECK:          arith.mulf
// CHECK:        tile.map %s(%s, %mask)
// CHECK:          arith.addf
// CHECK:        tile.brgemm %s, %{{.*}}, %o() schedule {{.*}} : memref<2x4x32xf32>, memref<2x1x32x8xf32, strided<[256, 8, 8, 1]>>, memref<2x4x8xf32>

// Nine rows are worth a copy; so is a matrix of which no panel is a part.
func.func @packed(%a: memref<9x6xf32>, %few: memref<2x6xf32>, %b: memref<6x8xf32>, %odd: memref<6x9xf32>, %c: memref<9x8xf32>, %d: memref<2x9xf32>) attributes {native.outputs = 2 : i64} {
  %k = tile.buffer : memref<1x6x32xf32>
  tile.pack %b, %k : memref<6x8xf32>, memref<1x6x32xf32>
  tile.brgemm %a, %k, %c() : memref<9x6xf32>, memref<1x6x32xf32>, memref<9x8xf32> () {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %v = tile.buffer : memref<1x6x32xf32>
  tile.pack %odd, %v : memref<6x9xf32>, memref<1x6x32xf32>
  tile.brgemm %few, %v, %d() : memref<2x6xf32>, memref<1x6x32xf32>, memref<2x9xf32> () {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @packed
// CHECK-COUNT-2: tile.pack
