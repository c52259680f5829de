// A table of 256 bytes with AVX2, 32 numbers at a time: to[i] = entries[from[i]], entries from -128 on.
//
// One instruction looks up 16 entries by the lower half of a byte. All sixteen such parts of the table are asked, and
// the bits of the upper half say, one after the other, which of two answers stays.
#pragma once

#include "kernels/integer/tile.h"

#if ETIR_INT8_X86

namespace etir::integer {

namespace detail {

/// The entries `numbers`, from 0 to 255, of a table.
inline __m256i look_up_parts(const int8_t* table, __m256i numbers) {
  const __m256i lower = _mm256_and_si256(numbers, _mm256_set1_epi8(0x0f));
  const auto part = [&](int index) {
    const __m128i* const at = reinterpret_cast<const __m128i*>(table + 16 * index);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(at)), lower);
  };
  // Bits 4, 5, 6 and 7 of each number as its sign.
  const __m256i bit6 = _mm256_add_epi8(numbers, numbers), bit5 = _mm256_add_epi8(bit6, bit6);
  const __m256i bit4 = _mm256_add_epi8(bit5, bit5);
  const auto two = [&](int index) { return _mm256_blendv_epi8(part(index), part(index + 1), bit4); };
  const auto four = [&](int index) { return _mm256_blendv_epi8(two(index), two(index + 2), bit5); };
  const auto eight = [&](int index) { return _mm256_blendv_epi8(four(index), four(index + 4), bit6); };
  return _mm256_blendv_epi8(eight(0), eight(8), numbers);
}

}  // namespace detail

/// `entries` is the middle of the table. Numbers may be written over those that are read.
inline void look_up_avx2(const int8_t* from, const int8_t* entries, int64_t count, int8_t* to) {
  const __m256i shift = _mm256_set1_epi8(static_cast<char>(0x80));
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m256i numbers = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    const __m256i found = detail::look_up_parts(entries - 128, _mm256_xor_si256(numbers, shift));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), found);
  }
  for (; i < count; ++i) to[i] = entries[from[i]];
}

}  // namespace etir::integer

#endif
