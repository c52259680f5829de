// 16-bit floating point types: storage, and conversion from and to float.
//
// Conversions round to nearest even and keep infinities and NaNs. They are plain integer code, which compilers
// vectorize; where the target has conversion instructions (F16C, Armv8 FP16) the compiler's own type is used instead.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

namespace etir {

namespace detail {

template <typename To, typename From>
inline To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

#if defined(__ARM_FP16_FORMAT_IEEE)
inline float half_to_float(uint16_t bits) { return static_cast<float>(bit_cast<__fp16>(bits)); }
inline uint16_t float_to_half(float value) { return bit_cast<uint16_t>(static_cast<__fp16>(value)); }
#elif defined(__FLT16_MANT_DIG__) && (defined(__F16C__) || defined(__AVX512FP16__))
inline float half_to_float(uint16_t bits) { return static_cast<float>(bit_cast<_Float16>(bits)); }
inline uint16_t float_to_half(float value) { return bit_cast<uint16_t>(static_cast<_Float16>(value)); }
#else
inline float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t rest = bits & 0x7fffu;
  if (rest >= 0x7c00u) return bit_cast<float>(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
  if (rest >= 0x0400u) return bit_cast<float>(sign | ((rest << 13) + 0x38000000u));
  // Subnormal: its value is rest * 2^-24, exact in float.
  const float magnitude = static_cast<float>(rest) * 5.9604644775390625e-8f;
  return bit_cast<float>(sign | bit_cast<uint32_t>(magnitude));
}
inline uint16_t float_to_half(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (rest >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (rest < 0x38800000u) {
    // Subnormal result: adding 0.5 moves the bits to their place, rounded by the addition itself.
    const float shifted = bit_cast<float>(rest) + 0.5f;
    return static_cast<uint16_t>(sign | (bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = rest + 0xfffu + ((rest >> 13) & 1u) - 0x38000000u;
  return static_cast<uint16_t>(sign | (rounded >> 13));
}
#endif

inline float bfloat16_to_float(uint16_t bits) { return bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace detail

/// IEEE binary16.
struct Half {
  uint16_t bits;
  Half() = default;
  explicit Half(float value) : bits(detail::float_to_half(value)) {}
  explicit operator float() const { return detail::half_to_float(bits); }
  static Half from_bits(uint16_t bits) {
    Half result;
    result.bits = bits;
    return result;
  }
};

/// The upper half of a float.
struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  explicit BFloat16(float value) : bits(detail::float_to_bfloat16(value)) {}
  explicit operator float() const { return detail::bfloat16_to_float(bits); }
  static BFloat16 from_bits(uint16_t bits) {
    BFloat16 result;
    result.bits = bits;
    return result;
  }
};

}  // namespace etir
