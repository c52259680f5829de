// One row of float32 times weights in groups with AVX-512 and VNNI: group_row.h's exact integers, in pieces of 8 bits.
//
// The halves of 16 and 15 bits that group_row.h makes of a number are two signed bytes each here. An instruction
// multiplies sixty-four numbers of the weight by a piece and adds four products up, exactly; the sums of pieces become
// one at the end of a group, and what follows is what AVX2 does: the bits are the same. float32 (add_block_avx512)
// takes five instructions for sixteen numbers, more than memory waits for.
#pragma once

#include "kernels/linalg/group_row.h"

#if ETIR_GROUP_ROW && ETIR_INT8_VNNI

namespace etir::groups {

/// acc[panel][16] = the products of `count` groups of a row (filled with kBytes) and of panels. The panels have `whole`
/// bytes of scales.
template <int kBits, int kCount, bool kMinimums, ScalarType kType>
ETIR_VNNI void multiply_fixed_vnni(const FixedRow& x, const PackedPanel (&panels)[kCount], int64_t count, int64_t group,
                                   int64_t whole, float* acc) {
  constexpr int64_t kFactors = kFactorBytes<kType>, kLoad = kLanes * kFour;
  constexpr int kFours = 8 / kBits;  // of a load
  const int64_t loads = group / (kFours * kFour);
  const __m512i mask = _mm512_set1_epi8(15);
  const __m512 fine = _mm512_set1_ps(1.0f / (1 << kLowBits));
  __m512 totals[kCount];
  ETIR_UNROLL
  for (int p = 0; p < kCount; ++p) totals[p] = _mm512_setzero_ps();
  for (int64_t g = 0; g < count; ++g) {
    const __m512 unit = _mm512_set1_ps(x.units[g]);
    ETIR_UNROLL
    for (int p = 0; p < kCount; ++p) {
      const uint8_t* from = panels[p].data + g * loads * kLoad;
      const int32_t* pieces = x.pairs + g * group;  // four pieces of four numbers each
      __m512i sums[FixedRow::kPieces];
      ETIR_UNROLL
      for (__m512i& sum : sums) sum = _mm512_setzero_si512();
      for (int64_t i = 0; i < loads; ++i, from += kLoad) {
        prefetch_vnni(from + kVnniPrefetchBytes);
        const __m512i raw = _mm512_loadu_si512(from);
        ETIR_UNROLL
        for (int f = 0; f < kFours; ++f, pieces += FixedRow::kPieces) {
          __m512i numbers = f == 0 ? raw : _mm512_maskz_srli_epi16(0xffffffff, raw, 4);
          if constexpr (kBits == 4) numbers = _mm512_and_si512(numbers, mask);
          ETIR_UNROLL
          for (int k = 0; k < FixedRow::kPieces; ++k) {
            sums[k] = _mm512_dpbusd_epi32(sums[k], numbers, _mm512_set1_epi32(pieces[k]));
          }
        }
      }
      prefetch_vnni(panels[p].scales + whole + g * kFactors);
      if (kMinimums) prefetch_vnni(panels[p].minimums + whole + g * kFactors);
      // Without minimums a number stands for itself less kZero.
      const int zero = kMinimums ? 0 : kZero<kBits>;
      const auto half = [&](int first, int32_t of_row) ETIR_VNNI {
        const __m512i sum = _mm512_add_epi32(_mm512_maskz_slli_epi32(0xffff, sums[first], 8), sums[first + 1]);
        return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_add_epi32(sum, _mm512_set1_epi32(-zero * of_row)));
      };
      const __m512 sum = _mm512_mul_ps(unit, _mm512_fmadd_ps(half(2, x.lows[g]), fine, half(0, x.highs[g])));
      totals[p] = _mm512_fmadd_ps(load_sixteen_factors<kType>(panels[p].scales + g * kFactors), sum, totals[p]);
      if constexpr (kMinimums) {
        const float inputs = static_cast<float>(x.highs[g]) + static_cast<float>(x.lows[g]) * (1.0f / (1 << kLowBits));
        const __m512 minimums = load_sixteen_factors<kType>(panels[p].minimums + g * kFactors);
        totals[p] = _mm512_fmadd_ps(minimums, _mm512_set1_ps(inputs * x.units[g]), totals[p]);
      }
    }
  }
  ETIR_UNROLL
  for (int p = 0; p < kCount; ++p) _mm512_storeu_ps(acc + p * kLanes, totals[p]);
}

}  // namespace etir::groups

#endif
