// From int32 sums to float32 numbers: what layers end with whose rows are quantized when they run.
//
//   y = float(sum - (z + 128) * column_sum) * (s * scale) + bias
//
// z and s are those of the row, the rest of the column. Two roundings after the conversion of the sum, in all variants
// alike: they give the same bits.
#pragma once

#include "kernels/integer/operands.h"
#include "kernels/integer/row_scale.h"

namespace etir::integer {

/// What belongs to the columns of a block.
struct ColumnTerms {
  const int32_t* sums;
  const float* scales;
  const float* bias;  ///< or null

  ColumnTerms from(int64_t column) const {
    return {sums + column, scales + column, bias == nullptr ? nullptr : bias + column};
  }
};

namespace detail {

inline void dequantize_row(const int32_t* __restrict sums, RowScale row, const int32_t* __restrict column_sums,
                           const float* __restrict scales, const float* __restrict bias, int count,
                           float* __restrict to) {
  const uint32_t point = static_cast<uint32_t>(row.zero_point + 128);
  const auto value = [&](int c) {
    const uint32_t more = point * static_cast<uint32_t>(column_sums[c]);
    const int32_t sum = static_cast<int32_t>(static_cast<uint32_t>(sums[c]) - more);
    return static_cast<float>(sum) * (row.scale * scales[c]);
  };
  if (bias == nullptr) {
    for (int c = 0; c < count; ++c) to[c] = value(c);
  } else {
    for (int c = 0; c < count; ++c) to[c] = value(c) + bias[c];
  }
}

#if ETIR_INT8_X86 && ETIR_INT8_VNNI
/// Sixteen columns at a time, whose terms stay in registers while rows go by.
template <bool kBias>
ETIR_VNNI inline void dequantize_block_avx512(const Block& block, const RowScale* rows, const ColumnTerms& columns,
                                              float* to, int64_t to_row) {
  // Results may lie anywhere as far as the compiler knows, over all that is not a local variable, too.
  const int all_rows = block.rows, all_columns = block.columns;
  const int64_t stride = block.stride;
  constexpr __mmask16 kAll = 0xffff;
  for (int c = 0; c < all_columns; c += kPanel) {
    const int left = all_columns - c;
    const __mmask16 some = left >= kPanel ? kAll : static_cast<__mmask16>((1u << left) - 1u);
    const __m512i column_sum = _mm512_maskz_loadu_epi32(some, columns.sums + c);
    const __m512 scale = _mm512_maskz_loadu_ps(some, columns.scales + c);
    const __m512 bias = kBias ? _mm512_maskz_loadu_ps(some, columns.bias + c) : _mm512_setzero_ps();
    const int32_t* sums = block.sums + c;
    float* at = to + c;
    for (int r = 0; r < all_rows; ++r, sums += stride, at += to_row) {
      const __m512i more = _mm512_mullo_epi32(column_sum, _mm512_set1_epi32(rows[r].zero_point + 128));
      const __m512i sum = _mm512_sub_epi32(_mm512_maskz_loadu_epi32(some, sums), more);
      const __m512 factor = _mm512_mul_ps(_mm512_set1_ps(rows[r].scale), scale);
      const __m512 value = _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(kAll, sum), factor);
      _mm512_mask_storeu_ps(at, some, kBias ? _mm512_add_ps(value, bias) : value);
    }
  }
}
#endif

#if ETIR_INT8_X86 && defined(__AVX2__)
/// Sixteen columns at a time, whose terms stay in registers while rows go by: whole panels; gives the columns written.
template <bool kBias>
inline int dequantize_panels_avx2(const Block& block, const RowScale* rows, const ColumnTerms& columns, float* to,
                                  int64_t to_row) {
  // Results may lie anywhere as far as the compiler knows, over all that is not a local variable, too.
  const int all_rows = block.rows, whole = block.columns / kPanel * kPanel;
  const int64_t stride = block.stride;
  const auto load = [](const int32_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); };
  for (int c = 0; c < whole; c += kPanel) {
    const __m256i column_sums0 = load(columns.sums + c), column_sums1 = load(columns.sums + c + 8);
    const __m256 scales0 = _mm256_loadu_ps(columns.scales + c), scales1 = _mm256_loadu_ps(columns.scales + c + 8);
    const __m256 bias0 = kBias ? _mm256_loadu_ps(columns.bias + c) : scales0;
    const __m256 bias1 = kBias ? _mm256_loadu_ps(columns.bias + c + 8) : scales1;
    const int32_t* sums = block.sums + c;
    float* at = to + c;
    for (int r = 0; r < all_rows; ++r, sums += stride, at += to_row) {
      const __m256i point = _mm256_set1_epi32(rows[r].zero_point + 128);
      const __m256 scale = _mm256_set1_ps(rows[r].scale);
      const auto eight = [&](__m256i sum, __m256i column_sums, __m256 scales, __m256 bias) {
        const __m256i moved = _mm256_sub_epi32(sum, _mm256_mullo_epi32(column_sums, point));
        const __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(moved), _mm256_mul_ps(scale, scales));
        return kBias ? _mm256_add_ps(value, bias) : value;
      };
      _mm256_storeu_ps(at, eight(load(sums), column_sums0, scales0, bias0));
      _mm256_storeu_ps(at + 8, eight(load(sums + 8), column_sums1, scales1, bias1));
    }
  }
  return whole;
}
#endif

}  // namespace detail

/// Writes a block of a product: `rows` are the scales of its rows, results are `to_row` numbers apart.
inline void dequantize(bool vnni, const Block& block, const RowScale* rows, const ColumnTerms& columns, float* to,
                       int64_t to_row) {
#if ETIR_INT8_X86 && ETIR_INT8_VNNI
  if (vnni && columns.bias != nullptr) return detail::dequantize_block_avx512<true>(block, rows, columns, to, to_row);
  if (vnni) return detail::dequantize_block_avx512<false>(block, rows, columns, to, to_row);
#endif
  (void)vnni;
  int first = 0;
#if ETIR_INT8_X86 && defined(__AVX2__)
  first = columns.bias != nullptr ? detail::dequantize_panels_avx2<true>(block, rows, columns, to, to_row)
                                  : detail::dequantize_panels_avx2<false>(block, rows, columns, to, to_row);
  if (first == block.columns) return;
#endif
  const ColumnTerms rest = columns.from(first);
  for (int r = 0; r < block.rows; ++r) {
    detail::dequantize_row(block.row_sums(r) + first, rows[r], rest.sums, rest.scales, rest.bias, block.columns - first,
                           to + r * to_row + first);
  }
}

}  // namespace etir::integer
