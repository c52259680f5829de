// RUN: et-opt -p tile-columns,tile-plan,verify-tile %s | filecheck %s

// The halves of the columns are read apart, each by itself, right before it is read.
// CHECK-LABEL: func.func @apart
func.func @apart(%x: memref<8x16xf32>, %u: memref<4x16x32xf32>, %r: memref<8x128xf32>, %y: memref<2x8x32xf32>, %z: memref<8x64xf32>) attributes {native.outputs = 2 : i64, native.saves = ["columns"]} {
  // CHECK-NOT:  memref<8x128xf32>(
  // CHECK:      %[[ONE:.*]] = tile.buffer at {{[0-9]+}} : i64 : memref<8x64xf32>
  // CHECK-NEXT: %[[W:.*]] = memref.reinterpret_cast %u to offset: [0], sizes: [2, 16, 32], strides: [512, 32, 1]
  // CHECK-NEXT: %[[R:.*]] = memref.reinterpret_cast %r to offset: [0], sizes: [8, 64], strides: [128, 1]
  // CHECK-NEXT: tile.brgemm %x, %[[W]], %[[ONE]](%[[R]])
  // CHECK:      %[[LEFT:.*]] = memref.reinterpret_cast %[[ONE]] to offset: [0], sizes: [2, 8, 32], strides: [32, 64, 1]
  // CHECK-NEXT: tile.map %y(%[[LEFT]])
  // CHECK:      %[[TWO:.*]] = tile.buffer at {{[0-9]+}} : i64 : memref<8x64xf32>
  // CHECK-NEXT: memref.reinterpret_cast %u to offset: [1024], sizes: [2, 16, 32], strides: [512, 32, 1]
  // CHECK-NEXT: memref.reinterpret_cast %r to offset: [64], sizes: [8, 64], strides: [128, 1]
  // CHECK-NEXT: tile.brgemm
  // CHECK:      tile.map %z
  %both = tile.buffer : memref<8x128xf32>
  tile.brgemm %x, %u, %both(%r) : memref<8x16xf32>, memref<4x16x32xf32>, memref<8x128xf32>(memref<8x128xf32>) {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.addf %0, %1 : f32
    tile.yield %2 : f32
  }
  %left = memref.reinterpret_cast %both to offset: [0], sizes: [2, 8, 32], strides: [32, 128, 1] : memref<8x128xf32> to memref<2x8x32xf32, strided<[32, 128, 1]>>
  tile.map %y(%left) : memref<2x8x32xf32>(memref<2x8x32xf32, strided<[32, 128, 1]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %right = memref.reinterpret_cast %both to offset: [64], sizes: [8, 64], strides: [128, 1] : memref<8x128xf32> to memref<8x64xf32, strided<[128, 1]>>
  tile.map %z(%right) : memref<8x64xf32>(memref<8x64xf32, strided<[128, 1]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}

// Columns 48 to 79 are read with some of both halves, and so all are one product.
// CHECK-LABEL: func.func @across
// CHECK:      %both = tile.buffer at {{[0-9]+}} : i64 : memref<8x128xf32>
// CHECK-NEXT: tile.brgemm %x, %u, %both()
// CHECK-NOT:  tile.brgemm
func.func @across(%x: memref<8x16xf32>, %u: memref<4x16x32xf32>, %y: memref<8x80xf32>, %z: memref<8x80xf32>) attributes {native.outputs = 2 : i64, native.saves = ["columns"]} {
  %both = tile.buffer : memref<8x128xf32>
  tile.brgemm %x, %u, %both() : memref<8x16xf32>, memref<4x16x32xf32>, memref<8x128xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %left = memref.reinterpret_cast %both to offset: [0], sizes: [8, 80], strides: [128, 1] : memref<8x128xf32> to memref<8x80xf32, strided<[128, 1]>>
  tile.map %y(%left) : memref<8x80xf32>(memref<8x80xf32, strided<[128, 1]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %right = memref.reinterpret_cast %both to offset: [48], sizes: [8, 80], strides: [128, 1] : memref<8x128xf32> to memref<8x80xf32, strided<[128, 1]>>
  tile.map %z(%right) : memref<8x80xf32>(memref<8x80xf32, strided<[128, 1]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
