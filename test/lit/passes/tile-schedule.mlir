// RUN: et-opt -p tile-schedule %s | filecheck %s
// RUN: et-opt -p 'tile-schedule{cpu=x86-64-v3}' %s | filecheck --check-prefix=AVX2 %s

func.func @f(%x: memref<197x768xf32>, %w: memref<96x768x32xf32>, %y: memref<197x3072xf32>) attributes {native.outputs = 1 : i64} {
  tile.brgemm %x, %w, %y() : memref<197x768xf32>, memref<96x768x32xf32>, memref<197x3072xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  // A schedule that is there stays.
  tile.brgemm %x, %w, %y() schedule {tile = [9, 1], depth = 768, rows = 197} : memref<197x768xf32>, memref<96x768x32xf32>, memref<197x3072xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:     schedule {tile = [14 : i64, 2 : i64], depth = 384 : i64, rows = 197 : i64}
// CHECK:     schedule {tile = [9 : i64, 1 : i64], depth = 768 : i64, rows = 197 : i64}
// AVX2:      schedule {tile = [6 : i64, 2 : i64]
