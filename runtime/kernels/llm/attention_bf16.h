// Keys, queries and values of bfloat16 as AMX takes them: what attention over such caches packs.
//
// A cache of bfloat16 says that 2^-9 of its numbers does not matter. Queries and weights are rounded to as much, so
// that one product is enough where numbers of two parts take three (bf16_parts.h), as in other libraries' attention of
// that type. Keys are left operands as they lie in the cache. Values have to be turned over; two of them, sixteen keys
// apart, are one lane for that, and nothing is converted.
#pragma once

#include <cstring>

#include "kernels/llm/attention_lanes.h"

#if ETIR_TILES

namespace etir::llm {

/// Rounds 32 numbers, a right operand's lane of sixteen pairs that follow each other.
ETIR_PARTS inline void round_in_order(__m512 first, __m512 second, uint16_t* to) {
  for (const __m512 numbers : {first, second}) {
    const __m512i upper = _mm512_maskz_srli_epi32(0xffff, near_part(numbers), 16);
    _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtepi32_epi16(0xffff, upper));
    to += kTileRows;
  }
}

/// Largest magnitudes of pairs of numbers: their bits.
ETIR_PARTS inline __m512i larger_pairs(__m512i most, __m512i pairs) {
  return _mm512_maskz_max_epu16(0xffffffff, most, _mm512_and_si512(pairs, _mm512_set1_epi32(0x7fff7fff)));
}

/// Sixteen words of a row from `d` on, zeros where there is none.
ETIR_PARTS inline __m512i sixteen_words(const uint16_t* row, int64_t d) {
  if (row == nullptr) return _mm512_setzero_si512();
  return _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + d)));
}

/// Values of a block of keys as left operands, sixteen places of a value in each, zeros from `dim` on: pairs of keys i
/// and i + 16 are lanes. `rows` are null where there is no key. Returns the largest magnitude of each lane.
ETIR_PARTS inline __m512i turn_over(const uint16_t* const (&rows)[kKeyBlock], int64_t dim, int64_t padded,
                                    uint16_t* to) {
  __m512i most = _mm512_setzero_si512();
  for (int64_t d = 0; d < padded; d += kTileRows, to += kPartSize) {
    Square square;
    ETIR_UNROLL
    for (int i = 0; i < kTileRows; ++i) {
      const __m512i first = sixteen_words(d < dim ? rows[i] : nullptr, d);
      const __m512i second = sixteen_words(d < dim ? rows[i + kTileRows] : nullptr, d);
      const __m512i pairs = _mm512_or_si512(first, _mm512_maskz_slli_epi32(0xffff, second, 16));
      most = larger_pairs(most, pairs);
      square.row[i] = _mm512_castsi512_ps(pairs);
    }
    square = transposed(square);
    ETIR_UNROLL
    for (int i = 0; i < kTileRows; ++i) _mm512_store_ps(to + i * kTileDepth, square.row[i]);
  }
  return most;
}

}  // namespace etir::llm

#endif
