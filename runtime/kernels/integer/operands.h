// What a product of int8 rows with packed weights reads and gives, whatever variant computes it: weights, copies of
// rows, and blocks of sums.
#pragma once

#include <type_traits>

#include "kernels/integer/tile.h"

namespace etir::integer {

/// Packed weights of one product: `panels` panels, of `quads` fours of the depth each.
struct Weights {
  const int8_t* data;
  int64_t columns, depth;
  int64_t quads() const { return quads_of(depth); }
  int64_t panels() const { return panels_of(columns); }
  int64_t panel_bytes() const { return quads() * kPanelQuad; }
};

/// Finished sums of a block: rows [row, row + rows) and columns [column, column + columns) of the product.
struct Block {
  int64_t row, column;
  int rows, columns;
  const int32_t* sums;
  int stride;  ///< numbers from one row of sums to the next

  const int32_t* row_sums(int r) const { return sums + int64_t{r} * stride; }
};

namespace detail {

constexpr int kCopied = ETIR_SMALL_STACK ? 256 : 1024;  ///< numbers of a row that are copied at once
constexpr int kSumPanels = ETIR_SMALL_STACK ? 4 : 16;   ///< panels whose sums are kept

/// What is added to a number where it is copied: as int8 nothing, as uint8 128.
template <typename T>
constexpr int kShift = std::is_signed_v<T> ? 0 : 128;

/// A number of a copy for AMX: x + 128, as uint8_t.
enum class TileByte : uint8_t {};

#if ETIR_INT8_X86 && ETIR_INT8_VNNI
ETIR_VNNI inline void copy_shifted_avx512(const int8_t* from, int64_t count, void* to) {
  const __m512i shift = _mm512_set1_epi8(static_cast<char>(0x80));
  char* at = static_cast<char*>(to);
  int64_t i = 0;
  for (; i + 64 <= count; i += 64) {
    _mm512_storeu_si512(at + i, _mm512_xor_si512(_mm512_loadu_si512(from + i), shift));
  }
  if (i == count) return;
  const __mmask64 some = (__mmask64{1} << (count - i)) - 1;
  _mm512_mask_storeu_epi8(at + i, some, _mm512_xor_si512(_mm512_maskz_loadu_epi8(some, from + i), shift));
}
#endif

/// Copies numbers as they are, or as x + 128. The last vector of a run may overlap the one before.
template <typename T>
inline void copy_numbers(const int8_t* from, int64_t count, T* to) {
  static_assert(sizeof(T) == 1);
#if ETIR_INT8_X86 && ETIR_INT8_VNNI
  if constexpr (std::is_same_v<T, TileByte>) return copy_shifted_avx512(from, count, to);
#endif
  if (count < 8) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i] + kShift<T>);
    return;
  }
#if ETIR_INT8_X86
  if (count >= 32) {
    const __m256i shift = _mm256_set1_epi8(static_cast<char>(kShift<T>));
    const auto all = [&](int64_t i) {
      const __m256i numbers = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_xor_si256(numbers, shift));
    };
    for (int64_t i = 0; i < count - 32; i += 32) all(i);
    return all(count - 32);
  }
  if (count >= 16) {
    const __m128i shift = _mm_set1_epi8(static_cast<char>(kShift<T>));
    const auto half = [&](int64_t i) {
      const __m128i numbers = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm_xor_si128(numbers, shift));
    };
    half(0);
    return half(count - 16);
  }
#endif
  const auto eight = [&](int64_t i) {
    uint64_t numbers;
    std::memcpy(&numbers, from + i, sizeof(numbers));
    numbers ^= kShift<T> * UINT64_C(0x0101010101010101);
    std::memcpy(to + i, &numbers, sizeof(numbers));
  };
  for (int64_t i = 0; i < count - 8; i += 8) eight(i);
  eight(count - 8);
}

/// Copies numbers [k, k + count) of the depth of `rows` rows; what comes after, up to a multiple of `kWhole` of them,
/// is 0.
template <int kWhole, typename Rows, typename T>
inline void copy_rows(const Rows& source, int64_t row, int rows, int64_t k, int64_t count, T* to, int to_row) {
  const int64_t end = (count + kWhole - 1) / kWhole * kWhole;
  if (end != count) {
    // Of a constant size: what GCC makes of others begins slowly.
    for (int r = 0; r < rows; ++r) std::memset(to + r * to_row + end - kWhole, 0, kWhole);
  }
  source.copy(row, rows, k, count, to, to_row);
}

}  // namespace detail

}  // namespace etir::integer
