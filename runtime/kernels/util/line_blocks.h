// Elements of any dtype, a short block at a time, in the type that a kernel computes in.
//
// A kernel whose operands may have different dtypes loads blocks, computes, and stores blocks; conversions are then one
// loop for each dtype instead of one kernel for each pair.
#pragma once

#include "kernels/util/lines.h"

namespace etir::lines {

/// Elements of a block.
constexpr int64_t kBlockSize = 64;

template <typename T>
constexpr bool kIsFullComplex = std::is_same_v<T, ComplexFloat> || std::is_same_v<T, ComplexDouble>;

/// Real element to the compute type: int64_t, double or ComplexDouble.
template <typename C, typename T>
inline C to_compute(T value) {
  if constexpr (kIsFullComplex<T>) {
    static_assert(std::is_same_v<C, ComplexDouble>, "no kernel drops imaginary parts");
    return C(value.real(), value.imag());
  } else if constexpr (std::is_same_v<C, int64_t>) {
    if constexpr (std::is_integral_v<T>) return static_cast<int64_t>(value);
    if constexpr (!std::is_integral_v<T>) return to_int64(convert<double>(value));
  } else {
    return C(convert<double>(value));
  }
}

/// Compute type to element; integers are cut to size.
template <typename T, typename C>
inline T from_compute(C value) {
  if constexpr (kIsFullComplex<T>) {
    using Part = typename T::value_type;
    return T(static_cast<Part>(value.real()), static_cast<Part>(value.imag()));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != C(0);
  } else if constexpr (std::is_integral_v<T> && !std::is_integral_v<C>) {
    return static_cast<T>(to_int64(value));
  } else {
    return convert<T>(value);
  }
}

/// The dtypes that a compute type stands for.
template <typename C>
constexpr DtypeSet kComputed = std::is_same_v<C, ComplexDouble> ? kRealBool | kFullComplex : kRealBool;

/// Loads n elements, `step` bytes apart.
template <typename C>
void load_block(ScalarType dtype, const char* from, int64_t step, int64_t n, C* to) {
  dispatch<kComputed<C>>(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < n; ++i) to[i] = to_compute<C>(load<T>(from + i * step));
  });
}

/// Stores n elements, `step` bytes apart. Complex numbers go to complex types only.
template <typename C>
void store_block(ScalarType dtype, char* to, int64_t step, int64_t n, const C* from) {
  constexpr DtypeSet kTypes = std::is_same_v<C, ComplexDouble> ? kFullComplex
                              : std::is_same_v<C, int64_t>     ? kInts | kBool
                                                               : kReal;
  dispatch<kTypes>(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < n; ++i) store(to + i * step, from_compute<T>(from[i]));
  });
}

}  // namespace etir::lines
