// RUN: et-opt -p 'partial-execution{target=executorch}' %s | filecheck %s
// RUN: et-opt -p 'partial-execution{target=executorch}' %s | et-opt - | filecheck %s
// RUN: et-opt -p 'partial-execution{target=etir}' %s | filecheck %s --check-prefix=NONE
// RUN: et-opt -p 'plan-memory{target=executorch}' %s | filecheck %s --check-prefix=WHOLE
// RUN: et-opt -p 'partial-execution,plan-memory{target=executorch},verify-plan{target=executorch},verify-calls' %s | filecheck %s --check-prefix=PLAN

// Channels of a convolution, of which each needs the whole image, and what follows by channel. Parts of the weight have
// its name; what is made and read inside is there for one part, the indices, too.

// WHOLE: et.method @channels pools [0, 229376]
// PLAN: et.method @channels pools [0, 69632]
// NONE: et.weight @w : tensor<32x3x3x3xf32> = #et.synthetic<seed = 1>
// NONE: et.call "aten::convolution.out"(%x, %w, %b,
// NONE-NOT: et.call "aten::convolution.out"
// CHECK: et.weight @w_part0 : tensor<4x3x3x3xf32> = #et.blob<"sha256:{{.*}}", 432> {fqn = "conv.weight.part0"}
// CHECK: et.weight @w_part7 : tensor<4x3x3x3xf32> = #et.blob<"sha256:{{.*}}", 432> {fqn = "conv.weight.part7"}
// CHECK-NEXT: et.weight @b_part0 : tensor<4xf32>
// CHECK-LABEL: et.method @channels
// CHECK-DAG: %y = et.buffer : tensor<1x32x16x16xf32>
// CHECK-DAG: %w_part0 = et.get_weight @w_part0 : tensor<4x3x3x3xf32>
// CHECK-DAG: %c = et.buffer : tensor<1x4x32x32xf32>
// CHECK-DAG: %i = et.buffer : tensor<1x4x16x16xi64>
// CHECK-DAG: %y_part0 = et.view %y : tensor<1x4x16x16xf32>
// CHECK-DAG: %y_part7 = et.view %y at 28672 : tensor<1x4x16x16xf32>
// CHECK: et.inputs %x
// CHECK-NEXT: et.call "aten::convolution.out"(%x, %w_part0, %b_part0, ints[1, 1], ints[1, 1], ints[1, 1], false, ints[0, 0], 1, %c) -> %c
// CHECK-NEXT: et.call "aten::relu.out"(%c, %r) -> %r
// CHECK-NEXT: et.call "aten::max_pool2d_with_indices.out"(%r, ints[2, 2], ints[2, 2], ints[0, 0], ints[1, 1], false, %y_part0, %i) -> tensors[%y_part0, %i]
// CHECK-NEXT: et.call "aten::convolution.out"(%x, %w_part1, %b_part1,
// CHECK: et.call "aten::max_pool2d_with_indices.out"(%r, {{.*}}, %y_part7, %i)
// CHECK-NEXT: et.return %y
et.weight @w : tensor<32x3x3x3xf32> = #et.synthetic<seed = 1> {fqn = "conv.weight"}
et.weight @b : tensor<32xf32> = #et.synthetic<seed = 2>
et.method @channels {
  %w = et.get_weight @w : tensor<32x3x3x3xf32>
  %b = et.get_weight @b : tensor<32xf32>
  %x = et.buffer : tensor<1x3x32x32xf32>
  %c = et.buffer : tensor<1x32x32x32xf32>
  %r = et.buffer : tensor<1x32x32x32xf32>
  %y = et.buffer : tensor<1x32x16x16xf32>
  %i = et.buffer : tensor<1x32x16x16xi64>
  et.inputs %x
  et.call "aten::convolution.out"(%x, %w, %b, ints[1, 1], ints[1, 1], ints[1, 1], false, ints[0, 0], 1, %c) -> %c
  et.call "aten::relu.out"(%c, %r) -> %r
  et.call "aten::max_pool2d_with_indices.out"(%r, ints[2, 2], ints[2, 2], ints[0, 0], ints[1, 1], false, %y, %i) -> tensors[%y, %i]
  et.return %y
}

// Rows of a product: the sum with a residual is made where the residual was, which no other part needs, and read there.

// WHOLE: et.method @rows pools [0, 327680]
// PLAN: et.method @rows pools [0, 180224]
// CHECK-LABEL: et.method @rows
// CHECK: %h = et.buffer : tensor<64x512xf32>
// CHECK: %d_part1 = et.view %d at 16384 : tensor<64x64xf32>
// CHECK: et.call "aten::tanh.out"(%a, %d) -> %d
// CHECK-NEXT: et.call "aten::mm.out"(%d_part0, %u, %h) -> %h
// CHECK-NEXT: et.call "aten::gelu.out"(%h, "none", %g) -> %g
// CHECK-NEXT: et.call "aten::mm.out"(%g, %v, %o) -> %o
// CHECK-NEXT: et.call "aten::add.out"(%o, %d_part0, 1, %d_part0) -> %d_part0
// CHECK-NEXT: et.call "aten::mm.out"(%d_part1, %u, %h) -> %h
// CHECK: et.call "aten::add.out"(%o, %d_part1, 1, %d_part1) -> %d_part1
// CHECK-NEXT: et.call "aten::neg.out"(%d, %y) -> %y
// CHECK-NEXT: et.return %y
et.weight @u : tensor<64x512xf32> = #et.synthetic<seed = 3>
et.weight @v : tensor<512x64xf32> = #et.synthetic<seed = 4>
et.method @rows {
  %u = et.get_weight @u : tensor<64x512xf32>
  %v = et.get_weight @v : tensor<512x64xf32>
  %a = et.buffer : tensor<128x64xf32>
  %d = et.buffer : tensor<128x64xf32>
  %h = et.buffer : tensor<128x512xf32>
  %g = et.buffer : tensor<128x512xf32>
  %o = et.buffer : tensor<128x64xf32>
  %s = et.buffer : tensor<128x64xf32>
  %y = et.buffer : tensor<128x64xf32>
  et.inputs %a
  et.call "aten::tanh.out"(%a, %d) -> %d
  et.call "aten::mm.out"(%d, %u, %h) -> %h
  et.call "aten::gelu.out"(%h, "none", %g) -> %g
  et.call "aten::mm.out"(%g, %v, %o) -> %o
  et.call "aten::add.out"(%o, %d, 1, %s) -> %s
  et.call "aten::neg.out"(%s, %y) -> %y
  et.return %y
}
