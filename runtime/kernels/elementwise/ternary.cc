// Operators of three tensors: addcmul, addcdiv, lerp.
#include <cmath>

#include "kernels/elementwise/arithmetic.h"
#include "kernels/elementwise/operators.h"

namespace etir {

namespace {

ScalarType common_of(const AnyOperand& a, const AnyOperand& b, const AnyOperand& c) {
  ResultType result;
  a.add_to(result);
  b.add_to(result);
  c.add_to(result);
  return result.get();
}

/// The factor of addcmul and addcdiv must not be of a higher category than the result.
bool check_factor(KernelContext& ctx, int index, ScalarType common) {
  const Scalar factor = ctx.scalar(index);
  if (!factor.is_floating() || category(common) >= 2) return true;
  ctx.fail(Check::KernelArgument, index, number_as<int64_t>(factor));
  return false;
}

/// start + weight * (end - start), from the end that is nearer.
struct Lerp {
  template <typename T, typename W>
  T operator()(T start, T end, W weight) const {
    const T difference = end - start;
    if constexpr (detail::is_complex_v<T>) {
      return std::abs(weight) < 0.5 ? start + weight * difference : end - difference * (W(1) - weight);
    } else {
      const T from_start = start + weight * difference;
      const T from_end = end - difference * (W(1) - weight);
      return std::fabs(weight) < W(0.5) ? from_start : from_end;
    }
  }
};

}  // namespace

void addcmul_out(KernelContext& ctx) {
  const AnyOperand a(ctx, 0), b(ctx, 1), c(ctx, 2);
  const ScalarType common = common_of(a, b, c);
  if (!check_factor(ctx, 3, common)) return;
  const Scalar factor = ctx.scalar(3);
  ternary_in<kReal | kFullComplex>(
      ctx, a, b, c, 4, common,
      [real = factor.to<double>(), integer = number_as<int64_t>(factor)](auto x, auto y, auto z) {
        using T = decltype(x);
        if constexpr (std::is_same_v<T, int64_t>) {
          return wrap_add(x, wrap_mul(integer, wrap_mul(y, z)));
        } else {
          return x + static_cast<T>(real) * y * z;
        }
      });
}

/// Integers are refused, as in torch.
void addcdiv_out(KernelContext& ctx) {
  const AnyOperand a(ctx, 0), b(ctx, 1), c(ctx, 2);
  const double factor = ctx.scalar(3).to<double>();
  if (category(b.dtype()) < 2 && category(c.dtype()) < 2) {
    return ctx.fail(Check::KernelDtype, 1, static_cast<int64_t>(b.dtype()));
  }
  ternary_in<kFloatComplex>(ctx, a, b, c, 4, common_of(a, b, c),
                            [factor](auto x, auto y, auto z) { return x + static_cast<decltype(x)>(factor) * y / z; });
}

void lerp_tensor_out(KernelContext& ctx) {
  const AnyOperand a(ctx, 0), b(ctx, 1), c(ctx, 2);
  ternary_in<kFloatComplex>(ctx, a, b, c, 3, common_of(a, b, c), Lerp{});
}
void lerp_scalar_out(KernelContext& ctx) {
  const AnyOperand a(ctx, 0), b(ctx, 1);
  const double weight = ctx.scalar(2).to<double>();
  binary_in<kFloatComplex>(ctx, a, b, 3, common_type(a, b),
                           [weight](auto x, auto y) { return Lerp{}(x, y, static_cast<decltype(x)>(weight)); });
}

}  // namespace etir
