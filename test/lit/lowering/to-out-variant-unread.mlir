// RUN: not et-opt --to-out-variant %s 2>&1 | filecheck %s

// An input that nothing reads has no line of its own, nor has any operation one for it; its size is asked for all the same.
sym.dim @s in [1, inf]

func.func @forward(%x: tensor<4xf32>, %d: tensor<?xf32, #et.layout<dims = [s]>>) -> tensor<4xf32> {
  // CHECK: error[E0416]: {{.*}}'s'{{.*}}
  // CHECK-NOT: E0505
  func.return %x : tensor<4xf32>
}
