// RUN: et-opt --to-out-variant %s | filecheck %s
// RUN: et-opt -p 'to-out-variant{plan-inputs=false plan-outputs=false}' %s | filecheck %s --check-prefix=CALLER

// Memory of the caller: inputs and outputs have no place in the program's.
// CALLER-LABEL: et.method @calls
// CALLER-NEXT: %x = et.buffer caller : tensor<2x8xf32>
// CALLER-NEXT: %w = et.get_weight @w : tensor<4x8xf32>
// CALLER-NEXT: %y = et.buffer : tensor<2x4xf32>
// CALLER-NEXT: %z = et.buffer caller : tensor<2x4xf32>
// CALLER-NEXT: %v = et.buffer caller : tensor<2xf32>

et.weight @w : tensor<4x8xf32> = #et.synthetic<seed = 1>
et.state @cache : tensor<4xf32>
et.state @rows : tensor<8x4xf32> = #et.synthetic<seed = 2>
sym.dim @s in [1, 8]
et.schema "mylib::twice(Tensor x) -> Tensor"
et.schema "mylib::twice.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"

// An operator is a call of its out variant, found by schema: arguments in the schema's order, the outs among them, and the
// result slot after the arrow. A custom library's operator is no different. Definitions of values come first.
// CHECK-LABEL: et.method @calls
// CHECK-NEXT: %x = et.buffer : tensor<2x8xf32>
// CHECK-NEXT: %w = et.get_weight @w : tensor<4x8xf32>
// CHECK-NEXT: %y = et.buffer : tensor<2x4xf32>
// CHECK-NEXT: %z = et.buffer : tensor<2x4xf32>
// CHECK-NEXT: %v = et.buffer : tensor<2xf32>
// CHECK-NEXT: %i = et.buffer : tensor<2xi64>
// CHECK-NEXT: et.inputs %x
// CHECK-NEXT: et.call "aten::linear.out"(%x, %w, none, %y) -> %y
// CHECK-NEXT: et.call "mylib::twice.out"(%y, %z) -> %z
// CHECK-NEXT: et.call "aten::max.dim_max"(%z, 1, false, %v, %i) -> tensors[%v, %i]
// CHECK-NEXT: et.return %z, %v
func.func @calls(%x: tensor<2x8xf32>) -> (tensor<2x4xf32>, tensor<2xf32>) {
  %w = et.get_weight @w : tensor<4x8xf32>
  %y = edge.aten.linear.default(%x, %w) : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
  %z = edge.mylib.twice.default(%y) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %v, %i = edge.aten.max.dim(%z, dim = 1) : (tensor<2x4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
  func.return %z, %v : tensor<2x4xf32>, tensor<2xf32>
}

// A list of results is a list of outs; holes in an optional list stay.
// CHECK-LABEL: et.method @lists
// CHECK-NEXT: %x = et.buffer : tensor<4x3xf32>
// CHECK-NEXT: %n = et.buffer : tensor<3xi64>
// CHECK-NEXT: %a = et.buffer : tensor<2x3xf32>
// CHECK-NEXT: %b = et.buffer : tensor<2x3xf32>
// CHECK-NEXT: %c = et.buffer : tensor<4x3xf32>
// CHECK-NEXT: et.inputs %x, %n
// CHECK-NEXT: et.call "aten::split_copy.Tensor_out"(%x, 2, 0, tensors[%a, %b]) -> tensors[%a, %b]
// CHECK-NEXT: et.call "aten::index.Tensor_out"(%x, optionals[none, %n], %c) -> %c
// CHECK-NEXT: et.return %b, %c
func.func @lists(%x: tensor<4x3xf32>, %n: tensor<3xi64>) -> (tensor<2x3xf32>, tensor<4x3xf32>) {
  %a, %b = edge.aten.split_copy.Tensor(%x, split_size = 2) : (tensor<4x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %c = edge.aten.index.Tensor(%x, indices = [none, %n]) : (tensor<4x3xf32>, tensor<3xi64>) -> tensor<4x3xf32>
  func.return %b, %c : tensor<2x3xf32>, tensor<4x3xf32>
}

// Sizes are numbers in slots that primitive operators write. Types become upper bounds, and a dynamic view is pointed at
// its base at run time; it is handed out as a copy, since its place is not known before.
// CHECK-LABEL: et.method @sizes
// CHECK-NEXT: %x = et.buffer dynamic {et.sizes = "s, 4"} : tensor<8x4xf32>
// CHECK-NEXT: %n = et.scalar 0 : i64
// CHECK-NEXT: %m = et.scalar 0 : i64
// CHECK-NEXT: %y = et.buffer dynamic {et.sizes = "s, 4"} : tensor<8x4xf32>
// CHECK-NEXT: %v = et.view %y late dynamic {et.sizes = "s, 2, 2"} : tensor<8x2x2xf32>
// CHECK-NEXT: %v_1 = et.buffer dynamic {et.sizes = "s, 2, 2"} : tensor<8x2x2xf32>
// CHECK-NEXT: et.inputs %x
// CHECK-NEXT: et.call "aten::sym_size.int"(%x, 0, %n)
// CHECK-NEXT: et.call "executorch_prim::mul.Scalar"(%n, 2, %m)
// CHECK-NEXT: et.call "aten::relu.out"(%x, %y) -> %y
// CHECK-NEXT: et.call "executorch_prim::et_view.default"(%y, ints[-1, 2, 2], %v)
// CHECK-NEXT: et.call "aten::clone.out"(%v, none, %v_1) -> %v_1
// CHECK-NEXT: et.return %v_1, %m
func.func @sizes(%x: tensor<?x4xf32, #et.layout<dims = [s, 4]>>) -> (tensor<?x2x2xf32, #et.layout<dims = [s, 2, 2]>>, i64) {
  %n = edge.aten.sym_size.int(%x, dim = 0) : (tensor<?x4xf32, #et.layout<dims = [s, 4]>>) -> i64
  %two = sym.constant 2
  %m = sym.mul %n, %two : (i64, i64) -> i64
  %y = edge.aten.relu.default(%x) : (tensor<?x4xf32, #et.layout<dims = [s, 4]>>) -> tensor<?x4xf32, #et.layout<dims = [s, 4]>>
  %v = backend.view %y : tensor<?x4xf32, #et.layout<dims = [s, 4]>> -> tensor<?x2x2xf32, #et.layout<dims = [s, 2, 2]>>
  func.return %v, %m : tensor<?x2x2xf32, #et.layout<dims = [s, 2, 2]>>, i64
}

// State is a buffer that lives from call to call. What is returned of its old content is copied before the store.
// CHECK-LABEL: et.method @state
// CHECK-NEXT: %x = et.buffer : tensor<4xf32>
// CHECK-NEXT: %c = et.buffer state @cache : tensor<4xf32>
// CHECK-NEXT: %d = et.buffer : tensor<4xf32>
// CHECK-NEXT: %e = et.buffer : tensor<4xf32>
// CHECK-NEXT: %c_1 = et.buffer : tensor<4xf32>
// CHECK-NEXT: et.inputs %x
// CHECK-NEXT: et.call "aten::add.out"(%c, %x, 1, %d) -> %d
// CHECK-NEXT: et.call "aten::neg.out"(%d, %e) -> %e
// CHECK-NEXT: et.call "aten::copy_"(%c_1, %c, false) -> %c_1
// CHECK-NEXT: et.call "aten::copy_"(%c, %e, false) -> %c
// CHECK-NEXT: et.return %c_1
func.func @state(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = et.read_state @cache : tensor<4xf32>
  %d = edge.aten.add.Tensor(%c, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = edge.aten.neg.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
  et.write_state @cache, %e : tensor<4xf32>
  func.return %c : tensor<4xf32>
}

// index_put into the last use of the old content is done in place.
// CHECK-LABEL: et.method @in_place
// CHECK-NEXT: %x = et.buffer : tensor<1x4xf32>
// CHECK-NEXT: %i = et.buffer : tensor<1xi64>
// CHECK-NEXT: %d = et.buffer state @rows : tensor<8x4xf32>
// CHECK-NEXT: %e = et.buffer : tensor<4xf32>
// CHECK-NEXT: et.inputs %x, %i
// CHECK-NEXT: et.call "aten::index_put_"(%d, optionals[%i], %x, false) -> %d
// CHECK-NEXT: et.call "aten::sum.IntList_out"(%d, ints[0], false, none, %e) -> %e
// CHECK-NEXT: et.return %e
func.func @in_place(%x: tensor<1x4xf32>, %i: tensor<1xi64>) -> tensor<4xf32> {
  %c = et.read_state @rows : tensor<8x4xf32>
  %d = edge.aten.index_put.default(%c, indices = [%i], values = %x) : (tensor<8x4xf32>, tensor<1xi64>, tensor<1x4xf32>) -> tensor<8x4xf32>
  %e = edge.aten.sum.dim_IntList(%d, dim = [0]) : (tensor<8x4xf32>) -> tensor<4xf32>
  et.write_state @rows, %d : tensor<8x4xf32>
  func.return %e : tensor<4xf32>
}

// Results of a condition are written where they live: by the producer where it is in the branch, else by a copy. A value
// that is yielded twice is written once and copied.
// CHECK-LABEL: et.method @conds
// CHECK-NEXT: %p = et.buffer : tensor<i1>
// CHECK-NEXT: %x = et.buffer : tensor<4xf32>
// CHECK-NEXT: %a = et.buffer : tensor<4xf32>
// CHECK-NEXT: %b = et.buffer : tensor<4xf32>
// CHECK-NEXT: et.inputs %p, %x
// CHECK-NEXT: et.jump_false %p, ^bb2, ^bb1
// CHECK-NEXT: ^bb1:
// CHECK-NEXT: et.call "aten::neg.out"(%x, %a) -> %a
// CHECK-NEXT: et.call "aten::copy_"(%b, %x, false) -> %b
// CHECK-NEXT: et.jump ^bb3
// CHECK-NEXT: ^bb2:
// CHECK-NEXT: et.call "aten::relu.out"(%x, %a) -> %a
// CHECK-NEXT: et.call "aten::copy_"(%b, %a, false) -> %b
// CHECK-NEXT: et.next ^bb3
// CHECK-NEXT: ^bb3:
// CHECK-NEXT: et.return %a, %b
func.func @conds(%p: tensor<i1>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a, %b = control.cond %p : tensor<i1> -> (tensor<4xf32>, tensor<4xf32>) {
    %c = edge.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    control.yield %c, %x : tensor<4xf32>, tensor<4xf32>
  } else {
    %c = edge.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    control.yield %c, %c : tensor<4xf32>, tensor<4xf32>
  }
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// Loops keep carried values in buffers of their own. The next values are complete before the old ones are overwritten:
// a swap goes through copies.
// CHECK-LABEL: et.method @loop
// CHECK-NEXT: %x = et.buffer : tensor<4xf32>
// CHECK-NEXT: %y = et.buffer : tensor<4xf32>
// CHECK-NEXT: %i = et.scalar 0 : i64
// CHECK-NEXT: %r = et.scalar 0 : i64
// CHECK-NEXT: %r_1 = et.buffer : tensor<4xf32>
// CHECK-NEXT: %r_2 = et.buffer : tensor<4xf32>
// CHECK-NEXT: %c = et.scalar false
// CHECK-NEXT: %m = et.scalar 0 : i64
// CHECK-NEXT: %0 = et.buffer : tensor<4xf32>
// CHECK-NEXT: %1 = et.buffer : tensor<4xf32>
// CHECK-NEXT: et.inputs %x, %y
// CHECK-NEXT: et.move %i to %r
// CHECK-NEXT: et.call "aten::copy_"(%r_1, %x, false) -> %r_1
// CHECK-NEXT: et.call "aten::copy_"(%r_2, %y, false) -> %r_2
// CHECK-NEXT: et.next ^bb1
// CHECK-NEXT: ^bb1:
// CHECK-NEXT: et.call "executorch_prim::lt.Scalar"(%r, 5, %c)
// CHECK-NEXT: et.jump_false %c, ^bb3, ^bb2
// CHECK-NEXT: ^bb2:
// CHECK-NEXT: et.call "executorch_prim::add.Scalar"(%r, 1, %m)
// CHECK-NEXT: et.call "aten::copy_"(%0, %r_2, false) -> %0
// CHECK-NEXT: et.call "aten::copy_"(%1, %r_1, false) -> %1
// CHECK-NEXT: et.move %m to %r
// CHECK-NEXT: et.call "aten::copy_"(%r_1, %0, false) -> %r_1
// CHECK-NEXT: et.call "aten::copy_"(%r_2, %1, false) -> %r_2
// CHECK-NEXT: et.jump ^bb1
// CHECK-NEXT: ^bb3:
// CHECK-NEXT: et.return %r_1
func.func @loop(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %i = sym.constant 0
  %r:3 = control.while carry (%n = %i, %a = %x, %b = %y) : (i64, tensor<4xf32>, tensor<4xf32>) {
    %five = sym.constant 5
    %c = sym.lt %n, %five : (i64, i64) -> i1
    control.yield %c : i1
  } do {
  ^bb0(%n: i64, %a: tensor<4xf32>, %b: tensor<4xf32>):
    %one = sym.constant 1
    %m = sym.add %n, %one : (i64, i64) -> i64
    control.yield %m, %b, %a : i64, tensor<4xf32>, tensor<4xf32>
  }
  func.return %r#1 : tensor<4xf32>
}

// Logic on numbers is a choice: a and b is b where a holds, else false; a or b is true where a holds, else b.
// CHECK-LABEL: et.method @logic
// CHECK: et.call "executorch_prim::lt.Scalar"(%n, 3, %a)
// CHECK-NEXT: et.call "executorch_prim::eq.Scalar"(%n, 3, %b)
// CHECK-NEXT: et.call "executorch_prim::sym_ite.Scalar"(%a, %b, false, %both)
// CHECK-NEXT: et.call "executorch_prim::sym_ite.Scalar"(%a, true, %b, %one)
// CHECK-NEXT: et.return %both, %one
func.func @logic(%n: i64) -> (i1, i1) {
  %k = sym.constant 3 : i64
  %a = sym.lt %n, %k : (i64, i64) -> i1
  %b = sym.eq %n, %k : (i64, i64) -> i1
  %both = sym.and %a, %b : (i1, i1) -> i1
  %one = sym.or %a, %b : (i1, i1) -> i1
  func.return %both, %one : i1, i1
}
