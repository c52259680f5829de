// RUN: et-opt -p tile-scale %s | filecheck %s

// The factor of the left operand is one of the sums.
func.func @queries(%q: memref<6x4xf32>, %k: memref<1x4x32xf32>, %y: memref<6x5xf32>) attributes {native.outputs = 1 : i64} {
  %t = tile.buffer : memref<6x4xf32>
  tile.map %t(%q) : memref<6x4xf32>(memref<6x4xf32>) {
  ^bb0(%0: f32):
    %1 = arith.constant 0.125 : f32
    %2 = arith.mulf %0, %1 : f32
    tile.yield %2 : f32
  }
  tile.brgemm %t, %k, %y() : memref<6x4xf32>, memref<1x4x32xf32>, memref<6x5xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @queries
// CHECK-NOT:    tile.map
// CHECK:        tile.brgemm %{{.*}}, %k, %y()
// CHECK-NEXT:   ^bb0(%[[SUM:.*]]: f32):
// CHECK-NEXT:     %[[C:.*]] = arith.constant 1.250000e-01
// CHECK-NEXT:     %[[P:.*]] = arith.mulf %[[SUM]], %[[C]]
// CHECK-NEXT:     tile.yield %[[P]]

// What another operation reads, too, and what is more than a factor, stays.
func.func @kept(%q: memref<6x4xf32>, %k: memref<1x4x32xf32>, %y: memref<6x5xf32>) attributes {native.outputs = 1 : i64} {
  %t = tile.buffer : memref<6x4xf32>
  tile.map %t(%q) : memref<6x4xf32>(memref<6x4xf32>) {
  ^bb0(%0: f32):
    %1 = arith.constant 0.125 : f32
    %2 = arith.addf %0, %1 : f32
    tile.yield %2 : f32
  }
  tile.brgemm %t, %k, %y() : memref<6x4xf32>, memref<1x4x32xf32>, memref<6x5xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @kept
// CHECK:        tile.map
// CHECK:        tile.brgemm
