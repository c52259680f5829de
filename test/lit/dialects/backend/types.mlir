// RUN: %roundtrip
// RUN: %generic

// Delegates take and give anything that a method does: tensors of any layout, and numbers.

sym.dim @s0 in [1, 8]

func.func private @lowered_0(%x: tensor<?x4xf32, #et.layout<dims = [s0, 4]>>, %n: i64) -> (tensor<?x4xf32, #et.layout<dims = [s0, 4]>>, i64) {
  func.return %x, %n : tensor<?x4xf32, #et.layout<dims = [s0, 4]>>, i64
}

// CHECK-LABEL: func.func @mixed
func.func @mixed(%x: tensor<?x4xf32, #et.layout<dims = [s0, 4]>>, %n: i64) {
  // CHECK-NEXT: %0, %1 = backend.call_delegate @lowered_0(%x, %n) on "Some \22quoted\22 backend" : (tensor<?x4xf32, #et.layout<dims = [s0, 4]>>, i64) -> (tensor<?x4xf32, #et.layout<dims = [s0, 4]>>, i64)
  %0, %1 = backend.call_delegate @lowered_0(%x, %n) on "Some \"quoted\" backend" : (tensor<?x4xf32, #et.layout<dims = [s0, 4]>>, i64) -> (tensor<?x4xf32, #et.layout<dims = [s0, 4]>>, i64)
  // CHECK-NEXT: backend.view %x : tensor<?x4xf32, #et.layout<dims = [s0, 4]>> -> tensor<?xf32, #et.layout<dims = [4 * s0]>>
  %2 = backend.view %x : tensor<?x4xf32, #et.layout<dims = [s0, 4]>> -> tensor<?xf32, #et.layout<dims = [4 * s0]>>
  func.return
}
