// RUN: et-opt -p tile-fuse,tile-plan,verify-tile %s | filecheck %s

// A mask of keys and rows is made where it is read, under the dims of scores of two heads.
func.func @mask(%keys: memref<16xf32>, %rows: memref<8xf32>, %scores: memref<2x8x16xf32>, %y: memref<2x8x16xf32>) attributes {native.outputs = 1 : i64, native.saves = ["fused"]} {
  %mask = tile.buffer : memref<8x16xf32>
  %k = memref.reinterpret_cast %keys to offset: [0], sizes: [8, 16], strides: [0, 1] : memref<16xf32> to memref<8x16xf32, strided<[0, 1]>>
  %r = memref.reinterpret_cast %rows to offset: [0], sizes: [8, 16], strides: [1, 0] : memref<8xf32> to memref<8x16xf32, strided<[1, 0]>>
  tile.map %mask(%k, %r) : memref<8x16xf32>(memref<8x16xf32, strided<[0, 1]>>, memref<8x16xf32, strided<[1, 0]>>) {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.mulf %0, %1 : f32
    tile.yield %2 : f32
  }
  %seen = memref.reinterpret_cast %mask to offset: [0], sizes: [2, 8, 16], strides: [0, 16, 1] : memref<8x16xf32> to memref<2x8x16xf32, strided<[0, 16, 1]>>
  tile.map %y(%seen, %scores) : memref<2x8x16xf32>(memref<2x8x16xf32, strided<[0, 16, 1]>>, memref<2x8x16xf32>) {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.addf %0, %1 : f32
    tile.yield %2 : f32
  }
  func.return
}
// CHECK:      func.func @mask
// CHECK-NOT:    tile.buffer
// CHECK-DAG:    %[[K:.*]] = memref.reinterpret_cast %keys to offset: [0], sizes: [2, 8, 16], strides: [0, 0, 1]
// CHECK-DAG:    %[[R:.*]] = memref.reinterpret_cast %rows to offset: [0], sizes: [2, 8, 16], strides: [0, 1, 0]
// CHECK:        tile.map %y(%[[K]], %[[R]], %scores)
// CHECK:          %[[M:.*]] = arith.mulf
// CHECK-NEXT:     %{{.*}} = arith.addf %[[M]]

// What is as large as it is made of stays, as does what others than maps read, and what takes long.
func.func @stays(%x: memref<8x16xf32>, %keys: memref<16xf32>, %y: memref<8x16xf32>, %z: memref<8xf32>) attributes {native.outputs = 2 : i64, native.saves = ["fused"]} {
  %same = tile.buffer : memref<8x16xf32>
  tile.map %same(%x) : memref<8x16xf32>(memref<8x16xf32>) {
  ^bb0(%0: f32):
    %1 = arith.addf %0, %0 : f32
    tile.yield %1 : f32
  }
  %k = memref.reinterpret_cast %keys to offset: [0], sizes: [8, 16], strides: [0, 1] : memref<16xf32> to memref<8x16xf32, strided<[0, 1]>>
  %long = tile.buffer : memref<8x16xf32>
  tile.map %long(%k) : memref<8x16xf32>(memref<8x16xf32, strided<[0, 1]>>) {
  ^bb0(%0: f32):
    %1 = math.exp %0 : f32
    tile.yield %1 : f32
  }
  %reduced = tile.buffer : memref<8x16xf32>
  tile.map %reduced(%k) : memref<8x16xf32>(memref<8x16xf32, strided<[0, 1]>>) {
  ^bb0(%0: f32):
    %1 = arith.addf %0, %0 : f32
    tile.yield %1 : f32
  }
  tile.map %y(%same, %long, %reduced) : memref<8x16xf32>(memref<8x16xf32>, memref<8x16xf32>, memref<8x16xf32>) {
  ^bb0(%0: f32, %1: f32, %2: f32):
    %3 = arith.addf %0, %1 : f32
    %4 = arith.addf %3, %2 : f32
    tile.yield %4 : f32
  }
  tile.reduce "sum" %reduced, %z() : memref<8x16xf32>, memref<8xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @stays
// CHECK:        tile.map %same
// CHECK:        tile.map %long
// CHECK:        tile.map %reduced
// CHECK:        tile.map %y(%same, %long, %reduced)

// Without the saving, nothing is changed.
func.func @quick(%keys: memref<16xf32>, %scores: memref<8x16xf32>, %y: memref<8x16xf32>) attributes {native.outputs = 1 : i64} {
  %k = memref.reinterpret_cast %keys to offset: [0], sizes: [8, 16], strides: [0, 1] : memref<16xf32> to memref<8x16xf32, strided<[0, 1]>>
  %mask = tile.buffer : memref<8x16xf32>
  tile.map %mask(%k) : memref<8x16xf32>(memref<8x16xf32, strided<[0, 1]>>) {
  ^bb0(%0: f32):
    %1 = arith.addf %0, %0 : f32
    tile.yield %1 : f32
  }
  tile.map %y(%mask, %scores) : memref<8x16xf32>(memref<8x16xf32>, memref<8x16xf32>) {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.addf %0, %1 : f32
    tile.yield %2 : f32
  }
  func.return
}
// CHECK:      func.func @quick
// CHECK:        tile.map %mask
// CHECK:        tile.map %y(%mask, %scores)
