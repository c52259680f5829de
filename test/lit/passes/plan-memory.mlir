// RUN: et-opt -p plan-memory,verify-plan %s | filecheck %s
// RUN: et-opt -p 'plan-memory{algorithm=naive},verify-plan' %s | filecheck %s --check-prefix=NAIVE
// RUN: et-opt -p 'plan-memory{alignment=64},verify-plan' %s | filecheck %s --check-prefix=ALIGN
// RUN: not et-opt -p 'plan-memory{capacity=64}' %s 2>&1 | filecheck %s --check-prefix=FULL

// Without reuse every buffer has bytes of its own: 3 x 32.
// NAIVE: et.method @chain pools [0, 96]
// Places are multiples of 64 and so is the size of the memory: 32 (64 align 64) + 32 (128 align 64).
// ALIGN: et.method @chain pools [0, 128]

// Over capacity: what is alive at the peak is named.
// FULL: error[E0704]: memory pool 1 needs 96 bytes, 32 more than its capacity of 64
// FULL: 96 bytes are live at instruction 2:
// FULL-NEXT: '%x ({{.*}})': 32 bytes, live at [0, 2]
// FULL-NEXT: '%a ({{.*}})': 32 bytes, live at [1, 3]
// FULL-NEXT: '%y ({{.*}})': 32 bytes, live at [2, 4]

et.weight @w : tensor<8xf32> = #et.synthetic<seed = 1>
et.state @s : tensor<8xf32>

// Bytes are reused as soon as nothing reads them: %y is placed on %x, which the first call was the last to read, but not
// on its own operand. 32 bytes + 32 bytes, 64 in all.
// CHECK-LABEL: et.method @chain pools [0, 64]
// CHECK-NEXT: %x = et.buffer at <1, 0> : tensor<8xf32>
// CHECK-NEXT: %a = et.buffer at <1, 32> : tensor<8xf32>
// CHECK-NEXT: %y = et.buffer at <1, 0> : tensor<8xf32>
// CHECK-NEXT: et.inputs %x
// CHECK-NEXT: et.call "aten::relu.out"(%x, %a) -> %a
// CHECK-NEXT: et.call "aten::neg.out"(%a, %y) -> %y
// CHECK-NEXT: et.return %y
et.method @chain {
  %x = et.buffer : tensor<8xf32>
  %a = et.buffer : tensor<8xf32>
  %y = et.buffer : tensor<8xf32>
  et.inputs %x
  et.call "aten::relu.out"(%x, %a) -> %a
  et.call "aten::neg.out"(%a, %y) -> %y
  et.return %y
}

// A view keeps its base alive: %y may not be placed on %a, whose bytes %v still shows to the last call.
// CHECK-LABEL: et.method @views pools [0, 96]
// CHECK-NEXT: %x = et.buffer at <1, 0> : tensor<8xf32>
// CHECK-NEXT: %a = et.buffer at <1, 64> : tensor<8xf32>
// CHECK-NEXT: %v = et.view %a : tensor<2x4xf32>
// CHECK-NEXT: %y = et.buffer at <1, 32> : tensor<8xf32>
// CHECK-NEXT: %z = et.buffer at <1, 0> : tensor<2x4xf32>
// CHECK-NEXT: et.inputs %x
// CHECK-NEXT: et.call "aten::relu.out"(%x, %a) -> %a
// CHECK-NEXT: et.call "aten::neg.out"(%x, %y) -> %y
// CHECK-NEXT: et.call "aten::add.out"(%v, %v, 1, %z) -> %z
// CHECK-NEXT: et.return %y, %z
et.method @views {
  %x = et.buffer : tensor<8xf32>
  %a = et.buffer : tensor<8xf32>
  %v = et.view %a : tensor<2x4xf32>
  %y = et.buffer : tensor<8xf32>
  %z = et.buffer : tensor<2x4xf32>
  et.inputs %x
  et.call "aten::relu.out"(%x, %a) -> %a
  et.call "aten::neg.out"(%x, %y) -> %y
  et.call "aten::add.out"(%v, %v, 1, %z) -> %z
  et.return %y, %z
}

