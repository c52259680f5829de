// Functions of one number that keep its dtype, or ask a question about it: abs, neg, sign, rounding, isnan, ...
#include <cmath>
#include <complex>
#include <limits>

#include "kernels/elementwise/arithmetic.h"
#include "kernels/elementwise/operators.h"
#include "kernels/elementwise/unary.gen.h"

namespace etir {

namespace {

/// out = f(self) where integers are left as they are.
template <typename F>
void rounding(KernelContext& ctx, const Tensor& self, Tensor& out, const F& f) {
  unary<kReal>(ctx, self, out, [f](auto x) {
    if constexpr (std::is_same_v<decltype(x), int64_t>) {
      return x;
    } else {
      return f(x);
    }
  });
}

/// Whether f(self), for complex numbers of either part; integers have no special values.
template <DtypeSet kSet, typename F>
void special_value(KernelContext& ctx, const Tensor& self, Tensor& out, const F& f) {
  unary_bool<kSet>(ctx, self, out, [f](auto x) {
    if constexpr (std::is_same_v<decltype(x), int64_t>) {
      return false;
    } else if constexpr (detail::is_complex_v<decltype(x)>) {
      constexpr auto kInfinity = std::numeric_limits<typename decltype(x)::value_type>::infinity();
      return f(x.real(), kInfinity) || f(x.imag(), kInfinity);
    } else {
      return f(x, std::numeric_limits<decltype(x)>::infinity());
    }
  });
}

/// The size of complex numbers, in the type of their parts.
template <typename C, typename F>
void complex_to_part(KernelContext& ctx, const Tensor& self, Tensor& out, const F& f) {
  const ScalarType part = part_of(self.dtype);
  if (!check_result(ctx, part, out)) return;
  elementwise<typename C::value_type, C>(ctx, out, {&self}, part, f);
}
template <DtypeSet kSet, typename F>
bool complex_parts(KernelContext& ctx, const Tensor& self, Tensor& out, const F& f) {
  return dispatch_compute<kSet>(self.dtype,
                                [&](auto tag) { complex_to_part<typename decltype(tag)::type>(ctx, self, out, f); });
}

}  // namespace

void abs_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (complex_parts<kComplex>(ctx, self, out, [](auto x) { return std::abs(x); })) return;
  unary<kReal>(ctx, self, out, [](auto x) {
    if constexpr (std::is_same_v<decltype(x), int64_t>) {
      return x < 0 ? wrap_sub(int64_t{0}, x) : x;
    } else {
      return std::fabs(x);
    }
  });
}

/// The angle in the complex plane: of real numbers 0 or pi.
void angle_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (complex_parts<kFullComplex>(ctx, self, out, [](auto x) { return std::arg(x); })) return;
  unary_float(ctx, self, out, [](auto x) {
    using T = decltype(x);
    return x != x ? x : x < T(0) ? static_cast<T>(3.14159265358979323846) : T(0);
  });
}

void neg_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary<kReal | kComplex>(ctx, self, out, [](auto x) {
    if constexpr (std::is_same_v<decltype(x), int64_t>) {
      return wrap_sub(int64_t{0}, x);
    } else {
      return -x;
    }
  });
}

void conj_physical_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary<kRealBool | kComplex>(ctx, self, out, [](auto x) {
    if constexpr (detail::is_complex_v<decltype(x)>) {
      return std::conj(x);
    } else {
      return x;
    }
  });
}

void sign_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary<kRealBool>(ctx, self, out, [](auto x) {
    using T = decltype(x);
    return static_cast<T>(x > T(0)) - static_cast<T>(x < T(0));
  });
}
void sgn_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (!is_complex(self.dtype)) return sign_out(ctx, self, out);
  unary<kComplex>(ctx, self, out, [](auto x) {
    using T = decltype(x);
    const auto size = std::abs(x);
    return size == 0 ? T(0) : x / size;
  });
}

/// As a power: that of a bool is an int64.
void square_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  const ScalarType dtype = self.dtype;
  const ScalarType common = dtype == ScalarType::Bool ? ScalarType::Long : dtype;
  unary_in<kReal | kFullComplex>(ctx, self, out, common, [](auto x) { return wrap_mul(x, x); });
}

void relu_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary<kReal>(ctx, self, out, [](auto x) { return x < decltype(x)(0) ? decltype(x)(0) : x; });
}

