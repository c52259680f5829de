// RUN: et-opt -p tile-plan %s | filecheck %s

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
