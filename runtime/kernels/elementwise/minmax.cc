// maximum, minimum, clamp and hardtanh: NaN wins over any number; fmax and fmin, where any number wins over NaN.
#include "kernels/elementwise/arithmetic.h"
#include "kernels/elementwise/minmax.gen.h"
#include "kernels/elementwise/operators.h"

namespace etir {

namespace {

/// out = min(max(self, low), high) in the common dtype; null bounds are absent.
void clamp_with(KernelContext& ctx, const AnyOperand& self, const AnyOperand* low, const AnyOperand* high,
                Tensor& out) {
  ResultType result;
  self.add_to(result);
  if (low != nullptr) low->add_to(result);
  if (high != nullptr) high->add_to(result);
  const ScalarType common = result.get();
  const auto at_least = [](auto x, auto bound) { return max_propagating(x, bound); };
  const auto at_most = [](auto x, auto bound) { return min_propagating(x, bound); };
  if (low != nullptr && high != nullptr) {
    ternary_in<kRealBool>(ctx, self, *low, *high, out, common, [](auto x, auto minimum, auto maximum) {
      return min_propagating(max_propagating(x, minimum), maximum);
    });
  } else if (low != nullptr) {
    binary_in<kRealBool>(ctx, self, *low, out, common, at_least);
  } else {
    binary_in<kRealBool>(ctx, self, *high, out, common, at_most);
  }
}

}  // namespace

void maximum_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  binary<kRealBool>(ctx, self, other, out, [](auto a, auto b) { return max_propagating(a, b); });
}
void minimum_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  binary<kRealBool>(ctx, self, other, out, [](auto a, auto b) { return min_propagating(a, b); });
}
void fmax_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  binary<kRealBool>(ctx, self, other, out, [](auto a, auto b) { return (a >= b) | (b != b) ? a : b; });
}
void fmin_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  binary<kRealBool>(ctx, self, other, out, [](auto a, auto b) { return (a <= b) | (b != b) ? a : b; });
}

/// Bounds are numbers or tensors, each of which may be absent, but not both.
void clamp_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& min, const TensorOrScalar& max,
               Tensor& out) {
  if (min.is_none() && max.is_none()) return ctx.fail(Check::KernelArgument, arguments::clamp_out::min, 0);
  const AnyOperand low(min.is_none() ? max : min), high(max.is_none() ? min : max);
  clamp_with(ctx, self, min.is_none() ? nullptr : &low, max.is_none() ? nullptr : &high, out);
}
void clamp_min_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& min, Tensor& out) {
  const AnyOperand low(min);
  clamp_with(ctx, self, &low, nullptr, out);
}
void clamp_max_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& max, Tensor& out) {
  const AnyOperand high(max);
  clamp_with(ctx, self, nullptr, &high, out);
}

/// The bounds are converted to the dtype of self.
void hardtanh_out(KernelContext& ctx, const Tensor& self, const Scalar& min_val, const Scalar& max_val, Tensor& out) {
  using arg = arguments::hardtanh_out;
  const ScalarType dtype = self.dtype;
  const auto fits = [&](const Scalar& bound, int position) {
    const int64_t value = number_as<int64_t>(bound);
    if (integer_fits(value, dtype) && (value >= 0 || !contains(kUnsignedInts, dtype))) return true;
    ctx.fail(Check::KernelOverflow, position, static_cast<int64_t>(dtype));
    return false;
  };
  if (is_integral(dtype, false) && (!fits(min_val, arg::min_val) || !fits(max_val, arg::max_val))) return;
  unary<kReal>(ctx, self, out,
               [low_integer = number_as<int64_t>(min_val), high_integer = number_as<int64_t>(max_val),
                low_real = min_val.to<double>(), high_real = max_val.to<double>()](auto x) {
                 using T = decltype(x);
                 if constexpr (std::is_same_v<T, int64_t>) {
                   return min_propagating(max_propagating(x, low_integer), high_integer);
                 } else {
                   return min_propagating(max_propagating(x, static_cast<T>(low_real)), static_cast<T>(high_real));
                 }
               });
}

}  // namespace etir
