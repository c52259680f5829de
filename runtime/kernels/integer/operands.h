// What a product of int8 rows with packed weights reads and gives, whatever variant computes it: weights, copies of
// rows, and blocks of sums.
#pragma once

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

/// What is added to a number where it is copied: as int8 nothing, as uint8 128.
template <typename T>
constexpr int kShift = std::is_signed_v<T> ? 0 : 128;

/// Copies numbers as they are, or as x + 128.
template <typename T>
inline void copy_numbers(const int8_t* from, int64_t count, T* to) {
  static_assert(sizeof(T) == 1);
  // Runs are short as a rule: eights, the last of which may overlap the one before.
  if (count < 8) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i] + kShift<T>);
    return;
  }
  const auto eight = [&](int64_t i) {
    uint64_t numbers;
    std::memcpy(&numbers, from + i, sizeof(numbers));
    numbers ^= kShift<T> * UINT64_C(0x0101010101010101);
    std::memcpy(to + i, &numbers, sizeof(numbers));
  };
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
#endif
  for (int64_t i = 0; i < count - 8; i += 8) eight(i);
  eight(count - 8);
}

/// Copies numbers [k, k + count) of the depth of `rows` rows; what comes after, up to a multiple of `whole` of them, is
/// 0.
template <typename Rows, typename T>
inline void copy_rows(const Rows& source, int64_t row, int rows, int64_t k, int64_t count, int whole, T* to,
                      int to_row) {
  source.copy(row, rows, k, count, to, to_row);
  const size_t more = static_cast<size_t>((count + whole - 1) / whole * whole - count);
  for (int r = 0; r < rows && more > 0; ++r) std::memset(to + r * to_row + count, 0, more);
}

}  // namespace detail

}  // namespace etir::integer
