// RUN: not et-opt -p 'verify-link{target=executorch}' %s 2>&1 | filecheck %s
// RUN: not et-opt -p 'verify-link{target=nowhere}' %s 2>&1 | filecheck %s --check-prefix=TARGET

// TARGET: error[E0601]: {{.*}}'nowhere'

// Each entry names the operator, how often it is used, where first, and what to do.
et.schema "mylib::twice(Tensor x) -> Tensor"
et.schema "mylib::twice.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"
et.schema "mylib::thrice(Tensor x) -> Tensor"
et.schema "quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"
et.schema "quantized_decomposed::quantize_per_tensor.out(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, Tensor(a!) out) -> Tensor(a!)"

func.func @forward(%x: tensor<2x3xf32>, %h: tensor<2x3xf16>, %c: tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32> {
  // An operator that the target has, and a custom library's own operator with its out variant.
  %0 = edge.aten.relu.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("m.py":1:0)
  %1 = edge.mylib.twice.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("m.py":2:0)

  // CHECK: m.py:3: error[E0603]: 'edge.aten.lgamma.default': executorch 1.5.1 has no kernel 'aten::lgamma.out' (2 uses, this is the first)
  // CHECK-NEXT: note: in pass 'verify-link'
  // CHECK-NEXT: help: {{.*}}kernel
  %2 = edge.aten.lgamma.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("m.py":3:0)
  %3 = edge.aten.lgamma.default(%2) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("m.py":4:0)

  // CHECK: m.py:5: error[E0415]: 'edge.mylib.thrice.default': there is no out variant
  // CHECK: help: register mylib::thrice.out with the same arguments and 'Tensor(a!) out', or decompose the operator
  %4 = edge.mylib.thrice.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("m.py":5:0)

  // CHECK: m.py:6: error[E0604]: 'edge.aten.mm.default': kernel 'aten::mm.out' of executorch 1.5.1: {{.*}}
  %5 = edge.aten.mm.default(%x, %h) : (tensor<2x3xf32>, tensor<2x3xf16>) -> tensor<2x3xf32> loc("m.py":6:0)

  // CHECK: m.py:7: error[E0605]: 'edge.quantized_decomposed.quantize_per_tensor.default': kernel 'quantized_decomposed::quantize_per_tensor.out' is in library '{{.*}}', which is not linked
  // CHECK: help: Link the library
  %6 = edge.quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.1, zero_point = 0, quant_min = -128, quant_max = 127, dtype = i8) : (tensor<2x3xf32>) -> tensor<2x3xi8> loc("m.py":7:0)

  // CHECK-NOT: error
  func.return %0 : tensor<2x3xf32>
}
