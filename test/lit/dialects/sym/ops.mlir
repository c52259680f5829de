// RUN: %roundtrip
// RUN: %generic

// Declarations: range with both ends included, no upper bound, a size that comes from data.

// CHECK: sym.dim @s0 in [1, 64] {source = "x.size(0)"}
sym.dim @s0 in [1, 64] {source = "x.size(0)"}
// CHECK-NEXT: sym.dim @s1 in [2, inf]
sym.dim @s1 in [2, inf]
// CHECK-NEXT: sym.dim @u0 in [0, 1600] unbacked
sym.dim @u0 in [0, 1600] unbacked

// CHECK-LABEL: func.func @constants
func.func @constants() {
  // CHECK-NEXT: sym.constant 4 : i64
  %0 = sym.constant 4 : i64
  // CHECK-NEXT: sym.constant 5.000000e-01 : f64
  %1 = sym.constant 0.5 : f64
  // CHECK-NEXT: sym.constant true
  %2 = sym.constant true
  func.return
}

// CHECK-LABEL: func.func @integers
func.func @integers(%a: i64, %b: i64) {
  // CHECK-NEXT: sym.add %a, %b : (i64, i64) -> i64
  %0 = sym.add %a, %b : (i64, i64) -> i64
  // CHECK-NEXT: sym.sub %a, %b : (i64, i64) -> i64
  %1 = sym.sub %a, %b : (i64, i64) -> i64
  // CHECK-NEXT: sym.mul %a, %b : (i64, i64) -> i64
  %2 = sym.mul %a, %b : (i64, i64) -> i64
  // CHECK-NEXT: sym.floordiv %a, %b : (i64, i64) -> i64
  %3 = sym.floordiv %a, %b : (i64, i64) -> i64
  // CHECK-NEXT: sym.truediv %a, %b : (i64, i64) -> f64
  %4 = sym.truediv %a, %b : (i64, i64) -> f64
  // CHECK-NEXT: sym.mod %a, %b : (i64, i64) -> i64
  %5 = sym.mod %a, %b : (i64, i64) -> i64
  // CHECK-NEXT: sym.pow %a, %b : (i64, i64) -> i64
  %6 = sym.pow %a, %b : (i64, i64) -> i64
  // CHECK-NEXT: sym.min %a, %b : (i64, i64) -> i64
  %7 = sym.min %a, %b : (i64, i64) -> i64
  // CHECK-NEXT: sym.max %a, %b : (i64, i64) -> i64
  %8 = sym.max %a, %b : (i64, i64) -> i64
  // CHECK-NEXT: sym.neg %a : (i64) -> i64
  %9 = sym.neg %a : (i64) -> i64
  // CHECK-NEXT: sym.abs %a : (i64) -> i64
  %10 = sym.abs %a : (i64) -> i64
  // CHECK-NEXT: sym.to_float %a : (i64) -> f64
  %11 = sym.to_float %a : (i64) -> f64
  func.return
}

// CHECK-LABEL: func.func @floats
func.func @floats(%x: f64, %n: i64) {
  // Arithmetic on an integer and a float is float.
  // CHECK-NEXT: sym.mul %x, %n : (f64, i64) -> f64
  %0 = sym.mul %x, %n : (f64, i64) -> f64
  // CHECK-NEXT: sym.sqrt %x : (f64) -> f64
  %1 = sym.sqrt %x : (f64) -> f64
  // CHECK-NEXT: sym.ceil %x : (f64) -> i64
  %2 = sym.ceil %x : (f64) -> i64
  // CHECK-NEXT: sym.floor %x : (f64) -> i64
  %3 = sym.floor %x : (f64) -> i64
  // CHECK-NEXT: sym.round %x : (f64) -> i64
  %4 = sym.round %x : (f64) -> i64
  // CHECK-NEXT: sym.trunc %x : (f64) -> i64
  %5 = sym.trunc %x : (f64) -> i64
  // CHECK-NEXT: sym.to_int %x : (f64) -> i64
  %6 = sym.to_int %x : (f64) -> i64
  func.return
}

// CHECK-LABEL: func.func @comparisons
func.func @comparisons(%a: i64, %b: i64) {
  // CHECK-NEXT: %0 = sym.eq %a, %b : (i64, i64) -> i1
  %0 = sym.eq %a, %b : (i64, i64) -> i1
  // CHECK-NEXT: %1 = sym.ne %a, %b : (i64, i64) -> i1
  %1 = sym.ne %a, %b : (i64, i64) -> i1
  // CHECK-NEXT: sym.lt %a, %b : (i64, i64) -> i1
  %2 = sym.lt %a, %b : (i64, i64) -> i1
  // CHECK-NEXT: sym.le %a, %b : (i64, i64) -> i1
  %3 = sym.le %a, %b : (i64, i64) -> i1
  // CHECK-NEXT: sym.gt %a, %b : (i64, i64) -> i1
  %4 = sym.gt %a, %b : (i64, i64) -> i1
  // CHECK-NEXT: sym.ge %a, %b : (i64, i64) -> i1
  %5 = sym.ge %a, %b : (i64, i64) -> i1
  // CHECK-NEXT: sym.and %0, %1 : (i1, i1) -> i1
  %6 = sym.and %0, %1 : (i1, i1) -> i1
  // CHECK-NEXT: sym.or %0, %1 : (i1, i1) -> i1
  %7 = sym.or %0, %1 : (i1, i1) -> i1
  // CHECK-NEXT: sym.not %0 : (i1) -> i1
  %8 = sym.not %0 : (i1) -> i1
  // CHECK-NEXT: sym.ite %0, %a, %b : (i1, i64, i64) -> i64
  %9 = sym.ite %0, %a, %b : (i1, i64, i64) -> i64
  // CHECK-NEXT: sym.assert %0, "a is b"
  sym.assert %0, "a is b"
  func.return
}
