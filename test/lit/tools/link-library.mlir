// Kernels of libraries that a runtime may have or not: the target's manifest has them, and the user says that they are
// linked.

// RUN: not et-compile %s -o %t.pte --target executorch 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: et-compile %s -o %t.pte --target executorch --link-library custom_ops --report | filecheck %s
// RUN: et-compile %s -o %t.pte --target etir --report | filecheck %s

// MISSING: link-library.mlir:{{.*}}: error[E0605]: {{.*}}: kernel 'llama::fast_hadamard_transform.out' is in library 'custom_ops', which is not linked
// MISSING: help: {{.*}} link_libraries=[...], or --link-library NAME

// CHECK: llama::fast_hadamard_transform.out

et.schema "llama::fast_hadamard_transform(Tensor mat) -> Tensor"
et.schema "llama::fast_hadamard_transform.out(Tensor mat, *, Tensor(a!) out) -> Tensor(a!)"

func.func @forward(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = edge.llama.fast_hadamard_transform.default(%x) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  func.return %0 : tensor<2x8xf32>
}
