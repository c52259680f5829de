// How a row of float32 numbers becomes int8 where a product reads it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/util/vnni.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace etir::integer {

/// What a row is quantized with.
struct RowScale {
  float scale;
  int32_t zero_point;
};

namespace detail {

/// The least and the greatest of some numbers and 0, and what is not finite among them: 0, or NaN.
struct Extent {
  float least, most, odd;
};

inline Extent extent_of(const float* x, int64_t n) {
  // Several chains of comparisons.
  constexpr int kLanes = 16;
  float low[kLanes] = {}, high[kLanes] = {}, odd[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) {
      odd[k] += x[i + k] * 0.0f;
      low[k] = x[i + k] < low[k] ? x[i + k] : low[k];
      high[k] = x[i + k] > high[k] ? x[i + k] : high[k];
    }
  }
  for (; i < n; ++i) {
    odd[0] += x[i] * 0.0f;
    low[0] = x[i] < low[0] ? x[i] : low[0];
    high[0] = x[i] > high[0] ? x[i] : high[0];
  }
  Extent all = {low[0], high[0], odd[0]};
  for (int k = 1; k < kLanes; ++k) {
    all.odd += odd[k];
    all.least = low[k] < all.least ? low[k] : all.least;
    all.most = high[k] > all.most ? high[k] : all.most;
  }
  return all;
}

#if defined(ETIR_VNNI)
/// Without masks, GCC 12 warns of its own headers. min and max give their second operand where one is NaN.
ETIR_VNNI inline Extent extent_avx512(const float* x, int64_t n) {
  constexpr int kChains = 4, kLanes = 16;
  constexpr __mmask16 kAll = 0xffff;
  const __m512 zero = _mm512_setzero_ps();
  __m512 low[kChains] = {zero, zero, zero, zero}, high[kChains] = {zero, zero, zero, zero};
  __m512 odd[kChains] = {zero, zero, zero, zero};
  const auto add = [&](int chain, __m512 numbers) ETIR_VNNI {
    odd[chain] = _mm512_fmadd_ps(numbers, zero, odd[chain]);
    low[chain] = _mm512_maskz_min_ps(kAll, numbers, low[chain]);
    high[chain] = _mm512_maskz_max_ps(kAll, numbers, high[chain]);
  };
  int64_t i = 0;
  for (; i + kChains * kLanes <= n; i += kChains * kLanes) {
    add(0, _mm512_loadu_ps(x + i)), add(1, _mm512_loadu_ps(x + i + kLanes));
    add(2, _mm512_loadu_ps(x + i + 2 * kLanes)), add(3, _mm512_loadu_ps(x + i + 3 * kLanes));
  }
  for (; i < n; i += kLanes) {
    const __mmask16 some = n - i >= kLanes ? kAll : static_cast<__mmask16>((1u << (n - i)) - 1u);
    add(0, _mm512_maskz_loadu_ps(some, x + i));
  }
  for (int c = 1; c < kChains; ++c) {
    odd[0] = _mm512_add_ps(odd[0], odd[c]);
    low[0] = _mm512_maskz_min_ps(kAll, low[0], low[c]), high[0] = _mm512_maskz_max_ps(kAll, high[0], high[c]);
  }
  // Halves, quarters and so on in each other's places.
  const auto fold = [&](__m512 of_odd, __m512 of_low, __m512 of_high) ETIR_VNNI {
    odd[0] = _mm512_add_ps(odd[0], of_odd);
    low[0] = _mm512_maskz_min_ps(kAll, low[0], of_low), high[0] = _mm512_maskz_max_ps(kAll, high[0], of_high);
  };
  fold(_mm512_maskz_shuffle_f32x4(kAll, odd[0], odd[0], 0x4e), _mm512_maskz_shuffle_f32x4(kAll, low[0], low[0], 0x4e),
       _mm512_maskz_shuffle_f32x4(kAll, high[0], high[0], 0x4e));
  fold(_mm512_maskz_shuffle_f32x4(kAll, odd[0], odd[0], 0xb1), _mm512_maskz_shuffle_f32x4(kAll, low[0], low[0], 0xb1),
       _mm512_maskz_shuffle_f32x4(kAll, high[0], high[0], 0xb1));
  fold(_mm512_maskz_permute_ps(kAll, odd[0], 0x4e), _mm512_maskz_permute_ps(kAll, low[0], 0x4e),
       _mm512_maskz_permute_ps(kAll, high[0], 0x4e));
  fold(_mm512_maskz_permute_ps(kAll, odd[0], 0xb1), _mm512_maskz_permute_ps(kAll, low[0], 0xb1),
       _mm512_maskz_permute_ps(kAll, high[0], 0xb1));
  return {_mm512_cvtss_f32(low[0]), _mm512_cvtss_f32(high[0]), _mm512_cvtss_f32(odd[0])};
}

