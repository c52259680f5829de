// Regions filled with one element.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/copy/view.h"
#include "kernels/util/promote.h"

namespace etir {

/// Writes one element, given by its bytes, to every place of a view.
[[gnu::noinline]] inline void fill_elements(KernelContext& ctx, const View& to, const void* element) {
  CopyDims dims;
  for (int d = 0; d < to.rank; ++d) dims.add(to.sizes[d], 0, to.strides[d]);
  strided_copy(ctx, dims, element, to.data, to.element);
}

inline void fill_zero(KernelContext& ctx, const View& to) {
  alignas(16) static constexpr char kZero[16] = {};
  fill_elements(ctx, to, kZero);
}

/// The part [start, start + size) of one dim of a view.
inline View part_of_dim(View view, int dim, int64_t start, int64_t size) {
  view.sizes[dim] = size < 0 ? 0 : size;
  if (size > 0) view.shift(start * view.strides[dim]);
  return view;
}

namespace detail {

/// Whether torch takes a number for an element of type T: it must be in range, but a negative integer wraps in an
/// unsigned type.
template <typename T>
bool fits(const Scalar& number) {
  if constexpr (std::is_same_v<T, bool>) {
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    if (number.is_floating()) {
      const double value = number.payload.real;
      const double above = std::ldexp(1.0, Limits::digits);
      return value < above && value > (Limits::is_signed ? -above - 1 : -above);
    }
    const int64_t value = number.to<int64_t>();
    if constexpr (sizeof(T) == 8) {
      return true;
    } else {
      const int64_t least = Limits::is_signed ? int64_t{Limits::min()} : -int64_t{Limits::max()};
      return value >= least && value <= int64_t{Limits::max()};
    }
  } else {
    if (!number.is_floating() || !std::isfinite(number.payload.real)) return true;
    const double largest = std::is_same_v<T, Half>       ? 65504.0
                           : std::is_same_v<T, BFloat16> ? 3.3895313892515355e38
                           : std::is_same_v<T, float>    ? std::numeric_limits<float>::max()
                                                         : std::numeric_limits<double>::max();
    return std::fabs(number.payload.real) <= largest;
  }
}

template <typename T>
T element_of(const Scalar& number) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    // In range by fits(); above the range of int64 only for uint64.
    if (number.is_floating()) {
      const double value = number.payload.real;
      return value < 9223372036854775808.0 ? static_cast<T>(static_cast<int64_t>(value)) : static_cast<T>(value);
    }
  }
  return number.is_floating() ? convert<T>(number.payload.real) : convert<T>(number.to<int64_t>());
}

}  // namespace detail

/// Writes the bytes of a number, the argument at `position`, as an element of `out`. False, with the failure recorded,
/// if it does not fit.
inline bool scalar_element(KernelContext& ctx, const Scalar& number, int position, const Tensor& out, void* element) {
  std::memset(element, 0, 16);
  bool fits = true;
  const auto write = [&](auto tag) {
    using T = typename decltype(tag)::type;
    fits = detail::fits<T>(number);
    if (!fits) return;
    const T value = detail::element_of<T>(number);
    std::memcpy(element, &value, sizeof(T));
  };
  // The real part of a complex number comes first, the imaginary one is 0.
  if (!dispatch<kRealBool | kAllInts>(part_of(out.dtype), write)) {
    ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
    return false;
  }
  if (!fits) ctx.fail(Check::KernelOverflow, position, static_cast<int64_t>(out.dtype));
  return fits;
}

}  // namespace etir
