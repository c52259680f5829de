// RUN: et-opt -p 'schedule-instructions{target=etir}' %s | filecheck %s
// RUN: et-opt -p 'schedule-instructions{target=etir},plan-memory{target=etir},verify-plan{target=etir}' %s | filecheck %s --check-prefix=PLAN

// The product %v, of 64 bytes, would wait while %s, of 256, is computed from %q: it is made when it is needed. %x, which it is
// made from, has 32.
// PLAN: et.method @attention pools [0, 352]
// CHECK-LABEL: et.method @attention
// CHECK: et.inputs %x
// CHECK-NEXT: et.call "aten::mm.out"(%x, %w, %q) -> %q
// CHECK-NEXT: et.call "aten::mm.out"(%q, %u, %s) -> %s
// CHECK-NEXT: et.call "aten::_softmax.out"(%s, -1, false, %p) -> %p
// CHECK-NEXT: et.call "aten::mean.out"(%p, ints[1], true, none, %m) -> %m
// CHECK-NEXT: et.call "aten::mm.out"(%x, %w, %v) -> %v
// CHECK-NEXT: et.call "aten::mul.out"(%m, %v, %y) -> %y
// CHECK-NEXT: et.return %y
et.weight @u : tensor<4x16xf32> = #et.synthetic<seed = 1>
et.weight @w : tensor<2x4xf32> = #et.synthetic<seed = 2>
et.method @attention {
  %x = et.buffer : tensor<4x2xf32>
  %w = et.get_weight @w : tensor<2x4xf32>
  %u = et.get_weight @u : tensor<4x16xf32>
  %v = et.buffer : tensor<4x4xf32>
  %q = et.buffer : tensor<4x4xf32>
  %s = et.buffer : tensor<4x16xf32>
  %p = et.buffer : tensor<4x16xf32>
  %m = et.buffer : tensor<4x1xf32>
  %y = et.buffer : tensor<4x4xf32>
  et.inputs %x
  et.call "aten::mm.out"(%x, %w, %v) -> %v
  et.call "aten::mm.out"(%x, %w, %q) -> %q
  et.call "aten::mm.out"(%q, %u, %s) -> %s
  et.call "aten::_softmax.out"(%s, -1, false, %p) -> %p
  et.call "aten::mean.out"(%p, ints[1], true, none, %m) -> %m
  et.call "aten::mul.out"(%m, %v, %y) -> %y
  et.return %y
}

// A state is written when its old contents were read for the last time, and what is written is made right before.
// CHECK-LABEL: et.method @state
// CHECK: et.inputs %x
// CHECK-NEXT: et.call "aten::add.out"(%c, %x, 1, %a) -> %a
// CHECK-NEXT: et.call "aten::cat.out"
// CHECK-NEXT: et.call "aten::sum.IntList_out"
// CHECK-NEXT: et.call "aten::neg.out"(%c, %n) -> %n
// CHECK-NEXT: et.call "aten::copy_"(%c, %n, false) -> %c
// CHECK-NEXT: et.return
et.state @cache : tensor<4x4xf32>
et.method @state {
  %x = et.buffer : tensor<4x4xf32>
  %c = et.buffer state @cache : tensor<4x4xf32>
  %n = et.buffer : tensor<4x4xf32>
  %a = et.buffer : tensor<4x4xf32>
  %d = et.buffer : tensor<4x16xf32>
  %y = et.buffer : tensor<1xf32>
  et.inputs %x
  et.call "aten::neg.out"(%c, %n) -> %n
  et.call "aten::add.out"(%c, %x, 1, %a) -> %a
  et.call "aten::cat.out"(tensors[%a, %a, %a, %a], 1, %d) -> %d
  et.call "aten::sum.IntList_out"(%d, ints[0, 1], false, none, %y) -> %y
  et.call "aten::copy_"(%c, %n, false) -> %c
  et.return %y
}

// What is known early is stored early, when nothing reads the old contents any more.
// CHECK-LABEL: et.method @stored
// CHECK: et.inputs %x
// CHECK-NEXT: et.call "aten::mm.out"(%x, %c, %n) -> %n
// CHECK-NEXT: et.call "aten::copy_"(%c, %n, false) -> %c
// CHECK-NEXT: et.call "aten::cat.out"
et.method @stored {
  %x = et.buffer : tensor<4x4xf32>
  %c = et.buffer state @cache : tensor<4x4xf32>
  %n = et.buffer : tensor<4x4xf32>
  %d = et.buffer : tensor<4x16xf32>
  %y = et.buffer : tensor<1xf32>
  et.inputs %x
  et.call "aten::mm.out"(%x, %c, %n) -> %n
  et.call "aten::cat.out"(tensors[%x, %x, %x, %x], 1, %d) -> %d
  et.call "aten::sum.IntList_out"(%d, ints[0, 1], false, none, %y) -> %y
  et.call "aten::copy_"(%c, %n, false) -> %c
  et.return %y
}

// Nothing moves past a random kernel, whose numbers depend on how many were drawn before.
// CHECK-LABEL: et.method @random
// CHECK: et.call "aten::mm.out"(%x, %x, %v) -> %v
// CHECK-NEXT: et.call "aten::rand.out"
// CHECK-NEXT: et.call "aten::sum.IntList_out"
// CHECK-NEXT: et.call "aten::mul.out"
et.method @random {
  %x = et.buffer : tensor<4x4xf32>
  %v = et.buffer : tensor<4x4xf32>
  %r = et.buffer : tensor<32x32xf32>
  %m = et.buffer : tensor<1xf32>
  %y = et.buffer : tensor<4x4xf32>
  et.inputs %x
  et.call "aten::mm.out"(%x, %x, %v) -> %v
  et.call "aten::rand.out"(ints[32, 32], %r) -> %r
  et.call "aten::sum.IntList_out"(%r, ints[0, 1], false, none, %m) -> %m
  et.call "aten::mul.out"(%m, %v, %y) -> %y
  et.return %y
}

