// RUN: not et-opt --verify-plan --split-input-file %s 2>&1 | filecheck %s

// Plans that were changed by hand, one mistake each. The first one is right and says nothing.
et.method @correct pools [0, 64] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  %a = et.buffer at <1, 32> : tensor<8xf32>
  %y = et.buffer at <1, 0> : tensor<8xf32>
  et.inputs %x
  et.call "aten::relu.out"(%x, %a) -> %a
  et.call "aten::neg.out"(%a, %y) -> %y
  et.return %y
}

// -----

// CHECK-NOT: correct
// Two buffers that are live together: the call reads %a while it writes %y.
// CHECK: error[E0714]: {{.*}}%a{{.*}}%y
et.method @overlap pools [0, 64] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  %a = et.buffer at <1, 32> : tensor<8xf32>
  %y = et.buffer at <1, 48> : tensor<4xf32>
  et.inputs %x
  et.call "aten::relu.out"(%x, %a) -> %a
  et.call "aten::sum.IntList_out"(%a, ints[0], false, none, %y) -> %y
  et.return %y
}

// -----

// A view is another name of its base: %y overwrites what %v still shows.
// CHECK: error[E0714]: {{.*}}%a{{.*}}%y
et.method @under_a_view pools [0, 96] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  %a = et.buffer at <1, 32> : tensor<8xf32>
  %v = et.view %a : tensor<2x4xf32>
  %y = et.buffer at <1, 32> : tensor<8xf32>
  %z = et.buffer at <1, 64> : tensor<2x4xf32>
  et.inputs %x
  et.call "aten::relu.out"(%x, %a) -> %a
  et.call "aten::neg.out"(%x, %y) -> %y
  et.call "aten::add.out"(%v, %v, 1, %z) -> %z
  et.return %y, %z
}

// -----

// Around the back edge of a loop: %t is written while %a waits for the next round.
// CHECK: error[E0714]: {{.*}}%a{{.*}}%t
et.method @in_a_loop pools [0, 64] {
  %a = et.buffer at <1, 0> : tensor<8xf32>
  %t = et.buffer at <1, 0> : tensor<8xf32>
  %c = et.buffer at <1, 32> : tensor<i1>
  et.inputs %a
  et.next ^head
^head:
  et.call "aten::neg.out"(%a, %t) -> %t
  et.call "aten::any.all_out"(%t, %c) -> %c
  et.jump_false %c, ^end, ^body
^body:
  et.jump ^head
^end:
  et.return %a
}

// -----

// State is live from call to call, before its first use in the method and after its last one.
// CHECK: error[E0714]: {{.*}}%x{{.*}}%s
et.state @s : tensor<8xf32>
et.method @on_state pools [0, 64] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  %s = et.buffer at <1, 0> state @s : tensor<8xf32>
  %y = et.buffer at <1, 32> : tensor<8xf32>
  et.inputs %x
  et.call "aten::relu.out"(%x, %y) -> %y
  et.call "aten::add.out"(%y, %s, 1, %y) -> %y
  et.return %y
}

// -----

// CHECK: error[E0713]: {{.*}}%y
et.method @outside pools [0, 32] {
  %y = et.buffer at <1, 16> : tensor<8xf32>
  et.inputs %y
  et.return %y
}

// -----

// CHECK: error[E0711]: %y of method 'no_place' has no place
et.method @no_place pools [0, 32] {
  %y = et.buffer : tensor<8xf32>
  et.inputs %y
  et.return %y
}

// -----

// A buffer may stand at an odd byte when its elements do, and so may a view into it; other elements may not.
// CHECK: error[E0712]: {{.*}}%v
et.method @view_between_elements pools [0, 32] {
  %y = et.buffer at <1, 0> : tensor<32xui8>
  %u = et.view %y at 3 : tensor<5xui8>
  %v = et.view %y at 6 : tensor<4xf32>
  et.inputs %y
  et.return %u, %v
}

// -----

// CHECK: error[E0711]: view %v ends 48 bytes into a buffer of 32
et.method @view_outside pools [0, 32] {
  %y = et.buffer at <1, 0> : tensor<8xf32>
  %v = et.view %y at 16 : tensor<8xf32>
  et.inputs %y
  et.return %v
}

// -----

// CHECK-NOT: {{%[bhp] \(}}
// A handle of the branches' results, whose own bytes %p has meanwhile; both results are at one place.
et.method @moved pools [0, 96] {
  %x = et.buffer at <1, 32> : tensor<8xf32>
  %p = et.buffer at <1, 64> : tensor<i1>
  %h = et.buffer at <1, 64> : tensor<8xf32>
  %a = et.buffer at <1, 0> : tensor<8xf32>
  %b = et.buffer at <1, 0> : tensor<8xf32>
  et.inputs %x, %p
  et.jump_false %p, ^no, ^yes
^yes:
  et.call "aten::relu.out"(%x, %a) -> %a
  et.move %a to %h
  et.jump ^end
^no:
  et.call "aten::neg.out"(%x, %b) -> %b
  et.move %b to %h
  et.next ^end
^end:
  et.return %h
}

// -----

// CHECK: error[E0714]: '%a {{.*}}' and '%c {{.*}}' share bytes
et.method @moved_and_overwritten pools [0, 128] {
  %x = et.buffer at <1, 32> : tensor<8xf32>
  %h = et.buffer at <1, 64> : tensor<8xf32>
  %a = et.buffer at <1, 0> : tensor<8xf32>
  %c = et.buffer at <1, 0> : tensor<8xf32>
  %d = et.buffer at <1, 96> : tensor<8xf32>
  et.inputs %x
  et.call "aten::relu.out"(%x, %a) -> %a
  et.move %a to %h
  et.call "aten::neg.out"(%x, %c) -> %c
  et.call "aten::mul.out"(%c, %h, %d) -> %d
  et.return %d
}
