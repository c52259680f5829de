// Orthogonal polynomials of degree n, element by element, by their three-term recurrences, in double.
//
// Chebyshev polynomials of a high degree inside of [-1, 1] are what they are there, cosines and sines of a multiple
// angle. A degree below 0 gives 0; one above kMaxDegree, which no element could wait for, NaN.
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/elementwise/operators.h"
#include "kernels/special/polynomials.gen.h"
#include "kernels/util/constants.h"

namespace etir {

namespace {

constexpr int64_t kMaxDegree = 1 << 16;

/// p0 = 1, p1 = first, p(k + 1) = next(k, p(k), p(k - 1)).
template <typename Next>
double recurrence(int64_t n, double first, const Next& next) {
  if (n < 0) return 0;
  if (n > kMaxDegree) return kNaN;
  double before = 1, here = first;
  if (n == 0) return before;
  for (int64_t k = 1; k < n && !std::isnan(here); ++k) {
    const double after = next(static_cast<double>(k), here, before);
    before = here;
    here = after;
  }
  return here;
}

enum class Kind { T, U, V, W };

double chebyshev(Kind kind, double x, int64_t n) {
  if (n < 0) return 0;
  if (n > 8 && std::fabs(x) < 1) {
    const double angle = std::acos(x), degree = static_cast<double>(n);
    switch (kind) {
      case Kind::T:
        return std::cos(degree * angle);
      case Kind::U:
        return std::sin((degree + 1) * angle) / std::sin(angle);
      case Kind::V:
        return std::cos((degree + 0.5) * angle) / std::cos(angle / 2);
      default:
        return std::sin((degree + 0.5) * angle) / std::sin(angle / 2);
    }
  }
  const double first = kind == Kind::T ? x : kind == Kind::U ? 2 * x : kind == Kind::V ? 2 * x - 1 : 2 * x + 1;
  return recurrence(n, first, [x](double, double here, double before) { return 2 * x * here - before; });
}

double hermite_h(double x, int64_t n) {
  return recurrence(n, 2 * x, [x](double k, double here, double before) { return 2 * (x * here - k * before); });
}
double hermite_he(double x, int64_t n) {
  return recurrence(n, x, [x](double k, double here, double before) { return x * here - k * before; });
}
double laguerre_l(double x, int64_t n) {
  return recurrence(
      n, 1 - x, [x](double k, double here, double before) { return ((2 * k + 1 - x) * here - k * before) / (k + 1); });
}
double legendre_p(double x, int64_t n) {
  return recurrence(
      n, x, [x](double k, double here, double before) { return ((2 * k + 1) * x * here - k * before) / (k + 1); });
}

/// out = f(x, degree); both are tensors or numbers, the degree is cut to an integer.
template <typename F>
void polynomial(KernelContext& ctx, const AnyOperand& of, const AnyOperand& degree, Tensor& out, const F& f) {
  binary_float<kFullFloats>(ctx, of, degree, out, [&](auto x, auto n) {
    return static_cast<decltype(x)>(f(static_cast<double>(x), convert<int64_t>(n)));
  });
}

}  // namespace

void special_chebyshev_polynomial_t_out(KernelContext& ctx, const TensorOrScalar& x, const TensorOrScalar& n,
                                        Tensor& out) {
  polynomial(ctx, x, n, out, [](double at, int64_t degree) { return chebyshev(Kind::T, at, degree); });
}
void special_chebyshev_polynomial_u_out(KernelContext& ctx, const TensorOrScalar& x, const TensorOrScalar& n,
                                        Tensor& out) {
  polynomial(ctx, x, n, out, [](double at, int64_t degree) { return chebyshev(Kind::U, at, degree); });
}
void special_chebyshev_polynomial_v_out(KernelContext& ctx, const TensorOrScalar& x, const TensorOrScalar& n,
                                        Tensor& out) {
  polynomial(ctx, x, n, out, [](double at, int64_t degree) { return chebyshev(Kind::V, at, degree); });
}
void special_chebyshev_polynomial_w_out(KernelContext& ctx, const TensorOrScalar& x, const TensorOrScalar& n,
                                        Tensor& out) {
  polynomial(ctx, x, n, out, [](double at, int64_t degree) { return chebyshev(Kind::W, at, degree); });
}
void special_shifted_chebyshev_polynomial_t_out(KernelContext& ctx, const TensorOrScalar& x, const TensorOrScalar& n,
                                                Tensor& out) {
  polynomial(ctx, x, n, out, [](double at, int64_t degree) { return chebyshev(Kind::T, 2 * at - 1, degree); });
}
void special_shifted_chebyshev_polynomial_u_out(KernelContext& ctx, const TensorOrScalar& x, const TensorOrScalar& n,
                                                Tensor& out) {
  polynomial(ctx, x, n, out, [](double at, int64_t degree) { return chebyshev(Kind::U, 2 * at - 1, degree); });
}
void special_shifted_chebyshev_polynomial_v_out(KernelContext& ctx, const TensorOrScalar& x, const TensorOrScalar& n,
                                                Tensor& out) {
  polynomial(ctx, x, n, out, [](double at, int64_t degree) { return chebyshev(Kind::V, 2 * at - 1, degree); });
}
void special_shifted_chebyshev_polynomial_w_out(KernelContext& ctx, const TensorOrScalar& x, const TensorOrScalar& n,
                                                Tensor& out) {
  polynomial(ctx, x, n, out, [](double at, int64_t degree) { return chebyshev(Kind::W, 2 * at - 1, degree); });
}
void special_hermite_polynomial_h_out(KernelContext& ctx, const TensorOrScalar& x, const TensorOrScalar& n,
                                      Tensor& out) {
  polynomial(ctx, x, n, out, hermite_h);
}
void special_hermite_polynomial_he_out(KernelContext& ctx, const TensorOrScalar& x, const TensorOrScalar& n,
                                       Tensor& out) {
  polynomial(ctx, x, n, out, hermite_he);
}
void special_laguerre_polynomial_l_out(KernelContext& ctx, const TensorOrScalar& x, const TensorOrScalar& n,
                                       Tensor& out) {
  polynomial(ctx, x, n, out, laguerre_l);
}
void special_legendre_polynomial_p_out(KernelContext& ctx, const TensorOrScalar& x, const TensorOrScalar& n,
                                       Tensor& out) {
  polynomial(ctx, x, n, out, legendre_p);
}

}  // namespace etir
