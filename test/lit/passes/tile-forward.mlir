// RUN: et-opt -p tile-forward %s | filecheck %s

// Two heads of three rows, written to where the rows are side by side.
func.func @heads(%x: memref<2x3x5xf32>, %w: memref<2x1x5x32xf32>, %y: memref<3x2x4xf32>) attributes {native.outputs = 1 : i64} {
  %o = tile.buffer : memref<2x3x4xf32>
  tile.brgemm %x, %w, %o() : memref<2x3x5xf32>, memref<2x1x5x32xf32>, memref<2x3x4xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %v = memref.reinterpret_cast %o to offset: [0], sizes: [3, 2, 4], strides: [4, 12, 1] : memref<2x3x4xf32> to memref<3x2x4xf32, strided<[4, 12, 1]>>
  tile.map %y(%v) : memref<3x2x4xf32>(memref<3x2x4xf32, strided<[4, 12, 1]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @heads
// CHECK-NEXT:   %0 = memref.reinterpret_cast %y to offset: [0], sizes: [2, 3, 4], strides: [4, 8, 1]
// CHECK-NEXT:   tile.brgemm %x, %w, %0()
// CHECK-NOT:    tile.map
// CHECK:        func.return

// What is read twice stays where it is; so does what would have its columns apart, which no product can write.
func.func @kept(%x: memref<6x4xf32>, %w: memref<1x4x32xf32>, %y: memref<5x6xf32>, %z: memref<6x5xf32>) attributes {native.outputs = 2 : i64} {
  %o = tile.buffer : memref<6x5xf32>
  tile.brgemm %x, %w, %o() : memref<6x4xf32>, memref<1x4x32xf32>, memref<6x5xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %v = memref.reinterpret_cast %o to offset: [0], sizes: [5, 6], strides: [1, 5] : memref<6x5xf32> to memref<5x6xf32, strided<[1, 5]>>
  tile.map %y(%v) : memref<5x6xf32>(memref<5x6xf32, strided<[1, 5]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  tile.softmax %o, %z : memref<6x5xf32>, memref<6x5xf32>
  func.return
}
// CHECK:      func.func @kept
// CHECK:        tile.brgemm %x, %w, %o
// CHECK:        tile.map
// CHECK:        tile.softmax

func.func @columns(%x: memref<6x4xf32>, %w: memref<1x4x32xf32>, %y: memref<5x6xf32>) attributes {native.outputs = 1 : i64} {
  %o = tile.buffer : memref<6x5xf32>
  tile.brgemm %x, %w, %o() : memref<6x4xf32>, memref<1x4x32xf32>, memref<6x5xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %v = memref.reinterpret_cast %o to offset: [0], sizes: [5, 6], strides: [1, 5] : memref<6x5xf32> to memref<5x6xf32, strided<[1, 5]>>
  tile.map %y(%v) : memref<5x6xf32>(memref<5x6xf32, strided<[1, 5]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @columns
// CHECK:        tile.brgemm %x, %w, %o
// CHECK:        tile.map
