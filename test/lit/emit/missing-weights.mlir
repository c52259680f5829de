// Text whose weights file is not at hand: the message has the digest and the size.
// RUN: not et-translate --mlir-to-pte %s -o %t.pte 2>&1 | filecheck %s

// CHECK: error[E0201]: {{.*}}32 bytes with digest sha256:00000000000000000000000000000000
et.weight @w : tensor<8xf32> = #et.blob<"sha256:00000000000000000000000000000000", 32>

et.method @forward pools [0, 32] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  %w = et.get_weight @w : tensor<8xf32>
  et.inputs %x
  et.call "aten::add.out"(%x, %w, 1, %x) -> %x
  et.return %x
}
