// RUN: et-opt --split-input-file --verify-diagnostics %s

func.func @predicate(%p: i64) {
  // expected-error @below [E0301] {{the predicate is i1 or a bool tensor, not i64}}
  control.cond %p : i64 -> () {
    control.yield
  } else {
    control.yield
  }
  func.return
}

// -----

func.func @branch_results(%p: i1, %x: tensor<4xf32>) {
  // expected-error @below [E0301] {{else region: 0 values for 1}}
  %0 = control.cond %p : i1 -> (tensor<4xf32>) {
    control.yield %x : tensor<4xf32>
  } else {
    control.yield
  }
  // expected-error @below [E0301] {{then region: value 0 has type tensor<4xf32>, expected tensor<8xf32>}}
  %1 = control.cond %p : i1 -> (tensor<8xf32>) {
    control.yield %x : tensor<4xf32>
  } else {
    control.yield %x : tensor<4xf32>
  }
  func.return
}

// -----

func.func @no_yield(%p: i1) {
  // expected-error @below [E0301] {{a region of a control operation ends with control.yield}}
  control.cond %p : i1 -> () {
    // expected-error @below [E0301] {{ends its block and is not a terminator}}
    %0 = sym.constant 1 : i64
  } else {
    control.yield
  }
  func.return
}

// -----

func.func @branch_arguments(%p: i1) {
  // expected-error @below [E0301] {{the then region takes no arguments: it sees the values around it}}
  control.cond %p : i1 -> () {
  ^bb0(%x: i64):
    control.yield
  } else {
    control.yield
  }
  func.return
}

// -----

func.func @while_condition(%i: i64) {
  // expected-error @below [E0301] {{the condition region yields one bool}}
  %0 = control.while carry (%a = %i) : (i64) {
    control.yield %a : i64
  } do {
  ^bb0(%b: i64):
    control.yield %b : i64
  }
  func.return
}

// -----

func.func @while_types(%i: i64) {
  // expected-error @below [E0301] {{body region: value 0 has type f64, expected i64}}
  %0 = control.while carry (%a = %i) : (i64) {
    %c = sym.lt %a, %a : (i64, i64) -> i1
    control.yield %c : i1
  } do {
  ^bb0(%b: i64):
    %f = sym.to_float %b : (i64) -> f64
    control.yield %f : f64
  }
  func.return
}

// -----

func.func @scan_scalar(%x: tensor<f32>) {
  // expected-error @below [E0101] {{a scan goes over tensors with a leading dim, not tensor<f32>}}
  control.scan over (%s = %x) : (), (tensor<f32>) -> () {
    control.yield
  }
  func.return
}

// -----

func.func @scan_results(%xs: tensor<8x4xf32>) {
  // expected-error @below [E0301] {{results: value 0 has type tensor<4x4xf32>, expected tensor<8x4xf32>}}
  %0 = control.scan over (%x = %xs) : (), (tensor<8x4xf32>) -> (tensor<4x4xf32>) {
    control.yield %x : tensor<4xf32>
  }
  func.return
}

// -----

// Branches do not see each other's values.
func.func @scoping(%p: i1, %x: tensor<4xf32>) {
  %0 = control.cond %p : i1 -> (tensor<4xf32>) {
    %1 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    control.yield %1 : tensor<4xf32>
  } else {
    // expected-error @below [E0302] {{there is no value %1 here}}
    control.yield %1 : tensor<4xf32>
  }
  func.return
}
