// The inner loops of groupwise products of integers: rows of int8 numbers times a panel of 16 rows of packed weights of
// 4 or 8 bits (kernels/util/group_weights.h).
//
// The sum of a group is an exact int32, that of x * n - zero * x over the unsigned numbers n of the weight. It becomes
// float32, is multiplied by the group's scale and added to the sum of the groups before it: a product and a sum that
// round by themselves, in the order of the groups. That is the whole of the floating point, so that all variants give
// the same bits: portable C++, AVX2, AVX-512 with VNNI and Arm's dot product, of which the last two are looked for when
// the program runs.
//
// Left numbers lie as [four of the depth][row][4], so that those of all rows of a tile are read with one pointer.
#pragma once

#include "kernels/integer/tile.h"
#include "kernels/util/arm.h"
#include "kernels/util/group_weights.h"

namespace etir::integer {

static_assert(groups::kLanes == kPanel && groups::kFour == kQuad);

/// Left rows of a tile, and what is needed of each of their groups: arrays of [group][row].
struct GroupRows {
  const int8_t* numbers;
  const int32_t* offsets;  ///< what the sum of a group begins with: -zero * sum of x, or 0 where there are minimums
  const float* sums;       ///< the sum of x by which a minimum is multiplied, in units of the result; null: no minimums
  const float* scales;     ///< null: a group has no scale of its own
};

/// Groups of a panel: `chunks` times kChunk numbers each.
struct GroupPanel {
  const uint8_t* data;
  const float* scales;    ///< [group][16]
  const float* minimums;  ///< null: none
  int64_t groups, chunks;
};

namespace detail {

/// acc += scale * sum, and the minimum's share: what ends each group of a row.
inline void end_group(const GroupRows& x, const GroupPanel& w, int64_t group, int64_t at, const int32_t* sums,
                      float* acc) {
  const float* scales = w.scales + group * groups::kLanes;
  if (x.scales == nullptr) {
    for (int c = 0; c < groups::kLanes; ++c) acc[c] += scales[c] * static_cast<float>(sums[c]);
  } else {
    const float scale = x.scales[at];
    for (int c = 0; c < groups::kLanes; ++c) acc[c] += scales[c] * scale * static_cast<float>(sums[c]);
  }
  if (w.minimums != nullptr) {
    const float* minimums = w.minimums + group * groups::kLanes;
    const float sum = x.sums[at];
    for (int c = 0; c < groups::kLanes; ++c) acc[c] += minimums[c] * sum;
  }
}

}  // namespace detail

/// Portable: acc[row][16] += the products of the groups.
template <int kBits, int kRows>
void add_groups(GroupRows x, GroupPanel w, float* acc) {
  using namespace groups;
  for (int64_t g = 0; g < w.groups; ++g) {
    int32_t sums[kRows][kPanel];
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kPanel; ++c) sums[r][c] = x.offsets[g * kRows + r];
    }
    for (int64_t chunk = 0; chunk < w.chunks; ++chunk) {
      for (int q = 0; q < kChunk / kQuad; ++q, x.numbers += kRows * kQuad) {
        const uint8_t* from = w.data + (kBits == 4 ? q / 2 : q) * kPanel * kQuad;
        const int shift = kBits == 4 && q % 2 != 0 ? 4 : 0, mask = kBits == 4 ? 15 : 255;
        for (int r = 0; r < kRows; ++r) {
          for (int j = 0; j < kQuad; ++j) {
            const int32_t left = x.numbers[r * kQuad + j];
            for (int c = 0; c < kPanel; ++c) sums[r][c] += left * ((from[c * kQuad + j] >> shift) & mask);
          }
        }
      }
      w.data += kChunkBytes<kBits>;
    }
    for (int r = 0; r < kRows; ++r) detail::end_group(x, w, g, g * kRows + r, sums[r], acc + r * kPanel);
  }
}

#if ETIR_INT8_X86

template <int kRows>
inline void load_totals(const float* acc, __m256 (*totals)[2]) {
  ETIR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ETIR_UNROLL
    for (int v = 0; v < 2; ++v) totals[r][v] = _mm256_loadu_ps(acc + r * kPanel + v * 8);
  }
}

template <int kRows>
inline void store_totals(const __m256 (*totals)[2], float* acc) {
  ETIR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ETIR_UNROLL
    for (int v = 0; v < 2; ++v) _mm256_storeu_ps(acc + r * kPanel + v * 8, totals[r][v]);
  }
}