ETIR_VNNI inline void quantize_avx512(const float* x, int64_t n, float inverse, float zero, int8_t* to) {
  constexpr int kLanes = 16;
  constexpr __mmask16 kAll = 0xffff;
  const __m512 low = _mm512_set1_ps(-128), high = _mm512_set1_ps(127);
  const __m512 by = _mm512_set1_ps(inverse), more = _mm512_set1_ps(zero);
  for (int64_t i = 0; i < n; i += kLanes) {
    const __mmask16 some = n - i >= kLanes ? kAll : static_cast<__mmask16>((1u << (n - i)) - 1u);
    const __m512 value = _mm512_add_ps(_mm512_mul_ps(_mm512_maskz_loadu_ps(some, x + i), by), more);
    const __m512 limited = _mm512_maskz_min_ps(kAll, _mm512_maskz_max_ps(kAll, value, low), high);
    const __m512i result = _mm512_maskz_cvt_roundps_epi32(kAll, limited, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm512_mask_cvtepi32_storeu_epi8(to + i, some, result);
  }
}

/// Numbers that are quantized together, and whose sum is wanted.
constexpr int64_t kChunk = 32;

/// quantize() of whole chunks, and the sum of each.
ETIR_VNNI inline void quantize_chunks_avx512(const float* x, int64_t chunks, float inverse, float zero, int8_t* to,
                                             int32_t* sums) {
  constexpr int kLanes = 16;
  constexpr __mmask16 kAll = 0xffff;
  const __m512 low = _mm512_set1_ps(-128), high = _mm512_set1_ps(127);
  const __m512 by = _mm512_set1_ps(inverse), more = _mm512_set1_ps(zero);
  const auto sixteen = [&](const float* from) ETIR_VNNI {
    const __m512 value = _mm512_add_ps(_mm512_mul_ps(_mm512_loadu_ps(from), by), more);
    const __m512 limited = _mm512_maskz_min_ps(kAll, _mm512_maskz_max_ps(kAll, value, low), high);
    return _mm512_maskz_cvt_roundps_epi32(kAll, limited, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  };
  // Two chunks of 32 numbers in a register, and what is a chunk alone in its lower half.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  for (int64_t c = 0; c < chunks; c += 2, x += 2 * kChunk, to += 2 * kChunk) {
    const bool both = c + 1 < chunks;
    const float* const second = both ? x + kChunk : x;
    // Packing works in quarters of a register.
    const __m512i first_pairs = _mm512_maskz_packs_epi32(0xffffffff, sixteen(x), sixteen(x + kLanes));
    const __m512i second_pairs = _mm512_maskz_packs_epi32(0xffffffff, sixteen(second), sixteen(second + kLanes));
    const __m512i mixed = _mm512_maskz_packs_epi16(~__mmask64{0}, first_pairs, second_pairs);
    const __m512i numbers = _mm512_maskz_permutexvar_epi32(kAll, order, mixed);
    _mm512_mask_storeu_epi8(to, both ? ~__mmask64{0} : __mmask64{0xffffffff}, numbers);
    __m512i fours = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), numbers);
    fours = _mm512_add_epi32(fours, _mm512_maskz_shuffle_i32x4(kAll, fours, fours, 0xb1));
    fours = _mm512_add_epi32(fours, _mm512_maskz_shuffle_epi32(kAll, fours, static_cast<_MM_PERM_ENUM>(0x4e)));
    fours = _mm512_add_epi32(fours, _mm512_maskz_shuffle_epi32(kAll, fours, static_cast<_MM_PERM_ENUM>(0xb1)));
    alignas(64) int32_t sum[kLanes];
    _mm512_store_si512(sum, fours);
    sums[c] = sum[0];
    if (both) sums[c + 1] = sum[kLanes / 2];
  }
}
#endif

#if defined(__AVX2__)
/// quantize() of 32 numbers, which compilers narrow one half of a register at a time.
inline __m256i quantize_avx2(const float* x, float inverse, float zero) {
  const __m256 factor = _mm256_set1_ps(inverse), shift = _mm256_set1_ps(zero);
  const __m256 low = _mm256_set1_ps(-128), high = _mm256_set1_ps(127);
  const auto eight = [&](const float* from) {
    // Of a NaN and a number this maximum is the second.
    const __m256 value = _mm256_max_ps(_mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(from), factor), shift), low);
    return _mm256_cvtps_epi32(_mm256_min_ps(value, high));
  };
  const __m256i first = _mm256_packs_epi32(eight(x), eight(x + 8)),
                second = _mm256_packs_epi32(eight(x + 16), eight(x + 24));
  // Packing works in halves of a register.
  return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, second), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
#endif

}  // namespace detail

