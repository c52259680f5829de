// RUN: et-opt --verify-diagnostics --split-input-file %s

// The place of an expectation: its own line, lines from it, the next line that is no expectation itself.

func.func @places(%x: tensor<4xf32>) {
  %0 = et.get_weight @a : tensor<4xf32> // expected-error {{there is no weight @a}}
  // expected-error @+1 {{there is no weight @b}}
  %1 = et.get_weight @b : tensor<4xf32>
  %2 = et.get_weight @c : tensor<4xf32>
  // expected-error @-1 {{there is no weight @c}}

  // expected-error @below {{result 0: a dynamic dim}}
  // expected-error @below {{operand 0 of 'edge.aten.relu.default' is used where its definition does not reach}}
  %3 = edge.aten.relu.default(%4) : (tensor<4xf32>) -> tensor<?xf32>
  %4 = et.get_weight @d : tensor<4xf32>
  // expected-error @above {{there is no weight @d}}
  func.return
}

// -----

// An id alone, an id with a text, and a regular expression.

func.func @kinds() {
  // expected-error @below [E0303]
  %0 = et.get_weight @a : tensor<4xf32>
  // expected-error @below [E0303] {{no weight @b}}
  %1 = et.get_weight @b : tensor<4xf32>
  // expected-error-re @below {{there is no weight @{{[a-z]+[0-9]}}}}
  %2 = et.get_weight @c7 : tensor<4xf32>
  func.return
}

// -----

// Errors of parsing are expected in the same way.

// expected-error @below [E0102] {{Operation nothing.here is not registered}}
nothing.here

// -----

// A module without problems is fine.

func.func @fine() {
  func.return
}
