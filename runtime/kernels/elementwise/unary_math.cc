// Functions of one number that are floating point: exponentials, logarithms, roots, trigonometry. Integers and bools
// are taken as the default floating point type; complex numbers where torch takes them.
#include <cmath>
#include <complex>

#include "kernels/elementwise/operators.h"
#include "kernels/elementwise/unary_math.gen.h"
#include "kernels/util/complex_math.h"
#include "kernels/util/vector_math.h"

namespace etir {

namespace {

// The vectorized functions, for complex numbers too.
template <typename T>
std::complex<T> vexp(const std::complex<T>& x) {
  return std::exp(x);
}
template <typename T>
std::complex<T> vlog(const std::complex<T>& x) {
  return std::log(x);
}
template <typename T>
std::complex<T> vtanh(const std::complex<T>& x) {
  return std::tanh(x);
}
template <typename T>
std::complex<T> vsigmoid(const std::complex<T>& x) {
  return T(1) / (T(1) + std::exp(-x));
}
template <typename T>
std::complex<T> vexpm1(const std::complex<T>& x) {
  return complex_expm1(x);
}
template <typename T>
std::complex<T> vlog1p(const std::complex<T>& x) {
  return complex_log1p(x);
}
template <typename T>
std::complex<T> vlog2(const std::complex<T>& x) {
  return std::log(x) * static_cast<T>(1.4426950408889634074);
}
template <typename T>
T exp2_of(T x) {
  return std::exp2(x);
}
template <typename T>
std::complex<T> exp2_of(const std::complex<T>& x) {
  return std::exp(x * static_cast<T>(0.69314718055994530942));
}
using etir::vexp;
using etir::vexpm1;
using etir::vlog;
using etir::vlog1p;
using etir::vlog2;
using etir::vsigmoid;
using etir::vtanh;

/// 1 in the type of x.
template <typename T>
constexpr T one(T) {
  return T(1);
}

}  // namespace

#define ETIR_UNARY_FLOAT(name, set, expression)                          \
  void name##_out(KernelContext& ctx, const Tensor& self, Tensor& out) { \
    unary_float<set>(ctx, self, out, [](auto x) { return expression; }); \
  }
/// The same for functions of many steps.
#define ETIR_UNARY_WIDE(name, set, expression)                                 \
  void name##_out(KernelContext& ctx, const Tensor& self, Tensor& out) {       \
    unary_float<set>(ctx, self, out, Wide{[](auto x) { return expression; }}); \
  }
ETIR_UNARY_WIDE(exp, kFloatComplex, vexp(x))
ETIR_UNARY_FLOAT(expm1, kFloatComplex, vexpm1(x))
ETIR_UNARY_FLOAT(exp2, kFloatComplex, exp2_of(x))
ETIR_UNARY_WIDE(log, kFloatComplex, vlog(x))
ETIR_UNARY_FLOAT(log2, kFloatComplex, vlog2(x))
ETIR_UNARY_FLOAT(log10, kFloatComplex, std::log10(x))
ETIR_UNARY_FLOAT(log1p, kFloatComplex, vlog1p(x))
ETIR_UNARY_FLOAT(sqrt, kFloatComplex, std::sqrt(x))
ETIR_UNARY_FLOAT(rsqrt, kFloatComplex, one(x) / std::sqrt(x))
ETIR_UNARY_FLOAT(reciprocal, kFloatComplex, one(x) / x)
ETIR_UNARY_FLOAT(sin, kFloatComplex, std::sin(x))
ETIR_UNARY_FLOAT(cos, kFloatComplex, std::cos(x))
ETIR_UNARY_FLOAT(tan, kFloatComplex, std::tan(x))
ETIR_UNARY_FLOAT(asin, kFloatComplex, std::asin(x))
ETIR_UNARY_FLOAT(acos, kFloatComplex, std::acos(x))
ETIR_UNARY_FLOAT(atan, kFloatComplex, std::atan(x))
ETIR_UNARY_FLOAT(sinh, kFloatComplex, std::sinh(x))
ETIR_UNARY_FLOAT(cosh, kFloatComplex, std::cosh(x))
ETIR_UNARY_WIDE(tanh, kFloatComplex, vtanh(x))
ETIR_UNARY_FLOAT(asinh, kFloatComplex, std::asinh(x))
ETIR_UNARY_FLOAT(acosh, kFloatComplex, std::acosh(x))
ETIR_UNARY_FLOAT(atanh, kFloatComplex, std::atanh(x))
ETIR_UNARY_WIDE(sigmoid, kFloatComplex, vsigmoid(x))
ETIR_UNARY_FLOAT(erfc, kFloats, std::erfc(x))
ETIR_UNARY_FLOAT(lgamma, kFloats, std::lgamma(x))
#undef ETIR_UNARY_FLOAT
#undef ETIR_UNARY_WIDE

void erf_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_float<kFloats>(
      ctx, self, out,
      Wide{Steps{[](float x) { return Erf::exponent(x); }, [](float x) { return Erf::near_one(x); },
                 [](float x, float above) { return Erf::finish(x, above); }, [](auto x) { return verf(x); }}});
}
void deg2rad_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_float(ctx, self, out, [](auto x) { return x * static_cast<decltype(x)>(0.017453292519943295769); });
}
void rad2deg_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_float(ctx, self, out, [](auto x) { return x * static_cast<decltype(x)>(57.295779513082320877); });
}
void sinc_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary_float<kFloatComplex>(ctx, self, out, [](auto x) {
    using T = decltype(x);
    // Not static_cast<T>: a complex pi would make NaNs of infinities.
    const T angle = x * static_cast<decltype(std::abs(x))>(3.14159265358979323846);
    return x == T(0) ? T(1) : std::sin(angle) / angle;
  });
}

/// log(x / (1 - x)), of x kept eps away from 0 and 1 if eps is given.
void logit_out(KernelContext& ctx, const Tensor& self, std::optional<double> eps, Tensor& out) {
  const bool bounded = eps.has_value();
  const double eps_value = eps.value_or(0.0);
  const auto bound = [bounded, eps_value](auto x) {
    using T = decltype(x);
    const T low = static_cast<T>(eps_value), high = T(1) - static_cast<T>(eps_value);
    const T inside = x < low ? low : x > high ? high : x;
    return bounded ? inside : x;
  };
  // In 16 bits torch rounds each step.
  const bool narrow = dispatch<kHalfFloats>(self.dtype, [&](auto tag) {
    using H = typename decltype(tag)::type;
    unary<kHalfFloats>(ctx, self, out, [bound](float x) {
      const float z = static_cast<float>(H(bound(x)));
      const float complement = static_cast<float>(H(1.0f - z));
      return vlog(static_cast<float>(H(z / complement)));
    });
  });
  if (narrow) return;
  unary_float(ctx, self, out, [bound](auto x) {
    const auto z = bound(x);
    return vlog(z / (decltype(x)(1) - z));
  });
}

}  // namespace etir
