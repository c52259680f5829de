// Runs of half as floats and back. Where the target converts in hardware but the compiler does not vectorize that, the
// instructions are named here.
#pragma once

#include <cstdint>

#include "core/half.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace etir {

inline void floats_from_halves(float* __restrict__ to, const Half* __restrict__ from, int64_t n) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
#endif
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

inline void halves_from_floats(Half* __restrict__ to, const float* __restrict__ from, int64_t n) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
#endif
  for (; i < n; ++i) to[i] = Half(from[i]);
}

}  // namespace etir
