// RUN: et-opt -p 'tile-rows{cpu=x86-64-v3},verify-tile' %s | filecheck %s
// RUN: et-opt -p 'tile-rows{cpu=x86-64-v3},tile-plan,tile-schedule,verify-tile' %s | et-opt -p 'verify-tile{cpu=x86-64-v4}'
// RUN: et-opt -p 'tile-rows{cpu=cortex-m55}' %s | filecheck --check-prefix=SMALL %s

// A microcontroller's memory is small, and as quick as a cache: nothing is fused for it.
// SMALL-NOT: tile.rows
// SMALL-NOT: tile.loop

// An inverted residual block: 24 channels become 96, which are 3 of 98 rows in a ring and nowhere else. The first
// window's row above the image is border; the residual is read by the row.
func.func @block(%x: memref<1x96x96x24xf32>, %y: memref<1x96x96x24xf32>) attributes {native.outputs = 1 : i64} {
  %w0 = tile.weight "expand" panel 32 : i64 : memref<3x24x32xf32>
  %w1 = tile.weight "depthwise" : memref<9x96xf32>
  %w2 = tile.weight "project" panel 32 : i64 : memref<1x96x32xf32>
  %m = tile.buffer : memref<1x98x98x96xf32>
  %top = memref.reinterpret_cast %m to offset: [0], sizes: [1, 1, 98, 96], strides: [921984, 9408, 96, 1] : memref<1x98x98x96xf32> to memref<1x1x98x96xf32, strided<[921984, 9408, 96, 1]>>
  tile.map %top() : memref<1x1x98x96xf32, strided<[921984, 9408, 96, 1]>>() {
    %0 = arith.constant 0.0 : f32
    tile.yield %0 : f32
  }
  %bottom = memref.reinterpret_cast %m to offset: [912576], sizes: [1, 1, 98, 96], strides: [921984, 9408, 96, 1] : memref<1x98x98x96xf32> to memref<1x1x98x96xf32, strided<[921984, 9408, 96, 1]>>
  tile.map %bottom() : memref<1x1x98x96xf32, strided<[921984, 9408, 96, 1]>>() {
    %0 = arith.constant 0.0 : f32
    tile.yield %0 : f32
  }
  %sides = memref.reinterpret_cast %m to offset: [0], sizes: [1, 98, 2, 96], strides: [921984, 9408, 9312, 1] : memref<1x98x98x96xf32> to memref<1x98x2x96xf32, strided<[921984, 9408, 9312, 1]>>
  tile.map %sides() : memref<1x98x2x96xf32, strided<[921984, 9408, 9312, 1]>>() {
    %0 = arith.constant 0.0 : f32
    tile.yield %0 : f32
  }
  %b0 = memref.reinterpret_cast %w0 to offset: [0], sizes: [1, 96, 3, 24, 32], strides: [0, 0, 768, 32, 1] : memref<3x24x32xf32> to memref<1x96x3x24x32xf32, strided<[0, 0, 768, 32, 1]>>
  %inner = memref.reinterpret_cast %m to offset: [9504], sizes: [1, 96, 96, 96], strides: [921984, 9408, 96, 1] : memref<1x98x98x96xf32> to memref<1x96x96x96xf32, strided<[921984, 9408, 96, 1]>>
  tile.brgemm %x, %b0, %inner() : memref<1x96x96x24xf32>, memref<1x96x3x24x32xf32, strided<[0, 0, 768, 32, 1]>>, memref<1x96x96x96xf32, strided<[921984, 9408, 96, 1]>>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %windows = memref.reinterpret_cast %m to offset: [0], sizes: [1, 96, 96, 3, 3, 96], strides: [921984, 9408, 96, 9408, 96, 1] : memref<1x98x98x96xf32> to memref<1x96x96x3x3x96xf32, strided<[921984, 9408, 96, 9408, 96, 1]>>
  %taps = memref.reinterpret_cast %w1 to offset: [0], sizes: [3, 3, 96], strides: [288, 96, 1] : memref<9x96xf32> to memref<3x3x96xf32>
  %d = tile.buffer : memref<1x96x96x96xf32>
  tile.depthwise %windows, %taps, %d() : memref<1x96x96x3x3x96xf32, strided<[921984, 9408, 96, 9408, 96, 1]>>, memref<3x3x96xf32>, memref<1x96x96x96xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %d2 = memref.reinterpret_cast %d to offset: [0], sizes: [9216, 96], strides: [96, 1] : memref<1x96x96x96xf32> to memref<9216x96xf32>
  %x2 = memref.reinterpret_cast %x to offset: [0], sizes: [9216, 24], strides: [24, 1] : memref<1x96x96x24xf32> to memref<9216x24xf32>
  %y2 = memref.reinterpret_cast %y to offset: [0], sizes: [9216, 24], strides: [24, 1] : memref<1x96x96x24xf32> to memref<9216x24xf32>
  tile.brgemm %d2, %w2, %y2(%x2) : memref<9216x96xf32>, memref<1x96x32xf32>, memref<9216x24xf32>(memref<9216x24xf32>) {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.addf %0, %1 : f32
    tile.yield %2 : f32
  }
  func.return
}
// CHECK:      func.func @block
// CHECK-NOT:    98x98
// CHECK:        %[[RING:.*]] = tile.buffer : memref<4x3x98x96xf32>
// CHECK:        %[[TAPS:.*]] = tile.buffer : memref<5x3x96xf32>
// CHECK:        tile.map
// CHECK:        tile.map
// CHECK:        %[[ROW:.*]] = tile.buffer : memref<4x96x96xf32>
// CHECK:        tile.rows [1 : i64, 96 : i64] window [3 : i64, 1 : i64, 1 : i64, 96 : i64, 1 : i64] border 0.000000e+00 : f32
// CHECK-SAME:     turned(%[[TAPS]])
// CHECK-SAME:     ring %[[RING]] locals(%[[ROW]])
// CHECK-NEXT:   ^bb0
// CHECK-NEXT:     tile.brgemm %{{.*}}, %{{.*}}, %[[A:.*]]() : memref<96x24xf32>, memref<3x24x32xf32>, memref<96x96xf32>
// CHECK:        } {
// CHECK:          tile.depthwise
// CHECK-SAME:       memref<96x3x3x96xf32, strided<[96, 9408, 96, 1]>>, memref<3x3x96xf32>, memref<96x96xf32>
// CHECK:          tile.brgemm
// CHECK-SAME:       memref<96x96xf32>, memref<1x96x32xf32>, memref<96x24xf32>(memref<96x24xf32>)
// CHECK:          arith.addf
// CHECK-NOT:    tile.depthwise

