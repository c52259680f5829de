// One row times weights of 4 bits with AVX2: what a decoder spends most of a token's time on.
//
// Weights are read from memory once, and it must not wait for arithmetic: a group's sums stay in registers and scales
// are converted where they are used, 31 cycles for a group of 32 times 16 numbers where the tile for several rows
// (group_tile.h) takes 43. Panels of several places take turns, group by group (kernels/util/group_panels.h). The order
// of the sums, and so the bits, are those of the tile.
#pragma once

#include "kernels/integer/group_tile.h"
#include "kernels/util/group_panels.h"

#if ETIR_GROUP_ROW

namespace etir::integer {

namespace detail {

/// The products of a chunk of the row and of a panel, in 16 bits, then in 32: those of columns 0 to 7 and 8 to 15.
inline void multiply_chunk(const int8_t* numbers, const uint8_t* data, __m256i (&sums)[2]) {
  const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
  __m256i pairs[2];
  ETIR_UNROLL
  for (int q = 0; q < groups::kChunk / 8; ++q) {
    __builtin_prefetch(data + groups::kStreamPrefetchBytes + q * kPanel * kQuad);
    int fours[2];
    std::memcpy(fours, numbers + q * 8, sizeof(fours));
    const __m256i lower = _mm256_set1_epi32(fours[0]), upper = _mm256_set1_epi32(fours[1]);
    ETIR_UNROLL
    for (int v = 0; v < 2; ++v) {
      const auto* from = reinterpret_cast<const __m256i*>(data + q * kPanel * kQuad + v * 32);
      const __m256i both = _mm256_loadu_si256(from);
      const __m256i second = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
      const __m256i sum = _mm256_add_epi16(_mm256_maddubs_epi16(_mm256_and_si256(both, low), lower),
                                           _mm256_maddubs_epi16(second, upper));
      pairs[v] = q == 0 ? sum : _mm256_add_epi16(pairs[v], sum);
    }
  }
  ETIR_UNROLL
  for (int v = 0; v < 2; ++v) sums[v] = _mm256_madd_epi16(pairs[v], ones);
}

}  // namespace detail

/// acc[panel][16] = the products of one row and of kCount panels, in `count` groups of `chunks` chunks.
template <int kCount, bool kMinimums, bool kScaled, ScalarType kType>
void multiply_row(const GroupRows& x, const groups::PackedPanel (&panels)[kCount], int64_t count, int64_t chunks,
                  float* acc) {
  constexpr int64_t kFactors = groups::kFactorBytes<kType>;
  const int64_t whole = count * kFactors;  // bytes of a panel
  __m256 totals[kCount][2];
  ETIR_UNROLL
  for (int p = 0; p < kCount; ++p) totals[p][0] = totals[p][1] = _mm256_setzero_ps();
  const int8_t* numbers = x.numbers;
  int64_t at = 0;
  for (int64_t g = 0; g < count; ++g, numbers += chunks * groups::kChunk) {
    ETIR_UNROLL
    for (int p = 0; p < kCount; ++p) {
      const uint8_t* data = panels[p].data + at;
      __m256i sums[2];
      detail::multiply_chunk(numbers, data, sums);
      for (int64_t chunk = 1; chunk < chunks; ++chunk) {
        __m256i more[2];
        detail::multiply_chunk(numbers + chunk * groups::kChunk, data + chunk * groups::kChunkBytes<4>, more);
        for (int v = 0; v < 2; ++v) sums[v] = _mm256_add_epi32(sums[v], more[v]);
      }
      // Those of the panel that follows.
      __builtin_prefetch(panels[p].scales + whole + g * kFactors);
      if (kMinimums) __builtin_prefetch(panels[p].minimums + whole + g * kFactors);
      ETIR_UNROLL
      for (int v = 0; v < 2; ++v) {
        const int64_t factor = g * kFactors + v * (kFactors / 2);
        __m256 scale = groups::load_factors<kType>(panels[p].scales + factor);
        if constexpr (kScaled) scale = _mm256_mul_ps(scale, _mm256_set1_ps(x.scales[g]));
        // With minimums the sums begin with 0.
        if constexpr (!kMinimums) sums[v] = _mm256_add_epi32(sums[v], _mm256_set1_epi32(x.offsets[g]));
        totals[p][v] = _mm256_add_ps(totals[p][v], _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sums[v])));
        if constexpr (kMinimums) {
          const __m256 minimums = groups::load_factors<kType>(panels[p].minimums + factor);
          totals[p][v] = _mm256_add_ps(totals[p][v], _mm256_mul_ps(minimums, _mm256_set1_ps(x.sums[g])));
        }
      }
    }
    at += chunks * groups::kChunkBytes<4>;
  }
  ETIR_UNROLL
  for (int p = 0; p < kCount; ++p) store_totals<1>(&totals[p], acc + p * kPanel);
}

/// The same for any form of factors.
template <int kCount>
void multiply_row(const GroupRows& x, const groups::PackedPanel (&panels)[kCount], ScalarType factors, int64_t count,
                  int64_t chunks, float* acc) {
  groups::dispatch_factors(factors, panels->minimums != nullptr, [&](auto with, auto type) {
    constexpr bool kMinimums = decltype(with)::value;
    constexpr ScalarType kType = decltype(type)::value;
    x.scales != nullptr ? multiply_row<kCount, kMinimums, true, kType>(x, panels, count, chunks, acc)
                        : multiply_row<kCount, kMinimums, false, kType>(x, panels, count, chunks, acc);
  });
}

}  // namespace etir::integer

#endif
