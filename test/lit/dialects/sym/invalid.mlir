// RUN: et-opt --split-input-file --verify-diagnostics %s

// expected-error @below [E0301] {{[8, 4] is not a range of sizes}}
sym.dim @s0 in [8, 4]

// -----

// expected-error @below [E0301] {{[-1, 4] is not a range of sizes}}
sym.dim @s0 in [-1, 4]

// -----

sym.dim @s0 in [1, 4]
// expected-error @below [E0304] {{symbol @s0 is defined twice}}
sym.dim @s0 in [1, 8]

// -----

func.func @constants() {
  // expected-error @below [E0301] {{is not an i64, f64 or i1 constant}}
  %0 = sym.constant 4 : i32
  // expected-error @below [E0301] {{does not have type f64}}
  %1 = "sym.constant"() <{value = 4 : i64}> : () -> f64
  func.return
}

// -----

func.func @arithmetic(%a: i64, %b: i64, %p: i1, %t: tensor<i64>) {
  // expected-error @below [E0301] {{'sym.add' takes 2 scalars, not 1}}
  %0 = sym.add %a : (i64) -> i64
  // expected-error @below [E0301] {{'sym.add' gives i64, not f64}}
  %1 = sym.add %a, %b : (i64, i64) -> f64
  // expected-error @below [E0301] {{'sym.add' tensor<i64> is not i64, f64 or i1}}
  %2 = sym.add %a, %t : (i64, tensor<i64>) -> i64
  // expected-error @below [E0301] {{'sym.eq' gives i1, not i64}}
  %3 = sym.eq %a, %b : (i64, i64) -> i64
  func.return
}

// -----

func.func @expression(%x: tensor<4xf32>) {
  // expected-error @below [E0101]
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<?xf32, #et.layout<dims = [s0 +]>>
  func.return
}
