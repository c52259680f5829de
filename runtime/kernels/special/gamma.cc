// The digamma function, the incomplete gamma functions and Hurwitz's zeta function, in double whatever the dtype.
//
// Sources: Abramowitz and Stegun 6.5.29 (series) and 6.5.31 (continued fraction, by Lentz's method), 23.2.5 with the
// Euler-Maclaurin formula 23.1.30; for large parameters the leading terms of Temme's uniform expansion (1979).
#include <cmath>
#include <limits>

#include "kernels/elementwise/operators.h"
#include "kernels/special/gamma.gen.h"
#include "kernels/util/constants.h"

namespace etir {

namespace {

constexpr int kMaxSteps = 20000;

/// The derivative of log(gamma). Below 10 by psi(x) = psi(x + 1) - 1 / x, above by its asymptotic series.
double digamma(double x) {
  if (x == 0) return std::copysign(kInfinity, -x);
  double result = 0;
  if (x < 0) {
    if (x == std::trunc(x)) return kNaN;
    // Reflection; only the fraction of x matters to the tangent, and it is exact.
    result = -kPi / std::tan(kPi * (x - std::trunc(x)));
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  const double z = 1 / (x * x);
  // Bernoulli numbers B(2k) / 2k.
  constexpr double kTerms[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
  double power = z, series = 0;
  for (const double term : kTerms) {
    series += term * power;
    power *= z;
  }
  return result + std::log(x) - 0.5 / x - series;
}

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

/// Q(a, x) for a below 1 and x up to 1, where P(a, x) is near 1 and no difference from it would be left. With the
/// series of A&S 6.5.29 P is u (1 + v), with u = x^a / gamma(1 + a).
double upper_gamma_of_small(double a, double x) {
  constexpr double kEuler = 0.57721566490153286, kZeta2 = 1.6449340668482264, kZeta3 = 1.2020569031595943,
                   kZeta4 = 1.0823232337111382;
  const double near_zero = a * (-kEuler + a * (kZeta2 / 2 + a * (-kZeta3 / 3 + a * kZeta4 / 4)));
  const double exponent = a * std::log(x) - (a < 1e-3 ? near_zero : std::lgamma(1 + a));
  double power = 1, sum = 0;
  for (int k = 1; k < 40; ++k) {
    power *= -x / k;
    sum += power / (a + k);
  }
  return -std::expm1(exponent) - std::exp(exponent) * a * sum;
}

/// The regularized incomplete gamma function, lower or upper.
double incomplete_gamma(double a, double x, bool upper) {
  if (std::isnan(a) || std::isnan(x) || a < 0 || x < 0) return kNaN;
  const double zero = upper ? 1 : 0, one = upper ? 0 : 1;
  if (a == 0) return x > 0 ? one : kNaN;
  if (x == 0) return zero;
  if (std::isinf(a)) return std::isinf(x) ? kNaN : zero;
  if (std::isinf(x)) return one;
  if (a > 1e6) return gamma_of_large(a, x, upper);
  if (upper && a < 1 && x <= 1) return upper_gamma_of_small(a, x);
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

}  // namespace

void digamma_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_float(ctx, self, out, [](auto x) { return static_cast<decltype(x)>(digamma(static_cast<double>(x))); });
}
void igamma_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  binary<kFloats>(ctx, self, other, out, [](auto a, auto x) {
    return static_cast<decltype(a)>(incomplete_gamma(static_cast<double>(a), static_cast<double>(x), false));
  });
}
void igammac_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  binary<kFloats>(ctx, self, other, out, [](auto a, auto x) {
    return static_cast<decltype(a)>(incomplete_gamma(static_cast<double>(a), static_cast<double>(x), true));
  });
}
void special_zeta_out(KernelContext& ctx, const TensorOrScalar& self, const TensorOrScalar& other, Tensor& out) {
  binary_float(ctx, self, other, out, [](auto x, auto q) {
    return static_cast<decltype(x)>(zeta(static_cast<double>(x), static_cast<double>(q)));
  });
}

}  // namespace etir
