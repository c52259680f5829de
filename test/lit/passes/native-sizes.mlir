// RUN: et-opt -p native-group,native-to-tile,tile-forward,tile-scale,tile-attention,tile-plan,tile-schedule,verify-tile %s | filecheck %s
// RUN: et-opt -p native-group,native-to-tile,tile-forward,tile-scale,tile-attention,tile-plan,tile-schedule %s -o %t.mlir
// RUN: et-opt -p verify-tile %t.mlir | filecheck %s
// RUN: sed '0,/n = 0 to 40/s//n = 0 to 41/' %t.mlir > %t.other.mlir
// RUN: not et-opt -p verify-tile %t.other.mlir 2>&1 | filecheck --check-prefix=OTHER %s

// A batch and a number of positions that are known when code is called. Dims and strides are expressions over them; the
// arena is of their bounds. A lower bound of 2 is one of torch's guards: code takes fewer, too.
sym.dim @b in [1, 3]
sym.dim @n in [2, 40]
et.weight @w : tensor<24x24xf32> = #et.synthetic<seed = 1> {fqn = "w"}
func.func private @forward_native_0(%x: tensor<?x?x24xf32, #et.layout<dims = [b, n, 24]>>) -> tensor<?x?x24xf32, #et.layout<dims = [b, n, 24]>> attributes {backend.delegate = "native"} {
  %w = et.get_weight @w : tensor<24x24xf32>
  %0 = edge.aten.linear.default(%x, %w) : (tensor<?x?x24xf32, #et.layout<dims = [b, n, 24]>>, tensor<24x24xf32>) -> tensor<?x?x24xf32, #et.layout<dims = [b, n, 24]>>
  %1 = edge.aten.permute_copy.default(%x, dims = [0, 2, 1]) : (tensor<?x?x24xf32, #et.layout<dims = [b, n, 24]>>) -> tensor<?x24x?xf32, #et.layout<dims = [b, 24, n]>>
  %2 = edge.aten.bmm.default(%0, %1) : (tensor<?x?x24xf32, #et.layout<dims = [b, n, 24]>>, tensor<?x24x?xf32, #et.layout<dims = [b, 24, n]>>) -> tensor<?x?x?xf32, #et.layout<dims = [b, n, n]>>
  %3 = edge.aten._softmax.default(%2, dim = -1, half_to_float = false) : (tensor<?x?x?xf32, #et.layout<dims = [b, n, n]>>) -> tensor<?x?x?xf32, #et.layout<dims = [b, n, n]>>
  %4 = edge.aten.bmm.default(%3, %x) : (tensor<?x?x?xf32, #et.layout<dims = [b, n, n]>>, tensor<?x?x24xf32, #et.layout<dims = [b, n, 24]>>) -> tensor<?x?x24xf32, #et.layout<dims = [b, n, 24]>>
  func.return %4 : tensor<?x?x24xf32, #et.layout<dims = [b, n, 24]>>
}

// CHECK:      func.func private @forward_native_0(%x: memref<?x?x24xf32, #tile.sizes<[b, n, 24], [24 * n, 24, 1], b = 0 to 3, n = 0 to 40>>,
// Rows of all items are rows of one product: as many as the call says, in tiles of 14 and fewer.
// CHECK:        %[[ROWS:.*]] = tile.view %x from <[0]> : {{.*}} to memref<?x24xf32, #tile.sizes<[b * n, 24], [24, 1], b = 0 to 3, n = 0 to 40>>
// CHECK:        tile.brgemm %[[ROWS]], %{{.*}} schedule {tile = [14 : i64, 2 : i64], depth = 24 : i64, rows =
// Keys become panels: one for 32 positions. The last one may have fewer.
// CHECK:        tile.pack %{{.*}}, %[[KEYS:[0-9a-z]+]] : {{.*}}, memref<?x?x24x32xf32, #tile.sizes<[b, (n - 1) floordiv 32 + 1, 24, 32],
// Scores of all rows, which are few enough to stay in a cache, lie 40 floats apart, however many there are.
// CHECK:        tile.loop #tile.sizes<[b, 1], b = 0 to 3>
// CHECK:          tile.brgemm {{.*}} memref<?x?xf32, #tile.sizes<[n, n], [40, 1], n = 0 to 40>>
// CHECK:          tile.softmax
// CHECK:          tile.brgemm

// One symbol has one range.
// OTHER: error[E1166]: 'n' is 0 to 41, and elsewhere 0 to 40
