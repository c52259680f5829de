// Products of float numbers with AMX, which multiplies bfloat16: every number is the sum of three of those, or of two.
//
// A float has 24 significant bits, a bfloat16 has 8: what is left of a number after the nearest bfloat16 was taken off,
// twice, is one itself, and nothing is lost. Of the nine products of the parts of two numbers the six largest are
// summed, in float; the others are less than what float rounds off (Henry, Tang and Heinecke, Leveraging the bfloat16
// Artificial Intelligence Datatype For Higher-Precision Computations, arXiv:1904.06376). Six products of this kind take
// a third of the time of one with AVX-512.
//
// A float16 has 11 significant bits, and is the sum of two. Where one side was rounded to that, two parts of the other
// leave out a sixteenth of what the rounding did, and three products are enough. Where it was rounded to bfloat16, one
// part of the other is as near, and one product.
//
// Numbers below 2^-126 count as zero, in parts as well: whoever multiplies keeps to numbers that are far from that, and
// from infinity.
#pragma once

#include <cstdint>

#include "kernels/util/amx.h"
#include "kernels/util/vectors.h"

#if ETIR_TILES

namespace etir::llm {

#define ETIR_PARTS __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512dq")))

/// Whether the processor has AMX for bfloat16 and AVX-512, and the system lets this process use the registers.
inline bool has_parts() {
  static const bool has = has_vnni() && ask_for_tiles(TileNumbers::BFloat16);
  return has;
}

constexpr int kTileDepth = 32;                         ///< numbers of the depth in a register
constexpr int kPartSize = kTileRows * kTileDepth;      ///< of a register of parts
constexpr int kTileSums = kTileRows * kTileBytes / 4;  ///< of a register of sums

/// Of numbers that are the sum of one, two or three parts.
template <int kCount>
struct Parts {
  static_assert(kCount >= 1 && kCount <= 3);
  static constexpr int kTurns = kCount * (kCount + 1) / 2;           ///< products of parts
  static constexpr int kPartsSize = kCount * kPartSize;              ///< of all parts of a step of the depth
  static constexpr int kPartsBytes = kPartsSize * sizeof(uint16_t);  ///< of them
};

/// Sixteen vectors of sixteen numbers.
struct Square {
  __m512 row[kTileRows];
};

/// Rows become columns.
ETIR_PARTS inline Square transposed(const Square& from) {
  // The forms without a mask begin, in some compilers, with a register of which they warn that it is not set.
  constexpr __mmask16 kAll = 0xffff;
  constexpr __mmask8 kAllTwos = 0xff;
  __m512d pairs[kTileRows];
  ETIR_UNROLL
  for (int i = 0; i < kTileRows; i += 2) {
    // Rows i and i + 1, in turns, of columns 0, 1 of each four, and of columns 2, 3.
    pairs[i] = _mm512_castps_pd(_mm512_maskz_unpacklo_ps(kAll, from.row[i], from.row[i + 1]));
    pairs[i + 1] = _mm512_castps_pd(_mm512_maskz_unpackhi_ps(kAll, from.row[i], from.row[i + 1]));
  }
  __m512 fours[kTileRows];
  ETIR_UNROLL
  for (int i = 0; i < kTileRows; i += 4) {
    ETIR_UNROLL
    for (int k = 0; k < 2; ++k) {
      fours[i + 2 * k] = _mm512_castpd_ps(_mm512_maskz_unpacklo_pd(kAllTwos, pairs[i + k], pairs[i + k + 2]));
      fours[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_maskz_unpackhi_pd(kAllTwos, pairs[i + k], pairs[i + k + 2]));
    }
  }
  // Four rows of column k of each four are fours[i + k]: blocks of four rows and columns change places.
  Square to;
  ETIR_UNROLL
  for (int k = 0; k < 4; ++k) {
    const __m512 left_even = _mm512_maskz_shuffle_f32x4(kAll, fours[k], fours[4 + k], 0x88);
    const __m512 left_odd = _mm512_maskz_shuffle_f32x4(kAll, fours[k], fours[4 + k], 0xdd);
    const __m512 right_even = _mm512_maskz_shuffle_f32x4(kAll, fours[8 + k], fours[12 + k], 0x88);
    const __m512 right_odd = _mm512_maskz_shuffle_f32x4(kAll, fours[8 + k], fours[12 + k], 0xdd);
    to.row[k] = _mm512_maskz_shuffle_f32x4(kAll, left_even, right_even, 0x88);
    to.row[4 + k] = _mm512_maskz_shuffle_f32x4(kAll, left_odd, right_odd, 0x88);
    to.row[8 + k] = _mm512_maskz_shuffle_f32x4(kAll, left_even, right_even, 0xdd);
    to.row[12 + k] = _mm512_maskz_shuffle_f32x4(kAll, left_odd, right_odd, 0xdd);
  }
  return to;
}

/// The nearest bfloat16 of each number, with noise in the lower half of its bits.
ETIR_PARTS inline __m512i near_part(__m512 x) {
  return _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
}
/// What a number has beyond the bfloat16 in the upper half of `part`.
ETIR_PARTS inline __m512 beyond(__m512 x, __m512i part) {
  const __m512i upper = _mm512_and_si512(part, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
  return _mm512_sub_ps(x, _mm512_castsi512_ps(upper));
}

/// The upper halves of the numbers of two vectors, in turns: two words are moved, since a permutation of words takes
/// three times as long.
ETIR_PARTS inline __m512i upper_halves(__m512i first, __m512i second) {
  const __m512i low = _mm512_maskz_srli_epi32(0xffff, first, 16);
  return _mm512_mask_blend_epi16(0xaaaaaaaa, low, second);
}

/// The parts of two vectors, a register apart. Two numbers of the same lane are a pair of the depth: either operand may
/// have its depth in any order that is the other's, too. Not kNear: parts are truncated, not rounded, which is less to
/// do and leaves as little out if the other operand's parts are rounded. The last of three parts is all that is left,
/// the last of two is rounded.
template <int kParts, bool kNear>
ETIR_PARTS inline void split(__m512 first, __m512 second, uint16_t* to) {
  ETIR_UNROLL
  for (int p = 0; p < kParts; ++p) {
    const bool near = p + 1 < kParts ? kNear : kParts < 3;
    const __m512i a = near ? near_part(first) : _mm512_castps_si512(first);
    const __m512i b = near ? near_part(second) : _mm512_castps_si512(second);
    _mm512_store_si512(to + p * kPartSize, upper_halves(a, b));
    if (p + 1 < kParts) first = beyond(first, a), second = beyond(second, b);
  }
}

#define ETIR_TILE_MULTIPLY(sum, x, w) asm volatile("tdpbf16ps %%tmm" #w ", %%tmm" #x ", %%tmm" #sum ::: "memory")

/// Registers 0 to 3 are sums, 4 and 5 left operands, 6 and 7 right ones.
ETIR_PARTS inline void load_left(const uint16_t* upper, const uint16_t* lower, int64_t row_bytes = kTileBytes) {
  ETIR_TILE_LOAD(4, upper, row_bytes);
  ETIR_TILE_LOAD(5, lower, row_bytes);
}
ETIR_PARTS inline void load_right(const uint16_t* left, const uint16_t* right) {
  ETIR_TILE_LOAD(6, left, kTileBytes);
  ETIR_TILE_LOAD(7, right, kTileBytes);
}
ETIR_PARTS inline void multiply_four() {
  ETIR_TILE_MULTIPLY(0, 4, 6);
  ETIR_TILE_MULTIPLY(1, 4, 7);
  ETIR_TILE_MULTIPLY(2, 5, 6);
  ETIR_TILE_MULTIPLY(3, 5, 7);
}

#undef ETIR_TILE_MULTIPLY

/// Two operands on each side, all of `steps` steps of the depth: Parts::kPartsSize numbers each.
struct PartsProduct {
  const uint16_t *upper, *lower;  ///< left operands: [step][part][16 rows][32], or of one part [16 rows][step][32]
  const uint16_t *left, *right;   ///< right operands: [step][part][16 twos of the depth][16 columns][2]
  int steps;
  int64_t row_bytes = kTileBytes;  ///< from one row of the left operands to the next; more: of one part
};

/// Nothing to do between products.
struct Nothing {
  ETIR_PARTS void operator()() const {}
};

/// sums[i][j], 16 rows of 16 each, are upper (0) or lower (1) times left (0) or right (1); [1][j] are `below` numbers
/// after [0][j], and [i][1] `beside` after [i][0]. `between`, Parts::kTurns times for each step of the depth, is work
/// for the units that are idle meanwhile.
template <int kParts, typename Between>
ETIR_PARTS inline void multiply_parts(const PartsProduct& product, float* sums, int64_t below, int64_t beside,
                                      Between& between) {
  constexpr int kSize = Parts<kParts>::kPartsSize;
  ETIR_TILE_ZERO(0);
  ETIR_TILE_ZERO(1);
  ETIR_TILE_ZERO(2);
  ETIR_TILE_ZERO(3);
  const uint16_t *upper = product.upper, *lower = product.lower, *left = product.left, *right = product.right;
  const int64_t left_step = product.row_bytes > kTileBytes ? kTileDepth : kSize;
  for (int s = 0; s < product.steps; ++s) {
    // Parts (left, right) 0 2, 0 1, 1 1, 1 0, 2 0, 0 0 of three, 0 1, 0 0, 1 0 of two: from one to the next, one side
    // stays.
    load_left(upper, lower, kParts == 1 ? product.row_bytes : kTileBytes);
    if constexpr (kParts == 3) {
      load_right(left + 2 * kPartSize, right + 2 * kPartSize);
      multiply_four();
      between();
    }
    if constexpr (kParts > 1) {
      load_right(left + kPartSize, right + kPartSize);
      multiply_four();
      between();
    }
    if constexpr (kParts == 3) {
      load_left(upper + kPartSize, lower + kPartSize);
      multiply_four();
      between();
    }
    load_right(left, right);
    multiply_four();
    between();
    if constexpr (kParts == 3) {
      load_left(upper + 2 * kPartSize, lower + 2 * kPartSize);
      multiply_four();
      between();
      load_left(upper, lower);
    }
    if constexpr (kParts == 2) load_left(upper + kPartSize, lower + kPartSize);
    if constexpr (kParts > 1) {
      multiply_four();
      between();
    }
    upper += left_step, lower += left_step, left += kSize, right += kSize;
  }
  ETIR_TILE_STORE(0, sums, kTileBytes);
  ETIR_TILE_STORE(1, sums + beside, kTileBytes);
  ETIR_TILE_STORE(2, sums + below, kTileBytes);
  ETIR_TILE_STORE(3, sums + below + beside, kTileBytes);
}

}  // namespace etir::llm

#endif
