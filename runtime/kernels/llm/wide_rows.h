// Products of a few rows with vectors of 512 bits: multiply_rows() of attention.h, of which twice as much is done at
// once.
#pragma once

#include <cstdint>

#include "kernels/util/vectors.h"
#include "kernels/util/wide.h"

#if ETIR_WIDE

namespace etir::llm {

constexpr int kWideLanes = 16;

/// to[r][j] = sum over p of a[r * a_row + p * a_col] * b[p * b_row + j], added to what is there if `adds`, for kRows
/// rows and kVectors vectors.
template <int kRows, int kVectors>
ETIR_AVX512 inline void multiply_wide(const float* a, int64_t a_row, int64_t a_col, const float* b, int64_t b_row,
                                      int depth, float* to, int64_t to_row, bool adds) {
  __m512 sums[kRows][kVectors];
  ETIR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_ps();
  }
  for (int p = 0; p < depth; ++p, a += a_col, b += b_row) {
    __m512 right[kVectors];
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) right[v] = _mm512_loadu_ps(b + v * kWideLanes);
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512 left = _mm512_set1_ps(a[r * a_row]);
      ETIR_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_fmadd_ps(left, right[v], sums[r][v]);
    }
  }
  ETIR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      float* const at = to + r * to_row + v * kWideLanes;
      _mm512_storeu_ps(at, adds ? _mm512_add_ps(_mm512_loadu_ps(at), sums[r][v]) : sums[r][v]);
    }
  }
}

/// The same for any number of rows: kRows at a time, then what is left of them.
template <int kRows, int kVectors>
ETIR_AVX512 inline void multiply_rows_wide(const float* a, int64_t a_row, int64_t a_col, const float* b, int64_t b_row,
                                           int depth, int rows, float* to, int64_t to_row, bool adds) {
  for (; rows >= kRows; rows -= kRows) {
    multiply_wide<kRows, kVectors>(a, a_row, a_col, b, b_row, depth, to, to_row, adds);
    a += kRows * a_row;
    to += kRows * to_row;
  }
  if constexpr (kRows > 1) {
    if (rows > 0) {
      multiply_rows_wide<(kRows > 4 ? 4 : kRows - 1), kVectors>(a, a_row, a_col, b, b_row, depth, rows, to, to_row,
                                                                adds);
    }
  }
}

}  // namespace etir::llm

#endif