/// detail::end_group on registers: `sums` are those of the 16 columns.
template <int kRows, bool kMinimums, bool kScaled>
inline void end_group_avx2(const GroupRows& x, const GroupPanel& w, int64_t group, const __m256i (*sums)[2],
                           __m256 (*totals)[2]) {
  using namespace groups;
  ETIR_UNROLL
  for (int v = 0; v < 2; ++v) {
    const int64_t from = group * kLanes + v * 8;
    const __m256 scales = _mm256_loadu_ps(w.scales + from);
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const int64_t at = group * kRows + r;
      __m256 scale = scales;
      if constexpr (kScaled) scale = _mm256_mul_ps(scale, _mm256_set1_ps(x.scales[at]));
      totals[r][v] = _mm256_add_ps(totals[r][v], _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sums[r][v])));
      if constexpr (kMinimums) {
        const __m256 minimums = _mm256_loadu_ps(w.minimums + from);
        totals[r][v] = _mm256_add_ps(totals[r][v], _mm256_mul_ps(minimums, _mm256_set1_ps(x.sums[at])));
      }
    }
  }
}

/// AVX2 with numbers of 4 bits: products of bytes are added up in 16 bits, which hold those of a chunk. Half of a panel
/// goes through a chunk at a time: the sums of both would leave too few of the sixteen registers for products.
template <int kRows, bool kMinimums, bool kScaled>
void add_groups_avx2_4(const GroupRows& x, const GroupPanel& w, float* acc) {
  using namespace groups;
  const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
  const int8_t* numbers = x.numbers;
  const uint8_t* data = w.data;
  __m256 totals[kRows][2];
  load_totals<kRows>(acc, totals);
  for (int64_t g = 0; g < w.groups; ++g) {
    __m256i sums[kRows][2];
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = _mm256_set1_epi32(x.offsets[g * kRows + r]);
    for (int64_t chunk = 0; chunk < w.chunks; ++chunk) {
      ETIR_UNROLL
      for (int v = 0; v < 2; ++v) {
        __m256i pairs[kRows];
        ETIR_UNROLL
        for (int r = 0; r < kRows; ++r) pairs[r] = _mm256_setzero_si256();
        const uint8_t* from = data + v * 32;
        const int8_t* left = numbers;
        const auto eight = [&]() {
          if (kRows == 1 && v == 0) prefetch_weights(from);
          const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
          const __m256i first = _mm256_and_si256(both, low);
          const __m256i second = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
          ETIR_UNROLL
          for (int r = 0; r < kRows; ++r) {
            int fours[2];
            std::memcpy(&fours[0], left + r * kQuad, kQuad);
            std::memcpy(&fours[1], left + (kRows + r) * kQuad, kQuad);
            const __m256i sum = _mm256_add_epi16(_mm256_maddubs_epi16(first, _mm256_set1_epi32(fours[0])),
                                                 _mm256_maddubs_epi16(second, _mm256_set1_epi32(fours[1])));
            pairs[r] = _mm256_add_epi16(pairs[r], sum);
          }
          from += kPanel * kQuad;
          left += 2 * kRows * kQuad;
        };
        if constexpr (kRows == 1) {
          ETIR_UNROLL
          for (int q = 0; q < kChunk / kQuad; q += 2) eight();
        } else {
          ETIR_NO_UNROLL
          for (int q = 0; q < kChunk / kQuad; q += 2) eight();
        }
        ETIR_UNROLL
        for (int r = 0; r < kRows; ++r) sums[r][v] = _mm256_add_epi32(sums[r][v], _mm256_madd_epi16(pairs[r], ones));
      }
      numbers += kRows * kChunk;
      data += kChunkBytes<4>;
    }
    end_group_avx2<kRows, kMinimums, kScaled>(x, w, g, sums, totals);
  }
  store_totals<kRows>(totals, acc);
}

