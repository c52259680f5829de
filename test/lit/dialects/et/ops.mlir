// RUN: %roundtrip
// RUN: %generic

// --- What every level shares ---

// CHECK: et.schema "mylib::scale(Tensor x, float by=2.0) -> Tensor"
et.schema "mylib::scale(Tensor x, float by=2.0) -> Tensor"
// CHECK-NEXT: et.weight @w : tensor<4xf32> = #et.synthetic<seed = 7> {fqn = "layer.w", kind = "parameter"}
et.weight @w : tensor<4xf32> = #et.synthetic<seed = 7> {fqn = "layer.w", kind = "parameter"}
// CHECK-NEXT: et.weight @layer.0.bias : tensor<4xf32> = #et.blob<"sha256:00112233445566778899aabbccddeeff", 16>
et.weight @"layer.0.bias" : tensor<4xf32> = #et.blob<"sha256:00112233445566778899aabbccddeeff", 16>
// CHECK-NEXT: et.state @cache : tensor<1x4xf32> = #et.synthetic<seed = 1> {fqn = "cache"}
et.state @cache : tensor<1x4xf32> = #et.synthetic<seed = 1> {fqn = "cache"}
// CHECK-NEXT: et.state @scratch : tensor<1x4xf32>
et.state @scratch : tensor<1x4xf32>

// CHECK-LABEL: func.func @program
func.func @program(%x: tensor<4xf32>) -> (tensor<4xf32>, !et.none, !et.string) attributes {et.input_names = ["x"]} {
  // CHECK: %w = et.get_weight @w : tensor<4xf32>
  %w = et.get_weight @w : tensor<4xf32>
  // CHECK-NEXT: %c = et.read_state @cache : tensor<1x4xf32>
  %c = et.read_state @cache : tensor<1x4xf32>
  // CHECK-NEXT: et.constant dense<[1, 2]> : tensor<2xi64>
  %k = et.constant dense<[1, 2]> : tensor<2xi64>
  // CHECK-NEXT: %none = et.none : !et.none
  %none = et.none : !et.none
  // CHECK-NEXT: %text = et.string "abc" : !et.string
  %text = et.string "abc" : !et.string
  // CHECK-NEXT: et.write_state @cache, %c : tensor<1x4xf32>
  et.write_state @cache, %c : tensor<1x4xf32>
  // CHECK-NEXT: et.update_input %x, %w : tensor<4xf32>, tensor<4xf32>
  et.update_input %x, %w : tensor<4xf32>, tensor<4xf32>
  func.return %w, %none, %text : tensor<4xf32>, !et.none, !et.string
}

// -----

// --- The executable level: one operation for each value, then one for each instruction ---

et.weight @w : tensor<8x8xf32> = #et.synthetic<seed = 7>
et.state @cache : tensor<8xf32>
// CHECK: et.delegate @lowered_0 "XnnpackBackend" = #et.blob<"sha256:00112233445566778899aabbccddeeff", 64>
et.delegate @lowered_0 "XnnpackBackend" = #et.blob<"sha256:00112233445566778899aabbccddeeff", 64>
// CHECK-NEXT: et.named_data "packed" = #et.blob<"sha256:ffeeddccbbaa99887766554433221100", 32> align 64 : i64
et.named_data "packed" = #et.blob<"sha256:ffeeddccbbaa99887766554433221100", 32> align 64 : i64
// CHECK-NEXT: et.build_file "forward_native_0.c" = #et.blob<"sha256:00ffeeddccbbaa998877665544332211", 48>
et.build_file "forward_native_0.c" = #et.blob<"sha256:00ffeeddccbbaa998877665544332211", 48>

// CHECK: et.method @forward pools [0, 1024] in_spec "[]" out_spec "[1]" {
et.method @forward pools [0, 1024] in_spec "[]" out_spec "[1]" {
  // CHECK-NEXT: %x = et.buffer at <1, 0> : tensor<1x8xf32>
  %x = et.buffer at <1, 0> : tensor<1x8xf32>
  // CHECK-NEXT: %s = et.buffer at <1, 512> state @cache : tensor<8xf32>
  %s = et.buffer at <1, 512> state @cache : tensor<8xf32>
  // CHECK-NEXT: %u = et.buffer caller : tensor<1x8xf32>
  %u = et.buffer caller : tensor<1x8xf32>
  // CHECK-NEXT: %d = et.buffer dynamic : tensor<1x8xf32>
  %d = et.buffer dynamic : tensor<1x8xf32>
  // CHECK-NEXT: %e = et.buffer dynamic unbound : tensor<1x8xf32>
  %e = et.buffer dynamic unbound : tensor<1x8xf32>
  // CHECK-NEXT: %w = et.get_weight @w : tensor<8x8xf32>
  %w = et.get_weight @w : tensor<8x8xf32>
  // CHECK-NEXT: %v = et.view %x at 16 : tensor<4xf32>
  %v = et.view %x at 16 : tensor<4xf32>
  // CHECK-NEXT: %i = et.scalar 0 : i64
  %i = et.scalar 0 : i64
  // CHECK-NEXT: %f = et.scalar 5.000000e-01 : f64
  %f = et.scalar 0.5 : f64
  // CHECK-NEXT: %p = et.scalar true
  %p = et.scalar true
  // CHECK-NEXT: %n = et.none : !et.none
  %n = et.none : !et.none

  // CHECK-NEXT: et.inputs %x, %i
  et.inputs %x, %i
  // CHECK-NEXT: et.call "aten::linear.out"(%x, %w, none, %u) -> %u
  et.call "aten::linear.out"(%x, %w, none, %u) -> %u
  // Literals stand in the call; lists say what they are.
  // CHECK-NEXT: et.call "test::all.kinds"(%x, 1, -2, 0.5, inf, true, "text", none, ints[1, %i], doubles[0.5], bools[true], tensors[%x, %u], optionals[%x, none]) -> tensors[%x, %u]
  et.call "test::all.kinds"(%x, 1, -2, 0.5, inf, true, "text", none, ints[1, %i], doubles[0.5], bools[true], tensors[%x, %u], optionals[%x, none]) -> tensors[%x, %u]
  // CHECK-NEXT: et.call "executorch_prim::et_copy_index.tensor"(%x, %u, %i) {note = "no result slot"}
  et.call "executorch_prim::et_copy_index.tensor"(%x, %u, %i) {note = "no result slot"}
  // CHECK-NEXT: et.delegate_call @lowered_0(%x, %u)
  et.delegate_call @lowered_0(%x, %u)
  // CHECK-NEXT: et.jump_false %p, ^else, ^then
  et.jump_false %p, ^else, ^then
// CHECK-NEXT: ^then:
^then:
  // CHECK-NEXT: et.move %x to %u
  et.move %x to %u
  // CHECK-NEXT: et.jump ^end
  et.jump ^end
// CHECK-NEXT: ^else:
^else:
  // CHECK-NEXT: et.free %d
  et.free %d
  // CHECK-NEXT: et.next ^end
  et.next ^end
// CHECK-NEXT: ^end:
^end:
  // CHECK-NEXT: et.return %u, %n
  et.return %u, %n
}

// CHECK: et.method @empty {
et.method @empty {
  // CHECK-NEXT: et.inputs
  et.inputs
  // CHECK-NEXT: et.return
  et.return
}
