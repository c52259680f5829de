// RUN: et-opt -p 'rematerialize{target=etir}' %s | filecheck %s
// RUN: et-opt -p 'rematerialize{target=etir callers}' %s | filecheck %s
// RUN: et-opt -p 'rematerialize{target=etir},plan-memory{target=etir},verify-plan{target=etir}' %s | filecheck %s --check-prefix=PLAN

// Two layers have the mask %m, of 256 bytes, and the widest product, %h, is between them: the mask is computed again
// for the second, and its condition, of 64 bytes, waits.

// PLAN: et.method @layers pools [0, 1344]
// CHECK-LABEL: et.method @layers
// CHECK: et.inputs %x, %c
// CHECK-NEXT: et.call "aten::where.self_out"(%c, %zero, %minus, %m) -> %m
// CHECK-NEXT: et.call "aten::add.out"(%x, %m, 1, %a) -> %a
// CHECK-NEXT: et.call "aten::mm.out"(%a, %w, %h) -> %h
// CHECK-NEXT: et.call "aten::mm.out"(%h, %v, %d) -> %d
// CHECK-NEXT: et.call "aten::where.self_out"(%c, %zero, %minus, %m) -> %m
// CHECK-NEXT: et.call "aten::add.out"(%d, %m, 1, %y) -> %y
// CHECK-NEXT: et.return %y
et.weight @zero : tensor<f32> = #et.synthetic<seed = 1>
et.weight @minus : tensor<f32> = #et.synthetic<seed = 2>
et.weight @w : tensor<8x32xf32> = #et.synthetic<seed = 3>
et.weight @v : tensor<32x8xf32> = #et.synthetic<seed = 4>
et.method @layers {
  %zero = et.get_weight @zero : tensor<f32>
  %minus = et.get_weight @minus : tensor<f32>
  %w = et.get_weight @w : tensor<8x32xf32>
  %v = et.get_weight @v : tensor<32x8xf32>
  %x = et.buffer : tensor<8x8xf32>
  %c = et.buffer : tensor<8x8xi1>
  %m = et.buffer : tensor<8x8xf32>
  %a = et.buffer : tensor<8x8xf32>
  %h = et.buffer : tensor<8x32xf32>
  %d = et.buffer : tensor<8x8xf32>
  %y = et.buffer : tensor<8x8xf32>
  et.inputs %x, %c
  et.call "aten::where.self_out"(%c, %zero, %minus, %m) -> %m
  et.call "aten::add.out"(%x, %m, 1, %a) -> %a
  et.call "aten::mm.out"(%a, %w, %h) -> %h
  et.call "aten::mm.out"(%h, %v, %d) -> %d
  et.call "aten::add.out"(%d, %m, 1, %y) -> %y
  et.return %y
}

// What waits where the peak is not, a condition that is written again, and a choice between what is computed stay.

// CHECK-LABEL: et.method @stays
// CHECK: et.inputs %x, %c
// CHECK-COUNT-2: et.call "aten::where.self_out"
// CHECK-NOT: et.call "aten::where.self_out"
// CHECK: et.return %z
et.method @stays {
  %zero = et.get_weight @zero : tensor<f32>
  %minus = et.get_weight @minus : tensor<f32>
  %w = et.get_weight @w : tensor<8x32xf32>
  %v = et.get_weight @v : tensor<32x8xf32>
  %x = et.buffer : tensor<8x8xf32>
  %c = et.buffer : tensor<8x8xi1>
  %m = et.buffer : tensor<8x8xf32>
  %n = et.buffer : tensor<8x8xf32>
  %a = et.buffer : tensor<8x8xf32>
  %h = et.buffer : tensor<8x32xf32>
  %d = et.buffer : tensor<8x8xf32>
  %y = et.buffer : tensor<8x8xf32>
  %z = et.buffer : tensor<8x8xf32>
  et.inputs %x, %c
  et.call "aten::where.self_out"(%c, %zero, %minus, %m) -> %m
  et.call "aten::where.self_out"(%c, %x, %minus, %n) -> %n
  et.call "aten::add.out"(%x, %m, 1, %a) -> %a
  et.call "aten::add.out"(%a, %n, 1, %y) -> %y
  et.call "aten::logical_not.out"(%c, %c) -> %c
  et.call "aten::mm.out"(%y, %w, %h) -> %h
  et.call "aten::mm.out"(%h, %v, %d) -> %d
  et.call "aten::add.out"(%d, %m, 1, %y) -> %y
  et.call "aten::add.out"(%y, %n, 1, %z) -> %z
  et.return %z
}
