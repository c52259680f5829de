// RUN: et-opt -p 'integer-products-to-layers{target=etir}' --split-input-file %s | filecheck %s
// RUN: et-opt -p integer-products-to-layers --split-input-file %s | filecheck %s --check-prefix=OTHERS

// A target without kernels for integers computes the product.
// OTHERS-LABEL: func.func @rows
// OTHERS: aten._int_mm.default
// CHECK-LABEL: func.func @rows
// CHECK: %[[s:.*]], %[[z:.*]] = torchao.choose_qparams_affine.default(%x
// CHECK: %[[q:.*]] = torchao.quantize_affine.default(%x
// CHECK: %[[d:.*]] = torchao.dequantize_affine.default(%[[q]], block_size = [1, 64], %[[s]], %[[z]], input_dtype = i8, quant_min = -128, quant_max = 127)
// CHECK: %[[w:.*]] = torchao.dequantize_affine.default(%w, block_size = [1, 64], %scales, input_dtype = i8, quant_min = -128, quant_max = 127)
// CHECK: %[[y:.*]] = aten.linear.default(%[[d]], %[[w]]) : (tensor<4x64xf32>, tensor<96x64xf32>) -> tensor<4x96xf32>
// CHECK: func.return %[[y]]
builtin.module {
  et.schema "torchao::choose_qparams_affine(Tensor? input, str mapping_type, SymInt[] block_size, ScalarType target_dtype, Scalar? quant_min=None, Scalar? quant_max=None, float? eps=None, ScalarType? scale_dtype=None, ScalarType? zero_point_dtype=None, bool keepdim=False) -> (Tensor, Tensor)"
  et.schema "torchao::quantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType output_dtype, Scalar? quant_min=None, Scalar? quant_max=None) -> Tensor"
  et.weight @w : tensor<96x64xi8> = #et.synthetic<seed = 1>
  et.weight @scales : tensor<96x1xf32> = #et.synthetic<seed = 2>
  func.func @rows(%x: tensor<4x64xf32>) -> tensor<4x96xf32> {
    %w = et.get_weight @w : tensor<96x64xi8>
    %scales = et.get_weight @scales : tensor<96x1xf32>
    %s, %z = torchao.choose_qparams_affine.default(%x, mapping_type = "SYMMETRIC", block_size = [1, 64], target_dtype = i8, quant_min = -128, quant_max = 127, eps = 1.1920928955078125e-07, scale_dtype = f32, zero_point_dtype = i8, keepdim = true) : (tensor<4x64xf32>) -> (tensor<4x1xf32>, tensor<4x1xi8>)
    %q = torchao.quantize_affine.default(%x, block_size = [1, 64], %s, %z, output_dtype = i8, quant_min = -128, quant_max = 127) : (tensor<4x64xf32>, tensor<4x1xf32>, tensor<4x1xi8>) -> tensor<4x64xi8>
    %t = aten.t.default(%w) : (tensor<96x64xi8>) -> tensor<64x96xi8>
    %p = aten._int_mm.default(%q, %t) : (tensor<4x64xi8>, tensor<64x96xi8>) -> tensor<4x96xi32>
    %f = aten.to.dtype(%p, dtype = f32) : (tensor<4x96xi32>) -> tensor<4x96xf32>
    %r = aten.mul.Tensor(%f, %s) : (tensor<4x96xf32>, tensor<4x1xf32>) -> tensor<4x96xf32>
    %c = aten.flatten.using_ints(%scales) : (tensor<96x1xf32>) -> tensor<96xf32>
    %y = aten.mul.Tensor(%r, %c) : (tensor<4x96xf32>, tensor<96xf32>) -> tensor<4x96xf32>
    func.return %y : tensor<4x96xf32>
  }
}

// -----

