// RUN: et-opt -p tile-forward %s | filecheck %s

// Two heads of three rows, written to where the rows are side by side.
func.func @heads(%x: memref<2x3x5xf32>, %w: memref<2x1x5x32xf32>, %y: memref<3x2x4xf32>) attributes {native.outputs = 1 : i64} {
  %o = tile.buffer : memref<2x3x4xf32>
  tile.brgemm %x, %w, %o() : memref<2x3x5xf32>, memref<2x1x5x32xf32>, memref<2x3x4xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %v = memref.reinterpret_cast %o to offset: [0], sizes: [3, 2, 4], strides: [4, 12, 1] : memref<2x3x4xf32> to memref<3x2x4xf32, strided<[4, 12, 1]>>
  tile.map %y(%v) : memref<3x2x4xf32>(memref<3x2x4xf32, strided<[4, 12, 1]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @heads
// CHECK-NEXT:   %0 = memref.reinterpret_cast %y to offset: [0], sizes: [2, 3, 4], strides: [4, 8, 1]
// CHECK-NEXT:   tile.brgemm %x, %w, %0()
// CHECK-NOT:    tile.map
// CHECK:        func.return

// What is read twice stays where it is; so does what would have its columns apart, which no product can write.
func.func @kept(%x: memref<6x4xf32>, %w: memref<1x4x32xf32>, %y: memref<5x6xf32>, %z: memref<6x5xf32>) attributes {native.outputs = 2 : i64} {
  %o = tile.buffer : memref<6x5xf32>
  tile.brgemm %x, %w, %o() : memref<6x4xf32>, memref<1x4x32xf32>, memref<6x5xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %v = memref.reinterpret_cast %o to offset: [0], sizes: [5, 6], strides: [1, 5] : memref<6x5xf32> to memref<5x6xf32, strided<[1, 5]>>
  tile.map %y(%v) : memref<5x6xf32>(memref<5x6xf32, strided<[1, 5]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  tile.softmax %o, %z : memref<6x5xf32>, memref<6x5xf32>
  func.return
}
// CHECK:      func.func @kept
// CHECK:        tile.brgemm %x, %w, %o
// CHECK:        tile.map
// CHECK:        tile.softmax

func.func @columns(%x: memref<6x4xf32>, %w: memref<1x4x32xf32>, %y: memref<5x6xf32>) attributes {native.outputs = 1 : i64} {
  %o = tile.buffer : memref<6x5xf32>
  tile.brgemm %x, %w, %o() : memref<6x4xf32>, memref<1x4x32xf32>, memref<6x5xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %v = memref.reinterpret_cast %o to offset: [0], sizes: [5, 6], strides: [1, 5] : memref<6x5xf32> to memref<5x6xf32, strided<[1, 5]>>
  tile.map %y(%v) : memref<5x6xf32>(memref<5x6xf32, strided<[1, 5]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @columns
// CHECK:        tile.brgemm %x, %w, %o
// CHECK:        tile.map

// Two parts of channels that are joined and copied as an image whose channels lie side by side: each is written there,
// where the function says that it saves memory so.
func.func @joined(%a: memref<2x6xf32>, %b: memref<1x6xf32>, %y: memref<6x3xf32>) attributes {native.outputs = 1 : i64, native.saves = ["straight"]} {
  %o = tile.buffer : memref<3x6xf32>
  %one = memref.reinterpret_cast %o to offset: [0], sizes: [2, 6], strides: [6, 1] : memref<3x6xf32> to memref<2x6xf32>
  %two = memref.reinterpret_cast %o to offset: [12], sizes: [1, 6], strides: [6, 1] : memref<3x6xf32> to memref<1x6xf32>
  tile.map %one(%a) : memref<2x6xf32>(memref<2x6xf32>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  tile.map %two(%b) : memref<1x6xf32>(memref<1x6xf32>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %v = memref.reinterpret_cast %o to offset: [0], sizes: [6, 3], strides: [1, 6] : memref<3x6xf32> to memref<6x3xf32, strided<[1, 6]>>
  tile.map %y(%v) : memref<6x3xf32>(memref<6x3xf32, strided<[1, 6]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @joined
// CHECK-NEXT:   [[ONE:%[^ ]+]] = memref.reinterpret_cast %y to offset: [0], sizes: [2, 6], strides: [1, 3]
// CHECK-NEXT:   tile.map [[ONE]](%a)
// CHECK:        [[TWO:%[^ ]+]] = memref.reinterpret_cast %y to offset: [2], sizes: [1, 6], strides: [0, 3]
// CHECK-NEXT:   tile.map [[TWO]](%b)
// CHECK-NOT:    tile.map
// CHECK:        func.return

// A product whose rows are the pixels of an image, which is joined to others with its channels side by side.
func.func @pixels(%a: memref<6x8xf32>, %w: memref<1x8x4xf32>, %y: memref<1x10x2x3xf32, strided<[60, 1, 30, 10]>>) attributes {native.outputs = 1 : i64, native.saves = ["straight"]} {
  %o = tile.buffer : memref<6x4xf32>
  tile.brgemm %a, %w, %o() : memref<6x8xf32>, memref<1x8x4xf32>, memref<6x4xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %v = memref.reinterpret_cast %o to offset: [0], sizes: [1, 4, 2, 3], strides: [0, 1, 12, 4] : memref<6x4xf32> to memref<1x4x2x3xf32, strided<[0, 1, 12, 4]>>
  %t = memref.reinterpret_cast %y to offset: [5], sizes: [1, 4, 2, 3], strides: [0, 1, 30, 10] : memref<1x10x2x3xf32, strided<[60, 1, 30, 10]>> to memref<1x4x2x3xf32, strided<[0, 1, 30, 10]>>
  tile.map %t(%v) : memref<1x4x2x3xf32, strided<[0, 1, 30, 10]>>(memref<1x4x2x3xf32, strided<[0, 1, 12, 4]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
// CHECK:      func.func @pixels
// CHECK:        [[PART:%[^ ]+]] = memref.reinterpret_cast %y to offset: [5], sizes: [6, 4], strides: [10, 1]
// CHECK-NEXT:   tile.brgemm %a, %w, [[PART]]
// CHECK-NOT:    tile.map
// CHECK:        func.return

// Where it does not, or another map reads what is joined, the copy stays.
func.func @joined_twice(%a: memref<2x6xf32>, %b: memref<1x6xf32>, %y: memref<6x3xf32>, %z: memref<3x6xf32>) attributes {native.outputs = 2 : i64, native.saves = ["straight"]} {
  %o = tile.buffer : memref<3x6xf32>
  %one = memref.reinterpret_cast %o to offset: [0], sizes: [2, 6], strides: [6, 1] : memref<3x6xf32> to memref<2x6xf32>
  %two = memref.reinterpret_cast %o to offset: [12], sizes: [1, 6], strides: [6, 1] : memref<3x6xf32> to memref<1x6xf32>
  tile.map %one(%a) : memref<2x6xf32>(memref<2x6xf32>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  tile.map %two(%b) : memref<1x6xf32>(memref<1x6xf32>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  %v = memref.reinterpret_cast %o to offset: [0], sizes: [6, 3], strides: [1, 6] : memref<3x6xf32> to memref<6x3xf32, strided<[1, 6]>>
  tile.map %y(%v) : memref<6x3xf32>(memref<6x3xf32, strided<[1, 6]>>) {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  tile.softmax %o, %z : memref<3x6xf32>, memref<3x6xf32>
  func.return
}
// CHECK:      func.func @joined_twice
// CHECK-NEXT:   tile.buffer : memref<3x6xf32>
