// Operators of ExecuTorch's library for Cortex-M that go element by element: conversions, sums, products, tables.
#include <cmath>

#include "kernels/cortex_m/elementwise.gen.h"
#include "kernels/cortex_m/fixed_point.h"

namespace etir {
namespace {

using namespace cortex_m;

constexpr int64_t kGrain = 8192;

/// Whether operands are int8 of one shape and dim order, and so is the result, which is given that shape.
bool begin(KernelContext& ctx, const Tensor& a, const Tensor& b, Tensor& out) {
  for (const Tensor* tensor : {&a, &b, static_cast<const Tensor*>(&out)}) {
    if (!check_dtype(ctx, *tensor, ScalarType::Char)) return false;
  }
  if (!same_shape(a, b)) return ctx.fail(Check::KernelShape, b, b.numel()), false;
  if (!same_dim_order(a, b)) return ctx.fail(Check::KernelDimOrder, b), false;
  if (!ctx.resize_like(out, a)) return false;
  if (!same_dim_order(a, out)) return ctx.fail(Check::KernelDimOrder, out), false;
  return has_data(ctx, a) && has_data(ctx, b) && has_data(ctx, out);
}

/// The same for an operator that changes the dtype.
bool begin_conversion(KernelContext& ctx, const Tensor& input, ScalarType from, Tensor& out, ScalarType to) {
  if (!check_dtype(ctx, input, from) || !check_dtype(ctx, out, to) || !ctx.resize_like(out, input)) return false;
  if (!same_dim_order(input, out)) return ctx.fail(Check::KernelDimOrder, out), false;
  return has_data(ctx, input) && has_data(ctx, out);
}

}  // namespace

void cortex_m_quantize_per_tensor_out(KernelContext& ctx, const Tensor& input, double scale, int64_t zero_point,
                                      int64_t quant_min, int64_t quant_max, ScalarType dtype, Tensor& out) {
  using arg = arguments::cortex_m_quantize_per_tensor_out;
  if (dtype != ScalarType::Char) return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(dtype));
  Limits limits;
  if (!read_limits(ctx, zero_point, arg::zero_point, quant_min, arg::quant_min, quant_max, arg::quant_max, &limits) ||
      !begin_conversion(ctx, input, ScalarType::Float, out, ScalarType::Char)) {
    return;
  }
  const float inverse = static_cast<float>(1.0 / scale);
  const float least = static_cast<float>(limits.low - limits.offset);
  const float most = static_cast<float>(limits.high - limits.offset);
  ctx.parallel_for(input.numel(), kGrain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      // NaN is the least number.
      const float value = input.ptr<float>()[i] * inverse, above = value > least ? value : least;
      const float limited = above < most ? above : most;
      out.ptr<int8_t>()[i] = static_cast<int8_t>(static_cast<int32_t>(std::nearbyint(limited)) + limits.offset);
    }
  });
}

void cortex_m_dequantize_per_tensor_out(KernelContext& ctx, const Tensor& input, double scale, int64_t zero_point,
                                        int64_t quant_min, int64_t quant_max, ScalarType dtype, Tensor& out) {
  using arg = arguments::cortex_m_dequantize_per_tensor_out;
  if (dtype != ScalarType::Char) return ctx.fail(Check::KernelDtype, input, static_cast<int64_t>(dtype));
  Limits limits;
  if (!read_limits(ctx, zero_point, arg::zero_point, quant_min, arg::quant_min, quant_max, arg::quant_max, &limits) ||
      !begin_conversion(ctx, input, ScalarType::Char, out, ScalarType::Float)) {
    return;
  }
  const float step = static_cast<float>(scale);
  ctx.parallel_for(input.numel(), kGrain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      out.ptr<float>()[i] = static_cast<float>(input.ptr<int8_t>()[i] - limits.offset) * step;
    }
  });
}

void cortex_m_quantized_add_out(KernelContext& ctx, const Tensor& self, int64_t self_zero_point,
                                int64_t self_multiplier, int64_t self_shift, const Tensor& other,
                                int64_t other_zero_point, int64_t other_multiplier, int64_t other_shift,
                                int64_t output_zero_point, int64_t output_multiplier, int64_t output_shift,
                                int64_t activation_min, int64_t activation_max, Tensor& out) {
  using arg = arguments::cortex_m_quantized_add_out;
  constexpr int64_t kOne = int64_t{1} << 20;
  Factor a, b, sum;
  Limits limits;
  if (!check_offset(ctx, self_zero_point, arg::self_zero_point) ||
      !check_offset(ctx, other_zero_point, arg::other_zero_point) ||
      !read_factor(ctx, self_multiplier, self_shift, arg::self_shift, &a) ||
      !read_factor(ctx, other_multiplier, other_shift, arg::other_shift, &b) ||
      !read_factor(ctx, output_multiplier, output_shift, arg::output_shift, &sum) ||
      !read_limits(ctx, output_zero_point, arg::output_zero_point, activation_min, arg::activation_min, activation_max,
                   arg::activation_max, &limits) ||
      !begin(ctx, self, other, out)) {
    return;
  }
  ctx.parallel_for(self.numel(), kGrain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t x = a((self.ptr<int8_t>()[i] - self_zero_point) * kOne);
      const int64_t y = b((other.ptr<int8_t>()[i] - other_zero_point) * kOne);
      out.ptr<int8_t>()[i] = limits(sum(x + y));
    }
  });
}

void cortex_m_quantized_mul_out(KernelContext& ctx, const Tensor& self, int64_t self_zero_point, const Tensor& other,
                                int64_t other_zero_point, int64_t output_zero_point, int64_t output_multiplier,
                                int64_t output_shift, Tensor& out) {
  using arg = arguments::cortex_m_quantized_mul_out;
  Factor product;
  if (!check_offset(ctx, self_zero_point, arg::self_zero_point) ||
      !check_offset(ctx, other_zero_point, arg::other_zero_point) ||
      !check_offset(ctx, output_zero_point, arg::output_zero_point) ||
      !read_factor(ctx, output_multiplier, output_shift, arg::output_shift, &product) ||
      !begin(ctx, self, other, out)) {
    return;
  }
  const Limits limits = {static_cast<int32_t>(output_zero_point), -128, 127};
  ctx.parallel_for(self.numel(), kGrain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t x = self.ptr<int8_t>()[i] - self_zero_point, y = other.ptr<int8_t>()[i] - other_zero_point;
      out.ptr<int8_t>()[i] = limits(product(x * y));
    }
  });
}

void cortex_m_quantized_activation_out(KernelContext& ctx, const Tensor& input, const Tensor& lut, Tensor& out) {
  if (!check_constant(ctx, lut, ScalarType::Char, 1) || !check_size(ctx, lut, 0, 256) ||
      !begin(ctx, input, input, out)) {
    return;
  }
  const int8_t* entries = lut.ptr<int8_t>() + 128;
  ctx.parallel_for(input.numel(), kGrain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) out.ptr<int8_t>()[i] = entries[input.ptr<int8_t>()[i]];
  });
}

}  // namespace etir
