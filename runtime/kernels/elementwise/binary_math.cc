// Further functions of two numbers: atan2, hypot, copysign, nextafter, logaddexp, xlogy, heaviside, gcd, lcm.
#include <cmath>
#include <limits>

#include "kernels/elementwise/arithmetic.h"
#include "kernels/elementwise/binary_math.gen.h"
#include "kernels/elementwise/operators.h"
#include "kernels/util/complex_math.h"
#include "kernels/util/vector_math.h"

namespace etir {

namespace {

/// Non-negative; that of the most negative number is itself.
inline int64_t magnitude(int64_t x) { return x < 0 ? wrap_sub(int64_t{0}, x) : x; }

inline uint64_t gcd_of(int64_t a, int64_t b) {
  uint64_t x = static_cast<uint64_t>(magnitude(a)), y = static_cast<uint64_t>(magnitude(b));
  while (y != 0) {
    const uint64_t rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}

/// x * f(y), 0 where x is 0 and NaN where y is.
template <typename T, typename F>
inline T times_log(T x, T y, const F& f) {
  return y != y ? y : x == T(0) ? T(0) : x * f(y);
}

/// The neighbor of `from` in the direction of `to`, among the numbers of a 16-bit type; their bits are in order.
template <typename H>
inline float next_narrow(float from, float to) {
  if (from != from || to != to) return std::numeric_limits<float>::quiet_NaN();
  if (from == to) return to;
  if (from == 0) return std::copysign(static_cast<float>(H::from_bits(1)), to);
  const uint16_t bits = H(from).bits;
  const bool away = (from < to) == (from > 0);
  return static_cast<float>(H::from_bits(static_cast<uint16_t>(away ? bits + 1 : bits - 1)));
}

}  // namespace

void atan2_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  binary_float(ctx, self, other, out, [](auto a, auto b) { return std::atan2(a, b); });
}
void copysign_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& other, Tensor& out) {
  binary_float(ctx, self, other, out, [](auto a, auto b) { return std::copysign(a, b); });
}
void hypot_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  binary<kFloats>(ctx, self, other, out, [](auto a, auto b) { return std::hypot(a, b); });
}
void nextafter_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  const AnyOperand a(self), b(other);
  const ScalarType common = common_type(a, b);
  const bool narrow = dispatch<kHalfFloats>(common, [&](auto tag) {
    using H = typename decltype(tag)::type;
    binary_in<kHalfFloats>(ctx, a, b, out, common, [](float x, float y) { return next_narrow<H>(x, y); });
  });
  if (!narrow) binary_in<kFullFloats>(ctx, a, b, out, common, [](auto x, auto y) { return std::nextafter(x, y); });
}

/// log(e^a + e^b), without overflow.
void logaddexp_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  if (is_complex(self.dtype) || is_complex(other.dtype)) {
    return binary<kFullComplex>(ctx, self, other, out, [](auto a, auto b) { return complex_logaddexp(a, b); });
  }
  binary<kFloats>(ctx, self, other, out, [](auto a, auto b) {
    const auto high = max_propagating(a, b);
    const auto sum = high + vlog1p(vexp(-std::fabs(a - b)));
    return std::fabs(a) == std::numeric_limits<decltype(a)>::infinity() && a == b ? a : sum;
  });
}
void logaddexp2_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  binary<kFloats>(ctx, self, other, out, [](auto a, auto b) {
    using T = decltype(a);
    const T high = max_propagating(a, b);
    const T sum = high + vlog1p(std::exp2(-std::fabs(a - b))) * static_cast<T>(1.4426950408889634074);
    return std::fabs(a) == std::numeric_limits<T>::infinity() && a == b ? a : sum;
  });
}
void xlogy_out(KernelContext& ctx, const TensorOrScalar& self, const TensorOrScalar& other, Tensor& out) {
  binary_float(ctx, self, other, out, [](auto a, auto b) { return times_log(a, b, [](auto y) { return vlog(y); }); });
}
void xlog1py_out(KernelContext& ctx, const TensorOrScalar& self, const TensorOrScalar& other, Tensor& out) {
  binary_float(ctx, self, other, out, [](auto a, auto b) { return times_log(a, b, [](auto y) { return vlog1p(y); }); });
}

/// Both of one dtype, as in torch.
void heaviside_out(KernelContext& ctx, const Tensor& self, const Tensor& values, Tensor& out) {
  if (self.dtype != values.dtype || self.dtype != out.dtype) {
    return ctx.fail(Check::KernelDtypeMismatch, values, static_cast<int64_t>(values.dtype));
  }
  binary<kRealBool>(ctx, self, values, out, [](auto a, auto b) {
    using T = decltype(a);
    return a == T(0) ? b : static_cast<T>(a > T(0));
  });
}

void gcd_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  binary<kInts>(ctx, self, other, out, [](int64_t a, int64_t b) { return static_cast<int64_t>(gcd_of(a, b)); });
}
void lcm_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  binary<kInts>(ctx, self, other, out, [](int64_t a, int64_t b) {
    const uint64_t divisor = gcd_of(a, b);
    if (divisor == 0) return int64_t{0};
    const uint64_t part = static_cast<uint64_t>(magnitude(a)) / divisor;
    return magnitude(static_cast<int64_t>(part * static_cast<uint64_t>(magnitude(b))));
  });
}

}  // namespace etir
