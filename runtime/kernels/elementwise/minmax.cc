// maximum, minimum, clamp and hardtanh: NaN wins over any number; fmax and fmin, where any number wins over NaN.
#include "kernels/elementwise/arithmetic.h"
#include "kernels/elementwise/operators.h"

namespace etir {

namespace {

/// out = min(max(self, low), high) in the common dtype; null bounds are absent.
void clamp_with(KernelContext& ctx, const AnyOperand& self, const AnyOperand* low, const AnyOperand* high, int out) {
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

void maximum_out(KernelContext& ctx) {
  binary<kRealBool>(ctx, 0, 1, 2, [](auto a, auto b) { return max_propagating(a, b); });
}
void minimum_out(KernelContext& ctx) {
  binary<kRealBool>(ctx, 0, 1, 2, [](auto a, auto b) { return min_propagating(a, b); });
}
void fmax_out(KernelContext& ctx) {
  binary<kRealBool>(ctx, 0, 1, 2, [](auto a, auto b) { return (a >= b) | (b != b) ? a : b; });
}
void fmin_out(KernelContext& ctx) {
  binary<kRealBool>(ctx, 0, 1, 2, [](auto a, auto b) { return (a <= b) | (b != b) ? a : b; });
}

/// Bounds are numbers or tensors, each of which may be absent, but not both.
void clamp_out(KernelContext& ctx) {
  if (!ctx.has(1) && !ctx.has(2)) return ctx.fail(Check::KernelArgument, 1, 0);
  const AnyOperand self(ctx, 0);
  const AnyOperand low(ctx, ctx.has(1) ? 1 : 2), high(ctx, ctx.has(2) ? 2 : 1);
  clamp_with(ctx, self, ctx.has(1) ? &low : nullptr, ctx.has(2) ? &high : nullptr, 3);
}
void clamp_min_out(KernelContext& ctx) {
  const AnyOperand self(ctx, 0), low(ctx, 1);
  clamp_with(ctx, self, &low, nullptr, 2);
}
void clamp_max_out(KernelContext& ctx) {
  const AnyOperand self(ctx, 0), high(ctx, 1);
  clamp_with(ctx, self, nullptr, &high, 2);
}

/// The bounds are converted to the dtype of self.
void hardtanh_out(KernelContext& ctx) {
  const Scalar low = ctx.scalar(1), high = ctx.scalar(2);
  const ScalarType dtype = ctx.tensor(0).dtype;
  if (is_integral(dtype, false)) {
    for (int i = 1; i <= 2; ++i) {
      const int64_t bound = number_as<int64_t>(ctx.scalar(i));
      if (!integer_fits(bound, dtype) || (bound < 0 && contains(kUnsignedInts, dtype)))
        return ctx.fail(Check::KernelOverflow, i, static_cast<int64_t>(dtype));
    }
  }
  unary<kReal>(ctx, 0, 3,
               [low_integer = number_as<int64_t>(low), high_integer = number_as<int64_t>(high),
                low_real = low.to<double>(), high_real = high.to<double>()](auto x) {
                 using T = decltype(x);
                 if constexpr (std::is_same_v<T, int64_t>) {
                   return min_propagating(max_propagating(x, low_integer), high_integer);
                 } else {
                   return min_propagating(max_propagating(x, static_cast<T>(low_real)), static_cast<T>(high_real));
                 }
               });
}

}  // namespace etir
