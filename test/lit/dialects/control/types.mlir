// RUN: %roundtrip
// RUN: %generic

// Slices and stacks keep symbolic dims.

sym.dim @s0 in [1, 8]
sym.dim @s1 in [1, 8]

// CHECK-LABEL: func.func @dynamic_scan
func.func @dynamic_scan(%xs: tensor<?x?xf32, #et.layout<dims = [s0, s1]>>) {
  // CHECK-NEXT: control.scan over (%x = %xs) : (), (tensor<?x?xf32, #et.layout<dims = [s0, s1]>>) -> (tensor<?x?xf32, #et.layout<dims = [s0, s1]>>) {
  %0 = control.scan over (%x = %xs) : (), (tensor<?x?xf32, #et.layout<dims = [s0, s1]>>) -> (tensor<?x?xf32, #et.layout<dims = [s0, s1]>>) {
    // CHECK-NEXT: aten.relu.default(%x) : (tensor<?xf32, #et.layout<dims = [s1]>>) -> tensor<?xf32, #et.layout<dims = [s1]>>
    %y = aten.relu.default(%x) : (tensor<?xf32, #et.layout<dims = [s1]>>) -> tensor<?xf32, #et.layout<dims = [s1]>>
    control.yield %y : tensor<?xf32, #et.layout<dims = [s1]>>
  }
  func.return
}
