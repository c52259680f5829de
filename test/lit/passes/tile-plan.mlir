// RUN: et-opt -p tile-plan,verify-tile %s | filecheck %s

// %1 is not read any more when %2 is written.
func.func @f(%x: memref<64xf32>, %y: memref<64xf32>) attributes {native.outputs = 1 : i64} {
  %0 = tile.buffer : memref<64xf32>
  %1 = tile.buffer : memref<64xf32>
  %2 = tile.buffer : memref<64xf32>
  tile.softmax %x, %0 : memref<64xf32>, memref<64xf32>
  tile.softmax %0, %1 : memref<64xf32>, memref<64xf32>
  tile.softmax %1, %2 : memref<64xf32>, memref<64xf32>
  tile.softmax %2, %y : memref<64xf32>, memref<64xf32>
  func.return
}
// CHECK:      tile.buffer at [[A:[0-9]+]]
// CHECK-NEXT: tile.buffer at {{[0-9]+}}
// CHECK-NEXT: tile.buffer at [[A]]

// What an elementwise operation writes lies over what it has read for the last time, float for float.
func.func @over(%x: memref<8x16xf32>, %y: memref<8x16xf32>) attributes {native.outputs = 1 : i64} {
  %0 = tile.buffer : memref<8x16xf32>
  %1 = tile.buffer : memref<8x16xf32>
  tile.softmax %x, %0 : memref<8x16xf32>, memref<8x16xf32>
  tile.map %1(%0) : memref<8x16xf32>(memref<8x16xf32>) {
  ^bb0(%a: f32):
    %b = arith.mulf %a, %a : f32
    tile.yield %b : f32
  }
  tile.softmax %1, %y : memref<8x16xf32>, memref<8x16xf32>
  func.return
}
// CHECK:      func.func @over
// CHECK-NEXT: tile.buffer at 0
// CHECK-NEXT: tile.buffer at 0

// A copy of rows as columns does not.
func.func @turned(%x: memref<8x16xf32>, %y: memref<8x16xf32>) attributes {native.outputs = 1 : i64} {
  %0 = tile.buffer : memref<8x16xf32>
  %1 = tile.buffer : memref<8x16xf32>
  %columns = memref.reinterpret_cast %1 to offset: [0], sizes: [8, 16], strides: [1, 8] : memref<8x16xf32> to memref<8x16xf32, strided<[1, 8]>>
  tile.softmax %x, %0 : memref<8x16xf32>, memref<8x16xf32>
  tile.map %columns(%0) : memref<8x16xf32, strided<[1, 8]>>(memref<8x16xf32>) {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  tile.softmax %1, %y : memref<8x16xf32>, memref<8x16xf32>
  func.return
}
// CHECK:      func.func @turned
// CHECK-NEXT: tile.buffer at [[A:[0-9]+]]
// CHECK-NOT:  tile.buffer at [[A]]
// CHECK:      func.return

// Buffers that are joined part by part lie in their parts, which nothing writes before them.
func.func @joined(%x: memref<8x16xf32>, %y: memref<16x16xf32>) attributes {native.outputs = 1 : i64} {
  %0 = tile.buffer : memref<8x16xf32>
  %1 = tile.buffer : memref<8x16xf32>
  %2 = tile.buffer : memref<16x16xf32>
  %upper = memref.reinterpret_cast %2 to offset: [0], sizes: [8, 16], strides: [16, 1] : memref<16x16xf32> to memref<8x16xf32>
  %lower = memref.reinterpret_cast %2 to offset: [128], sizes: [8, 16], strides: [16, 1] : memref<16x16xf32> to memref<8x16xf32>
  tile.softmax %x, %0 : memref<8x16xf32>, memref<8x16xf32>
  tile.softmax %x, %1 : memref<8x16xf32>, memref<8x16xf32>
  tile.map %upper(%0) : memref<8x16xf32>(memref<8x16xf32>) {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  tile.map %lower(%1) : memref<8x16xf32>(memref<8x16xf32>) {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  tile.softmax %2, %y : memref<16x16xf32>, memref<16x16xf32>
  func.return
}
// CHECK:      func.func @joined
// CHECK-NEXT: tile.buffer at 0
// CHECK-NEXT: tile.buffer at 512
// CHECK-NEXT: tile.buffer at 0

// What the first of them writes is no place for what a later one reads.
func.func @turned_parts(%x: memref<8x16xf32>, %y: memref<16x16xf32>) attributes {native.outputs = 1 : i64} {
  %0 = tile.buffer : memref<8x16xf32>
  %1 = tile.buffer : memref<16x16xf32>
  %upper = memref.reinterpret_cast %1 to offset: [0], sizes: [8, 16], strides: [16, 1] : memref<16x16xf32> to memref<8x16xf32>
  %lower = memref.reinterpret_cast %1 to offset: [128], sizes: [8, 16], strides: [16, 1] : memref<16x16xf32> to memref<8x16xf32>
  tile.softmax %x, %0 : memref<8x16xf32>, memref<8x16xf32>
  tile.map %lower(%0) : memref<8x16xf32>(memref<8x16xf32>) {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  tile.map %upper(%0) : memref<8x16xf32>(memref<8x16xf32>) {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  tile.softmax %1, %y : memref<16x16xf32>, memref<16x16xf32>
  func.return
}
// CHECK:      func.func @turned_parts
// CHECK-NEXT: tile.buffer at 0
// CHECK-NEXT: tile.buffer at 0
