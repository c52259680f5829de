// RUN: et-opt --verify-diagnostics --split-input-file %s

func.func @other(%x: tensor<4xf16>) -> tensor<4xf16> {
  // expected-error @below [E0301] {{observes tensor<...xf32>, not tensor<4xf16> (Q1)}}
  %0 = quant.observe %x : tensor<4xf16>
  func.return %0 : tensor<4xf16>
}

// -----

func.func @empty(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below [E0301] {{a range from 2.0 to 1.0 (Q2)}}
  %0 = quant.observe %x {seen = #quant.range<2.0, 1.0, samples = 1>} : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @scale(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below [E0301] {{needs a positive scale and a zero point of -128 to 127 (Q3)}}
  %0 = quant.observe %x {as = #quant.uniform<i8, scale = 0.0, zero_point = 0>} : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @by_channel(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below [E0301] {{needs a positive scale and a zero point of -128 to 127 (Q3)}}
  %0 = quant.observe %x {as = #quant.uniform<i8, axis = 0>} : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @text(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below [E0101] {{a range is <low, high, samples = count>}}
  %0 = quant.observe %x {seen = #quant.range<2.0>} : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @text(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below [E0101] {{integers are <i8, scale = number, zero_point = number>, <i8 or i4, axis = dim> or <i8<-63:63>, axis = dim>}}
  %0 = quant.observe %x {as = #quant.uniform<i4>} : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @text(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below [E0101] {{integers are <i8, scale = number, zero_point = number>, <i8 or i4, axis = dim> or <i8<-63:63>, axis = dim>}}
  %0 = quant.observe %x {as = #quant.uniform<i4<-63:63>, axis = 0>} : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

func.func @text(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below [E0101] {{integers are <i8, scale = number, zero_point = number>, <i8 or i4, axis = dim> or <i8<-63:63>, axis = dim>}}
  %0 = quant.observe %x {as = #quant.uniform<i8<-63:63>, axis = 0, block = 32>} : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
