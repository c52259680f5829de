// What cannot be written is refused with the method, the value and the next step; nothing is written then.
// RUN: not et-translate --mlir-to-pte %s -o %t.pte 2>&1 | filecheck %s
// RUN: not ls %t.pte

// CHECK: errors.mlir:{{[0-9]+}}:{{[0-9]+}}: error[E0711]: %y of method 'forward' has no place
// CHECK: help: plan the memory again
et.method @forward pools [0, 32] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  %y = et.buffer : tensor<8xf32>
  et.inputs %x
  et.call "aten::relu.out"(%x, %y) -> %y
  et.return %y
}
