// Elementary functions of float that compilers vectorize: no branches, no tables, no calls.
//
// Each is a few multiply-adds on a reduced argument and selects for the special values, so that a counted loop over it
// becomes SIMD code at -O3 wherever the target has any (GCC needs -fno-trapping-math -fno-math-errno: it may then
// compute what a select drops). Errors are 1 to 3 units in the last place, those of erf near 4 up to 8. The polynomials
// are minimax fits made for this file. The overloads for double are libm's: kernels are templates over both.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/half.h"

namespace etir {

namespace detail {

/// a * b + c, rounded once where that is one instruction.
inline float madd(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

/// Adding it rounds a float of magnitude below 2^22 to an integer, which is then in the low bits: 1.5 * 2^23.
constexpr float kRoundMagic = 12582912.0f;
constexpr float kLog2E = 1.44269504f;
// log 2 in two parts; products of the first with integers up to 2^9 are exact.
constexpr float kLn2High = 0.693359375f;
constexpr float kLn2Low = -2.12194440e-4f;

/// 2^n for n in [-126, 127]; some float for any other n.
inline float power_of_two(int32_t n) { return bit_cast<float>(static_cast<uint32_t>(n + 127) << 23); }

/// exp(r) - 1 for |r| <= log(2) / 2, with a small relative error.
inline float expm1_reduced(float r) {
  float p = 0x1.6a23c6p-10f;
  p = madd(p, r, 0x1.123a2p-7f);
  p = madd(p, r, 0x1.5558f4p-5f);
  p = madd(p, r, 0x1.555492p-3f);
  p = madd(p, r, 0x1.fffffcp-2f);
  return madd(p, r * r, r);
}

/// x, of magnitude below 150, is n * log(2) + rest.
struct Reduced {
  int32_t n;
  float rest;
};
inline Reduced reduce_by_ln2(float x) {
  const float shifted = madd(x, kLog2E, kRoundMagic);
  const float n = shifted - kRoundMagic;
  // The integer is read from the bits: a conversion of NaN would be undefined.
  const int32_t whole = static_cast<int32_t>(bit_cast<uint32_t>(shifted) & 0x007fffffu) - 0x00400000;
  return {whole, madd(n, -kLn2Low, madd(n, -kLn2High, x))};
}

/// A positive normal number is m * 2^e with m in [sqrt(1/2), sqrt(2)); gives log(m) = f + tail and f = m - 1.
struct LogParts {
  float e, f, tail;
};
inline LogParts log_parts(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x;
  const uint32_t bits = bit_cast<uint32_t>(scaled);
  const int32_t e = static_cast<int32_t>(bits - 0x3f3504f3u) >> 23;
  const float f = bit_cast<float>(bits - (static_cast<uint32_t>(e) << 23)) - 1.0f;
  float p = -0.0763431042432785f;
  p = madd(p, f, 0.12761501967906952f);
  p = madd(p, f, -0.1316021829843521f);
  p = madd(p, f, 0.14201770722866058f);
  p = madd(p, f, -0.16623355448246002f);
  p = madd(p, f, 0.20001226663589478f);
  p = madd(p, f, -0.250008225440979f);
  p = madd(p, f, 0.3333333134651184f);
  const float square = f * f;
  return {static_cast<float>(tiny ? e - 23 : e), f, madd(square * f, p, -0.5f * square)};
}
/// The value of a logarithm where it is no finite number, `finite` elsewhere.
inline float log_special(float x, float finite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float at_zero = x == 0.0f ? -kInfinity : finite;
  const float negative = x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : at_zero;
  const float infinite = x == kInfinity ? x : negative;
  return x != x ? x : infinite;
}

}  // namespace detail

/// e^x. Overflows to infinity and underflows through the subnormals to zero.
inline float vexp(float x) {
  const float above = x < -105.0f ? -105.0f : x;
  const etir::detail::Reduced reduced = etir::detail::reduce_by_ln2(above > 89.0f ? 89.0f : above);
  // 2^n in two factors: n may be past the exponents of normal numbers at either end.
  const int32_t half = reduced.n >> 1;
  return (etir::detail::expm1_reduced(reduced.rest) + 1.0f) * etir::detail::power_of_two(half) *
         etir::detail::power_of_two(reduced.n - half);
}
inline double vexp(double x) { return std::exp(x); }

/// e^x for x that is not positive, or NaN, in fewer steps: what would be subnormal, below e^-87, is zero.
inline float vexp_nonpositive(float x) {
  constexpr float kLeast = -87.0f;
  const float above = x < kLeast ? kLeast : x;
  const float shifted = etir::detail::madd(above, etir::detail::kLog2E, etir::detail::kRoundMagic);
  const float n = shifted - etir::detail::kRoundMagic;
  const float rest =
      etir::detail::madd(n, -etir::detail::kLn2Low, etir::detail::madd(n, -etir::detail::kLn2High, above));
  // n is in the low bits of `shifted`. A product, which is exact, and not a sum of bits: a NaN of any bits stays one.
  const int32_t n_bits = static_cast<int32_t>(etir::detail::bit_cast<uint32_t>(shifted) & 0x1ffu);
  return x < kLeast ? 0.0f : (etir::detail::expm1_reduced(rest) + 1.0f) * etir::detail::power_of_two(n_bits);
}
inline double vexp_nonpositive(double x) { return std::exp(x); }

/// e^x - 1, accurate near 0.
inline float vexpm1(float x) {
  const float above = x < -30.0f ? -30.0f : x;
  const etir::detail::Reduced reduced = etir::detail::reduce_by_ln2(above > 89.0f ? 89.0f : above);
  const float scale = etir::detail::power_of_two(reduced.n - 1);
  const float result = 2.0f * etir::detail::madd(scale, etir::detail::expm1_reduced(reduced.rest), scale - 0.5f);
  return std::fabs(x) < 1e-8f ? x : result;
}
inline double vexpm1(double x) { return std::expm1(x); }

inline float vlog(float x) {
  const etir::detail::LogParts parts = etir::detail::log_parts(x);
  const float low = etir::detail::madd(parts.e, etir::detail::kLn2Low, parts.tail);
  return etir::detail::log_special(x, etir::detail::madd(parts.e, etir::detail::kLn2High, parts.f + low));
}
inline double vlog(double x) { return std::log(x); }

/// Exact for powers of two.
inline float vlog2(float x) {
  const etir::detail::LogParts parts = etir::detail::log_parts(x);
  return etir::detail::log_special(x, etir::detail::madd(parts.f + parts.tail, etir::detail::kLog2E, parts.e));
}
inline double vlog2(double x) { return std::log2(x); }

/// log(1 + x), accurate near 0.
inline float vlog1p(float x) {
  const float sum = 1.0f + x;
  const float lost = x - (sum - 1.0f);
  const float log_of_sum = vlog(sum);
  const float corrected = log_of_sum + lost / sum;
  return sum > 0.0f && sum <= std::numeric_limits<float>::max() ? corrected : log_of_sum;
}
inline double vlog1p(double x) { return std::log1p(x); }

inline float vtanh(float x) {
  const float magnitude = std::fabs(x);
  const etir::detail::Reduced reduced = etir::detail::reduce_by_ln2(2.0f * (magnitude > 10.0f ? 10.0f : magnitude));
  const float scale = etir::detail::power_of_two(reduced.n);
  const float minus_one = etir::detail::madd(scale, etir::detail::expm1_reduced(reduced.rest), scale - 1.0f);
  // Below this x is the nearest float.
  return magnitude < 2.4e-4f ? x : std::copysign(minus_one / (minus_one + 2.0f), x);
}
inline double vtanh(double x) { return std::tanh(x); }

/// 1 / (1 + e^-x).
inline float vsigmoid(float x) { return 1.0f / (1.0f + vexp(-x)); }
inline double vsigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// erf(x) in three steps, of which loops make three (wide.h): finish(x, near_one(exponent(x))). Below 1 it is x p(x^2),
/// with an error of 1.2e-9 before rounding; above 1 - e^-q(|x|), whose q is fitted to -log(erfc) on [1, 3.95], with an
/// error of 1.0e-9: near 1 the last bit counts, since GELU is x (1 + erf(x / sqrt(2))) / 2.
struct Erf {
  /// From 3.95 on the nearest float is 1.
  static float bounded(float x) {
    constexpr float kOne = 3.95f;
    const float magnitude = std::fabs(x);
    return magnitude > kOne ? kOne : magnitude;
  }
  /// -q(|x|).
  static float exponent(float x) {
    const float a = bounded(x);
    float q = -0.0001855748560046777f;
    q = etir::detail::madd(q, a, 0.002939615398645401f);
    q = etir::detail::madd(q, a, -0.021805349737405777f);
    q = etir::detail::madd(q, a, 0.10303743183612823f);
    q = etir::detail::madd(q, a, 0.6382256150245667f);
    q = etir::detail::madd(q, a, 1.1270400285720825f);
    q = etir::detail::madd(q, a, 0.00035370929981581867f);
    return -q;
  }
  static float near_one(float exponent) { return 1.0f - vexp_nonpositive(exponent); }
  static float finish(float x, float above) {
    const float a = bounded(x), z = a * a;
    float p = 7.889119297033176e-05f;
    p = etir::detail::madd(p, z, -0.0008020841050893068f);
    p = etir::detail::madd(p, z, 0.005189535208046436f);
    p = etir::detail::madd(p, z, -0.026854444295167923f);
    p = etir::detail::madd(p, z, 0.11283600330352783f);
    p = etir::detail::madd(p, z, -0.3761262595653534f);
    p = etir::detail::madd(p, z, 1.1283791065216064f);
    return std::copysign(a < 1.0f ? a * p : above, x);
  }
};
/// GCC finds it too long to be a part of more than one loop, and a loop that calls it is no SIMD code.
[[gnu::always_inline]] inline float verf(float x) { return Erf::finish(x, Erf::near_one(Erf::exponent(x))); }
inline double verf(double x) { return std::erf(x); }

}  // namespace etir
