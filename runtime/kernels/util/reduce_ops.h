// Operators of the reduction engine (reduce.h) that several kernels use.
//
// What an operator is made of, and when it has forms for vectors, reduce.h says.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/util/blocks.h"
#include "kernels/util/vectors.h"

namespace etir {

namespace detail {
/// Sum and product that wrap around for integers.
template <typename T>
inline T add(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}
template <typename T>
inline T multiply(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}
}  // namespace detail

template <typename T>
struct SumOp {
  using Value = T;
  static constexpr bool kRounds = !std::is_integral_v<T>;
  static constexpr bool kCheap = true;
  T identity() const { return T(0); }
  T map(T x, int64_t) const { return x; }
  T combine(T a, T b) const { return detail::add(a, b); }
  template <typename V, typename = std::enable_if_t<is_vector_of_v<V, T>>>
  V map(const V& x, int64_t) const {
    return x;
  }
  template <typename V, typename = std::enable_if_t<is_vector_of_v<V, T>>>
  V combine(const V& a, const V& b) const {
    return a + b;
  }
};

/// The sum of squared distances from the column's mean.
template <typename T>
struct SquaredDeviationOp : SumOp<T> {
  const T* means;
  template <typename V>
  V map(const V& x, int64_t j) const {
    const V deviation = x - means[j];
    if constexpr (kIsComplex<T>) {
      return V(deviation.real() * deviation.real() + deviation.imag() * deviation.imag());
    } else {
      return deviation * deviation;
    }
  }
};

template <typename T>
struct ProductOp {
  using Value = T;
  static constexpr bool kRounds = !std::is_integral_v<T>;
  static constexpr bool kCheap = true;
  T identity() const { return T(1); }
  T map(T x, int64_t) const { return x; }
  T combine(T a, T b) const { return detail::multiply(a, b); }
};

/// Largest or smallest value; NaN wins over every number.
template <typename T, bool kMax>
struct ExtremeOp {
  using Value = T;
  static constexpr bool kRounds = false;
  static constexpr bool kCheap = false;
  T identity() const {
    using Limits = std::numeric_limits<T>;
    if constexpr (Limits::has_infinity) return kMax ? -Limits::infinity() : Limits::infinity();
    return kMax ? Limits::lowest() : Limits::max();
  }
  T map(T x, int64_t) const { return x; }
  T combine(T a, T b) const { return ((kMax ? a > b : a < b) | (a != a)) ? a : b; }
  template <typename V, typename = std::enable_if_t<is_vector_of_v<V, T> && std::is_floating_point_v<T>>>
  V map(const V& x, int64_t) const {
    return x;
  }
  template <typename V, typename = std::enable_if_t<is_vector_of_v<V, T> && std::is_floating_point_v<T>>>
  V combine(const V& a, const V& b) const {
    return ((kMax ? a > b : a < b) | (a != a)) ? a : b;
  }
};

struct AnyOp {
  using Value = bool;
  static constexpr bool kRounds = false;
  static constexpr bool kCheap = true;
  bool identity() const { return false; }
  bool map(bool x, int64_t) const { return x; }
  bool combine(bool a, bool b) const { return a | b; }
};
struct AllOp {
  using Value = bool;
  static constexpr bool kRounds = false;
  static constexpr bool kCheap = true;
  bool identity() const { return true; }
  bool map(bool x, int64_t) const { return x; }
  bool combine(bool a, bool b) const { return a & b; }
};

}  // namespace etir
