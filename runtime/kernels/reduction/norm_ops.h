// Norms as reductions: an operator for each exponent, and what is done to its sum.
//
// The exponents that have an operator of their own (0, 1, 2 and the infinities) need no pow.
#pragma once

#include <cmath>

#include "kernels/util/reduce.h"
#include "kernels/util/reduce_ops.h"

namespace etir {

template <typename T>
struct CountOp : SumOp<T> {
  T map(T x, int64_t) const { return x != T(0) ? T(1) : T(0); }
};
template <typename T>
struct MagnitudeOp : SumOp<T> {
  T map(T x, int64_t) const { return std::fabs(x); }
};
template <typename T>
struct SquareOp : SumOp<T> {
  T map(T x, int64_t) const { return x * x; }
};
template <typename T>
struct PowerOp : SumOp<T> {
  static constexpr bool kCheap = false;
  T exponent;
  T map(T x, int64_t) const { return std::pow(std::fabs(x), exponent); }
};
template <typename T, bool kMax>
struct ExtremeMagnitudeOp : ExtremeOp<T, kMax> {
  T identity() const { return kMax ? T(0) : std::numeric_limits<T>::infinity(); }
  T map(T x, int64_t) const { return std::fabs(x); }
};

/// Calls `body(op, finish)` with the operator of the p-norm and the function that makes a norm of what it folds.
template <typename T, typename Body>
void with_norm(double p, const Body& body) {
  const auto same = [](T value) { return value; };
  if (p == 0) return body(CountOp<T>(), same);
  if (p == 1) return body(MagnitudeOp<T>(), same);
  if (p == 2) return body(SquareOp<T>(), [](T value) { return std::sqrt(value); });
  if (std::isinf(p) && p > 0) return body(ExtremeMagnitudeOp<T, true>(), same);
  if (std::isinf(p)) return body(ExtremeMagnitudeOp<T, false>(), same);
  PowerOp<T> op;
  op.exponent = static_cast<T>(p);
  const T inverse = static_cast<T>(1 / p);
  body(op, [inverse](T value) { return std::pow(value, inverse); });
}

}  // namespace etir
