// pow: of integers by repeated squaring, of floating point numbers by libm, or by multiplication for small exponents.
#include <cmath>
#include <complex>

#include "kernels/elementwise/arithmetic.h"
#include "kernels/elementwise/operators.h"
#include "kernels/elementwise/power.gen.h"

namespace etir {

namespace {

constexpr DtypeSet kPowerTypes = kReal | kFullComplex;

/// Wraps around. Negative exponents give 0 except for bases 1 and -1, as in torch.
[[maybe_unused]] int64_t integer_power(int64_t base, int64_t exponent) {
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
void to_constant_power(KernelContext& ctx, const AnyOperand& base, Tensor& out, ScalarType common, const F& f) {
  unary_in<kFloats>(ctx, base.tensor(), out, common, f);
}

}  // namespace

void pow_out(KernelContext& ctx, const TensorOrScalar& self, const TensorOrScalar& exponent, Tensor& out) {
  using arg = arguments::pow_out;
  const AnyOperand base(self), power(exponent);
  const ScalarType common = common_type(base, power);
  if (power.is_number() && category(common) < 2 && power.number().to<int64_t>() < 0) {
    return ctx.fail(Check::KernelArgument, arg::exponent, power.number().to<int64_t>());
  }
  if (common == ScalarType::Bool) {
    // Of bools: 0 to the power of 1 is the only way to get 0.
    if (!check_result(ctx, common, out)) return;
    return elementwise<bool, bool, bool>(ctx, out, {&base.tensor(), &power.tensor()}, common,
                                         [](bool x, bool y) { return x | !y; });
  }
  if (power.is_number() && is_floating(common)) {
    const double value = power.number().to<double>();
    if (value == 2.0) return to_constant_power(ctx, base, out, common, [](auto x) { return x * x; });
    if (value == 3.0) return to_constant_power(ctx, base, out, common, [](auto x) { return x * x * x; });
    // torch leaves roots of half to pow, which differs from them at -0 and -inf.
    const bool root = common != ScalarType::Half;
    if (root && value == 0.5) return to_constant_power(ctx, base, out, common, [](auto x) { return std::sqrt(x); });
    if (value == -1.0) return to_constant_power(ctx, base, out, common, [](auto x) { return decltype(x)(1) / x; });
    if (value == -2.0)
      return to_constant_power(ctx, base, out, common, [](auto x) { return decltype(x)(1) / (x * x); });
    if (root && value == -0.5)
      return to_constant_power(ctx, base, out, common, [](auto x) { return decltype(x)(1) / std::sqrt(x); });
  }
  binary_in<kPowerTypes>(ctx, base, power, out, common, Power{});
}

/// pow in double, or in complex numbers of doubles.
void float_power_out(KernelContext& ctx, const TensorOrScalar& self, const TensorOrScalar& exponent, Tensor& out) {
  const AnyOperand base(self), power(exponent);
  const ScalarType common = is_complex(common_type(base, power)) ? ScalarType::ComplexDouble : ScalarType::Double;
  if (out.dtype != common) {
    return ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  }
  binary_in<dtype_set(ScalarType::Double, ScalarType::ComplexDouble)>(ctx, base, power, out, common, Power{});
}

}  // namespace etir
