// RUN: et-opt -p tile-inside,tile-plan,verify-tile %s | filecheck %s
// RUN: et-opt -p tile-plan,verify-tile %s | filecheck --check-prefix=BEFORE %s

// What is made of the left half of %gates is written there: the right half is still read. So the halves of %made are.
// CHECK-LABEL: func.func @cell
// BEFORE:      tile.map %made(%left)
func.func @cell(%x: memref<4x16xf32>, %y: memref<4x8xf32>) attributes {native.outputs = 1 : i64, native.saves = ["inside"]} {
  %gates = tile.buffer : memref<4x16xf32>
  tile.map %gates(%x) : memref<4x16xf32>(memref<4x16xf32>) {
  ^bb0(%0: f32):
    %1 = arith.addf %0, %0 : f32
    tile.yield %1 : f32
  }
  %left = memref.reinterpret_cast %gates to offset: [0], sizes: [4, 8], strides: [16, 1] : memref<4x16xf32> to memref<4x8xf32, strided<[16, 1]>>
  %made = tile.buffer : memref<4x8xf32>
  // CHECK:      tile.map %left(%left)
  tile.map %made(%left) : memref<4x8xf32>(memref<4x8xf32, strided<[16, 1]>>) {
  ^bb0(%0: f32):
    %1 = arith.mulf %0, %0 : f32
    tile.yield %1 : f32
  }
  %right = memref.reinterpret_cast %gates to offset: [8], sizes: [4, 8], strides: [16, 1] : memref<4x16xf32> to memref<4x8xf32, strided<[16, 1]>>
  %one = memref.reinterpret_cast %made to offset: [0], sizes: [4, 4], strides: [8, 1] : memref<4x8xf32> to memref<4x4xf32, strided<[8, 1]>>
  %two = memref.reinterpret_cast %made to offset: [4], sizes: [4, 4], strides: [8, 1] : memref<4x8xf32> to memref<4x4xf32, strided<[8, 1]>>
  %first = memref.reinterpret_cast %y to offset: [0], sizes: [4, 4], strides: [8, 1] : memref<4x8xf32> to memref<4x4xf32, strided<[8, 1]>>
  %second = memref.reinterpret_cast %y to offset: [4], sizes: [4, 4], strides: [8, 1] : memref<4x8xf32> to memref<4x4xf32, strided<[8, 1]>>
  // CHECK:      %[[ONE:.*]] = memref.reinterpret_cast %gates to offset: [0], sizes: [4, 4], strides: [16, 1]
  // CHECK-NEXT: tile.map %first(%[[ONE]])
  tile.map %first(%one) : memref<4x4xf32, strided<[8, 1]>>(memref<4x4xf32, strided<[8, 1]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  // CHECK:      %[[TWO:.*]] = memref.reinterpret_cast %gates to offset: [4], sizes: [4, 4], strides: [16, 1]
  // CHECK-NEXT: tile.map %second(%[[TWO]])
  tile.map %second(%two) : memref<4x4xf32, strided<[8, 1]>>(memref<4x4xf32, strided<[8, 1]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  tile.map %y(%y, %right) : memref<4x8xf32>(memref<4x8xf32>, memref<4x8xf32, strided<[16, 1]>>) {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.addf %0, %1 : f32
    tile.yield %2 : f32
  }
  func.return
}

// Its operand is read once more: the result has memory of its own.
// CHECK-LABEL: func.func @read
// CHECK:       tile.map %made(%left)
func.func @read(%x: memref<4x16xf32>, %y: memref<4x16xf32>) attributes {native.outputs = 1 : i64, native.saves = ["inside"]} {
  %gates = tile.buffer : memref<4x16xf32>
  tile.map %gates(%x) : memref<4x16xf32>(memref<4x16xf32>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %left = memref.reinterpret_cast %gates to offset: [0], sizes: [4, 8], strides: [16, 1] : memref<4x16xf32> to memref<4x8xf32, strided<[16, 1]>>
  %made = tile.buffer : memref<4x8xf32>
  tile.map %made(%left) : memref<4x8xf32>(memref<4x8xf32, strided<[16, 1]>>) {
  ^bb0(%0: f32):
    %1 = arith.mulf %0, %0 : f32
    tile.yield %1 : f32
  }
  %twice = memref.reinterpret_cast %made to offset: [0], sizes: [4, 2, 8], strides: [8, 0, 1] : memref<4x8xf32> to memref<4x2x8xf32, strided<[8, 0, 1]>>
  %all = memref.reinterpret_cast %gates to offset: [0], sizes: [4, 2, 8], strides: [16, 8, 1] : memref<4x16xf32> to memref<4x2x8xf32, strided<[16, 8, 1]>>
  %to = memref.reinterpret_cast %y to offset: [0], sizes: [4, 2, 8], strides: [16, 8, 1] : memref<4x16xf32> to memref<4x2x8xf32, strided<[16, 8, 1]>>
  tile.map %to(%twice, %all) : memref<4x2x8xf32, strided<[16, 8, 1]>>(memref<4x2x8xf32, strided<[8, 0, 1]>>, memref<4x2x8xf32, strided<[16, 8, 1]>>) {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.addf %0, %1 : f32
    tile.yield %2 : f32
  }
  func.return
}
