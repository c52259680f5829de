// RUN: et-opt -p tile-attention,verify-tile %s | filecheck %s

// Forty rows of scores of four heads: blocks of 20 rows, of which there are two.
func.func @blocks(%q: memref<4x40x8xf32>, %k: memref<4x10x8x32xf32>, %m: memref<40x320xf32>, %v: memref<4x1x320x32xf32>, %y: memref<4x40x8xf32>) attributes {native.outputs = 1 : i64} {
  %s = tile.buffer : memref<4x40x320xf32>
  %t = tile.buffer : memref<4x40x320xf32>
  %p = tile.buffer : memref<4x40x320xf32>
  tile.brgemm %q, %k, %s() : memref<4x40x8xf32>, memref<4x10x8x32xf32>, memref<4x40x320xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %w = memref.reinterpret_cast %m to offset: [0], sizes: [4, 40, 320], strides: [0, 320, 1] : memref<40x320xf32> to memref<4x40x320xf32, strided<[0, 320, 1]>>
  tile.map %t(%s, %w) : memref<4x40x320xf32>(memref<4x40x320xf32>, memref<4x40x320xf32, strided<[0, 320, 1]>>) {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.addf %0, %1 : f32
    tile.yield %2 : f32
  }
  tile.softmax %t, %p : memref<4x40x320xf32>, memref<4x40x320xf32>
  tile.brgemm %p, %v, %y() : memref<4x40x320xf32>, memref<4x1x320x32xf32>, memref<4x40x8xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @blocks
// CHECK:        tile.buffer : memref<4x14x320xf32>
// CHECK:        tile.loop [4 : i64, 2 : i64]
// CHECK-NEXT:   ^bb0
// CHECK-NEXT:     tile.brgemm
// CHECK-NEXT:     ^bb0(%[[S:.*]]: f32, %[[M:.*]]: f32):
// CHECK-NEXT:       %[[R:.*]] = arith.addf %[[S]], %[[M]]
// CHECK-NEXT:       tile.yield %[[R]]
// CHECK-NEXT:     }
// CHECK-NEXT:     tile.softmax %[[L:.*]], %[[L]] scale %[[I:.*]] : {{.*}}, memref<14x1xf32>
// CHECK-NEXT:     tile.brgemm %[[L]], %{{.*}}, %{{.*}}(%[[I]])
// CHECK-NEXT:     ^bb0(%[[S:.*]]: f32, %[[M:.*]]: f32):
// CHECK-NEXT:       %[[R:.*]] = arith.mulf %[[S]], %[[M]]
// CHECK-NEXT:       tile.yield %[[R]]
// CHECK:        tile.loop [4 : i64, 1 : i64]
// CHECK-NOT:    tile.map

// Rows that are too long for the first cache: blocks for the second one.
func.func @long(%q: memref<4x72x8xf32>, %k: memref<4x50x8x32xf32>, %v: memref<4x1x1600x32xf32>, %y: memref<4x72x8xf32>) attributes {native.outputs = 1 : i64} {
  %s = tile.buffer : memref<4x72x1600xf32>
  %p = tile.buffer : memref<4x72x1600xf32>
  tile.brgemm %q, %k, %s() : memref<4x72x8xf32>, memref<4x50x8x32xf32>, memref<4x72x1600xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  tile.softmax %s, %p : memref<4x72x1600xf32>, memref<4x72x1600xf32>
  tile.brgemm %p, %v, %y() : memref<4x72x1600xf32>, memref<4x1x1600x32xf32>, memref<4x72x8xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @long
// CHECK:        tile.buffer : memref<4x36x1600xf32>
// CHECK-NEXT:   tile.buffer : memref<4x36x1xf32>
// CHECK:        tile.loop [4 : i64, 2 : i64]

// Scores that the program returns are written.
func.func @returned(%q: memref<4x40x8xf32>, %k: memref<4x10x8x32xf32>, %v: memref<4x1x320x32xf32>, %y: memref<4x40x8xf32>, %p: memref<4x40x320xf32>) attributes {native.outputs = 2 : i64} {
  %s = tile.buffer : memref<4x40x320xf32>
  tile.brgemm %q, %k, %s() : memref<4x40x8xf32>, memref<4x10x8x32xf32>, memref<4x40x320xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  tile.softmax %s, %p : memref<4x40x320xf32>, memref<4x40x320xf32>
  tile.brgemm %p, %v, %y() : memref<4x40x320xf32>, memref<4x1x320x32xf32>, memref<4x40x8xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @returned
// CHECK-NOT:    tile.loop
// CHECK:        tile.softmax %{{.*}}, %p
