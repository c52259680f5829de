// What activation functions and their derivatives share.
#pragma once

#include <cmath>
#include <type_traits>

#include "kernels/util/vector_math.h"
#include "kernels/util/wide.h"

namespace etir {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kGeluBeta = 0.79788456080286535588;  ///< sqrt(2 / pi)
constexpr double kGeluCubic = 0.044715;

/// What gelu's tanh approximation takes the tanh of.
template <typename T>
inline T gelu_tanh_argument(T x) {
  const T slope = static_cast<T>(kGeluCubic) * x * x;
  // Written as one instruction, where it is one, so that it has the same bits wherever it is compiled.
  if constexpr (std::is_same_v<T, float>) return static_cast<T>(kGeluBeta) * etir::detail::madd(slope, x, x);
  return static_cast<T>(kGeluBeta) * (x + slope * x);
}

template <typename T>
inline T gelu_tanh_of(T x) {
  return T(0.5) * x * (T(1) + vtanh(gelu_tanh_argument(x)));
}
template <typename T>
inline T gelu_of(T x) {
  return T(0.5) * x * (T(1) + verf(x * static_cast<T>(kSqrtHalf)));
}
/// gelu_of() in the steps of erf.
constexpr auto gelu_steps() {
  constexpr float kScale = static_cast<float>(kSqrtHalf);
  return Steps{[](float x) { return Erf::exponent(x * kScale); }, [](float x) { return Erf::near_one(x); },
               [](float x, float above) { return 0.5f * x * (1.0f + Erf::finish(x * kScale, above)); },
               [](auto x) { return gelu_of(x); }};
}
template <typename T>
inline T silu_of(T x) {
  return x / (T(1) + vexp(-x));
}

template <typename T>
inline T relu6_of(T x) {
  const T above = x < T(0) ? T(0) : x;
  return above > T(6) ? T(6) : above;
}

/// log(1 + e^x).
template <typename T>
inline T softplus_of(T x) {
  const T curve = vlog1p(vexp(x));
  return x > T(40) ? x : curve;
}

}  // namespace etir
