// Inverse and scaled error functions, and the quantiles of the normal distribution: erfinv, erfcx, ndtri; computed in
// double whatever the dtype: they are rare, and double needs no care with rounding.
#include <cmath>
#include <limits>

#include "kernels/elementwise/operators.h"
#include "kernels/special/error_function.gen.h"

namespace etir {

namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

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

void erfinv_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_float(ctx, self, out, [](auto x) { return static_cast<decltype(x)>(erfinv(static_cast<double>(x))); });
}
void special_erfcx_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_float(ctx, self, out, [](auto x) { return static_cast<decltype(x)>(erfcx(static_cast<double>(x))); });
}
void special_ndtri_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_float(ctx, self, out, [](auto x) { return static_cast<decltype(x)>(ndtri(static_cast<double>(x))); });
}

}  // namespace etir
