// pow: of integers by repeated squaring, of floating point numbers by libm, or by multiplication for small exponents.
#include <cmath>
#include <complex>

#include "kernels/elementwise/arithmetic.h"
#include "kernels/elementwise/operators.h"

namespace etir {

namespace {

constexpr DtypeSet kPowerTypes = kReal | kFullComplex;

/// Wraps around. Negative exponents give 0 except for bases 1 and -1, as in torch.
int64_t integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (uint64_t rest = static_cast<uint64_t>(exponent); rest != 0; rest >>= 1) {
    if (rest & 1) result *= square;
    square *= square;
  }
  return static_cast<int64_t>(result);
}

struct Power {
  template <typename T>
  T operator()(T base, T exponent) const {
    if constexpr (std::is_same_v<T, int64_t>) {
      return integer_power(base, exponent);
    } else {
      return std::pow(base, exponent);
    }
  }
};

template <typename F>
void to_constant_power(KernelContext& ctx, ScalarType common, const F& f) {
  unary_in<kFloats>(ctx, 0, 2, common, f);
}

}  // namespace

void pow_out(KernelContext& ctx) {
  const AnyOperand base(ctx, 0), exponent(ctx, 1);
  const ScalarType common = common_type(base, exponent);
  if (exponent.is_number() && category(common) < 2 && exponent.number().to<int64_t>() < 0) {
    return ctx.fail(Check::KernelArgument, 1, exponent.number().to<int64_t>());
  }
  if (common == ScalarType::Bool) {
    // Of bools: 0 to the power of 1 is the only way to get 0.
    if (!check_result(ctx, common, 2)) return;
    return elementwise<bool, bool, bool>(ctx, ctx.tensor(2), 2, {base.operand(), exponent.operand()}, common,
                                         [](bool x, bool y) { return x | !y; });
  }
  if (exponent.is_number() && is_floating(common)) {
    const double value = exponent.number().to<double>();
    if (value == 2.0) return to_constant_power(ctx, common, [](auto x) { return x * x; });
    if (value == 3.0) return to_constant_power(ctx, common, [](auto x) { return x * x * x; });
    // torch leaves roots of half to pow, which differs from them at -0 and -inf.
    const bool root = common != ScalarType::Half;
    if (root && value == 0.5) return to_constant_power(ctx, common, [](auto x) { return std::sqrt(x); });
    if (value == -1.0) return to_constant_power(ctx, common, [](auto x) { return decltype(x)(1) / x; });
    if (value == -2.0) return to_constant_power(ctx, common, [](auto x) { return decltype(x)(1) / (x * x); });
    if (root && value == -0.5)
      return to_constant_power(ctx, common, [](auto x) { return decltype(x)(1) / std::sqrt(x); });
  }
  binary_in<kPowerTypes>(ctx, base, exponent, 2, common, Power{});
}

/// pow in double, or in complex numbers of doubles.
void float_power_out(KernelContext& ctx) {
  const AnyOperand base(ctx, 0), exponent(ctx, 1);
  const ScalarType common = is_complex(common_type(base, exponent)) ? ScalarType::ComplexDouble : ScalarType::Double;
  if (ctx.tensor(2).dtype != common) {
    return ctx.fail(Check::KernelDtypeMismatch, 2, static_cast<int64_t>(ctx.tensor(2).dtype));
  }
  binary_in<dtype_set(ScalarType::Double, ScalarType::ComplexDouble)>(ctx, base, exponent, 2, common, Power{});
}

}  // namespace etir
