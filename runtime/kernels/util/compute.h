// The type that products of a dtype are summed in, and conversion to and from it.
//
// 16-bit floats are summed in float. Integers are summed modulo 2^32 or 2^64, in unsigned types, where overflow is
// defined: cut to their own size, that is the wrapped sum that torch computes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/util/dispatch.h"
#include "kernels/util/half_blocks.h"

namespace etir {

template <typename T>
struct Compute {
  using type = std::conditional_t<std::is_integral_v<T>, std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>,
                                  accumulate_t<T>>;
};
template <typename T>
using compute_t = typename Compute<T>::type;

/// Whether elements of type T can be read and written as compute_t<T> where they lie.
template <typename T>
constexpr bool is_own_compute_v =
    std::is_same_v<T, compute_t<T>> || (std::is_integral_v<T> && sizeof(T) == sizeof(compute_t<T>));

template <typename T>
inline compute_t<T> to_compute(T value) {
  return static_cast<compute_t<T>>(value);
}
template <typename T, typename C>
inline T from_compute(C value) {
  return static_cast<T>(value);
}

/// Copies `count` elements that are `stride` apart.
template <typename T>
inline void read_elements(const T* from, int64_t stride, int64_t count, compute_t<T>* to) {
  if constexpr (std::is_same_v<T, Half>) {
    if (stride == 1) return floats_from_halves(to, from, count);
  }
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = to_compute(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = to_compute(from[i * stride]);
  }
}

}  // namespace etir