/// Chooses scale and zero point of `n` numbers. A row with a number that is not finite has the scale NaN, so that its
/// results are NaN, as those of the separate operators are; other rows have their own.
inline RowScale choose_scale(const float* x, int64_t n) {
#if defined(ETIR_VNNI)
  const detail::Extent extent = has_vnni() ? detail::extent_avx512(x, n) : detail::extent_of(x, n);
#else
  const detail::Extent extent = detail::extent_of(x, n);
#endif
  const float least = extent.least, most = extent.most;
  constexpr float kLow = -128, kHigh = 127, kEps = std::numeric_limits<float>::epsilon();
  float scale = (most - least) / (kHigh - kLow);
  scale = scale < kEps ? kEps : scale;
  const float down = least / scale, up = most / scale;
  // The end of the range whose rounding error is larger is kept exact.
  float point = (kLow + down) + (kHigh + up) > 0 ? kLow - down : kHigh - up;
  point = !(point > kLow) ? kLow : point < kHigh ? point : kHigh;
  const float zero = std::nearbyint(point);
  return {scale + extent.odd, static_cast<int32_t>(zero)};
}

/// clamp(rint(x * inverse + zero)), half to even; NaN becomes the least number.
inline void quantize(const float* x, int64_t n, float inverse, float zero, int8_t* to) {
#if defined(ETIR_VNNI)
  if (has_vnni()) return detail::quantize_avx512(x, n, inverse, zero, to);
#endif
  constexpr float kLow = -128, kHigh = 127;
  // Adding 1.5 * 2^23 rounds a number of this size to an integer.
  constexpr float kShift = 12582912.0f;
  int64_t k = 0;
#if defined(__AVX2__)
  for (; k + 32 <= n; k += 32) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + k), detail::quantize_avx2(x + k, inverse, zero));
  }
#endif
  for (; k < n; ++k) {
    const float product = x[k] * inverse;
    float value = product + zero;
    value = value > kLow ? value : kLow;
    value = value < kHigh ? value : kHigh;
    const float shifted = value + kShift;
    to[k] = static_cast<int8_t>(static_cast<int32_t>(shifted - kShift));
  }
}

/// quantize(), and the sum of the integers.
inline int32_t quantize_and_sum(const float* x, int64_t n, float inverse, float zero, int8_t* to) {
  int64_t k = 0;
  int32_t sum = 0;
#if defined(__AVX2__)
  __m256i sums = _mm256_setzero_si256();
  for (; k + 32 <= n; k += 32) {
    const __m256i numbers = detail::quantize_avx2(x + k, inverse, zero);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + k), numbers);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), numbers);
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  sum = _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
#endif
  quantize(x + k, n - k, inverse, zero, to + k);
  for (; k < n; ++k) sum += to[k];
  return sum;
}

/// Whether quantize_chunks() is there for this processor.
inline bool has_chunks() {
#if defined(ETIR_VNNI)
  return has_vnni();
#else
  return false;
#endif
}

/// quantize_and_sum() of `chunks` times 32 numbers, with a sum for each 32. Only if has_chunks().
inline void quantize_chunks(const float* x, int64_t chunks, float inverse, float zero, int8_t* to, int32_t* sums) {
#if defined(ETIR_VNNI)
  detail::quantize_chunks_avx512(x, chunks, inverse, zero, to, sums);
#else
  (void)x, (void)chunks, (void)inverse, (void)zero, (void)to, (void)sums;
#endif
}

inline float inverse_of(const RowScale& row) { return static_cast<float>(1.0 / static_cast<double>(row.scale)); }

/// Quantizes `n` numbers with a scale and a zero point of their own.
inline RowScale quantize_row(const float* x, int64_t n, int8_t* to) {
  const RowScale row = choose_scale(x, n);
  quantize(x, n, inverse_of(row), static_cast<float>(row.zero_point), to);
  return row;
}

/// A scale for `n` numbers that is symmetric around 0: the largest magnitude is 127.5 steps, as torchao's SYMMETRIC
/// mapping of int8 has it. NaN where a number is not finite.
inline float choose_symmetric_scale(const float* x, int64_t n) {
  constexpr int kLanes = 16;
  float most[kLanes] = {}, odd[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) {
      const float magnitude = x[i + k] < 0 ? -x[i + k] : x[i + k];
      odd[k] += x[i + k] * 0.0f;
      most[k] = magnitude > most[k] ? magnitude : most[k];
    }
  }
  for (; i < n; ++i) {
    const float magnitude = x[i] < 0 ? -x[i] : x[i];
    odd[0] += x[i] * 0.0f;
    most[0] = magnitude > most[0] ? magnitude : most[0];
  }
  for (int k = 1; k < kLanes; ++k) {
    odd[0] += odd[k];
    most[0] = most[k] > most[0] ? most[k] : most[0];
  }
  constexpr float kEps = std::numeric_limits<float>::epsilon();
  float scale = most[0] / 127.5f;
  scale = scale < kEps ? kEps : scale;
  return scale + odd[0];
}

}  // namespace etir::integer