// A pool of every second row and column, over a border of what never wins.
func.func @pool(%x: memref<1x64x64x8xf32>, %y: memref<1x32x32x32xf32>) attributes {native.outputs = 1 : i64} {
  %w = tile.weight "w" panel 32 : i64 : memref<1x8x32xf32>
  %m = tile.buffer : memref<1x65x65x32xf32>
  tile.map %m() : memref<1x65x65x32xf32>() {
    %0 = arith.constant 0xFF800000 : f32
    tile.yield %0 : f32
  }
  %b = memref.reinterpret_cast %w to offset: [0], sizes: [1, 64, 1, 8, 32], strides: [0, 0, 256, 32, 1] : memref<1x8x32xf32> to memref<1x64x1x8x32xf32, strided<[0, 0, 256, 32, 1]>>
  %inner = memref.reinterpret_cast %m to offset: [2112], sizes: [1, 64, 64, 32], strides: [135200, 2080, 32, 1] : memref<1x65x65x32xf32> to memref<1x64x64x32xf32, strided<[135200, 2080, 32, 1]>>
  tile.brgemm %x, %b, %inner() : memref<1x64x64x8xf32>, memref<1x64x1x8x32xf32, strided<[0, 0, 256, 32, 1]>>, memref<1x64x64x32xf32, strided<[135200, 2080, 32, 1]>>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %windows = memref.reinterpret_cast %m to offset: [0], sizes: [1, 32, 32, 3, 3, 32], strides: [135200, 4160, 64, 2080, 32, 1] : memref<1x65x65x32xf32> to memref<1x32x32x3x3x32xf32, strided<[135200, 4160, 64, 2080, 32, 1]>>
  tile.pool "max" %windows, %y() : memref<1x32x32x3x3x32xf32, strided<[135200, 4160, 64, 2080, 32, 1]>>, memref<1x32x32x32xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @pool
// CHECK:        tile.buffer : memref<4x3x65x32xf32>
// CHECK:        tile.rows [1 : i64, 32 : i64] window [3 : i64, 2 : i64, 1 : i64, 64 : i64, 1 : i64] border 0xff800000 : f32
// CHECK-SAME:     turned()
// CHECK-SAME:     locals()

// The image comes from memory: a loop over rows.
func.func @separable(%m: memref<1x66x66x32xf32>, %y: memref<1x64x64x32xf32>) attributes {native.outputs = 1 : i64} {
  %w1 = tile.weight "depthwise" : memref<9x32xf32>
  %w2 = tile.weight "point" panel 32 : i64 : memref<1x32x32xf32>
  %windows = memref.reinterpret_cast %m to offset: [0], sizes: [1, 64, 64, 3, 3, 32], strides: [139392, 2112, 32, 2112, 32, 1] : memref<1x66x66x32xf32> to memref<1x64x64x3x3x32xf32, strided<[139392, 2112, 32, 2112, 32, 1]>>
  %taps = memref.reinterpret_cast %w1 to offset: [0], sizes: [3, 3, 32], strides: [96, 32, 1] : memref<9x32xf32> to memref<3x3x32xf32>
  %d = tile.buffer : memref<1x64x64x32xf32>
  tile.depthwise %windows, %taps, %d() : memref<1x64x64x3x3x32xf32, strided<[139392, 2112, 32, 2112, 32, 1]>>, memref<3x3x32xf32>, memref<1x64x64x32xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %d2 = memref.reinterpret_cast %d to offset: [0], sizes: [4096, 32], strides: [32, 1] : memref<1x64x64x32xf32> to memref<4096x32xf32>
  %y2 = memref.reinterpret_cast %y to offset: [0], sizes: [4096, 32], strides: [32, 1] : memref<1x64x64x32xf32> to memref<4096x32xf32>
  tile.brgemm %d2, %w2, %y2() : memref<4096x32xf32>, memref<1x32x32xf32>, memref<4096x32xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @separable
// CHECK:        tile.buffer : memref<4x64x32xf32>
// CHECK:        tile.loop [1 : i64, 64 : i64]
// CHECK:          tile.depthwise
// CHECK:          tile.brgemm

// Of an image that is read twice, as squeeze-and-excitation does, every row is kept. A small one is, too.
func.func @squeeze(%m: memref<1x66x66x32xf32>, %y: memref<1x64x64x32xf32>, %z: memref<1x1x1x32xf32>) attributes {native.outputs = 2 : i64} {
  %w1 = tile.weight "depthwise" : memref<9x32xf32>
  %w2 = tile.weight "point" panel 32 : i64 : memref<1x32x32xf32>
  %windows = memref.reinterpret_cast %m to offset: [0], sizes: [1, 64, 64, 3, 3, 32], strides: [139392, 2112, 32, 2112, 32, 1] : memref<1x66x66x32xf32> to memref<1x64x64x3x3x32xf32, strided<[139392, 2112, 32, 2112, 32, 1]>>
  %taps = memref.reinterpret_cast %w1 to offset: [0], sizes: [3, 3, 32], strides: [96, 32, 1] : memref<9x32xf32> to memref<3x3x32xf32>
  %d = tile.buffer : memref<1x64x64x32xf32>
  tile.depthwise %windows, %taps, %d() : memref<1x64x64x3x3x32xf32, strided<[139392, 2112, 32, 2112, 32, 1]>>, memref<3x3x32xf32>, memref<1x64x64x32xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %all = memref.reinterpret_cast %d to offset: [0], sizes: [1, 1, 1, 64, 64, 32], strides: [131072, 131072, 131072, 2048, 32, 1] : memref<1x64x64x32xf32> to memref<1x1x1x64x64x32xf32, strided<[131072, 131072, 131072, 2048, 32, 1]>>
  tile.pool "mean" %all, %z() : memref<1x1x1x64x64x32xf32, strided<[131072, 131072, 131072, 2048, 32, 1]>>, memref<1x1x1x32xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %d2 = memref.reinterpret_cast %d to offset: [0], sizes: [4096, 32], strides: [32, 1] : memref<1x64x64x32xf32> to memref<4096x32xf32>
  %y2 = memref.reinterpret_cast %y to offset: [0], sizes: [4096, 32], strides: [32, 1] : memref<1x64x64x32xf32> to memref<4096x32xf32>
  tile.brgemm %d2, %w2, %y2() : memref<4096x32xf32>, memref<1x32x32xf32>, memref<4096x32xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @squeeze
// CHECK-NOT:    tile.loop
// CHECK-NOT:    tile.rows