// What a delegate makes for a state is stored before the next delegate runs, which does not read it. Delegates keep their
// order.
// PLAN: et.method @delegates pools [0, 384]
// CHECK-LABEL: et.method @delegates
// CHECK: et.delegate_call @first(%x, %n)
// CHECK-NEXT: et.call "aten::copy_"(%c, %n, false) -> %c
// CHECK-NEXT: et.delegate_call @second(%x, %d)
// CHECK-NEXT: et.call "aten::sum.IntList_out"
et.delegate @first "Other" = #et.blob<"sha256:5feceb66ffc86f38d952786c6d696c79", 1>
et.delegate @second "Other" = #et.blob<"sha256:5feceb66ffc86f38d952786c6d696c79", 1>
et.state @kept : tensor<4x4xf32>
et.method @delegates {
  %x = et.buffer : tensor<4x4xf32>
  %c = et.buffer state @kept : tensor<4x4xf32>
  %n = et.buffer : tensor<4x4xf32>
  %d = et.buffer : tensor<4x16xf32>
  %y = et.buffer : tensor<1xf32>
  et.inputs %x
  et.delegate_call @first(%x, %n)
  et.delegate_call @second(%x, %d)
  et.call "aten::sum.IntList_out"(%d, ints[0, 1], false, none, %y) -> %y
  et.call "aten::copy_"(%c, %n, false) -> %c
  et.return %y
}

// Kernels of etir's own that have results move as others do.
// CHECK-LABEL: et.method @own_kernel
// CHECK: et.inputs %x
// CHECK-NEXT: et.call "aten::mm.out"(%x, %w, %q) -> %q
// CHECK-NEXT: et.call "aten::mm.out"(%q, %u, %s) -> %s
// CHECK-NEXT: et.call "aten::mean.out"(%s, ints[1], true, none, %m) -> %m
// CHECK-NEXT: et.call "etir::linear_add.out"(%b, %x, %t, none, %v) -> %v
// CHECK-NEXT: et.call "aten::mul.out"(%m, %v, %y) -> %y
et.schema "etir::linear_add.out(Tensor self, Tensor input, Tensor weight, Tensor? bias=None, *, Tensor(a!) out) -> Tensor(a!)"
et.weight @b : tensor<4x4xf32> = #et.synthetic<seed = 3>
et.weight @t : tensor<4x2xf32> = #et.synthetic<seed = 4>
et.method @own_kernel {
  %x = et.buffer : tensor<4x2xf32>
  %w = et.get_weight @w : tensor<2x4xf32>
  %u = et.get_weight @u : tensor<4x16xf32>
  %b = et.get_weight @b : tensor<4x4xf32>
  %t = et.get_weight @t : tensor<4x2xf32>
  %v = et.buffer : tensor<4x4xf32>
  %q = et.buffer : tensor<4x4xf32>
  %s = et.buffer : tensor<4x16xf32>
  %m = et.buffer : tensor<4x1xf32>
  %y = et.buffer : tensor<4x4xf32>
  et.inputs %x
  et.call "etir::linear_add.out"(%b, %x, %t, none, %v) -> %v
  et.call "aten::mm.out"(%x, %w, %q) -> %q
  et.call "aten::mm.out"(%q, %u, %s) -> %s
  et.call "aten::mean.out"(%s, ints[1], true, none, %m) -> %m
  et.call "aten::mul.out"(%m, %v, %y) -> %y
  et.return %y
}

// What reads a size holds nobody up, and comes after what sets it; what reads the number comes after it.
// CHECK-LABEL: et.method @sizes
// CHECK: et.inputs %x
// CHECK-NEXT: et.call "aten::mm.out"(%x, %w, %q) -> %q
// CHECK-NEXT: et.call "aten::mm.out"(%q, %u, %s) -> %s
// CHECK-NEXT: et.call "aten::sym_size.int"(%s, 0, %n)
// CHECK-NEXT: et.call "executorch_prim::et_view.default"(%s, ints[%n, 16], %f)
// CHECK-NEXT: et.call "aten::mean.out"(%f, ints[1], true, none, %m) -> %m
// CHECK-NEXT: et.call "aten::linear.out"(%x, %t, none, %v) -> %v
// CHECK-NEXT: et.call "aten::mul.out"(%m, %v, %y) -> %y
et.method @sizes {
  %x = et.buffer : tensor<4x2xf32>
  %w = et.get_weight @w : tensor<2x4xf32>
  %u = et.get_weight @u : tensor<4x16xf32>
  %t = et.get_weight @t : tensor<4x2xf32>
  %n = et.scalar 0
  %v = et.buffer : tensor<4x4xf32>
  %q = et.buffer : tensor<4x4xf32>
  %s = et.buffer : tensor<4x16xf32>
  %f = et.view %s : tensor<4x16xf32>
  %m = et.buffer : tensor<4x1xf32>
  %y = et.buffer : tensor<4x4xf32>
  et.inputs %x
  et.call "aten::linear.out"(%x, %t, none, %v) -> %v
  et.call "aten::mm.out"(%x, %w, %q) -> %q
  et.call "aten::mm.out"(%q, %u, %s) -> %s
  et.call "aten::sym_size.int"(%s, 0, %n)
  et.call "executorch_prim::et_view.default"(%s, ints[%n, 16], %f)
  et.call "aten::mean.out"(%f, ints[1], true, none, %m) -> %m
  et.call "aten::mul.out"(%m, %v, %y) -> %y
  et.return %y
}
