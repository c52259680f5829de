// Powers of two in vectors of 512 bits: what attention makes of scores, all of which are at most a little above zero.
#pragma once

#include "kernels/util/amx.h"
#include "kernels/util/vector_math.h"
#include "kernels/util/vectors.h"
#include "kernels/util/wide.h"

#if ETIR_TILES || ETIR_WIDE

#include <immintrin.h>

// What both attention with AMX and that without have.
#define ETIR_POWERS __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))

namespace etir::llm {

/// Minimax of 2^x in [-1/2, 1/2]: relative error 2e-9, or 3e-6 for what is rounded to bfloat16.
template <int kDegree>
struct PowerFactors;
template <>
struct PowerFactors<6> {
  static constexpr float kValues[] = {
      0x1.41fbbcp-13f, 0x1.5f3e52p-10f, 0x1.3b2d4cp-7f, 0x1.c6aee8p-5f, 0x1.ebfbdcp-3f, 0x1.62e43p-1f, 1.0f};
};
template <>
struct PowerFactors<4> {
  static constexpr float kValues[] = {0x1.3997d6p-7f, 0x1.ca1442p-5f, 0x1.ec06dap-3f, 0x1.62e0dcp-1f, 0x1.ffffe8p-1f};
};

/// 2^x of each vector where `seen`, 0 elsewhere and for x up to -100, NaN of NaN; x is at most some tens. Vectors take
/// each step together: one alone would wait for itself.
template <int kDegree = 6, int kCount>
ETIR_POWERS inline void powers_of_two(const __mmask16 (&seen)[kCount], __m512 (&x)[kCount]) {
  constexpr const auto& kFactors = PowerFactors<kDegree>::kValues;
  const __m512 magic = _mm512_set1_ps(etir::detail::kRoundMagic), least = _mm512_set1_ps(-100.0f);
  __mmask16 counts[kCount];
  __m512 shifted[kCount], rest[kCount];
  ETIR_UNROLL
  for (int i = 0; i < kCount; ++i) shifted[i] = _mm512_add_ps(x[i], magic);
  ETIR_UNROLL
  for (int i = 0; i < kCount; ++i) counts[i] = _mm512_mask_cmp_ps_mask(seen[i], x[i], least, _CMP_NLE_UQ);
  ETIR_UNROLL
  for (int i = 0; i < kCount; ++i) rest[i] = _mm512_sub_ps(shifted[i], magic);
  ETIR_UNROLL
  for (int i = 0; i < kCount; ++i) rest[i] = _mm512_sub_ps(x[i], rest[i]);
  ETIR_UNROLL
  for (int i = 0; i < kCount; ++i) x[i] = _mm512_set1_ps(kFactors[0]);
  ETIR_UNROLL
  for (int k = 1; k <= kDegree; ++k) {
    ETIR_UNROLL
    for (int i = 0; i < kCount; ++i) x[i] = _mm512_fmadd_ps(x[i], rest[i], _mm512_set1_ps(kFactors[k]));
  }
  ETIR_UNROLL
  for (int i = 0; i < kCount; ++i) {
    const __m512i exponent = _mm512_maskz_slli_epi32(0xffff, _mm512_castps_si512(shifted[i]), 23);
    x[i] = _mm512_castsi512_ps(_mm512_maskz_add_epi32(counts[i], _mm512_castps_si512(x[i]), exponent));
  }
}

/// cap_scores() of attention.h with these vectors.
[[gnu::flatten, gnu::noinline]] ETIR_POWERS inline void cap_scores_wide(float* scores, int64_t count, float softcap) {
  for (int64_t i = 0; i < count; ++i) scores[i] = softcap * vtanh(scores[i] / softcap);
}

}  // namespace etir::llm

#endif
