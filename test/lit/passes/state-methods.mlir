// RUN: et-opt -p state-methods %s | filecheck %s
// RUN: et-opt -p 'state-methods{match=net.*}' %s | filecheck %s --check-prefix=SOME
// RUN: not et-opt -p 'state-methods{match=other}' %s 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not et-opt -p 'state-methods{match=net.*,other}' %s 2>&1 | filecheck %s --check-prefix=NONE

// One method for the names, one that reads and one that writes, for all states or for those whose names fit.

et.state @cache : tensor<4xf32> = #et.synthetic<seed = 1> {fqn = "net.cache"}
et.state @count : tensor<i64> = #et.synthetic<seed = 2>

func.func @forward(%x: tensor<4xf32>) {
  et.write_state @cache, %x : tensor<4xf32>
  func.return
}

// CHECK-LABEL: func.func @__et_state_names() -> (!et.string, !et.string)
// CHECK-NEXT: et.string "net.cache"
// CHECK-NEXT: et.string "count"
// CHECK-LABEL: func.func @__et_read_state() -> (tensor<4xf32>, tensor<i64>)
// CHECK-NEXT: %0 = et.read_state @cache
// CHECK-NEXT: %1 = et.read_state @count
// CHECK-NEXT: func.return %0, %1
// CHECK-LABEL: func.func @__et_write_state(%0: tensor<4xf32>, %1: tensor<i64>)
// CHECK-NEXT: et.write_state @cache, %0
// CHECK-NEXT: et.write_state @count, %1

// SOME: func.func @__et_read_state() -> tensor<4xf32>
// NONE: error[E0522]: no state is called other; the program has net.cache, count