// State lives from call to call and shares with nothing; the caller's memory is not planned; weights have their own.
// CHECK-LABEL: et.method @state pools [0, 64]
// CHECK-NEXT: %x = et.buffer caller : tensor<8xf32>
// CHECK-NEXT: %s = et.buffer at <1, 0> state @s : tensor<8xf32>
// CHECK-NEXT: %w = et.get_weight @w : tensor<8xf32>
// CHECK-NEXT: %a = et.buffer at <1, 32> : tensor<8xf32>
// CHECK-NEXT: %y = et.buffer caller : tensor<8xf32>
// CHECK-NEXT: et.inputs %x
// CHECK-NEXT: et.call "aten::add.out"(%s, %x, 1, %a) -> %a
// CHECK-NEXT: et.call "aten::mul.out"(%a, %w, %y) -> %y
// CHECK-NEXT: et.call "aten::copy_"(%s, %a, false) -> %s
// CHECK-NEXT: et.return %y
et.method @state {
  %x = et.buffer caller : tensor<8xf32>
  %s = et.buffer state @s : tensor<8xf32>
  %w = et.get_weight @w : tensor<8xf32>
  %a = et.buffer : tensor<8xf32>
  %y = et.buffer caller : tensor<8xf32>
  et.inputs %x
  et.call "aten::add.out"(%s, %x, 1, %a) -> %a
  et.call "aten::mul.out"(%a, %w, %y) -> %y
  et.call "aten::copy_"(%s, %a, false) -> %s
  et.return %y
}

// What a loop carries is live around the back edge: %t may not be placed on %a, which the next round reads again. %x is
// dead inside the loop.
// CHECK-LABEL: et.method @loop pools [0, 64]
// CHECK-NEXT: %x = et.buffer at <1, 0> : tensor<8xf32>
// CHECK-NEXT: %a = et.buffer at <1, 32> : tensor<8xf32>
// CHECK-NEXT: %t = et.buffer at <1, 0> : tensor<8xf32>
// CHECK-NEXT: %c = et.buffer at <1, 0> : tensor<i1>
// CHECK-NEXT: et.inputs %x
// CHECK-NEXT: et.call "aten::copy_"(%a, %x, false) -> %a
// CHECK-NEXT: et.next ^head
// CHECK-NEXT: ^head:
// CHECK-NEXT: et.call "aten::any.all_out"(%a, %c) -> %c
// CHECK-NEXT: et.jump_false %c, ^end, ^body
// CHECK-NEXT: ^body:
// CHECK-NEXT: et.call "aten::neg.out"(%a, %t) -> %t
// CHECK-NEXT: et.call "aten::copy_"(%a, %t, false) -> %a
// CHECK-NEXT: et.jump ^head
// CHECK-NEXT: ^end:
// CHECK-NEXT: et.return %a
et.method @loop {
  %x = et.buffer : tensor<8xf32>
  %a = et.buffer : tensor<8xf32>
  %t = et.buffer : tensor<8xf32>
  %c = et.buffer : tensor<i1>
  et.inputs %x
  et.call "aten::copy_"(%a, %x, false) -> %a
  et.next ^head
^head:
  et.call "aten::any.all_out"(%a, %c) -> %c
  et.jump_false %c, ^end, ^body
^body:
  et.call "aten::neg.out"(%a, %t) -> %t
  et.call "aten::copy_"(%a, %t, false) -> %a
  et.jump ^head
^end:
  et.return %a
}

// Two branches share: they are never both taken.
// CHECK-LABEL: et.method @branches pools [0, 32]
// CHECK-NEXT: %p = et.scalar true
// CHECK-NEXT: %x = et.buffer caller : tensor<8xf32>
// CHECK-NEXT: %a = et.buffer at <1, 0> : tensor<8xf32>
// CHECK-NEXT: %b = et.buffer at <1, 0> : tensor<8xf32>
// CHECK-NEXT: %y = et.buffer caller : tensor<8xf32>
// CHECK-NEXT: et.inputs %p, %x
// CHECK-NEXT: et.jump_false %p, ^else, ^then
// CHECK-NEXT: ^then:
// CHECK-NEXT: et.call "aten::relu.out"(%x, %a) -> %a
// CHECK-NEXT: et.call "aten::neg.out"(%a, %y) -> %y
// CHECK-NEXT: et.jump ^end
// CHECK-NEXT: ^else:
// CHECK-NEXT: et.call "aten::neg.out"(%x, %b) -> %b
// CHECK-NEXT: et.call "aten::relu.out"(%b, %y) -> %y
// CHECK-NEXT: et.next ^end
// CHECK-NEXT: ^end:
// CHECK-NEXT: et.return %y
et.method @branches {
  %p = et.scalar true
  %x = et.buffer caller : tensor<8xf32>
  %a = et.buffer : tensor<8xf32>
  %b = et.buffer : tensor<8xf32>
  %y = et.buffer caller : tensor<8xf32>
  et.inputs %p, %x
  et.jump_false %p, ^else, ^then
^then:
  et.call "aten::relu.out"(%x, %a) -> %a
  et.call "aten::neg.out"(%a, %y) -> %y
  et.jump ^end
^else:
  et.call "aten::neg.out"(%x, %b) -> %b
  et.call "aten::relu.out"(%b, %y) -> %y
  et.next ^end
^end:
  et.return %y
}
