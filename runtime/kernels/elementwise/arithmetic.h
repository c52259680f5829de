// Arithmetic of compute types with torch's conventions: integers wrap around, division by zero of integers is noted,
// NaNs propagate through maxima and minima.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/kernel.h"

namespace etir {

template <typename T>
inline T wrap_add(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}
template <typename T>
inline T wrap_sub(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  } else {
    return a - b;
  }
}
template <typename T>
inline T wrap_mul(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

/// The larger of two; NaN if one of them is.
template <typename T>
inline T max_propagating(T a, T b) {
  const T larger = a > b ? a : b;  // in this form GCC vectorizes it
  return a != a ? a : larger;
}
template <typename T>
inline T min_propagating(T a, T b) {
  const T smaller = a < b ? a : b;
  return a != a ? a : smaller;
}

/// Notes divisions of integers by zero, which torch refuses; the kernel asks when it is done.
class ZeroDivision {
 public:
  explicit ZeroDivision(KernelContext& ctx) : ctx_(ctx) {}
  ~ZeroDivision() {
    if (seen_) ctx_.fail(Check::KernelDivisionByZero);
  }
  ZeroDivision(const ZeroDivision&) = delete;
  ZeroDivision& operator=(const ZeroDivision&) = delete;
  /// May be called from several threads.
  void note() { __atomic_store_n(&seen_, true, __ATOMIC_RELAXED); }

 private:
  KernelContext& ctx_;
  bool seen_ = false;
};

/// Quotients towards zero and towards minus infinity, and the remainders that go with them.
struct Division {
  ZeroDivision* zero;

  template <typename T>
  T trunc(T a, T b) const {
    if constexpr (std::is_same_v<T, int64_t>) {
      if (refuses(b)) return 0;
      return b == -1 ? wrap_sub(int64_t{0}, a) : a / b;
    } else {
      return std::trunc(a / b);
    }
  }
  template <typename T>
  T floor(T a, T b) const {
    if constexpr (std::is_same_v<T, int64_t>) {
      if (refuses(b)) return 0;
      if (b == -1) return wrap_sub(int64_t{0}, a);
      return a / b - (a % b != 0 && (a < 0) != (b < 0));
    } else {
      // Of the exact quotient, not of its rounded value: (a - fmod(a, b)) / b is within rounding of an integer.
      if (b == 0) return a / b;
      const T rest = std::fmod(a, b);
      T quotient = (a - rest) / b;
      if (rest != 0 && (b < 0) != (rest < 0)) quotient -= T(1);
      if (quotient == 0) return std::copysign(T(0), a / b);
      const T whole = std::floor(quotient);
      return quotient - whole > T(0.5) ? whole + T(1) : whole;
    }
  }
  /// Has the sign of a, as C's.
  template <typename T>
  T fmod(T a, T b) const {
    if constexpr (std::is_same_v<T, int64_t>) {
      return refuses(b) || b == -1 ? 0 : a % b;
    } else {
      return std::fmod(a, b);
    }
  }
  /// Has the sign of b, as Python's.
  template <typename T>
  T remainder(T a, T b) const {
    const T rest = fmod(a, b);
    return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
  }

 private:
  bool refuses(int64_t b) const {
    if (b == 0) zero->note();
    return b == 0;
  }
};

}  // namespace etir
