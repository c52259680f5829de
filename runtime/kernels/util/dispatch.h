// From a dtype known at run time to a C++ type.
//
//   dispatch<kFloats>(self.dtype, [&](auto tag) { using T = typename decltype(tag)::type; ... });
//
// A build may leave dtypes out (-DETIR_DTYPES=<set>): what is not selected is not instantiated, and the kernel refuses
// it like a dtype it never took.
#pragma once

#include <type_traits>

#include "core/scalar_type.h"

#ifndef ETIR_DTYPES
#define ETIR_DTYPES 0xffffffffu
#endif

namespace etir {

constexpr DtypeSet kSelectedDtypes = ETIR_DTYPES;

template <typename T>
struct TypeTag {
  using type = T;
};

/// Calls `body(TypeTag<T>())` for the C++ type of `type`. False when `type` is not in the set.
template <DtypeSet kSet, typename Body>
inline bool dispatch(ScalarType type, Body&& body) {
  switch (type) {
#define ETIR_DISPATCH(cpp, name, number)                                \
  case ScalarType::name:                                                \
    if constexpr (contains(kSet & kSelectedDtypes, ScalarType::name)) { \
      body(TypeTag<cpp>());                                             \
      return true;                                                      \
    }                                                                   \
    return false;
    ETIR_FORALL_DTYPES(ETIR_DISPATCH)
#undef ETIR_DISPATCH
    default:
      return false;
  }
}

/// As dispatch, for code that only moves elements: unsigned integers of 1, 2, 4 or 8 bytes, or a pair of 8.
struct Bytes16 {
  uint64_t low, high;
};
template <typename Body>
inline bool dispatch_size(size_t bytes, Body&& body) {
  switch (bytes) {
    case 1:
      return body(TypeTag<uint8_t>()), true;
    case 2:
      return body(TypeTag<uint16_t>()), true;
    case 4:
      return body(TypeTag<uint32_t>()), true;
    case 8:
      return body(TypeTag<uint64_t>()), true;
    case 16:
      return body(TypeTag<Bytes16>()), true;
    default:
      return false;
  }
}

/// The type that arithmetic on T is done in: float for the 16-bit types, T itself otherwise.
template <typename T>
struct Accumulate {
  using type = T;
};
template <>
struct Accumulate<Half> {
  using type = float;
};
template <>
struct Accumulate<BFloat16> {
  using type = float;
};
template <typename T>
using accumulate_t = typename Accumulate<T>::type;

/// Conversion between any two real element types, as torch converts: through float for the 16-bit types, != 0 for bool.
template <typename To, typename From>
inline To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Out of range, C++ leaves the result open; torch's (x86-64) is that of a conversion to int64, cut to size, where
    // NaN and what int64 cannot hold become its least value.
    constexpr From kLimit = static_cast<From>(9223372036854775808.0);
    if constexpr (std::is_same_v<To, uint64_t>) {
      if (value >= kLimit && value < 2 * kLimit) return static_cast<To>(value);
    }
    return static_cast<To>(value >= -kLimit && value < kLimit ? static_cast<int64_t>(value) : INT64_MIN);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace etir
