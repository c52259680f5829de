// Special functions, computed in double whatever the dtype: they are rare, and double needs no care with rounding.
#include <cmath>
#include <limits>

#include "kernels/elementwise/operators.h"
#include "kernels/util/constants.h"

namespace etir {

namespace {

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

/// Inverse of erf: an approximation good to 2e-3, then Halley's iteration, which triples the digits each time.
double erfinv(double x) {
  const double magnitude = std::fabs(x);
  if (!(magnitude < 1)) return magnitude == 1 ? std::copysign(kInfinity, x) : kNaN;
  if (x == 0) return x;
  constexpr double kA = 0.147;
  const double logarithm = std::log1p(-magnitude * magnitude);
  const double half = 2 / (kPi * kA) + logarithm / 2;
  double y = std::sqrt(std::sqrt(half * half - logarithm / kA) - half);
  for (int round = 0; round < 3; ++round) {
    // Near 1 the difference is taken of the complements, which keep their digits.
    const double error = magnitude < 0.5 ? std::erf(y) - magnitude : (1 - magnitude) - std::erfc(y);
    const double step = error / (1.12837916709551257390 * std::exp(-y * y));
    y -= step / (1 + y * step);
  }
  return std::copysign(y, x);
}

/// Modified Bessel function of order 0: power series, all of whose terms are positive, or the asymptotic series.
double bessel_i0(double x) {
  x = std::fabs(x);
  if (x != x) return x;
  double sum = 1, term = 1;
  if (x < 20) {
    const double square = x * x / 4;
    for (int k = 1; k < 100 && term > sum * 1e-17; ++k) {
      term *= square / (static_cast<double>(k) * k);
      sum += term;
    }
    return sum;
  }
  for (int k = 1; k < 30 && term > 1e-17; ++k) {
    const double odd = 2 * k - 1;
    term *= odd * odd / (8 * x * k);
    sum += term;
  }
  // In two factors: e^x overflows before the result does.
  const double root = std::exp(x / 2);
  return root * (sum / std::sqrt(2 * kPi * x)) * root;
}

}  // namespace

void digamma_out(KernelContext& ctx) {
  unary_float(ctx, 0, 1, [](auto x) { return static_cast<decltype(x)>(digamma(static_cast<double>(x))); });
}
void erfinv_out(KernelContext& ctx) {
  unary_float(ctx, 0, 1, [](auto x) { return static_cast<decltype(x)>(erfinv(static_cast<double>(x))); });
}
void i0_out(KernelContext& ctx) {
  unary_float(ctx, 0, 1, [](auto x) { return static_cast<decltype(x)>(bessel_i0(static_cast<double>(x))); });
}

}  // namespace etir
