// RUN: not et-opt -p 'verify-tile{cpu=x86-64-v3}' --split-input-file %s 2>&1 | filecheck %s
// RUN: not et-opt -p verify-tile --split-input-file %s 2>&1 | filecheck --check-prefix=ANY %s

// Functions that were changed by hand, one mistake each. The first one is right and says nothing: a window whose border
// is filled, a residual in the memory of the result, places that are used twice.
func.func @correct(%x: memref<6x6x8xf32>, %y: memref<6x6x8xf32>) attributes {native.outputs = 1 : i64} {
  %w = tile.weight "w" : memref<9x8xf32>
  %image = tile.buffer at 0 : i64 : memref<8x8x8xf32>
  %a = tile.buffer at 2048 : i64 : memref<6x6x8xf32>
  %b = tile.buffer at 0 : i64 : memref<6x6x8xf32>
  tile.map %image() : memref<8x8x8xf32>() {
    %0 = arith.constant 0.0 : f32
    tile.yield %0 : f32
  }
  %inner = memref.reinterpret_cast %image to offset: [72], sizes: [6, 6, 8], strides: [64, 8, 1] : memref<8x8x8xf32> to memref<6x6x8xf32, strided<[64, 8, 1]>>
  tile.map %inner(%x) : memref<6x6x8xf32, strided<[64, 8, 1]>>(memref<6x6x8xf32>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %windows = memref.reinterpret_cast %image to offset: [0], sizes: [6, 6, 3, 3, 8], strides: [64, 8, 64, 8, 1] : memref<8x8x8xf32> to memref<6x6x3x3x8xf32, strided<[64, 8, 64, 8, 1]>>
  %taps = memref.reinterpret_cast %w to offset: [0], sizes: [3, 3, 8], strides: [24, 8, 1] : memref<9x8xf32> to memref<3x3x8xf32>
  tile.depthwise %windows, %taps, %a() schedule {columns = 4 : i64} : memref<6x6x3x3x8xf32, strided<[64, 8, 64, 8, 1]>>, memref<3x3x8xf32>, memref<6x6x8xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  tile.map %a(%a, %x) : memref<6x6x8xf32>(memref<6x6x8xf32>, memref<6x6x8xf32>) {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.addf %0, %1 : f32
    tile.yield %2 : f32
  }
  tile.softmax %a, %b : memref<6x6x8xf32>, memref<6x6x8xf32>
  tile.softmax %b, %y : memref<6x6x8xf32>, memref<6x6x8xf32>
  func.return
}

// -----

// CHECK-NOT: correct
// One float after the end of the argument.
// CHECK: verify-tile.mlir:43:3: error[E1166]: 'tile.softmax' touches floats 1 to 24 of input 0, which has 24
func.func @offset(%x: memref<24xf32>, %y: memref<4x6xf32>) attributes {native.outputs = 1 : i64} {
  %v = memref.reinterpret_cast %x to offset: [1], sizes: [4, 6], strides: [6, 1] : memref<24xf32> to memref<4x6xf32>
  tile.softmax %v, %y : memref<4x6xf32>, memref<4x6xf32>
  func.return
}

// -----

// A cast of a cast counts from the start of the memory; strides go further than the extents.
// CHECK: error[E1166]: 'tile.softmax' touches floats 3 to 29 of input 0, which has 24
func.func @stride(%x: memref<24xf32>, %y: memref<4x6xf32>) attributes {native.outputs = 1 : i64} {
  %v = memref.reinterpret_cast %x to offset: [1], sizes: [23], strides: [1] : memref<24xf32> to memref<23xf32>
  %u = memref.reinterpret_cast %v to offset: [2], sizes: [4, 6], strides: [7, 1] : memref<23xf32> to memref<4x6xf32, strided<[7, 1]>>
  tile.softmax %u, %y : memref<4x6xf32, strided<[7, 1]>>, memref<4x6xf32>
  func.return
}

// -----

// CHECK: error[E1166]: 'tile.map' touches floats -6 to 17 of input 0
func.func @before(%x: memref<24xf32>, %y: memref<4x6xf32>) attributes {native.outputs = 1 : i64} {
  %v = memref.reinterpret_cast %x to offset: [12], sizes: [4, 6], strides: [-6, 1] : memref<24xf32> to memref<4x6xf32, strided<[-6, 1]>>
  tile.map %y(%v) : memref<4x6xf32>(memref<4x6xf32, strided<[-6, 1]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}

// -----

// CHECK: error[E1166]: a cast has the sizes [4, 6] and strides [5, 1], other than its type
func.func @cast(%x: memref<24xf32>, %y: memref<4x6xf32>) attributes {native.outputs = 1 : i64} {
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [4, 6], strides: [5, 1] : memref<24xf32> to memref<4x6xf32>
  tile.softmax %v, %y : memref<4x6xf32>, memref<4x6xf32>
  func.return
}

// -----

// CHECK: error[E1166]: 'tile.softmax' writes input 0, which is only read
func.func @writes_input(%x: memref<24xf32>, %y: memref<24xf32>) attributes {native.outputs = 1 : i64} {
  tile.softmax %x, %y : memref<24xf32>, memref<24xf32>
  tile.softmax %y, %x : memref<24xf32>, memref<24xf32>
  func.return
}

// -----

// CHECK: error[E1166]: 'tile.softmax' writes floats twice
func.func @twice(%x: memref<4x6xf32>, %y: memref<24xf32>) attributes {native.outputs = 1 : i64} {
  %v = memref.reinterpret_cast %y to offset: [0], sizes: [4, 6], strides: [5, 1] : memref<24xf32> to memref<4x6xf32, strided<[5, 1]>>
  tile.softmax %x, %v : memref<4x6xf32>, memref<4x6xf32, strided<[5, 1]>>
  func.return
}

// -----

// CHECK: error[E1166]: input 0 is not row-major
func.func @argument(%x: memref<4x6xf32, strided<[7, 1]>>, %y: memref<4x6xf32>) attributes {native.outputs = 1 : i64} {
  tile.softmax %x, %y : memref<4x6xf32, strided<[7, 1]>>, memref<4x6xf32>
  func.return
}

// -----

// CHECK: error[E1166]: weight 'w' is in panels of 16, which memref<1x20x32xf32> has not
func.func @panel(%x: memref<30x20xf32>, %y: memref<30x32xf32>) attributes {native.outputs = 1 : i64} {
  %w = tile.weight "w" panel 16 : i64 : memref<1x20x32xf32>
  tile.brgemm %x, %w, %y() schedule {tile = [4 : i64, 2 : i64], depth = 20 : i64, rows = 30 : i64} : memref<30x20xf32>, memref<1x20x32xf32>, memref<30x32xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}

// -----

// CHECK: error[E1167]: the buffer %b at 128 of memref<64xf32> is at bytes [128, 384), where the buffer %a at 0 of memref<64xf32> is at the same time
func.func @overlap(%x: memref<64xf32>, %y: memref<64xf32>) attributes {native.outputs = 1 : i64} {
  %a = tile.buffer at 0 : i64 : memref<64xf32>
  %b = tile.buffer at 128 : i64 : memref<64xf32>
  tile.softmax %x, %a : memref<64xf32>, memref<64xf32>
  tile.softmax %a, %b : memref<64xf32>, memref<64xf32>
  tile.softmax %b, %y : memref<64xf32>, memref<64xf32>
  func.return
}

// -----

// CHECK: error[E1167]: {{.*}}is not at a multiple of 4 bytes
func.func @place(%x: memref<64xf32>, %y: memref<64xf32>) attributes {native.outputs = 1 : i64} {
  %a = tile.buffer at 2 : i64 : memref<64xf32>
  tile.softmax %x, %a : memref<64xf32>, memref<64xf32>
  tile.softmax %a, %y : memref<64xf32>, memref<64xf32>
  func.return
}

// -----

// CHECK: error[E1167]: {{.*}}has no place
func.func @no_place(%x: memref<64xf32>, %y: memref<64xf32>) attributes {native.outputs = 1 : i64} {
  %a = tile.buffer at 0 : i64 : memref<64xf32>
  %b = tile.buffer : memref<64xf32>
  tile.softmax %x, %a : memref<64xf32>, memref<64xf32>
  tile.softmax %a, %b : memref<64xf32>, memref<64xf32>
  tile.softmax %b, %y : memref<64xf32>, memref<64xf32>
  func.return
}

// -----

// The row after the last one of the image: nothing has written it.
// CHECK: error[E1168]: 'tile.pool' reads floats 0 to 63 of the buffer %image at 0 {{.*}}, of which some are not written before
func.func @border(%x: memref<3x4x4xf32>, %y: memref<2x2x4xf32>) attributes {native.outputs = 1 : i64} {
  %image = tile.buffer at 0 : i64 : memref<4x4x4xf32>
  %inner = memref.reinterpret_cast %image to offset: [0], sizes: [3, 4, 4], strides: [16, 4, 1] : memref<4x4x4xf32> to memref<3x4x4xf32>
  tile.map %inner(%x) : memref<3x4x4xf32>(memref<3x4x4xf32>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %windows = memref.reinterpret_cast %image to offset: [0], sizes: [2, 2, 3, 3, 4], strides: [16, 4, 16, 4, 1] : memref<4x4x4xf32> to memref<2x2x3x3x4xf32, strided<[16, 4, 16, 4, 1]>>
  tile.pool "max" %windows, %y() : memref<2x2x3x3x4xf32, strided<[16, 4, 16, 4, 1]>>, memref<2x2x4xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}

// -----

// CHECK: verify-tile.mlir:{{[0-9]+}}:1: error[E1168]: output 1 is not written to the last float
func.func @not_all(%x: memref<4x6xf32>, %y: memref<5x6xf32>) attributes {native.outputs = 1 : i64} {
  %v = memref.reinterpret_cast %y to offset: [0], sizes: [4, 6], strides: [6, 1] : memref<5x6xf32> to memref<4x6xf32>
  tile.softmax %x, %v : memref<4x6xf32>, memref<4x6xf32>
  func.return
}

// -----

// A product reads rows of a when others are written already.
// CHECK: error[E1168]: 'tile.brgemm' writes floats 0 to 1023 of output 2 while it reads floats 0 to 1023 of it
func.func @in_place(%x: memref<32x32xf32>, %w: memref<1x32x32xf32>, %y: memref<32x32xf32>) attributes {native.outputs = 1 : i64} {
  tile.softmax %x, %y : memref<32x32xf32>, memref<32x32xf32>
  tile.brgemm %y, %w, %y() schedule {tile = [4 : i64, 2 : i64], depth = 32 : i64, rows = 32 : i64} : memref<32x32xf32>, memref<1x32x32xf32>, memref<32x32xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}

// -----

// With two slices of depth, sums lie in the result before the residual there is read.
// CHECK: error[E1168]: 'tile.brgemm' writes floats 0 to 1023 of output 2 while it reads floats 0 to 1023 of it
func.func @residual(%x: memref<32x32xf32>, %w: memref<1x32x32xf32>, %y: memref<32x32xf32>) attributes {native.outputs = 1 : i64} {
  tile.softmax %x, %y : memref<32x32xf32>, memref<32x32xf32>
  tile.brgemm %x, %w, %y(%y) schedule {tile = [4 : i64, 2 : i64], depth = 16 : i64, rows = 32 : i64} : memref<32x32xf32>, memref<1x32x32xf32>, memref<32x32xf32>(memref<32x32xf32>) {
  ^bb0(%0: f32, %1: f32):
    %2 = arith.addf %0, %1 : f32
    tile.yield %2 : f32
  }
  func.return
}

// -----

// CHECK: error[E1164]: tile.brgemm on x86-64-v3: a block of 64 rows, of 30
func.func @rows(%x: memref<30x20xf32>, %w: memref<1x20x32xf32>, %y: memref<30x32xf32>) attributes {native.outputs = 1 : i64} {
  tile.brgemm %x, %w, %y() schedule {tile = [4 : i64, 2 : i64], depth = 20 : i64, rows = 64 : i64} : memref<30x20xf32>, memref<1x20x32xf32>, memref<30x32xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}

// -----

// CHECK: error[E1164]: {{.*}}needs more than 16 registers
func.func @registers(%x: memref<30x20xf32>, %w: memref<1x20x32xf32>, %y: memref<30x32xf32>) attributes {native.outputs = 1 : i64} {
  tile.brgemm %x, %w, %y() schedule {tile = [14 : i64, 2 : i64], depth = 20 : i64, rows = 30 : i64} : memref<30x20xf32>, memref<1x20x32xf32>, memref<30x32xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}

// -----

// CHECK: error[E1164]: {{.*}}a schedule has no entry 'columns'; there are tile, depth, rows, panels
// ANY: error[E1164]: {{.*}}a schedule has no entry 'columns'
func.func @entry(%x: memref<30x20xf32>, %w: memref<1x20x32xf32>, %y: memref<30x32xf32>) attributes {native.outputs = 1 : i64} {
  tile.brgemm %x, %w, %y() schedule {columns = 4 : i64} : memref<30x20xf32>, memref<1x20x32xf32>, memref<30x32xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}

// -----

// CHECK: error[E1164]: {{.*}}'tile' of a schedule is 2 integers
func.func @numbers(%x: memref<30x20xf32>, %w: memref<1x20x32xf32>, %y: memref<30x32xf32>) attributes {native.outputs = 1 : i64} {
  tile.brgemm %x, %w, %y() schedule {tile = [4 : i64], depth = 20 : i64, rows = 30 : i64} : memref<30x20xf32>, memref<1x20x32xf32>, memref<30x32xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}

// -----

// Rows of a panel may have gaps, as those of a matrix have, but not its columns: they are vectors.
// CHECK: error[E1164]: {{.*}}columns of a panel lie side by side
func.func @gaps(%x: memref<30x20xf32>, %w: memref<2000xf32>, %y: memref<30x64xf32>) attributes {native.outputs = 1 : i64} {
  %v = memref.reinterpret_cast %w to offset: [0], sizes: [2, 20, 32], strides: [700, 64, 2] : memref<2000xf32> to memref<2x20x32xf32, strided<[700, 64, 2]>>
  tile.brgemm %x, %v, %y() schedule {tile = [4 : i64, 2 : i64], depth = 20 : i64, rows = 30 : i64} : memref<30x20xf32>, memref<2x20x32xf32, strided<[700, 64, 2]>>, memref<30x64xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}

// -----

// CHECK: error[E1169]: the body of 'tile.map' has 'math.atan', of which there is no C
func.func @body(%x: memref<24xf32>, %y: memref<24xf32>) attributes {native.outputs = 1 : i64} {
  tile.map %y(%x) : memref<24xf32>(memref<24xf32>) {
  ^bb0(%0: f32):
    %1 = math.atan %0 : f32
    tile.yield %1 : f32
  }
  func.return
}

// -----

// CHECK: error[E1169]: native.outputs says how many of the last arguments are outputs
func.func @outputs(%x: memref<24xf32>, %y: memref<24xf32>) attributes {native.outputs = 3 : i64} {
  tile.softmax %x, %y : memref<24xf32>, memref<24xf32>
  func.return
}

// -----

// CHECK: error[E1166]: output 1 has more bytes than 32 bits can say
func.func @large(%x: memref<4x6xf32>, %y: memref<2147483648x6xf32>) attributes {native.outputs = 1 : i64} {
  %v = memref.reinterpret_cast %y to offset: [0], sizes: [4, 6], strides: [6, 1] : memref<2147483648x6xf32> to memref<4x6xf32>
  tile.softmax %x, %v : memref<4x6xf32>, memref<4x6xf32>
  func.return
}

// -----

// CHECK: error[E0301]: {{.*}}, taps, taps, c], c [..., w, c]
// ANY: error[E0301]: {{.*}}, taps, taps, c], c [..., w, c]
func.func @row(%x: memref<3x3x8xf32>, %y: memref<8xf32>) attributes {native.outputs = 1 : i64} {
  tile.pool "max" %x, %y() : memref<3x3x8xf32>, memref<8xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}

// -----

// Rows of an image in a ring: what is right, but for one number. The window has more rows than the ring.
// CHECK: error[E0301]: 'tile.rows' the ring is slots of 4 rows of columns and channels
func.func @ring(%x: memref<1x6x4x8xf32>, %t: memref<7x3x8xf32>, %y: memref<1x6x4x8xf32>) attributes {native.outputs = 1 : i64} {
  %m = tile.buffer at 0 : i64 : memref<2x3x6x8xf32>
  tile.rows [1 : i64, 6 : i64] window [4 : i64, 1 : i64, 1 : i64, 6 : i64, 1 : i64] border 0.0 : f32 above(%x) inputs() turned(%t) -> (%y) ring %m locals() steps [array<i64: 0, 32>, array<i64: 24>, array<i64: 0, 32>] : (memref<1x6x4x8xf32>)()(memref<7x3x8xf32>) -> (memref<1x6x4x8xf32>), memref<2x3x6x8xf32>() {
  ^bb0(%x0: memref<4x8xf32>, %row: memref<4x8xf32>):
    tile.map %row(%x0) : memref<4x8xf32>(memref<4x8xf32>) {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  } {
  ^bb0(%w: memref<3x3x8xf32>, %rows: memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, %y0: memref<4x8xf32>):
    tile.depthwise %rows, %w, %y0() schedule {columns = 4 : i64} : memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, memref<3x3x8xf32>, memref<4x8xf32>() {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  }
  func.return
}

// -----

// More rows of the result than the memory has.
// CHECK: error[E0301]: 'tile.rows' parts of memref<4x8xf32> do not lie in memref<1x6x4x8xf32>
func.func @rows_of_result(%x: memref<1x6x4x8xf32>, %t: memref<5x3x8xf32>, %y: memref<1x6x4x8xf32>) attributes {native.outputs = 1 : i64} {
  %m = tile.buffer at 0 : i64 : memref<2x3x6x8xf32>
  tile.rows [1 : i64, 7 : i64] window [3 : i64, 1 : i64, 1 : i64, 6 : i64, 1 : i64] border 0.0 : f32 above(%x) inputs() turned(%t) -> (%y) ring %m locals() steps [array<i64: 0, 32>, array<i64: 24>, array<i64: 0, 32>] : (memref<1x6x4x8xf32>)()(memref<5x3x8xf32>) -> (memref<1x6x4x8xf32>), memref<2x3x6x8xf32>() {
  ^bb0(%x0: memref<4x8xf32>, %row: memref<4x8xf32>):
    tile.map %row(%x0) : memref<4x8xf32>(memref<4x8xf32>) {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  } {
  ^bb0(%w: memref<3x3x8xf32>, %rows: memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, %y0: memref<4x8xf32>):
    tile.depthwise %rows, %w, %y0() schedule {columns = 4 : i64} : memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, memref<3x3x8xf32>, memref<4x8xf32>() {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  }
  func.return
}

// -----

// The image has a row more than what is read of it.
// CHECK: error[E0301]: 'tile.rows' parts of memref<4x8xf32> do not lie in memref<1x6x4x8xf32>
func.func @rows_of_image(%x: memref<1x6x4x8xf32>, %t: memref<5x3x8xf32>, %y: memref<1x6x4x8xf32>) attributes {native.outputs = 1 : i64} {
  %m = tile.buffer at 0 : i64 : memref<2x3x6x8xf32>
  tile.rows [1 : i64, 6 : i64] window [3 : i64, 1 : i64, 1 : i64, 7 : i64, 1 : i64] border 0.0 : f32 above(%x) inputs() turned(%t) -> (%y) ring %m locals() steps [array<i64: 0, 32>, array<i64: 24>, array<i64: 0, 32>] : (memref<1x6x4x8xf32>)()(memref<5x3x8xf32>) -> (memref<1x6x4x8xf32>), memref<2x3x6x8xf32>() {
  ^bb0(%x0: memref<4x8xf32>, %row: memref<4x8xf32>):
    tile.map %row(%x0) : memref<4x8xf32>(memref<4x8xf32>) {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  } {
  ^bb0(%w: memref<3x3x8xf32>, %rows: memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, %y0: memref<4x8xf32>):
    tile.depthwise %rows, %w, %y0() schedule {columns = 4 : i64} : memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, memref<3x3x8xf32>, memref<4x8xf32>() {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  }
  func.return
}

// -----

// Weights of the window once only.
// CHECK: error[E0301]: 'tile.rows' parts of memref<3x3x8xf32> do not lie in memref<5x3x8xf32>
func.func @turned(%x: memref<1x6x4x8xf32>, %t: memref<5x3x8xf32>, %y: memref<1x6x4x8xf32>) attributes {native.outputs = 1 : i64} {
  %m = tile.buffer at 0 : i64 : memref<2x3x6x8xf32>
  tile.rows [1 : i64, 6 : i64] window [3 : i64, 1 : i64, 1 : i64, 6 : i64, 1 : i64] border 0.0 : f32 above(%x) inputs() turned(%t) -> (%y) ring %m locals() steps [array<i64: 0, 32>, array<i64: 48>, array<i64: 0, 32>] : (memref<1x6x4x8xf32>)()(memref<5x3x8xf32>) -> (memref<1x6x4x8xf32>), memref<2x3x6x8xf32>() {
  ^bb0(%x0: memref<4x8xf32>, %row: memref<4x8xf32>):
    tile.map %row(%x0) : memref<4x8xf32>(memref<4x8xf32>) {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  } {
  ^bb0(%w: memref<3x3x8xf32>, %rows: memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, %y0: memref<4x8xf32>):
    tile.depthwise %rows, %w, %y0() schedule {columns = 4 : i64} : memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, memref<3x3x8xf32>, memref<4x8xf32>() {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  }
  func.return
}

// -----

// The row of the image ends outside of the ring's row.
// CHECK: error[E0301]: 'tile.rows' 4 columns and 3 before them are no row of 6
func.func @columns(%x: memref<1x6x4x8xf32>, %t: memref<5x3x8xf32>, %y: memref<1x6x4x8xf32>) attributes {native.outputs = 1 : i64} {
  %m = tile.buffer at 0 : i64 : memref<2x3x6x8xf32>
  tile.rows [1 : i64, 6 : i64] window [3 : i64, 1 : i64, 1 : i64, 6 : i64, 3 : i64] border 0.0 : f32 above(%x) inputs() turned(%t) -> (%y) ring %m locals() steps [array<i64: 0, 32>, array<i64: 24>, array<i64: 0, 32>] : (memref<1x6x4x8xf32>)()(memref<5x3x8xf32>) -> (memref<1x6x4x8xf32>), memref<2x3x6x8xf32>() {
  ^bb0(%x0: memref<4x8xf32>, %row: memref<4x8xf32>):
    tile.map %row(%x0) : memref<4x8xf32>(memref<4x8xf32>) {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  } {
  ^bb0(%w: memref<3x3x8xf32>, %rows: memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, %y0: memref<4x8xf32>):
    tile.depthwise %rows, %w, %y0() schedule {columns = 4 : i64} : memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, memref<3x3x8xf32>, memref<4x8xf32>() {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  }
  func.return
}

// -----

// Rows between windows would be computed and never read.
// CHECK: error[E0301]: 'tile.rows' windows meet each other and the image
func.func @stride_of_rows(%x: memref<1x6x4x8xf32>, %t: memref<5x3x8xf32>, %y: memref<1x6x4x8xf32>) attributes {native.outputs = 1 : i64} {
  %m = tile.buffer at 0 : i64 : memref<2x3x6x8xf32>
  tile.rows [1 : i64, 6 : i64] window [3 : i64, 4 : i64, 1 : i64, 6 : i64, 1 : i64] border 0.0 : f32 above(%x) inputs() turned(%t) -> (%y) ring %m locals() steps [array<i64: 0, 32>, array<i64: 24>, array<i64: 0, 32>] : (memref<1x6x4x8xf32>)()(memref<5x3x8xf32>) -> (memref<1x6x4x8xf32>), memref<2x3x6x8xf32>() {
  ^bb0(%x0: memref<4x8xf32>, %row: memref<4x8xf32>):
    tile.map %row(%x0) : memref<4x8xf32>(memref<4x8xf32>) {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  } {
  ^bb0(%w: memref<3x3x8xf32>, %rows: memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, %y0: memref<4x8xf32>):
    tile.depthwise %rows, %w, %y0() schedule {columns = 4 : i64} : memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, memref<3x3x8xf32>, memref<4x8xf32>() {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  }
  func.return
}

// -----

// Rows of the result overlap.
// CHECK: error[E1166]: 'tile.rows' writes floats twice
func.func @rows_twice(%x: memref<1x6x4x8xf32>, %t: memref<5x3x8xf32>, %y: memref<1x6x4x8xf32>) attributes {native.outputs = 1 : i64} {
  %m = tile.buffer at 0 : i64 : memref<2x3x6x8xf32>
  tile.rows [1 : i64, 6 : i64] window [3 : i64, 1 : i64, 1 : i64, 6 : i64, 1 : i64] border 0.0 : f32 above(%x) inputs() turned(%t) -> (%y) ring %m locals() steps [array<i64: 0, 32>, array<i64: 24>, array<i64: 0, 16>] : (memref<1x6x4x8xf32>)()(memref<5x3x8xf32>) -> (memref<1x6x4x8xf32>), memref<2x3x6x8xf32>() {
  ^bb0(%x0: memref<4x8xf32>, %row: memref<4x8xf32>):
    tile.map %row(%x0) : memref<4x8xf32>(memref<4x8xf32>) {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  } {
  ^bb0(%w: memref<3x3x8xf32>, %rows: memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, %y0: memref<4x8xf32>):
    tile.depthwise %rows, %w, %y0() schedule {columns = 4 : i64} : memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, memref<3x3x8xf32>, memref<4x8xf32>() {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  }
  func.return
}

// -----

// A part of the row stays as it was.
// CHECK: error[E1168]: part 1 of 'tile.rows' is not written to the last float
func.func @row_not_written(%x: memref<1x6x4x8xf32>, %t: memref<5x3x8xf32>, %y: memref<1x6x4x8xf32>) attributes {native.outputs = 1 : i64} {
  %m = tile.buffer at 0 : i64 : memref<2x3x6x8xf32>
  tile.rows [1 : i64, 6 : i64] window [3 : i64, 1 : i64, 1 : i64, 6 : i64, 1 : i64] border 0.0 : f32 above(%x) inputs() turned(%t) -> (%y) ring %m locals() steps [array<i64: 0, 32>, array<i64: 24>, array<i64: 0, 32>] : (memref<1x6x4x8xf32>)()(memref<5x3x8xf32>) -> (memref<1x6x4x8xf32>), memref<2x3x6x8xf32>() {
  ^bb0(%x0: memref<4x8xf32>, %row: memref<4x8xf32>):
  } {
  ^bb0(%w: memref<3x3x8xf32>, %rows: memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, %y0: memref<4x8xf32>):
    tile.depthwise %rows, %w, %y0() schedule {columns = 4 : i64} : memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, memref<3x3x8xf32>, memref<4x8xf32>() {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  }
  func.return
}

// -----

// What is read of the image's memory is written by an earlier row.
// CHECK: error[E1168]: 'tile.rows' writes floats 0 to 191 of output 1 while it reads floats 0 to 191 of it
func.func @own_image(%t: memref<5x3x8xf32>, %y: memref<1x6x4x8xf32>) attributes {native.outputs = 1 : i64} {
  tile.map %y() : memref<1x6x4x8xf32>() {
    %0 = arith.constant 0.0 : f32
    tile.yield %0 : f32
  }
  %x = memref.reinterpret_cast %y to offset: [0], sizes: [1, 6, 4, 8], strides: [192, 32, 8, 1] : memref<1x6x4x8xf32> to memref<1x6x4x8xf32>
  %m = tile.buffer at 0 : i64 : memref<2x3x6x8xf32>
  tile.rows [1 : i64, 6 : i64] window [3 : i64, 1 : i64, 1 : i64, 6 : i64, 1 : i64] border 0.0 : f32 above(%x) inputs() turned(%t) -> (%y) ring %m locals() steps [array<i64: 0, 32>, array<i64: 24>, array<i64: 0, 32>] : (memref<1x6x4x8xf32>)()(memref<5x3x8xf32>) -> (memref<1x6x4x8xf32>), memref<2x3x6x8xf32>() {
  ^bb0(%x0: memref<4x8xf32>, %row: memref<4x8xf32>):
    tile.map %row(%x0) : memref<4x8xf32>(memref<4x8xf32>) {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  } {
  ^bb0(%w: memref<3x3x8xf32>, %rows: memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, %y0: memref<4x8xf32>):
    tile.depthwise %rows, %w, %y0() schedule {columns = 4 : i64} : memref<4x3x3x8xf32, strided<[8, 48, 8, 1]>>, memref<3x3x8xf32>, memref<4x8xf32>() {
    ^bb0(%0: f32):
      tile.yield %0 : f32
    }
  }
  func.return
}

// -----

// A map may write over what it reads, float for float, and not one float further on.
// CHECK: error[E1167]: the buffer at 4 of memref<16xf32> is at bytes [4, 68), where the buffer at 0 of memref<17xf32> is at the same time ([0, 68))
func.func @over(%x: memref<17xf32>, %y: memref<16xf32>, %z: memref<16xf32>) attributes {native.outputs = 2 : i64} {
  %0 = tile.buffer at 0 : i64 : memref<17xf32>
  %1 = tile.buffer at 4 : i64 : memref<16xf32>
  %2 = tile.buffer at 4 : i64 : memref<16xf32>
  %part = memref.reinterpret_cast %0 to offset: [0], sizes: [16], strides: [1] : memref<17xf32> to memref<16xf32>
  tile.map %0(%x) : memref<17xf32>(memref<17xf32>) {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  tile.map %1(%part) : memref<16xf32>(memref<16xf32>) {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  tile.map %2(%1) : memref<16xf32>(memref<16xf32>) {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  tile.map %y(%2) : memref<16xf32>(memref<16xf32>) {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  tile.map %z(%2) : memref<16xf32>(memref<16xf32>) {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  func.return
}

// -----

// What is joined may not write where an operand waits for its turn.
// CHECK: error[E1167]: the buffer at 64 of memref<16xf32> is at bytes [64, 128), where the buffer at 0 of memref<2x16xf32> is at the same time ([0, 128))
func.func @joined(%x: memref<16xf32>, %y: memref<2x16xf32>) attributes {native.outputs = 1 : i64} {
  %0 = tile.buffer at 64 : i64 : memref<16xf32>
  %1 = tile.buffer at 0 : i64 : memref<2x16xf32>
  %one = memref.reinterpret_cast %1 to offset: [0], sizes: [16], strides: [1] : memref<2x16xf32> to memref<16xf32>
  %two = memref.reinterpret_cast %1 to offset: [16], sizes: [16], strides: [1] : memref<2x16xf32> to memref<16xf32>
  tile.map %0(%x) : memref<16xf32>(memref<16xf32>) {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  tile.map %two(%x) : memref<16xf32>(memref<16xf32>) {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  tile.map %one(%0) : memref<16xf32>(memref<16xf32>) {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  tile.softmax %1, %y : memref<2x16xf32>, memref<2x16xf32>
  func.return
}

// -----

// What ends a body stands in one.
// CHECK: error[E0301]: 'tile.yield' it ends the body of an operation that a template executes
func.func @nowhere(%x: f32) attributes {native.outputs = 0 : i64} {
  tile.yield %x : f32
}

// -----

// Taps outside of an image count as 0, but the image is in its memory.
// CHECK: error[E1166]: 'tile.depthwise_inside' touches floats 1 to 128 of input 0, which has 128
func.func @beside(%x: memref<4x4x8xf32>, %y: memref<4x4x8xf32>) attributes {native.outputs = 1 : i64} {
  %w = tile.weight "w" : memref<5x5x8xf32>
  %v = memref.reinterpret_cast %x to offset: [1], sizes: [4, 4, 8], strides: [32, 8, 1] : memref<4x4x8xf32> to memref<4x4x8xf32, strided<[32, 8, 1]>>
  tile.depthwise_inside %v, %w, %y() strides [1, 1] before [2, 2] dilation [1, 1] : memref<4x4x8xf32, strided<[32, 8, 1]>>, memref<5x5x8xf32>, memref<4x4x8xf32>() {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  func.return
}

// -----

// CHECK: error[E0301]: 'tile.depthwise_inside' strides and dilation are 1 at least
func.func @standing(%x: memref<4x4x8xf32>, %y: memref<4x4x8xf32>) attributes {native.outputs = 1 : i64} {
  %w = tile.weight "w" : memref<5x5x8xf32>
  tile.depthwise_inside %x, %w, %y() strides [0, 1] before [2, 2] dilation [1, 1] : memref<4x4x8xf32>, memref<5x5x8xf32>, memref<4x4x8xf32>() {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  func.return
}

// -----

// Every pixel of an image that is resized is written before, as far as anyone may read it.
// CHECK: error[E1166]: 'tile.resize' touches floats 1 to 128 of input 0, which has 128
func.func @resized_beside(%x: memref<4x4x8xf32>, %y: memref<8x8x8xf32>) attributes {native.outputs = 1 : i64} {
  %v = memref.reinterpret_cast %x to offset: [1], sizes: [4, 4, 8], strides: [32, 8, 1] : memref<4x4x8xf32> to memref<4x4x8xf32, strided<[32, 8, 1]>>
  tile.resize %v, %y() scales [0.5 : f64, 0.5 : f64] : memref<4x4x8xf32, strided<[32, 8, 1]>>, memref<8x8x8xf32>() {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  func.return
}

// -----

// Channels of the result lie side by side, those of the image two apart, and columns of the result eight.
// CHECK: error[E1164]: {{.*}}channels of every operand lie side by side, or columns of the result and of the extra operands
func.func @neither(%x: memref<4x4x16xf32>, %y: memref<8x8x8xf32>) attributes {native.outputs = 1 : i64} {
  %v = memref.reinterpret_cast %x to offset: [0], sizes: [4, 4, 8], strides: [64, 16, 2] : memref<4x4x16xf32> to memref<4x4x8xf32, strided<[64, 16, 2]>>
  tile.resize %v, %y() scales [0.5 : f64, 0.5 : f64] : memref<4x4x8xf32, strided<[64, 16, 2]>>, memref<8x8x8xf32>() {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  func.return
}

// -----

// CHECK: error[E0301]: 'tile.resize' scales are two numbers that are not negative, of rows and of columns
func.func @backwards(%x: memref<4x4x8xf32>, %y: memref<8x8x8xf32>) attributes {native.outputs = 1 : i64} {
  tile.resize %x, %y() scales [0.5 : f64, -0.5 : f64] aligned : memref<4x4x8xf32>, memref<8x8x8xf32>() {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  func.return
}

// -----

// CHECK: error[E0301]: 'tile.resize' a is [..., h, w, c], c [..., y, x, c]
func.func @of_other_channels(%x: memref<4x4x8xf32>, %y: memref<8x8x9xf32>) attributes {native.outputs = 1 : i64} {
  tile.resize %x, %y() scales [0.5 : f64, 0.5 : f64] : memref<4x4x8xf32>, memref<8x8x9xf32>() {
  ^bb0(%a: f32):
    tile.yield %a : f32
  }
  func.return
}