/// AVX2 with numbers of 8 bits: products of 16 bits, since those of bytes would saturate.
template <int kRows, bool kMinimums, bool kScaled>
void add_groups_avx2_8(const GroupRows& x, const GroupPanel& w, float* acc) {
  using namespace groups;
  const int8_t* numbers = x.numbers;
  const uint8_t* data = w.data;
  __m256 totals[kRows][2];
  load_totals<kRows>(acc, totals);
  for (int64_t g = 0; g < w.groups; ++g) {
    __m256i pairs[kRows][4];
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ETIR_UNROLL
      for (int v = 0; v < 4; ++v) pairs[r][v] = _mm256_setzero_si256();
    }
    for (int64_t q = 0; q < w.chunks * (kChunk / kQuad); ++q, data += kPanel * kQuad, numbers += kRows * kQuad) {
      if constexpr (kRows == 1) prefetch_weights(data);
      ETIR_UNROLL
      for (int v = 0; v < 4; ++v) {
        const __m256i right = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data + v * 16)));
        ETIR_UNROLL
        for (int r = 0; r < kRows; ++r) {
          int four;
          std::memcpy(&four, numbers + r * kQuad, sizeof(four));
          const __m256i left = _mm256_cvtepi8_epi16(_mm_set1_epi32(four));
          pairs[r][v] = _mm256_add_epi32(pairs[r][v], _mm256_madd_epi16(left, right));
        }
      }
    }
    __m256i sums[kRows][2];
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m256i offset = _mm256_set1_epi32(x.offsets[g * kRows + r]);
      ETIR_UNROLL
      for (int v = 0; v < 2; ++v) {
        const __m256i fours = _mm256_hadd_epi32(pairs[r][2 * v], pairs[r][2 * v + 1]);
        sums[r][v] = _mm256_add_epi32(_mm256_permute4x64_epi64(fours, 0xd8), offset);
      }
    }
    end_group_avx2<kRows, kMinimums, kScaled>(x, w, g, sums, totals);
  }
  store_totals<kRows>(totals, acc);
}

template <int kBits, int kRows, bool kMinimums>
void add_groups_avx2(const GroupRows& x, const GroupPanel& w, float* acc) {
  const bool scaled = x.scales != nullptr;
  if constexpr (kBits == 4) {
    scaled ? add_groups_avx2_4<kRows, kMinimums, true>(x, w, acc)
           : add_groups_avx2_4<kRows, kMinimums, false>(x, w, acc);
  } else {
    scaled ? add_groups_avx2_8<kRows, kMinimums, true>(x, w, acc)
           : add_groups_avx2_8<kRows, kMinimums, false>(x, w, acc);
  }
}

#if ETIR_INT8_VNNI
/// AVX-512 with VNNI. Left numbers are operands in memory; the results of the groups stay in registers. Masked forms of
/// the instructions, all lanes kept, are those that GCC 12 does not warn of.
template <int kBits, int kRows>
ETIR_VNNI void add_groups_vnni(GroupRows x, GroupPanel w, float* acc) {
  using namespace groups;
  const __m512i low = _mm512_set1_epi8(15);
  __m512 totals[kRows];
  ETIR_UNROLL
  for (int r = 0; r < kRows; ++r) totals[r] = _mm512_loadu_ps(acc + r * kPanel);
  for (int64_t g = 0; g < w.groups; ++g) {
    __m512i sums[kRows];
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) sums[r] = _mm512_set1_epi32(x.offsets[g * kRows + r]);
    for (int64_t chunk = 0; chunk < w.chunks; ++chunk) {
      ETIR_UNROLL
      for (int q = 0; q < kChunk / kQuad; q += 8 / kBits) {
        __m512i right = _mm512_loadu_si512(w.data);
        const __m512i upper = kBits == 4 ? _mm512_and_si512(_mm512_srli_epi16(right, 4), low) : right;
        if constexpr (kBits == 4) right = _mm512_and_si512(right, low);
        ETIR_UNROLL
        for (int r = 0; r < kRows; ++r) {
          int four;
          std::memcpy(&four, x.numbers + r * kQuad, sizeof(four));
          sums[r] = _mm512_dpbusd_epi32(sums[r], right, _mm512_set1_epi32(four));
        }
        x.numbers += kRows * kQuad;
        if constexpr (kBits == 4) {
          ETIR_UNROLL
          for (int r = 0; r < kRows; ++r) {
            int four;
            std::memcpy(&four, x.numbers + r * kQuad, sizeof(four));
            sums[r] = _mm512_dpbusd_epi32(sums[r], upper, _mm512_set1_epi32(four));
          }
          x.numbers += kRows * kQuad;
        }
        w.data += kPanel * kQuad;
      }
    }
    const __m512 scales = _mm512_loadu_ps(w.scales + g * kPanel);
    if (x.scales == nullptr) {
      ETIR_UNROLL
      for (int r = 0; r < kRows; ++r) {
        totals[r] = _mm512_add_ps(totals[r], _mm512_mul_ps(scales, _mm512_maskz_cvtepi32_ps(0xffff, sums[r])));
      }
    } else {
      ETIR_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m512 both = _mm512_mul_ps(scales, _mm512_set1_ps(x.scales[g * kRows + r]));
        totals[r] = _mm512_add_ps(totals[r], _mm512_mul_ps(both, _mm512_maskz_cvtepi32_ps(0xffff, sums[r])));
      }
    }
    if (w.minimums != nullptr) {
      const __m512 minimums = _mm512_loadu_ps(w.minimums + g * kPanel);
      ETIR_UNROLL
      for (int r = 0; r < kRows; ++r) {
        totals[r] = _mm512_add_ps(totals[r], _mm512_mul_ps(minimums, _mm512_set1_ps(x.sums[g * kRows + r])));
      }
    }
  }
  ETIR_UNROLL
  for (int r = 0; r < kRows; ++r) _mm512_storeu_ps(acc + r * kPanel, totals[r]);
}
#endif
#endif

