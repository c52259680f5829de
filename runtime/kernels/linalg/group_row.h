// One row of float32 times weights in groups with AVX2 (VNNI: group_row_vnni.h), exact to 30 bits of the largest number
// of a group of the row.
//
// A number of the weight that becomes float32 takes three instructions before it is multiplied, and they, not memory,
// were what the head of a decoder waited for. A group of the row becomes integers of 30 bits here, of a unit that is a
// power of two, in two halves of 16 and 15: products of 16 bits are added up exactly, in pairs, and a number of the
// weight needs one instruction for two of them. Sums of a group become float32 at its end. What is lost is at most
// 2^-30 of the group's largest number for each of its numbers, less than sums of float32 lose.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/kernel.h"
#include "kernels/util/group_panels.h"

#if ETIR_GROUP_ROW

namespace etir::groups {

constexpr int64_t kMostFixedGroup = 256;  ///< numbers whose products with 8 bits add up to less than 2^31
constexpr int kFixedBits = 29, kLowBits = 15;

/// Some groups of a row as integers: x = (high + low * 2^-15) * unit of the group.
struct FixedRow {
  static constexpr int64_t kMost = 2048;  ///< numbers at a time

  static constexpr int kPieces = 4;  ///< of a number, 8 bits each

  /// [four of the depth][high, low][even, odd]: two numbers of 16 bits each; or, filled with kBytes, [four of the
  /// depth][upper and lower of high, of low]: four signed numbers of 8 bits each.
  alignas(32) int32_t pairs[kMost];
  int32_t highs[kMost / kChunk], lows[kMost / kChunk];  ///< [group]: their sums
  float units[kMost / kChunk];                          ///< [group]: powers of two

  /// Whether the numbers of all groups of a row can be integers: the largest of each is 0, or finite and not too small.
  static bool fits(const float* input, int64_t depth, int64_t group) {
    for (int64_t k = 0; k < depth; k += group) {
      const int32_t bits = largest_bits(input + k, std::min(group, depth - k));
      if (bits >> kMantissa == kInfinite || (bits != 0 && exponent_of(bits) < kSmallest)) return false;
    }
    return true;
  }

  /// Groups [first, last) of the row, filled up with 0 after its end.
  template <bool kBytes>
  void fill(const float* input, int64_t depth, int64_t group, int64_t first, int64_t last) {
    auto* to = reinterpret_cast<__m256i*>(pairs);
    const __m256i half = _mm256_set1_epi32(1 << (kLowBits - 1));
    // Numbers 0 and 2 of four, and 1 and 3, as the halves of 32 bits.
    const auto paired = [](__m256i four) {
      return _mm256_blend_epi16(four, _mm256_slli_epi32(_mm256_shuffle_epi32(four, 0xee), 16), 0xaa);
    };
    for (int64_t g = first; g < last; ++g) {
      const int32_t bits = largest_bits(input + g * group, std::min(group, depth - g * group));
      const int exponent = bits == 0 ? 0 : exponent_of(bits);
      const __m256 scales = _mm256_set1_ps(std::ldexp(1.0f, kFixedBits - exponent));
      units[g - first] = std::ldexp(1.0f, exponent - (kFixedBits - kLowBits));
      __m256i high_sums = _mm256_setzero_si256(), low_sums = _mm256_setzero_si256();
      for (int64_t k = g * group; k < (g + 1) * group; k += 8, ++to) {
        const __m256i number = _mm256_cvtps_epi32(_mm256_mul_ps(load_eight(input + k, depth - k), scales));
        const __m256i high = _mm256_srai_epi32(_mm256_add_epi32(number, half), kLowBits);
        const __m256i low = _mm256_sub_epi32(number, _mm256_slli_epi32(high, kLowBits));
        high_sums = _mm256_add_epi32(high_sums, high), low_sums = _mm256_add_epi32(low_sums, low);
        if constexpr (kBytes) {
          _mm256_store_si256(to, _mm256_packs_epi16(in_bytes(high), in_bytes(low)));
        } else {
          _mm256_store_si256(to, _mm256_unpacklo_epi64(paired(high), paired(low)));
        }
      }
      highs[g - first] = sum_lanes(high_sums), lows[g - first] = sum_lanes(low_sums);
    }
  }

 private:
  static constexpr int kBias = 127, kMantissa = 23, kInfinite = 255, kSmallest = -90;

  /// The upper and the lower bytes of eight numbers, both signed, as 16 bits: by fours.
  static __m256i in_bytes(__m256i numbers) {
    const __m256i lower = _mm256_srai_epi32(_mm256_slli_epi32(numbers, 24), 24);
    return _mm256_packs_epi32(_mm256_srai_epi32(_mm256_sub_epi32(numbers, lower), 8), lower);
  }
  /// The bits of the largest of some numbers without its sign: they have the order of the numbers, and what is not
  /// finite comes last.
  static int32_t largest_bits(const float* from, int64_t count) {
    const __m256i size = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_setzero_si256();
    for (int64_t k = 0; k < count; k += 8) {
      most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(load_eight(from + k, count - k)), size));
    }
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
  }
  /// The exponent of the first power of two above a number.
  static int exponent_of(int32_t bits) { return (bits >> kMantissa) - kBias + 1; }
  static __m256 load_eight(const float* from, int64_t left) {
    if (left >= 8) return _mm256_loadu_ps(from);
    float some[8] = {};
    for (int64_t i = 0; i < left; ++i) some[i] = from[i];
    return _mm256_loadu_ps(some);
  }
  static int32_t sum_lanes(__m256i value) {
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(value), _mm256_extracti128_si256(value, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
  }
};

