// RUN: et-opt -p tile-order,verify-tile %s | filecheck %s
// RUN: et-opt -p tile-order,tile-order %s | filecheck %s

// What the last step alone reads is made after the largest buffers are gone; its parts of %y have no float in common.
// CHECK-LABEL: func.func @branches
// CHECK:       tile.brgemm %x, %{{.*}}, %wide
// CHECK:       tile.brgemm %wide
// CHECK:       tile.brgemm %x, %{{.*}}, %early
// CHECK:       tile.map %{{.*}}(%early)
func.func @branches(%x: memref<8x16xf32>, %y: memref<8x40xf32>) attributes {native.outputs = 1 : i64, native.saves = ["order"]} {
  %u = tile.weight "u" panel 32 : i64 : memref<1x16x32xf32>
  %v = tile.weight "v" panel 32 : i64 : memref<4x16x32xf32>
  %w = tile.weight "w" panel 32 : i64 : memref<1x128x32xf32>
  %early = tile.buffer : memref<8x32xf32>
  tile.brgemm %x, %u, %early() : memref<8x16xf32>, memref<1x16x32xf32>, memref<8x32xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %wide = tile.buffer : memref<8x128xf32>
  tile.brgemm %x, %v, %wide() : memref<8x16xf32>, memref<4x16x32xf32>, memref<8x128xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %right = memref.reinterpret_cast %y to offset: [32], sizes: [8, 8], strides: [40, 1] : memref<8x40xf32> to memref<8x8xf32, strided<[40, 1]>>
  tile.brgemm %wide, %w, %right() : memref<8x128xf32>, memref<1x128x32xf32>, memref<8x8xf32, strided<[40, 1]>>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %left = memref.reinterpret_cast %y to offset: [0], sizes: [8, 32], strides: [40, 1] : memref<8x40xf32> to memref<8x32xf32, strided<[40, 1]>>
  tile.map %left(%early) : memref<8x32xf32, strided<[40, 1]>>(memref<8x32xf32>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}

// Without the saving nothing moves.
// CHECK-LABEL: func.func @other
// CHECK:       tile.brgemm %x, %{{.*}}, %early
// CHECK:       tile.brgemm %x, %{{.*}}, %wide
func.func @other(%x: memref<8x16xf32>, %y: memref<8x128xf32>) attributes {native.outputs = 1 : i64} {
  %u = tile.weight "u" panel 32 : i64 : memref<1x16x32xf32>
  %v = tile.weight "v" panel 32 : i64 : memref<4x16x32xf32>
  %early = tile.buffer : memref<8x32xf32>
  tile.brgemm %x, %u, %early() : memref<8x16xf32>, memref<1x16x32xf32>, memref<8x32xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %wide = tile.buffer : memref<8x128xf32>
  tile.brgemm %x, %v, %wide() : memref<8x16xf32>, memref<4x16x32xf32>, memref<8x128xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  tile.map %y(%wide) : memref<8x128xf32>(memref<8x128xf32>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %part = memref.reinterpret_cast %y to offset: [0], sizes: [8, 32], strides: [128, 1] : memref<8x128xf32> to memref<8x32xf32, strided<[128, 1]>>
  tile.map %part(%early) : memref<8x32xf32, strided<[128, 1]>>(memref<8x32xf32>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
