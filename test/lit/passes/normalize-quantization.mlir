// RUN: et-opt -p 'normalize-quantization{backend=xnnpack}' --split-input-file %s | filecheck %s
// RUN: et-opt -p 'normalize-quantization{backend=reference}' --split-input-file %s | filecheck %s --check-prefix=OTHER
// RUN: et-opt -p 'normalize-quantization' --split-input-file %s | filecheck %s --check-prefix=OTHER

// Eight bits without a sign are int8, 128 less, for a backend that computes on int8.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @bytes
// OTHER-LABEL: func.func @bytes
func.func @bytes(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[Q:.*]] = edge.quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127, dtype = i8)
  // CHECK-NEXT: %[[Y:.*]] = edge.quantized_decomposed.dequantize_per_tensor.default(%[[Q]], scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127, dtype = i8)
  // CHECK-NEXT: func.return %[[Y]]
  // OTHER-NEXT: zero_point = 131
  %q = edge.quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.5, zero_point = 131, quant_min = 0, quant_max = 255, dtype = ui8) : (tensor<4xf32>) -> tensor<4xui8>
  %y = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.5, zero_point = 131, quant_min = 0, quant_max = 255, dtype = ui8) : (tensor<4xui8>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// A smaller range is a clamp: -127 stands for -65, 100 for 48.5.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @range
func.func @range(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[C:.*]] = edge.aten.clamp.default(%x, min = -65.0, max = 48.5)
  // CHECK-NEXT: quantize_per_tensor.default(%[[C]], scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127, dtype = i8)
  %q = edge.quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.5, zero_point = 3, quant_min = -127, quant_max = 100, dtype = i8) : (tensor<4xf32>) -> tensor<4xi8>
  // CHECK-NEXT: dequantize_per_tensor.default({{.*}}, scale = 0.5, zero_point = 3, quant_min = -128, quant_max = 127, dtype = i8)
  %y = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.5, zero_point = 3, quant_min = -127, quant_max = 127, dtype = i8) : (tensor<4xi8>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// Integers from outside and to the outside keep their type; int8 numbers stand beside them. The schema of the operator
// that the module did not have is declared.

// CHECK: et.schema "quantized_decomposed::dequantize_per_tensor
et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"

// CHECK-LABEL: func.func @outwards
func.func @outwards(%x: tensor<4xf32>) -> tensor<4xui8> {
  // CHECK-NEXT: %[[Q:.*]] = edge.quantized_decomposed.quantize_per_tensor.default(%x, {{.*}} dtype = i8)
  // CHECK-NEXT: %[[Y:.*]] = edge.quantized_decomposed.dequantize_per_tensor.default(%[[Q]], {{.*}} dtype = i8)
  // CHECK-NEXT: quantize_per_tensor.default(%[[Y]], scale = 0.5, zero_point = 131, quant_min = 0, quant_max = 255, dtype = ui8)
  %q = edge.quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.5, zero_point = 131, quant_min = 0, quant_max = 255, dtype = ui8) : (tensor<4xf32>) -> tensor<4xui8>
  func.return %q : tensor<4xui8>
}

// -----

et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @inwards
func.func @inwards(%x: tensor<4xui8>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[F:.*]] = edge.quantized_decomposed.dequantize_per_tensor.default(%x, {{.*}} dtype = ui8)
  // CHECK-NEXT: %[[Q:.*]] = edge.quantized_decomposed.quantize_per_tensor.default(%[[F]], {{.*}} dtype = i8)
  // CHECK-NEXT: %[[Y:.*]] = edge.quantized_decomposed.dequantize_per_tensor.default(%[[Q]], {{.*}} dtype = i8)
  // CHECK-NEXT: edge.aten.relu.default(%[[Y]])
  %y = edge.quantized_decomposed.dequantize_per_tensor.default(%x, scale = 0.5, zero_point = 131, quant_min = 0, quant_max = 255, dtype = ui8) : (tensor<4xui8>) -> tensor<4xf32>
  %z = edge.aten.relu.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %z : tensor<4xf32>
}

// -----

// 16 bits, a zero point that int8 does not have, numbers in float16: as they were.

et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"

// CHECK-LABEL: func.func @others
func.func @others(%x: tensor<4xf32>, %h: tensor<4xf16>) -> (tensor<4xi16>, tensor<4xui8>, tensor<4xui8>) {
  // CHECK: dtype = i16
  // CHECK-NEXT: zero_point = 300
  // CHECK-NEXT: dtype = ui8
  %0 = edge.quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.5, zero_point = 0, quant_min = -32768, quant_max = 32767, dtype = i16) : (tensor<4xf32>) -> tensor<4xi16>
  %1 = edge.quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.5, zero_point = 300, quant_min = 0, quant_max = 255, dtype = ui8) : (tensor<4xf32>) -> tensor<4xui8>
  %2 = edge.quantized_decomposed.quantize_per_tensor.default(%h, scale = 0.5, zero_point = 131, quant_min = 0, quant_max = 255, dtype = ui8) : (tensor<4xf16>) -> tensor<4xui8>
  func.return %0, %1, %2 : tensor<4xi16>, tensor<4xui8>, tensor<4xui8>
}

// -----

// Weights of uint8: 128 less, and so are their zero points.

et.schema "quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
et.schema "quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"

// CHECK-LABEL: func.func @weights
func.func @weights() -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %w = et.constant dense<[[0, 1], [128, 255]]> : tensor<2x2xui8>
  %s = et.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %z = et.constant dense<[128, 130]> : tensor<2xi64>
  // CHECK: %[[W:.*]] = et.constant dense<[[-128, -127], [0, 127]]> : tensor<2x2xi8>
  // CHECK: edge.quantized_decomposed.dequantize_per_tensor.default(%[[W]], scale = 0.5, zero_point = 0, quant_min = -128, quant_max = 127, dtype = i8)
  // CHECK: %[[Z:.*]] = et.constant dense<[0, 2]> : tensor<2xi64>
  // CHECK: edge.quantized_decomposed.dequantize_per_channel.default(%{{.*}}, %s, %[[Z]], axis = 0, quant_min = -128, quant_max = 127, dtype = i8)
  %0 = edge.quantized_decomposed.dequantize_per_tensor.default(%w, scale = 0.5, zero_point = 128, quant_min = 0, quant_max = 255, dtype = ui8) : (tensor<2x2xui8>) -> tensor<2x2xf32>
  %1 = edge.quantized_decomposed.dequantize_per_channel.default(%w, %s, %z, axis = 0, quant_min = 0, quant_max = 255, dtype = ui8) : (tensor<2x2xui8>, tensor<2xf32>, tensor<2xi64>) -> tensor<2x2xf32>
  func.return %0, %1 : tensor<2x2xf32>, tensor<2x2xf32>
}
