// RUN: et-opt --split-input-file --verify-diagnostics %s

// expected-error@+1 {{f32 has 32 bits, the literal has more}}
func.func @f() { %0 = et.constant dense<0x1ff800000> : tensor<f32> func.return }

// -----

// expected-error@+1 {{the bits of a float have no sign beside them}}
func.func @f() { %0 = et.constant dense<-0x1> : tensor<f32> func.return }

// -----

// expected-error@+1 {{the literal has more bits than its type}}
func.func @f() attributes {x = 0x1ff800000 : f32} { func.return }