void ceil_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  rounding(ctx, self, out, [](auto x) { return std::ceil(x); });
}
void floor_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  rounding(ctx, self, out, [](auto x) { return std::floor(x); });
}
void trunc_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  rounding(ctx, self, out, [](auto x) { return std::trunc(x); });
}
/// Halves go to the even neighbor.
void round_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  rounding(ctx, self, out, [](auto x) { return std::nearbyint(x); });
}
void round_decimals_out(KernelContext& ctx, const Tensor& self, int64_t decimals, Tensor& out) {
  const bool left = decimals < 0;
  const double power = std::pow(10.0, left ? -static_cast<double>(decimals) : static_cast<double>(decimals));
  unary<kFloats>(ctx, self, out, [left, power](auto x) {
    const auto scale = static_cast<decltype(x)>(power);
    return left ? std::nearbyint(x / scale) * scale : std::nearbyint(x * scale) / scale;
  });
}
void frac_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary<kFloats>(ctx, self, out, [](auto x) { return x - std::trunc(x); });
}

void isnan_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  special_value<kRealBool | kComplex>(ctx, self, out, [](auto x, auto) { return x != x; });
}
void isinf_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  special_value<kRealBool | kComplex>(ctx, self, out, [](auto x, auto infinity) { return std::fabs(x) == infinity; });
}
void isposinf_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  special_value<kRealBool>(ctx, self, out, [](auto x, auto infinity) { return x == infinity; });
}
void isneginf_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  special_value<kRealBool>(ctx, self, out, [](auto x, auto infinity) { return x == -infinity; });
}
void signbit_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_bool<kRealBool>(ctx, self, out, [](auto x) {
    if constexpr (std::is_same_v<decltype(x), int64_t>) {
      return x < 0;
    } else {
      return std::signbit(x);
    }
  });
}

/// NaNs and infinities become given numbers; by default 0 and the ends of the dtype.
void nan_to_num_out(KernelContext& ctx, const Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                    std::optional<double> neginf, Tensor& out) {
  const ScalarType dtype = self.dtype;
  const double largest = dtype == ScalarType::Half       ? 65504.0
                         : dtype == ScalarType::BFloat16 ? 3.3895313892515355e38
                         : dtype == ScalarType::Double   ? std::numeric_limits<double>::max()
                                                         : std::numeric_limits<float>::max();
  const double nan_value = nan.value_or(0.0), high = posinf.value_or(largest), low = neginf.value_or(-largest);
  unary<kRealBool>(ctx, self, out, [nan_value, high, low](auto x) {
    using T = decltype(x);
    if constexpr (std::is_same_v<T, int64_t>) {
      return x;
    } else {
      constexpr T kInfinity = std::numeric_limits<T>::infinity();
      const T bounded = x == kInfinity ? static_cast<T>(high) : x == -kInfinity ? static_cast<T>(low) : x;
      return x != x ? static_cast<T>(nan_value) : bounded;
    }
  });
}

/// Mantissa in [0.5, 1) and exponent of each element, in one dim order.
void frexp_out(KernelContext& ctx, const Tensor& self, Tensor& mantissa, Tensor& exponent) {
  if (mantissa.dtype != self.dtype) {
    return ctx.fail(Check::KernelDtypeMismatch, mantissa, static_cast<int64_t>(mantissa.dtype));
  }
  if (exponent.dtype != ScalarType::Int) {
    return ctx.fail(Check::KernelDtypeMismatch, exponent, static_cast<int64_t>(exponent.dtype));
  }
  for (Tensor* result : {&mantissa, &exponent}) {
    if (!ctx.resize_like(*result, self)) return;
    if (!same_dim_order(self, *result)) return ctx.fail(Check::KernelDimOrder, *result);
  }
  const int64_t count = self.numel();
  if (!has_data(ctx, self) || !has_data(ctx, mantissa) || !has_data(ctx, exponent)) return;
  const bool known = dispatch<kFloats>(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = self.ptr<const T>();
    T* to = mantissa.ptr<T>();
    int32_t* powers = exponent.ptr<int32_t>();
    for (int64_t i = 0; i < count; ++i) {
      int power = 0;
      to[i] = convert<T>(std::frexp(static_cast<accumulate_t<T>>(from[i]), &power));
      powers[i] = power;
    }
  });
  if (!known) ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
}

}  // namespace etir
