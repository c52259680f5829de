// Executable text becomes a .pte file, and the file becomes text again: names of values are gone, everything else stays.
// RUN: et-translate --mlir-to-pte %s -o %t.pte
// RUN: et-translate --pte-to-mlir %t.pte -o %t.mlir
// RUN: filecheck %s < %t.mlir

// Methods come in the order of their names, constants under their index; equal literals are one value of the file.
// CHECK: et.weight @constant_1 : tensor<4xi64> = #et.blob<"sha256:{{[0-9a-f]+}}", 32>
et.weight @w : tensor<4xi64> = #et.synthetic<seed = 1>
// CHECK: et.state @state_{{[0-9]+}} : tensor<4xi64> = #et.blob<"sha256:{{[0-9a-f]+}}", 32>
et.state @s : tensor<4xi64> = #et.synthetic<seed = 2>

// CHECK-LABEL: et.method @calls pools [0, 128] in_spec "in" out_spec "out"
// CHECK-NEXT: %0 = et.buffer at <1, 0> : tensor<4xi64>
// CHECK-NEXT: %1 = et.get_weight @constant_1 : tensor<4xi64>
// CHECK-NEXT: %2 = et.buffer at <1, 32> state @state_{{[0-9]+}} : tensor<4xi64>
// CHECK-NEXT: %3 = et.buffer at <1, 64> : tensor<4xi64>
// A view is a tensor in the bytes of what was written last there.
// CHECK-NEXT: %4 = et.view %3 at 16 : tensor<2xi64>
// CHECK-NEXT: %5 = et.scalar 0 : i64
// CHECK-NEXT: %6 = et.buffer at <1, 96> : tensor<4xi64>
// CHECK-NEXT: et.inputs %0
// CHECK-NEXT: et.call "aten::add.out"(%0, %1, 1, %3) -> %3
// CHECK-NEXT: et.call "aten::add.out"(%3, %2, 1, %2) -> %2
// CHECK-NEXT: et.call "aten::sym_size.int"(%4, 0, %5)
// CHECK-NEXT: et.call "aten::index.Tensor_out"(%0, optionals[%3, none], %6) -> %6
// CHECK-NEXT: et.return %6, %5
et.method @calls pools [0, 128] in_spec "in" out_spec "out" {
  %x = et.buffer at <1, 0> : tensor<4xi64>
  %w = et.get_weight @w : tensor<4xi64>
  %s = et.buffer at <1, 32> state @s : tensor<4xi64>
  %y = et.buffer at <1, 64> : tensor<4xi64>
  %v = et.view %y at 16 : tensor<2xi64>
  %n = et.scalar 0 : i64
  %z = et.buffer at <1, 96> : tensor<4xi64>
  et.inputs %x
  et.call "aten::add.out"(%x, %w, 1, %y) -> %y
  et.call "aten::add.out"(%y, %s, 1, %s) -> %s
  et.call "aten::sym_size.int"(%v, 0, %n)
  et.call "aten::index.Tensor_out"(%x, optionals[%y, none], %z) -> %z
  et.return %z, %n
}

// Jumps keep their targets; a jump that always goes is a jump on false in the file.
// CHECK-LABEL: et.method @jumps pools [0, 32]
// CHECK: et.jump_false %{{.*}}, ^[[ELSE:bb[0-9]+]], ^[[THEN:bb[0-9]+]]
// CHECK-NEXT: ^[[THEN]]:
// CHECK-NEXT: et.call "aten::neg.out"(%[[X:.*]], %[[Y:.*]]) -> %[[Y]]
// CHECK-NEXT: et.jump ^[[END:bb[0-9]+]]
// CHECK-NEXT: ^[[ELSE]]:
// CHECK-NEXT: et.call "aten::abs.out"(%[[X]], %[[Y]]) -> %[[Y]]
// CHECK-NEXT: et.next ^[[END]]
// CHECK-NEXT: ^[[END]]:
// CHECK-NEXT: et.return %[[Y]]
et.method @jumps pools [0, 32] {
  %p = et.scalar true
  %x = et.buffer caller : tensor<4xi64>
  %y = et.buffer at <1, 0> : tensor<4xi64>
  et.inputs %p, %x
  et.jump_false %p, ^else, ^then
^then:
  et.call "aten::neg.out"(%x, %y) -> %y
  et.jump ^end
^else:
  et.call "aten::abs.out"(%x, %y) -> %y
  et.next ^end
^end:
  et.return %y
}
