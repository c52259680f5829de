// One row times weights of 4 bits with AVX-512 and VNNI: group_row.h's loop, a panel's sixteen columns in one register.
//
// The tile for several rows (group_tile.h) has its scales made float32 before, and reads in one line: memory gives it
// two thirds of what it gives here, where panels of several places take turns and scales are converted where they are
// used. Numbers in the upper halves of bytes are multiplied where they lie: their sum is sixteen times as large, which
// 32 bits hold for the longest group. The order of the sums, and so the bits, are those of the tile.
#pragma once

#include "kernels/integer/group_tile.h"
#include "kernels/util/group_panels.h"

#if ETIR_GROUP_ROW && ETIR_INT8_VNNI

namespace etir::integer {

static_assert(groups::kMostDepth / 2 * (15 * 16) * 128 <= INT32_MAX, "the sum of upper halves fits");

/// acc[panel][16] = the products of one row and of kCount panels, in `count` groups of `chunks` chunks.
template <int kCount, bool kMinimums, bool kScaled, ScalarType kType>
ETIR_VNNI void multiply_row_vnni(const GroupRows& x, const groups::PackedPanel (&panels)[kCount], int64_t count,
                                 int64_t chunks, float* acc) {
  constexpr int64_t kFactors = groups::kFactorBytes<kType>, kLoad = kPanel * kQuad;
  const int64_t whole = count * kFactors;  // bytes of a panel
  const __m512i low = _mm512_set1_epi8(15), high = _mm512_set1_epi8(-16);
  __m512 totals[kCount];
  ETIR_UNROLL
  for (int p = 0; p < kCount; ++p) totals[p] = _mm512_setzero_ps();
  const int8_t* numbers = x.numbers;
  int64_t at = 0;
  for (int64_t g = 0; g < count; ++g, numbers += chunks * groups::kChunk, at += chunks * groups::kChunkBytes<4>) {
    ETIR_UNROLL
    for (int p = 0; p < kCount; ++p) {
      const uint8_t* data = panels[p].data + at;
      __m512i lower = _mm512_set1_epi32(kMinimums ? 0 : x.offsets[g]), upper = _mm512_setzero_si512();
      const int8_t* fours = numbers;
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        ETIR_UNROLL
        for (int q = 0; q < groups::kChunk / 8; ++q, data += kLoad, fours += 2 * kQuad) {
          groups::prefetch_vnni(data + groups::kVnniPrefetchBytes);
          int both[2];
          std::memcpy(both, fours, sizeof(both));
          const __m512i raw = _mm512_loadu_si512(data);
          lower = _mm512_dpbusd_epi32(lower, _mm512_and_si512(raw, low), _mm512_set1_epi32(both[0]));
          upper = _mm512_dpbusd_epi32(upper, _mm512_and_si512(raw, high), _mm512_set1_epi32(both[1]));
        }
      }
      // Those of the panel that follows.
      groups::prefetch_vnni(panels[p].scales + whole + g * kFactors);
      if (kMinimums) groups::prefetch_vnni(panels[p].minimums + whole + g * kFactors);
      const __m512i sum = _mm512_add_epi32(lower, _mm512_maskz_srai_epi32(0xffff, upper, 4));
      __m512 scale = groups::load_sixteen_factors<kType>(panels[p].scales + g * kFactors);
      if constexpr (kScaled) scale = _mm512_mul_ps(scale, _mm512_set1_ps(x.scales[g]));
      totals[p] = _mm512_add_ps(totals[p], _mm512_mul_ps(scale, _mm512_maskz_cvtepi32_ps(0xffff, sum)));
      if constexpr (kMinimums) {
        const __m512 minimums = groups::load_sixteen_factors<kType>(panels[p].minimums + g * kFactors);
        totals[p] = _mm512_add_ps(totals[p], _mm512_mul_ps(minimums, _mm512_set1_ps(x.sums[g])));
      }
    }
  }
  ETIR_UNROLL
  for (int p = 0; p < kCount; ++p) _mm512_storeu_ps(acc + p * kPanel, totals[p]);
}

/// The same for any form of factors.
template <int kCount>
void multiply_row_vnni(const GroupRows& x, const groups::PackedPanel (&panels)[kCount], ScalarType factors,
                       int64_t count, int64_t chunks, float* acc) {
  groups::dispatch_factors(factors, panels->minimums != nullptr, [&](auto with, auto type) {
    constexpr bool kMinimums = decltype(with)::value;
    constexpr ScalarType kType = decltype(type)::value;
    x.scales != nullptr ? multiply_row_vnni<kCount, kMinimums, true, kType>(x, panels, count, chunks, acc)
                        : multiply_row_vnni<kCount, kMinimums, false, kType>(x, panels, count, chunks, acc);
  });
}

}  // namespace etir::integer

#endif
