// Three rows of bytes as one, a byte of each in turn: images of three colors whose channels become the innermost dim.
#pragma once

#include <cstdint>

// ETIR_INTERLEAVE=0 leaves vectors out.
#ifndef ETIR_INTERLEAVE
#if defined(__x86_64__) && !defined(__OPTIMIZE_SIZE__)
#define ETIR_INTERLEAVE 1
#else
#define ETIR_INTERLEAVE 0
#endif
#endif

#if ETIR_INTERLEAVE
#include <immintrin.h>
#endif

namespace etir::detail {

#if ETIR_INTERLEAVE
/// Which bytes of each row go into each of three vectors; 128 leaves a zero.
struct InterleaveMasks {
  alignas(16) uint8_t bytes[3][3][16] = {};

  constexpr InterleaveMasks() {
    for (int k = 0; k < 48; ++k) {
      for (int row = 0; row < 3; ++row) bytes[k / 16][row][k % 16] = static_cast<uint8_t>(k % 3 == row ? k / 3 : 128);
    }
  }
};
inline constexpr InterleaveMasks kInterleave;

__attribute__((target("ssse3"))) inline int64_t interleave_ssse3(const char* source, int64_t row, char* target,
                                                                 int64_t n) {
  const auto mask = [](int vector, int from) __attribute__((target("ssse3"))) {
    return _mm_load_si128(reinterpret_cast<const __m128i*>(kInterleave.bytes[vector][from]));
  };
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + row + i));
    const __m128i c = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + 2 * row + i));
    for (int v = 0; v < 3; ++v) {
      const __m128i ab = _mm_or_si128(_mm_shuffle_epi8(a, mask(v, 0)), _mm_shuffle_epi8(b, mask(v, 1)));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(target + 3 * i + 16 * v),
                       _mm_or_si128(ab, _mm_shuffle_epi8(c, mask(v, 2))));
    }
  }
  return i;
}
#endif

/// Writes bytes of three rows, which are `row` bytes apart, in turn. How many of the `n` of each are done.
inline int64_t interleave_three(const char* source, int64_t row, char* target, int64_t n) {
#if ETIR_INTERLEAVE
  if (__builtin_cpu_supports("ssse3")) return interleave_ssse3(source, row, target, n);
#endif
  (void)source, (void)row, (void)target, (void)n;
  return 0;
}

}  // namespace etir::detail
