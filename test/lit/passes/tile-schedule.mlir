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
// CHECK:     schedule {tile = [14 : i64, 2 : i64], depth = 384 : i64, rows = 197 : i64, unroll = 4 : i64}
// CHECK:     schedule {tile = [9 : i64, 1 : i64], depth = 768 : i64, rows = 197 : i64}
// A step of depth is short where there are few registers: several stand one after the other, with the widest vectors
// where many deep rows are multiplied.
// AVX2:      schedule {tile = [6 : i64, 2 : i64], depth = 768 : i64, rows = 66 : i64, unroll = 4 : i64}

// The taps of a panel take 590 kB: seven lines use it together, a tap after the other, and tiles go over lines.
func.func @lines(%x: memref<1x7x3x7x1536xf32, strided<[41472, 4608, 4608, 512, 1]>>, %w: memref<1x7x3x16x1536x32xf32, strided<[0, 0, 786432, 49152, 32, 1]>>, %y: memref<1x7x7x512xf32>) attributes {native.outputs = 1 : i64} {
  tile.brgemm %x, %w, %y() taps [3] : memref<1x7x3x7x1536xf32, strided<[41472, 4608, 4608, 512, 1]>>, memref<1x7x3x16x1536x32xf32, strided<[0, 0, 786432, 49152, 32, 1]>>, memref<1x7x7x512xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK-LABEL: func.func @lines
// CHECK:     schedule {tile = [14 : i64, 2 : i64], depth = 1536 : i64, rows = 7 : i64, lines = 2 : i64}
// AVX2-LABEL: func.func @lines
// AVX2:      schedule {tile = [6 : i64, 2 : i64], depth = 1536 : i64, rows = 7 : i64, lines = 7 : i64, taps = 1 : i64, unroll = 4 : i64}

// One row: three panels at once, three streams from memory; what is multiplied needs no registers.
func.func @row(%x: memref<1x1280xf32>, %w: memref<40x1280x32xf32>, %y: memref<1x1280xf32>) attributes {native.outputs = 1 : i64} {
  tile.brgemm %x, %w, %y() : memref<1x1280xf32>, memref<40x1280x32xf32>, memref<1x1280xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK-LABEL: func.func @row
// CHECK:     schedule {tile = [1 : i64, 2 : i64], depth = 1280 : i64, panels = 4 : i64}
// AVX2-LABEL: func.func @row
// AVX2:      schedule {tile = [1 : i64, 4 : i64], depth = 1280 : i64, panels = 3 : i64}

// Nine megabytes that the second cache does not hold: a few rows with their whole depth.
func.func @large(%x: memref<1500x1536xf32>, %w: memref<12x1536x32xf32>, %y: memref<1500x384xf32>) attributes {native.outputs = 1 : i64} {
  tile.brgemm %x, %w, %y() : memref<1500x1536xf32>, memref<12x1536x32xf32>, memref<1500x384xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK-LABEL: func.func @large
// CHECK:     schedule {tile = [14 : i64, 2 : i64], depth = 1536 : i64, rows = 56 : i64, unroll = 4 : i64}
// AVX2-LABEL: func.func @large
// AVX2:      schedule {tile = [6 : i64, 2 : i64], depth = 1536 : i64, rows = 30 : i64, unroll = 4 : i64}

// Weights that are much larger than what they are multiplied with: slices.
func.func @deep(%x: memref<128x8192xf32>, %w: memref<16x8192x32xf32>, %y: memref<128x512xf32>) attributes {native.outputs = 1 : i64} {
  tile.brgemm %x, %w, %y() : memref<128x8192xf32>, memref<16x8192x32xf32>, memref<128x512xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK-LABEL: func.func @deep
// CHECK:     schedule {tile = [14 : i64, 2 : i64], depth = 373 : i64, rows = 128 : i64}