#if ETIR_NEON
/// Arm's dot product of four signed bytes. Numbers of 4 bits are such as they are; those of 8 become so, and the sum
/// begins with 128 times more.
template <int kBits, int kRows>
ETIR_DOT void add_groups_dot(GroupRows x, GroupPanel w, float* acc) {
  using namespace groups;
  const uint8x16_t low = vdupq_n_u8(15), sign = vdupq_n_u8(128);
  const int8x16_t one = vdupq_n_s8(1);
  for (int64_t g = 0; g < w.groups; ++g) {
    int32x4_t sums[kRows][4], left_sums[kRows];
    for (int r = 0; r < kRows; ++r) {
      left_sums[r] = vdupq_n_s32(0);
      for (int v = 0; v < 4; ++v) sums[r][v] = vdupq_n_s32(x.offsets[g * kRows + r]);
    }
    for (int64_t q = 0; q < w.chunks * (kChunk / kQuad) * kBits / 8; ++q, w.data += kPanel * kQuad) {
      for (int half = 0; half < 8 / kBits; ++half, x.numbers += kRows * kQuad) {
        for (int r = 0; r < kRows; ++r) {
          int four;
          std::memcpy(&four, x.numbers + r * kQuad, sizeof(four));
          const int8x16_t left = vreinterpretq_s8_s32(vdupq_n_s32(four));
          if constexpr (kBits == 8) left_sums[r] = vdotq_s32(left_sums[r], left, one);
          for (int v = 0; v < 4; ++v) {
            uint8x16_t right = vld1q_u8(w.data + v * 16);
            if constexpr (kBits == 4) {
              right = half == 0 ? vandq_u8(right, low) : vshrq_n_u8(right, 4);
            } else {
              right = veorq_u8(right, sign);
            }
            sums[r][v] = vdotq_s32(sums[r][v], left, vreinterpretq_s8_u8(right));
          }
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      int32_t whole[kPanel];
      for (int v = 0; v < 4; ++v) vst1q_s32(whole + v * 4, vmlaq_n_s32(sums[r][v], left_sums[r], 128));
      detail::end_group(x, w, g, g * kRows + r, whole, acc + r * kPanel);
    }
  }
}
#endif

/// Which variant runs here.
enum class GroupVariant { Portable, Avx2, Vnni, Dot };

inline GroupVariant group_variant() {
#if ETIR_INT8_X86
#if ETIR_INT8_VNNI
  if (has_vnni()) return GroupVariant::Vnni;
#endif
  return GroupVariant::Avx2;
#elif ETIR_NEON
  return arm_bytes() >= ArmBytes::Dot ? GroupVariant::Dot : GroupVariant::Portable;
#else
  return GroupVariant::Portable;
#endif
}

/// acc[row][16] += the products of kRows rows and the groups of a panel.
template <int kBits, int kRows>
void add_groups(GroupVariant variant, const GroupRows& x, const GroupPanel& w, float* acc) {
#if ETIR_INT8_X86
#if ETIR_INT8_VNNI
  if (variant == GroupVariant::Vnni) return add_groups_vnni<kBits, kRows>(x, w, acc);
#endif
  (void)variant;
  w.minimums != nullptr ? add_groups_avx2<kBits, kRows, true>(x, w, acc)
                        : add_groups_avx2<kBits, kRows, false>(x, w, acc);
#else
#if ETIR_NEON
  if (variant == GroupVariant::Dot) return add_groups_dot<kBits, kRows>(x, w, acc);
#endif
  (void)variant;
  add_groups<kBits, kRows>(x, w, acc);
#endif
}

}  // namespace etir::integer
