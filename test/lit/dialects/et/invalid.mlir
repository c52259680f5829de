// RUN: et-opt --split-input-file --verify-diagnostics %s

// expected-error @below [E0301] {{tensor<4xf32> takes 16 bytes, the blob has 12}}
et.weight @size : tensor<4xf32> = #et.blob<"sha256:00112233445566778899aabbccddeeff", 12>

// -----

// expected-error @below [E0301] {{the payload is #et.blob<...> or #et.synthetic<...>}}
et.weight @payload : tensor<4xf32> = "bytes"

// -----

// expected-error @below [E0301] {{a weight is a tensor, not i64}}
et.weight @type : i64 = #et.synthetic<seed = 1>

// -----

sym.dim @s0 in [1, 8]
// expected-error @below [E0301] {{the shape of a weight is static}}
et.weight @dynamic : tensor<?xf32, #et.layout<dims = [s0]>> = #et.synthetic<seed = 1>

// -----

et.weight @w : tensor<4xf32> = #et.synthetic<seed = 1>
// expected-error @below [E0304] {{symbol @w is defined twice}}
et.state @w : tensor<4xf32>

// -----

et.weight @w : tensor<4xf32> = #et.synthetic<seed = 1>

func.func @symbols(%x: tensor<4xf32>) {
  // expected-error @below [E0303] {{there is no weight @v}}
  %0 = et.get_weight @v : tensor<4xf32>
  // expected-error @below [E0301] {{'et.get_weight' @w has type tensor<4xf32>, not tensor<8xf32>}}
  %1 = et.get_weight @w : tensor<8xf32>
  // expected-error @below [E0303] {{there is no state @w}}
  %2 = et.read_state @w : tensor<4xf32>
  // expected-error @below [E0303] {{there is no state @w}}
  et.write_state @w, %x : tensor<4xf32>
  func.return
}

// -----

// expected-error @below [E0101]
et.schema "mylib::scale"

// -----

func.func @constants() {
  // expected-error @below [E0101] {{expected dense<...> : tensor<...>}}
  %0 = et.constant 4 : i64
  func.return
}

// -----

// The constraints of docs/reference/dialects/et.md, by number: buffers B, calls C, methods M.

sym.dim @s0 in [1, 8]

et.method @B {
  // expected-error @below [E0301] {{is not static: executable types are upper bounds (B1)}}
  %0 = et.buffer : tensor<?xf32, #et.layout<dims = [s0]>>
  // expected-error @below [E0301] {{a place is a memory id and an offset (B2)}}
  %1 = "et.buffer"() <{memory_id = 1 : i64}> : () -> tensor<4xf32>
  // expected-error @below [E0301] {{<0, 16> is not a place: memory ids count from 1 (B2)}}
  %2 = et.buffer at <0, 16> : tensor<4xf32>
  // expected-error @below [E0301] {{a buffer in the caller's memory has no place and no state (B3)}}
  %3 = et.buffer at <1, 16> caller : tensor<4xf32>
  et.return
}

// -----

et.method @C {
  %x = et.buffer : tensor<4xf32>
  // expected-error @below [E0301] {{(C1)}}
  "et.call"(%x) <{kernel = "aten::relu.out", template = #et.args<(_, _)>}> : (tensor<4xf32>) -> ()
  // expected-error @below [E0301] {{may not stand in a list of ints (C2)}}
  et.call "aten::relu.out"(%x, ints[1.5])
  // expected-error @below [E0301] {{'relu' is not a kernel name}}
  et.call "relu"(%x)
  et.return
}

// -----

// expected-error @below [E0301] {{'et.buffer' stands after the first instruction of the method (M1)}}
et.method @M1 {
  %i = et.scalar 0 : i64
  et.inputs %i
  %x = et.buffer : tensor<4xf32>
  et.return
}

// -----

// expected-error @below [E0301] {{'pools' starts with the reserved entry 0 and has no negative size (M2)}}
et.method @M2 pools [16] {
  et.return
}

// -----

et.method @operand {
  // expected-error @below [E0101] {{%y is used before it is defined}}
  et.return %y
}

// -----

et.method @blocks {
  %p = et.scalar 1 : i64
  // expected-error @below [E0301] {{the condition is i1 or a bool tensor, not i64}}
  et.jump_false %p, ^end, ^next
^next:
  // expected-error @below [E0301] {{et.next goes to the next block of the method; use et.jump}}
  et.next ^end
^between:
  et.jump ^end
^end:
  et.return
}

// -----

et.method @twice {
  et.jump ^end
^end:
  et.jump ^end
// expected-error @below [E0101] {{block ^end is defined twice}}
^end:
  et.return
}

// -----

et.method @bools {
  %x = et.buffer : tensor<2xf32>
  // expected-error @below [E0301] {{bytes of f32 are no bools: a bool is the byte 0 or 1 (B4)}}
  %y = et.view %x : tensor<8xi1>
  et.return %y
}
