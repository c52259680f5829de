// RUN: et-opt -p tile-pieces,tile-plan,verify-tile %s | filecheck %s
// RUN: et-opt -p tile-pieces,tile-pieces %s | filecheck --check-prefix=TWICE %s

// Where %wide and %wider are there, of %both only the right half is needed, which the last product reads.
// CHECK-LABEL: func.func @gate
func.func @gate(%x: memref<8x16xf32>, %u: memref<2x8x32xf32>, %v: memref<4x64x32xf32>, %w: memref<1x128x32xf32>, %y: memref<8x8xf32>) attributes {native.outputs = 1 : i64, native.saves = ["pieces"]} {
  %both = tile.buffer : memref<8x16xf32>
  tile.map %both(%x) : memref<8x16xf32>(memref<8x16xf32>) {
  ^bb0(%0: f32):
    %1 = arith.addf %0, %0 : f32
    tile.yield %1 : f32
  }
  %left = memref.reinterpret_cast %both to offset: [0], sizes: [8, 8], strides: [16, 1] : memref<8x16xf32> to memref<8x8xf32, strided<[16, 1]>>
  %wide = tile.buffer : memref<8x64xf32>
  // CHECK:      tile.brgemm %left, %u, %wide
  // CHECK:      %[[PIECE:.*]] = tile.buffer at {{[0-9]+}} : i64 : memref<8x8xf32>
  // CHECK-NEXT: %[[RIGHT:.*]] = memref.reinterpret_cast %both to offset: [8], sizes: [8, 8], strides: [16, 1]
  // CHECK-NEXT: tile.map %[[PIECE]](%[[RIGHT]])
  // CHECK:      tile.brgemm %wide, %v
  tile.brgemm %left, %u, %wide() : memref<8x8xf32, strided<[16, 1]>>, memref<2x8x32xf32>, memref<8x64xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %wider = tile.buffer : memref<8x128xf32>
  tile.brgemm %wide, %v, %wider() : memref<8x64xf32>, memref<4x64x32xf32>, memref<8x128xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %right = memref.reinterpret_cast %both to offset: [8], sizes: [8, 8], strides: [16, 1] : memref<8x16xf32> to memref<8x8xf32, strided<[16, 1]>>
  // CHECK:      %[[READ:.*]] = memref.reinterpret_cast %[[PIECE]] to offset: [0]
  // CHECK:      tile.brgemm %wider, %w, %y(%[[READ]])
  tile.brgemm %wider, %w, %y(%right) : memref<8x128xf32>, memref<1x128x32xf32>, memref<8x8xf32>(memref<8x8xf32, strided<[16, 1]>>) {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.mulf %0, %1 : f32
    tile.yield %2 : f32
  }
  func.return
}

// Nothing is copied twice, and nothing without the saving.
// TWICE-COUNT-4: tile.buffer
// TWICE-LABEL:   func.func @other
// TWICE-COUNT-1: tile.buffer
// TWICE-NOT:     tile.buffer
func.func @other(%x: memref<8x16xf32>, %y: memref<8x8xf32>) attributes {native.outputs = 1 : i64} {
  %both = tile.buffer : memref<8x16xf32>
  tile.map %both(%x) : memref<8x16xf32>(memref<8x16xf32>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %left = memref.reinterpret_cast %both to offset: [0], sizes: [8, 8], strides: [16, 1] : memref<8x16xf32> to memref<8x8xf32, strided<[16, 1]>>
  tile.map %y(%left) : memref<8x8xf32>(memref<8x8xf32, strided<[16, 1]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
