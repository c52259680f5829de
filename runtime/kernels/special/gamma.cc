// The incomplete gamma functions, Hurwitz's zeta function, and the normal distribution's erfcx and ndtri, in double.
//
// Sources: Abramowitz and Stegun 6.5.29 (series) and 6.5.31 (continued fraction, by Lentz's method), 23.2.5 with the
// Euler-Maclaurin formula 23.1.30; for large parameters the leading terms of Temme's uniform expansion (1979).
#include <cmath>
#include <limits>

#include "kernels/elementwise/operators.h"
#include "kernels/util/constants.h"

namespace etir {

namespace {

constexpr int kMaxSteps = 20000;

/// P(a, x) or, `upper`, Q(a, x) for a above a million: a normal distribution and the first correction to it.
double gamma_of_large(double a, double x, bool upper) {
  const double distance = (x - a) / a;
  const double half = distance - std::log1p(distance);
  const double eta = std::copysign(std::sqrt(2 * (half > 0 ? half : 0)), distance);
  const double correction = std::fabs(eta) < 1e-4 ? -1.0 / 3 : 1 / distance - 1 / eta;
  const double rest = std::exp(-a * half) / std::sqrt(2 * kPi * a) * correction;
  const double tail = 0.5 * std::erfc((upper ? eta : -eta) * std::sqrt(a / 2));
  return upper ? tail + rest : tail - rest;
}

/// The regularised incomplete gamma function, lower or upper.
double incomplete_gamma(double a, double x, bool upper) {
  if (std::isnan(a) || std::isnan(x) || a < 0 || x < 0) return kNaN;
  const double zero = upper ? 1 : 0, one = upper ? 0 : 1;
  if (a == 0) return x > 0 ? one : kNaN;
  if (x == 0) return zero;
  if (std::isinf(a)) return std::isinf(x) ? kNaN : zero;
  if (std::isinf(x)) return one;
  if (a > 1e6) return gamma_of_large(a, x, upper);
  const double factor = std::exp(a * std::log(x) - x - std::lgamma(a));
  if (x <= 1 || x <= a) {
    double term = 1 / a, sum = term;
    for (int k = 1; k < kMaxSteps && term > 1e-17 * sum; ++k) {
      term *= x / (a + k);
      sum += term;
    }
    return upper ? 1 - factor * sum : factor * sum;
  }
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, fraction = d;
  for (int k = 1; k < kMaxSteps; ++k) {
    const double numerator = -k * (k - a);
    b += 2;
    d = numerator * d + b;
    c = b + numerator / c;
    if (std::fabs(d) < kTiny) d = kTiny;
    if (std::fabs(c) < kTiny) c = kTiny;
    d = 1 / d;
    fraction *= c * d;
    if (std::fabs(c * d - 1) < 1e-16) break;
  }
  return upper ? factor * fraction : 1 - factor * fraction;
}

/// The sum of (q + k)^-x over k >= 0. Below -10,000 the poles are too close for a sum: NaN.
double zeta(double x, double q) {
  if (x == 1) return kInfinity;
  if (!(x > 1) || std::isnan(q)) return kNaN;
  if (q <= 0) {
    if (q == std::floor(q)) return kInfinity;
    if (x != std::floor(x) || q < -10000) return kNaN;
  }
  double sum = 0, a = q;
  for (; a < 12; a += 1) sum += std::pow(a, -x);
  const double power = std::pow(a, -x);
  sum += power * a / (x - 1) + power / 2;
  // B(2k) / (2k)!
  constexpr double kTerms[] = {
      1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000.0, 1.0 / 74724249600.0};
  double factor = power * x / a;
  for (int k = 0; k < 7; ++k) {
    sum += kTerms[k] * factor;
    factor *= (x + 2 * k + 1) * (x + 2 * k + 2) / (a * a);
  }
  return sum;
}

/// exp(x^2) erfc(x).
double erfcx(double x) {
  if (x < 25) return std::exp(x * x) * std::erfc(x);
  const double z = 1 / (x * x);
  return (1 - z / 2 + 0.75 * z * z) / (x * std::sqrt(kPi));
}

/// log of the normal distribution's probability below x.
double log_ndtr(double x) {
  if (x < -1) return std::log(erfcx(-x * 0.70710678118654752440) / 2) - x * x / 2;
  return std::log1p(-std::erfc(x * 0.70710678118654752440) / 2);
}

/// The x below which the normal distribution has probability p: Newton's iteration on the logarithm, which is concave.
double ndtri(double p) {
  if (p == 0) return -kInfinity;
  if (p == 1) return kInfinity;
  if (!(p > 0 && p < 1)) return kNaN;
  const double tail = p < 0.5 ? p : 1 - p, wanted = std::log(tail);
  double x = -std::sqrt(-2 * wanted);
  for (int i = 0; i < 40; ++i) {
    const double value = log_ndtr(x);
    const double slope = std::exp(-x * x / 2 - value) * 0.39894228040143267794;
    const double step = (value - wanted) / slope;
    x -= step;
    if (!(std::fabs(step) > 1e-15 * std::fabs(x))) break;
  }
  return p < 0.5 ? x : -x;
}

}  // namespace

void igamma_out(KernelContext& ctx) {
  binary<kFloats>(ctx, 0, 1, 2, [](auto a, auto x) {
    return static_cast<decltype(a)>(incomplete_gamma(static_cast<double>(a), static_cast<double>(x), false));
  });
}
void igammac_out(KernelContext& ctx) {
  binary<kFloats>(ctx, 0, 1, 2, [](auto a, auto x) {
    return static_cast<decltype(a)>(incomplete_gamma(static_cast<double>(a), static_cast<double>(x), true));
  });
}
void special_zeta_out(KernelContext& ctx) {
  binary_float(ctx, 0, 1, 2, [](auto x, auto q) {
    return static_cast<decltype(x)>(zeta(static_cast<double>(x), static_cast<double>(q)));
  });
}
void special_erfcx_out(KernelContext& ctx) {
  unary_float(ctx, 0, 1, [](auto x) { return static_cast<decltype(x)>(erfcx(static_cast<double>(x))); });
}
void special_ndtri_out(KernelContext& ctx) {
  unary_float(ctx, 0, 1, [](auto x) { return static_cast<decltype(x)>(ndtri(static_cast<double>(x))); });
}

/// Mantissa in [0.5, 1) and exponent of each element, in one dim order.
void frexp_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  Tensor& mantissa = ctx.tensor(1);
  Tensor& exponent = ctx.tensor(2);
  if (mantissa.dtype != self.dtype) {
    return ctx.fail(Check::KernelDtypeMismatch, 1, static_cast<int64_t>(mantissa.dtype));
  }
  if (exponent.dtype != ScalarType::Int) {
    return ctx.fail(Check::KernelDtypeMismatch, 2, static_cast<int64_t>(exponent.dtype));
  }
  for (int i = 1; i < 3; ++i) {
    if (!ctx.resize_like(ctx.tensor(i), self)) return;
    if (!same_dim_order(self, ctx.tensor(i))) return ctx.fail(Check::KernelDimOrder, i);
  }
  const int64_t count = self.numel();
  for (int i = 0; i < 3 && count > 0; ++i) {
    if (ctx.tensor(i).data == nullptr) return ctx.fail(Check::KernelNoData, i);
  }
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
  if (!known) ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
}

}  // namespace etir
