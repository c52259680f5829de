// Bessel functions of order 0 and 1, modified ones, and the Airy function, computed in double whatever the dtype.
//
// Sources: Abramowitz and Stegun, chapters 9 and 10: downward recurrence with the Neumann series (9.1.46, 9.1.88),
// Hankel's asymptotic series (9.2.5), the integral of K (9.6.24) by the trapezoidal rule, which converges
// exponentially for it, and the two series of Ai (10.4.2, 10.4.60).
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/elementwise/operators.h"
#include "kernels/special/bessel.gen.h"
#include "kernels/util/constants.h"

namespace etir {

namespace {

constexpr double kEuler = 0.57721566490153286061;

/// J0, J1, Y0 and Y1 at x > 0.
struct Bessel {
  double j[2], y[2];
};

/// Hankel's series, for x of 25 and more.
void hankel(double x, int order, double* j, double* y) {
  const double mu = 4.0 * order * order;
  double p = 0, q = 0, term = 1;
  for (int k = 0; k < 40; ++k) {
    const double sign = k % 4 < 2 ? 1 : -1;
    (k % 2 == 0 ? p : q) += sign * term;
    const double odd = 2 * k + 1;
    const double next = term * (mu - odd * odd) / ((k + 1) * 8 * x);
    if (std::fabs(next) >= std::fabs(term) || std::fabs(next) < 1e-18) break;
    term = next;
  }
  const double phase = x - (0.5 * order + 0.25) * kPi;
  const double scale = std::sqrt(2 / (kPi * x)), c = std::cos(phase), s = std::sin(phase);
  *j = scale * (p * c - q * s);
  *y = scale * (p * s + q * c);
}

Bessel bessel(double x) {
  Bessel result;
  if (x >= 25) {
    for (int order = 0; order < 2; ++order) hankel(x, order, &result.j[order], &result.y[order]);
    return result;
  }
  if (x < 1e-8) {
    result.j[0] = 1;
    result.j[1] = x / 2;
    result.y[0] = 2 / kPi * (std::log(x / 2) + kEuler);
    result.y[1] = -2 / (kPi * x);
    return result;
  }
  // Downward from an order where J is nothing, to a factor that J0 + 2 (J2 + J4 + ...) = 1 fixes.
  double above = 0, here = 1e-250, sum = 0, even = 0, odd = 0, j1 = 0;
  for (int k = 2 * (static_cast<int>(x) + 10); k > 0; --k) {
    const int half = k / 2;
    const double sign = half % 2 == 0 ? 1 : -1;
    if (k % 2 == 0) {
      sum += 2 * here;
      even += sign * here / half;
    } else if (half > 0) {
      odd += sign * here * k / (half * (half + 1.0));
    }
    if (k == 1) j1 = here;
    const double below = 2 * k / x * here - above;
    above = here;
    here = below;
  }
  const double scale = 1 / (sum + here);
  const double j0 = here * scale, logarithm = std::log(x / 2) + kEuler;
  j1 *= scale;
  result.j[0] = j0;
  result.j[1] = j1;
  result.y[0] = 2 / kPi * (logarithm * j0 - 2 * even * scale);
  result.y[1] = 2 / kPi * (-j0 / x + (logarithm - 1) * j1 - odd * scale);
  return result;
}

double bessel_j(double x, int order) {
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return 0;
  const double magnitude = std::fabs(x);
  const double value = bessel(magnitude).j[order];
  return order == 1 && x < 0 ? -value : value;
}

double bessel_y(double x, int order) {
  if (x == 0) return -kInfinity;
  if (!(x > 0)) return kNaN;
  return std::isinf(x) ? 0 : bessel(x).y[order];
}

/// I of order 0 or 1 times exp(-|x|).
double scaled_i(double x, int order) {
  const double magnitude = std::fabs(x);
  if (!(magnitude < kInfinity)) return std::isnan(x) ? x : 0;
  double sum = 0;
  if (magnitude < 30) {
    double term = order == 0 ? 1 : magnitude / 2;
    for (int k = 1; k < 200 && term > 1e-18 * sum; ++k) {
      sum += term;
      term *= magnitude * magnitude / (4.0 * k * (k + order));
    }
    sum *= std::exp(-magnitude);
  } else {
    const double mu = 4.0 * order * order;
    double term = 1;
    for (int k = 0; k < 40 && std::fabs(term) > 1e-18; ++k) {
      sum += term;
      const double odd = 2 * k + 1;
      term *= -(mu - odd * odd) / ((k + 1) * 8 * magnitude);
    }
    sum /= std::sqrt(2 * kPi * magnitude);
  }
  return order == 1 && x < 0 ? -sum : sum;
}

double modified_i(double x, int order) {
  if (std::isinf(x)) return order == 1 ? x : kInfinity;
  const double half = std::exp(std::fabs(x) / 2);  // exp(x) itself may be too large where the product is not
  return half * scaled_i(x, order) * half;
}

/// K of a real order times exp(x), for x > 0: the integral of exp(-x (cosh t - 1)) cosh(order t).
double scaled_k(double x, double order) {
  const double step = 0.25 / std::sqrt(1 + x / 4);
  double sum = 0.5;
  for (int i = 1; i < 4000; ++i) {
    const double t = i * step, s = std::sinh(t / 2);
    const double exponent = 2 * x * s * s;
    if (exponent - order * t > 50) break;
    sum += std::exp(-exponent) * std::cosh(order * t);
  }
  return sum * step;
}

double modified_k(double x, int order, bool scaled) {
  if (x == 0) return kInfinity;
  if (!(x > 0)) return kNaN;
  if (std::isinf(x)) return 0;
  return scaled_k(x, order) * (scaled ? 1 : std::exp(-x));
}

double airy_ai(double x) {
  if (!std::isfinite(x)) return kNaN;
  if (x > 1) {
    const double zeta = 2.0 / 3 * x * std::sqrt(x);
    return std::sqrt(x / 3) / kPi * scaled_k(zeta, 1.0 / 3) * std::exp(-zeta);
  }
  if (x < -7) {
    const double zeta = 2.0 / 3 * -x * std::sqrt(-x);
    double p = 0, q = 0, term = 1;
    for (int k = 0; k < 20; ++k) {
      (k % 2 == 0 ? p : q) += (k % 4 < 2 ? 1 : -1) * term;
      const double next = term * (6 * k + 5) * (6 * k + 3) * (6 * k + 1) / (216.0 * (k + 1) * (2 * k + 1) * zeta);
      if (next >= term) break;
      term = next;
    }
    const double phase = zeta + kPi / 4;
    return (std::sin(phase) * p - std::cos(phase) * q) / std::sqrt(kPi * std::sqrt(-x));
  }
  constexpr double kValue = 0.35502805388781723926, kSlope = 0.25881940379280679841;  // Ai(0) and -Ai'(0)
  const double cube = x * x * x;
  double even = 1, odd = x, sum = 0;
  for (int k = 1; k < 100; ++k) {
    sum += kValue * even - kSlope * odd;
    even *= cube / ((3.0 * k - 1) * (3 * k));
    odd *= cube / ((3.0 * k) * (3 * k + 1));
    if (std::fabs(even) + std::fabs(odd) < 1e-18) break;
  }
  return sum;
}

double spherical_bessel_j0(double x) {
  if (std::isinf(x)) return 0;
  return x == 0 ? 1 : std::sin(x) / x;
}

/// out = f(self) in double, for any real dtype.
template <typename F>
void unary_double(KernelContext& ctx, const Tensor& x, Tensor& out, const F& f) {
  unary_float(ctx, x, out, [&](auto value) { return static_cast<decltype(value)>(f(static_cast<double>(value))); });
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

void i0_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_float(ctx, self, out, [](auto x) { return static_cast<decltype(x)>(bessel_i0(static_cast<double>(x))); });
}
void special_airy_ai_out(KernelContext& ctx, const Tensor& x, Tensor& out) { unary_double(ctx, x, out, airy_ai); }
void special_bessel_j0_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_double(ctx, self, out, [](double x) { return bessel_j(x, 0); });
}
void special_bessel_j1_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_double(ctx, self, out, [](double x) { return bessel_j(x, 1); });
}
void special_bessel_y0_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_double(ctx, self, out, [](double x) { return bessel_y(x, 0); });
}
void special_bessel_y1_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_double(ctx, self, out, [](double x) { return bessel_y(x, 1); });
}
void special_i0e_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_double(ctx, self, out, [](double x) { return scaled_i(x, 0); });
}
void special_i1_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_double(ctx, self, out, [](double x) { return modified_i(x, 1); });
}
void special_i1e_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_double(ctx, self, out, [](double x) { return scaled_i(x, 1); });
}
void special_modified_bessel_i0_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_double(ctx, self, out, [](double x) { return modified_i(x, 0); });
}
void special_modified_bessel_i1_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_double(ctx, self, out, [](double x) { return modified_i(x, 1); });
}
void special_modified_bessel_k0_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_double(ctx, self, out, [](double x) { return modified_k(x, 0, false); });
}
void special_modified_bessel_k1_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_double(ctx, self, out, [](double x) { return modified_k(x, 1, false); });
}
void special_scaled_modified_bessel_k0_out(KernelContext& ctx, const Tensor& x, Tensor& out) {
  unary_double(ctx, x, out, [](double x) { return modified_k(x, 0, true); });
}
void special_scaled_modified_bessel_k1_out(KernelContext& ctx, const Tensor& x, Tensor& out) {
  unary_double(ctx, x, out, [](double x) { return modified_k(x, 1, true); });
}
void special_spherical_bessel_j0_out(KernelContext& ctx, const Tensor& x, Tensor& out) {
  unary_double(ctx, x, out, spherical_bessel_j0);
}

}  // namespace etir
