// Sums of two rows of int8 numbers in fixed point:
//
//   y = clamp((a_factor * a + b_factor * b + more) >> shift, least, most) + zero_point
//
// The variant with AVX-512 takes pairs of numbers at once. A factor of up to 22 bits is two parts, factor = high * 2^15
// + low with 0 <= low < 2^15, each of which is an operand of 16 bits; the parts add up to the same number modulo 2^32.
#pragma once

#include <cstdint>

#include "kernels/integer/tile.h"

namespace etir::integer {

/// What a sum is made with: zero_point + least and zero_point + most are int8 numbers.
struct FixedSum {
  int32_t a, b, more, least, most, zero_point;
  int shift;
};

namespace detail {

inline void add_run(const int8_t* __restrict x, const int8_t* __restrict y, int64_t count, FixedSum s,
                    int8_t* __restrict to) {
  for (int64_t i = 0; i < count; ++i) {
    int32_t value = (x[i] * s.a + y[i] * s.b + s.more) >> s.shift;
    value = value > s.least ? value : s.least;
    value = value < s.most ? value : s.most;
    to[i] = static_cast<int8_t>(value + s.zero_point);
  }
}

#if ETIR_INT8_X86 && ETIR_INT8_VNNI
/// The constants of a sum in registers. What is narrowed saturates, which the limits do no less.
struct PairSum {
  static constexpr int kPart = 15;
  static constexpr __mmask16 kAll = 0xffff;  // without masks, GCC 12 warns of its own headers
  __m512i low_factors, high_factors, more, zero_point, low, high;
  __m128i shift;

  ETIR_VNNI explicit PairSum(const FixedSum& s) {
    const auto pair = [](int32_t a, int32_t b) {
      return static_cast<int>(static_cast<uint32_t>(b) << 16 | (static_cast<uint32_t>(a) & 0xffffu));
    };
    constexpr int32_t kLow = (1 << kPart) - 1;
    low_factors = _mm512_set1_epi32(pair(s.a & kLow, s.b & kLow));
    high_factors = _mm512_set1_epi32(pair(s.a >> kPart, s.b >> kPart));
    more = _mm512_set1_epi32(s.more), zero_point = _mm512_set1_epi16(static_cast<int16_t>(s.zero_point));
    low = _mm512_set1_epi8(static_cast<char>(s.least + s.zero_point));
    high = _mm512_set1_epi8(static_cast<char>(s.most + s.zero_point));
    shift = _mm_cvtsi32_si128(s.shift);
  }
  /// Sixteen sums of pairs of bytes that are the upper halves of words.
  ETIR_VNNI __m512i sums(__m512i bytes) const {
    const __m512i pairs = _mm512_srai_epi16(bytes, 8);
    const __m512i upper = _mm512_maskz_slli_epi32(kAll, _mm512_madd_epi16(pairs, high_factors), kPart);
    const __m512i lower = _mm512_add_epi32(_mm512_madd_epi16(pairs, low_factors), more);
    return _mm512_maskz_sra_epi32(kAll, _mm512_add_epi32(upper, lower), shift);
  }
  /// In each lane of 16 bytes the order of the numbers comes back when they are narrowed.
  ETIR_VNNI __m512i operator()(__m512i x, __m512i y) const {
    const __m512i zero = _mm512_setzero_si512();
    const __m512i front = _mm512_unpacklo_epi8(x, y), back = _mm512_unpackhi_epi8(x, y);
    const __m512i a =
        _mm512_packs_epi32(sums(_mm512_unpacklo_epi8(zero, front)), sums(_mm512_unpackhi_epi8(zero, front)));
    const __m512i b =
        _mm512_packs_epi32(sums(_mm512_unpacklo_epi8(zero, back)), sums(_mm512_unpackhi_epi8(zero, back)));
    const __m512i bytes = _mm512_packs_epi16(_mm512_adds_epi16(a, zero_point), _mm512_adds_epi16(b, zero_point));
    return _mm512_min_epi8(_mm512_max_epi8(bytes, low), high);
  }
};

ETIR_VNNI inline void add_run_avx512(const int8_t* x, const int8_t* y, int64_t count, const FixedSum& s, int8_t* to) {
  constexpr int kBytes = 64;
  const PairSum sum(s);
  int64_t i = 0;
  for (; i + kBytes <= count; i += kBytes) {
    _mm512_storeu_si512(to + i, sum(_mm512_loadu_si512(x + i), _mm512_loadu_si512(y + i)));
  }
  if (i == count) return;
  const __mmask64 some = (__mmask64{1} << (count - i)) - 1;
  _mm512_mask_storeu_epi8(to + i, some,
                          sum(_mm512_maskz_loadu_epi8(some, x + i), _mm512_maskz_loadu_epi8(some, y + i)));
}
#endif

}  // namespace detail

/// The result is none of the operands.
inline void add_run(bool vnni, const int8_t* x, const int8_t* y, int64_t count, const FixedSum& s, int8_t* to) {
#if ETIR_INT8_X86 && ETIR_INT8_VNNI
  if (vnni) return detail::add_run_avx512(x, y, count, s, to);
#endif
  (void)vnni;
  detail::add_run(x, y, count, s, to);
}

}  // namespace etir::integer
