// RUN: et-opt -p tile-schedule,tile-share %s | filecheck %s
// RUN: et-opt -p 'tile-schedule{cpu=x86-64-v3},tile-share{cpu=x86-64-v3},tile-plan,verify-tile{cpu=x86-64-v3}' %s | filecheck --check-prefix=AVX2 %s

func.func @f(%x: memref<98x160xf32>, %u: memref<2x160x32xf32>, %z: memref<98x1032xf32>, %v: memref<64x1032x32xf32>, %y: memref<98x64xf32>, %o: memref<98x2048xf32>) attributes {native.outputs = 2 : i64} {
  tile.brgemm %x, %u, %y() : memref<98x160xf32>, memref<2x160x32xf32>, memref<98x64xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  tile.brgemm %z, %v, %o() : memref<98x1032xf32>, memref<64x1032x32xf32>, memref<98x2048xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// The second product is cut into slices of depth, whose sums are those of runs: tiles of both are told about either.
// CHECK:     schedule {tile = [14 : i64, 2 : i64], depth = 160 : i64, rows = 98 : i64, slices = 1 : i64, runs = 1 : i64}
// CHECK:     schedule {tile = [14 : i64, 2 : i64], depth = 344 : i64, rows = 98 : i64, slices = 1 : i64, runs = 1 : i64}
// Both are sums of one run with fewer registers, whose steps stand four by four: some are left of 207.
// AVX2:      schedule {tile = [6 : i64, 2 : i64], depth = 160 : i64, rows = 98 : i64, unroll = 4 : i64, slices = 1 : i64, odd = 1 : i64}
// AVX2:      schedule {tile = [6 : i64, 2 : i64], depth = 207 : i64, rows = 98 : i64, unroll = 4 : i64, slices = 1 : i64, odd = 1 : i64}

// Products of few rows, or so short that tests are much of a tile's time, keep micro-kernels of their own.
func.func @short(%x: memref<98x24xf32>, %u: memref<2x24x32xf32>, %z: memref<98x1032xf32>, %v: memref<64x1032x32xf32>, %y: memref<98x64xf32>, %o: memref<98x2048xf32>) attributes {native.outputs = 2 : i64} {
  tile.brgemm %x, %u, %y() : memref<98x24xf32>, memref<2x24x32xf32>, memref<98x64xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  tile.brgemm %z, %v, %o() : memref<98x1032xf32>, memref<64x1032x32xf32>, memref<98x2048xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK-LABEL: func.func @short
// CHECK-NOT: slices
// AVX2-LABEL: func.func @short
// AVX2-NOT:  slices
