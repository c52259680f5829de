// Text is read, checked and transformed without the bytes of its weights.
// RUN: et-opt --dce %s | filecheck %s

// Elided, equal bytes have equal seeds, and the text still reads back.
// RUN: et-opt --elide-weights %s | filecheck %s --check-prefix=ELIDED
// RUN: et-opt --elide-weights %s | et-opt --verify-roundtrip --no-output
// RUN: et-opt --elide-weights --print-op-generic %s | et-opt | filecheck %s --check-prefix=ELIDED

// A file that is not there, or is not safetensors.
// RUN: not et-opt --weights=%t.missing %s 2>&1 | filecheck %s --check-prefix=MISSING
// MISSING: error[E0203]: cannot read the weights file
// RUN: not et-opt --weights=%s %s 2>&1 | filecheck %s --check-prefix=WRONG
// WRONG: error[E0203]: {{.*}} is not a safetensors file

// CHECK: et.weight @a : tensor<4xf32> = #et.blob<"sha256:00112233445566778899aabbccddeeff", 16>
// ELIDED: et.weight @a : tensor<4xf32> = #et.synthetic<seed = 1>
et.weight @a : tensor<4xf32> = #et.blob<"sha256:00112233445566778899aabbccddeeff", 16>
// ELIDED-NEXT: et.weight @b : tensor<4xf32> = #et.synthetic<seed = 2>
et.weight @b : tensor<4xf32> = #et.blob<"sha256:ffeeddccbbaa99887766554433221100", 16>
// ELIDED-NEXT: et.weight @c : tensor<2x2xf32> = #et.synthetic<seed = 1>
et.weight @c : tensor<2x2xf32> = #et.blob<"sha256:00112233445566778899aabbccddeeff", 16>
// ELIDED-NEXT: et.state @d : tensor<4xf32> = #et.synthetic<seed = 2>
et.state @d : tensor<4xf32> = #et.blob<"sha256:ffeeddccbbaa99887766554433221100", 16>
// A delegate's bytes mean something: they stay.
// ELIDED-NEXT: et.delegate @e "Backend" = #et.blob<"sha256:00112233445566778899aabbccddeeff", 16>
et.delegate @e "Backend" = #et.blob<"sha256:00112233445566778899aabbccddeeff", 16>

func.func @forward() -> (tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>) {
  %0 = et.get_weight @a : tensor<4xf32>
  %1 = et.get_weight @b : tensor<4xf32>
  %2 = et.get_weight @c : tensor<2x2xf32>
  func.return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>
}
