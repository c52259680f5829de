// The inner loops of groupwise products of integers: rows of int8 numbers times a panel of packed weights with AVX2 and
// AVX-512 with VNNI, as add_groups (group_panel.h), and the same bits; and which of all variants runs. VNNI and Arm's
// dot product are looked for when the program runs.
#pragma once

#include "kernels/integer/group_panel.h"
#include "kernels/integer/group_tile_arm.h"

namespace etir::integer {

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

/// Which variant runs here.
enum class GroupVariant { Portable, Avx2, Vnni, Dot, Neon };

inline GroupVariant group_variant() {
#if ETIR_INT8_X86
#if ETIR_INT8_VNNI
  if (has_vnni()) return GroupVariant::Vnni;
#endif
  return GroupVariant::Avx2;
#elif ETIR_NEON
  return arm_bytes() >= ArmBytes::Dot ? GroupVariant::Dot : GroupVariant::Neon;
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
  if (variant == GroupVariant::Neon) return add_groups_neon<kBits, kRows>(x, w, acc);
#endif
  (void)variant;
  add_groups<kBits, kRows>(x, w, acc);
#endif
}

}  // namespace etir::integer