// A bias that is added to the result, also through a view, is the layer's; what else is added is not.
// CHECK-LABEL: func.func @bias
// CHECK: %[[l:.*]] = aten.linear.default(%{{.*}}, %{{.*}}, %b) : (tensor<4x64xf32>, tensor<96x64xf32>, tensor<96xf32>) -> tensor<4x96xf32>
// CHECK: %[[v:.*]] = aten.view.default(%[[l]], size = [2, 2, 96])
// CHECK: %[[a:.*]] = aten.add.Tensor(%[[v]], %m)
// CHECK: func.return %[[a]]
builtin.module {
  et.schema "torchao::choose_qparams_affine(Tensor? input, str mapping_type, SymInt[] block_size, ScalarType target_dtype, Scalar? quant_min=None, Scalar? quant_max=None, float? eps=None, ScalarType? scale_dtype=None, ScalarType? zero_point_dtype=None, bool keepdim=False) -> (Tensor, Tensor)"
  et.schema "torchao::quantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType output_dtype, Scalar? quant_min=None, Scalar? quant_max=None) -> Tensor"
  et.weight @w : tensor<96x64xi8> = #et.synthetic<seed = 1>
  et.weight @scales : tensor<96x1xf32> = #et.synthetic<seed = 2>
  et.weight @b : tensor<96xf32> = #et.synthetic<seed = 3>
  func.func @bias(%x: tensor<4x64xf32>, %m: tensor<2x2x96xf32>) -> tensor<2x2x96xf32> {
    %w = et.get_weight @w : tensor<96x64xi8>
    %b = et.get_weight @b : tensor<96xf32>
    %scales = et.get_weight @scales : tensor<96x1xf32>
    %s, %z = torchao.choose_qparams_affine.default(%x, mapping_type = "SYMMETRIC", block_size = [1, 64], target_dtype = i8, quant_min = -128, quant_max = 127, eps = 1.1920928955078125e-07, scale_dtype = f32, zero_point_dtype = i8, keepdim = true) : (tensor<4x64xf32>) -> (tensor<4x1xf32>, tensor<4x1xi8>)
    %q = torchao.quantize_affine.default(%x, block_size = [1, 64], %s, %z, output_dtype = i8, quant_min = -128, quant_max = 127) : (tensor<4x64xf32>, tensor<4x1xf32>, tensor<4x1xi8>) -> tensor<4x64xi8>
    %t = aten.t.default(%w) : (tensor<96x64xi8>) -> tensor<64x96xi8>
    %p = aten._int_mm.default(%q, %t) : (tensor<4x64xi8>, tensor<64x96xi8>) -> tensor<4x96xi32>
    %f = aten.to.dtype(%p, dtype = f32) : (tensor<4x96xi32>) -> tensor<4x96xf32>
    %r = aten.mul.Tensor(%f, %s) : (tensor<4x96xf32>, tensor<4x1xf32>) -> tensor<4x96xf32>
    %c = aten.flatten.using_ints(%scales) : (tensor<96x1xf32>) -> tensor<96xf32>
    %y = aten.mul.Tensor(%r, %c) : (tensor<4x96xf32>, tensor<96xf32>) -> tensor<4x96xf32>
    %v = aten.reshape.default(%y, shape = [2, 2, 96]) : (tensor<4x96xf32>) -> tensor<2x2x96xf32>
    %g = aten.add.Tensor(%v, %b) : (tensor<2x2x96xf32>, tensor<96xf32>) -> tensor<2x2x96xf32>
    %h = aten.add.Tensor(%g, %m) : (tensor<2x2x96xf32>, tensor<2x2x96xf32>) -> tensor<2x2x96xf32>
    func.return %h : tensor<2x2x96xf32>
  }
}

// -----

// Rows with zero points, which the product leaves out.
// CHECK-LABEL: func.func @points
// CHECK: aten._int_mm.default
// CHECK-NOT: aten.linear
builtin.module {
  et.schema "torchao::choose_qparams_affine(Tensor? input, str mapping_type, SymInt[] block_size, ScalarType target_dtype, Scalar? quant_min=None, Scalar? quant_max=None, float? eps=None, ScalarType? scale_dtype=None, ScalarType? zero_point_dtype=None, bool keepdim=False) -> (Tensor, Tensor)"
  et.schema "torchao::quantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType output_dtype, Scalar? quant_min=None, Scalar? quant_max=None) -> Tensor"
  et.weight @w : tensor<96x64xi8> = #et.synthetic<seed = 1>
  et.weight @scales : tensor<96x1xf32> = #et.synthetic<seed = 2>
  func.func @points(%x: tensor<4x64xf32>) -> tensor<4x96xf32> {
    %w = et.get_weight @w : tensor<96x64xi8>
    %scales = et.get_weight @scales : tensor<96x1xf32>
    %s, %z = torchao.choose_qparams_affine.default(%x, mapping_type = "ASYMMETRIC", block_size = [1, 64], target_dtype = i8, quant_min = -128, quant_max = 127, eps = 1.1920928955078125e-07, scale_dtype = f32, zero_point_dtype = i8, keepdim = true) : (tensor<4x64xf32>) -> (tensor<4x1xf32>, tensor<4x1xi8>)
    %q = torchao.quantize_affine.default(%x, block_size = [1, 64], %s, %z, output_dtype = i8, quant_min = -128, quant_max = 127) : (tensor<4x64xf32>, tensor<4x1xf32>, tensor<4x1xi8>) -> tensor<4x64xi8>
    %t = aten.t.default(%w) : (tensor<96x64xi8>) -> tensor<64x96xi8>
    %p = aten._int_mm.default(%q, %t) : (tensor<4x64xi8>, tensor<64x96xi8>) -> tensor<4x96xi32>
    %f = aten.to.dtype(%p, dtype = f32) : (tensor<4x96xi32>) -> tensor<4x96xf32>
    %r = aten.mul.Tensor(%f, %s) : (tensor<4x96xf32>, tensor<4x1xf32>) -> tensor<4x96xf32>
    %c = aten.flatten.using_ints(%scales) : (tensor<96x1xf32>) -> tensor<96xf32>
    %y = aten.mul.Tensor(%r, %c) : (tensor<4x96xf32>, tensor<96xf32>) -> tensor<4x96xf32>
    func.return %y : tensor<4x96xf32>
  }
}

// -----

// Factors that are numbers.
// CHECK-LABEL: func.func @numbers
// CHECK: aten.mul.Tensor(%x, 0.25)
// CHECK: aten.mul.Tensor(%{{.*}}, %scales)
builtin.module {
  et.weight @scales : tensor<96xf32> = #et.synthetic<seed = 2>
  func.func @numbers(%x: tensor<4x96xf32>) -> tensor<4x96xf32> {
    %scales = et.get_weight @scales : tensor<96xf32>
    %r = aten.mul.Tensor(%x, 0.25) : (tensor<4x96xf32>) -> tensor<4x96xf32>
    %y = aten.mul.Tensor(%r, %scales) : (tensor<4x96xf32>, tensor<96xf32>) -> tensor<4x96xf32>
    func.return %y : tensor<4x96xf32>
  }
}