namespace detail {

/// sums += the products of four numbers of the row and `even`, `odd`, the numbers of eight rows of the weight.
inline void add_four(const int32_t* pairs, __m256i even, __m256i odd, __m256i* high, __m256i* low) {
  const auto products = [&](int half) {
    return _mm256_add_epi32(_mm256_madd_epi16(even, _mm256_set1_epi32(pairs[2 * half])),
                            _mm256_madd_epi16(odd, _mm256_set1_epi32(pairs[2 * half + 1])));
  };
  *high = _mm256_add_epi32(*high, products(0));
  *low = _mm256_add_epi32(*low, products(1));
}

}  // namespace detail

/// acc[panel][16] = the products of `count` groups of a row and of panels. The panels have `whole`
/// bytes of scales.
template <int kBits, int kCount, bool kMinimums, ScalarType kType>
void multiply_fixed(const FixedRow& x, const PackedPanel (&panels)[kCount], int64_t count, int64_t group, int64_t whole,
                    float* acc) {
  constexpr int64_t kFactors = kFactorBytes<kType>;
  constexpr int kSteps = kChunk * kBits / 32;  // loads of a chunk for eight rows of the weight
  const int64_t chunks = group / kChunk, group_bytes = group * kLanes * kBits / 8;
  const __m256i mask = _mm256_set1_epi16(kBits == 4 ? 15 : 255);
  const __m256 fine = _mm256_set1_ps(1.0f / (1 << kLowBits));
  __m256 totals[kCount][2];
  ETIR_UNROLL
  for (int p = 0; p < kCount; ++p) totals[p][0] = totals[p][1] = _mm256_setzero_ps();
  for (int64_t g = 0; g < count; ++g) {
    ETIR_UNROLL
    for (int p = 0; p < kCount; ++p) {
      const uint8_t* from = panels[p].data + g * group_bytes;
      const int32_t* pairs = x.pairs + g * group;
      // Without minimums a number stands for itself less kZero.
      const int zero = kMinimums ? 0 : kZero<kBits>;
      __m256i highs[2], lows[2];
      ETIR_UNROLL
      for (int v = 0; v < 2; ++v) {
        highs[v] = _mm256_set1_epi32(-zero * x.highs[g]);
        lows[v] = _mm256_set1_epi32(-zero * x.lows[g]);
      }
      __builtin_prefetch(panels[p].scales + whole + g * kFactors);
      if (kMinimums) __builtin_prefetch(panels[p].minimums + whole + g * kFactors);
      for (int64_t chunk = 0; chunk < chunks; ++chunk, from += kChunkBytes<kBits>, pairs += kChunk) {
        ETIR_UNROLL
        for (int step = 0; step < kSteps; ++step) {
          const uint8_t* numbers = from + step * kLanes * kFour;
          const int32_t* of_step = pairs + step * kChunk / kSteps;
          __builtin_prefetch(numbers + kStreamPrefetchBytes);
          ETIR_UNROLL
          for (int v = 0; v < 2; ++v) {
            const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers + v * 32));
            const __m256i odd = _mm256_srli_epi16(raw, 8), even = _mm256_and_si256(raw, mask);
            if constexpr (kBits == 8) {
              detail::add_four(of_step, even, odd, &highs[v], &lows[v]);
            } else {
              detail::add_four(of_step, even, _mm256_and_si256(odd, mask), &highs[v], &lows[v]);
              detail::add_four(of_step + kFour, _mm256_and_si256(_mm256_srli_epi16(raw, 4), mask),
                               _mm256_srli_epi16(raw, 12), &highs[v], &lows[v]);
            }
          }
        }
      }
      ETIR_UNROLL
      for (int v = 0; v < 2; ++v) {
        const int64_t factor = g * kFactors + v * (kFactors / 2);
        const __m256 unit = _mm256_set1_ps(x.units[g]);
        const __m256 sum =
            _mm256_mul_ps(unit, _mm256_fmadd_ps(_mm256_cvtepi32_ps(lows[v]), fine, _mm256_cvtepi32_ps(highs[v])));
        totals[p][v] = _mm256_fmadd_ps(load_factors<kType>(panels[p].scales + factor), sum, totals[p][v]);
        if constexpr (kMinimums) {
          const float inputs =
              static_cast<float>(x.highs[g]) + static_cast<float>(x.lows[g]) * (1.0f / (1 << kLowBits));
          const __m256 minimums = load_factors<kType>(panels[p].minimums + factor);
          totals[p][v] = _mm256_fmadd_ps(minimums, _mm256_set1_ps(inputs * x.units[g]), totals[p][v]);
        }
      }
    }
  }
  ETIR_UNROLL
  for (int p = 0; p < kCount; ++p) {
    ETIR_UNROLL
    for (int v = 0; v < 2; ++v) _mm256_storeu_ps(acc + p * kLanes + v * 8, totals[p][v]);
  }
}

}  // namespace etir::groups

#endif
