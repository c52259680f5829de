// The inner loops of integer products with AVX2: as add_products (tile.h), and the same bits.
//
// One instruction multiplies bytes and adds pairs of products in 16 bits, where it saturates: 255 * 127 * 2 is too
// much. It is exact where two weights side by side have different signs, or add up to no more than 128, as nearly all
// of a trained layer do. So the quads of each panel are put in an order, those that are exact first, once for all rows
// of a task; the others are multiplied in 16 bits, which takes a little longer.
#pragma once

#include "kernels/integer/tile.h"

#if ETIR_INT8_X86

namespace etir::integer {

constexpr int kRowsAvx2 = 4;       ///< rows that a tile has at most
constexpr int kMostOrdered = 256;  ///< quads that have an order of their own, since their numbers are bytes

/// The numbers of the rows of a tile, x + 128 each, as bytes and in 16 bits; rows are `stride` numbers apart.
struct TileRows {
  const uint8_t* bytes;
  const int16_t* wide;  ///< read if some quads do not fit
  int stride;
};

/// Quads of the depth by their numbers, those whose pairs of products fit into 16 bits first.
struct Order {
  const uint8_t* quads;
  int fitting, count;
};

/// Writes the order of `quads` of a panel, at most kMostOrdered, and gives the number of those that fit.
inline int order_quads(const int8_t* w, int quads, uint8_t* order) {
  const __m256i most = _mm256_set1_epi8(-1), above = _mm256_set1_epi16(32767), below = _mm256_set1_epi16(-32768);
  uint8_t other[kMostOrdered];
  int fitting = 0, others = 0;
  for (int q = 0; q < quads; ++q, w += kPanelQuad) {
    __builtin_prefetch(w + 16 * kPanelQuad);
    const __m256i a = _mm256_maddubs_epi16(most, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)));
    const __m256i b = _mm256_maddubs_epi16(most, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 32)));
    // 255 times a sum is never one of the two ends.
    const __m256i ends = _mm256_or_si256(_mm256_or_si256(_mm256_cmpeq_epi16(a, above), _mm256_cmpeq_epi16(a, below)),
                                         _mm256_or_si256(_mm256_cmpeq_epi16(b, above), _mm256_cmpeq_epi16(b, below)));
    const int fits = _mm256_testz_si256(ends, ends);
    order[fitting] = static_cast<uint8_t>(q);
    other[others] = static_cast<uint8_t>(q);
    fitting += fits;
    others += 1 - fits;
  }
  std::memcpy(order + fitting, other, static_cast<size_t>(others));
  return fitting;
}

namespace detail {

/// sum += more. GCC computes several rows at a time otherwise, which needs more registers than there are, and moves
/// each sum to another register and back: up to a third of the time.
inline void add_in_place(__m256i& sum, __m256i more) { asm("vpaddd %1, %0, %0" : "+x"(sum) : "x"(more)); }

/// The numbers of a vector in 16 bits: two of each four, the first or, with `kSecond`, the last.
template <bool kSecond>
inline __m256i widen(__m256i weights) {
  constexpr int kA = kSecond ? 2 : 0, kB = kA + 1;
  const __m256i upper =
      _mm256_setr_epi8(-1, kA, -1, kB, -1, kA + 4, -1, kB + 4, -1, kA + 8, -1, kB + 8, -1, kA + 12, -1, kB + 12,  //
                       -1, kA, -1, kB, -1, kA + 4, -1, kB + 4, -1, kA + 8, -1, kB + 8, -1, kA + 12, -1, kB + 12);
  return _mm256_srai_epi16(_mm256_shuffle_epi8(weights, upper), 8);
}

/// All quads of the order for one to four rows: those that fit, then the others in 16 bits. Sums have names, since GCC
/// keeps arrays of this size in memory, and what a closure holds by reference.
template <int kRows>
[[gnu::noinline]] void add_rows(TileRows x, Order order, const int8_t* w, int32_t* sums, int row, bool is_first) {
  __m256i a0 = _mm256_setzero_si256(), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0;
  if (!is_first) {
    const auto load = [&](int r, __m256i& sum0, __m256i& sum1) {
      const __m256i* from = reinterpret_cast<const __m256i*>(sums + r * row);
      sum0 = _mm256_loadu_si256(from);
      sum1 = _mm256_loadu_si256(from + 1);
    };
    load(0, a0, a1);
    if (kRows > 1) load(1, b0, b1);
    if (kRows > 2) load(2, c0, c1);
    if (kRows > 3) load(3, d0, d1);
  }
  const __m256i ones = _mm256_set1_epi16(1);
  for (int i = 0; i < order.fitting; ++i) {
    const size_t q = order.quads[i];
    const __m256i* panel = reinterpret_cast<const __m256i*>(w + q * kPanelQuad);
    const __m256i left = _mm256_loadu_si256(panel), right = _mm256_loadu_si256(panel + 1);
    const auto add = [&](int r, __m256i& sum0, __m256i& sum1) {
      int four;
      std::memcpy(&four, x.bytes + r * x.stride + q * kQuad, sizeof(four));
      const __m256i numbers = _mm256_set1_epi32(four);
      add_in_place(sum0, _mm256_madd_epi16(_mm256_maddubs_epi16(numbers, left), ones));
      add_in_place(sum1, _mm256_madd_epi16(_mm256_maddubs_epi16(numbers, right), ones));
    };
    add(0, a0, a1);
    if (kRows > 1) add(1, b0, b1);
    if (kRows > 2) add(2, c0, c1);
    if (kRows > 3) add(3, d0, d1);
  }
  for (int i = order.fitting; i < order.count; ++i) {
    const size_t q = order.quads[i];
    const __m256i* panel = reinterpret_cast<const __m256i*>(w + q * kPanelQuad);
    const __m256i left = _mm256_loadu_si256(panel), right = _mm256_loadu_si256(panel + 1);
    const auto add = [&](int r, int pair, __m256i some_left, __m256i some_right, __m256i& sum0, __m256i& sum1) {
      int two;
      std::memcpy(&two, x.wide + r * x.stride + q * kQuad + pair, sizeof(two));
      const __m256i numbers = _mm256_set1_epi32(two);
      add_in_place(sum0, _mm256_madd_epi16(numbers, some_left));
      add_in_place(sum1, _mm256_madd_epi16(numbers, some_right));
    };
    const __m256i left0 = widen<false>(left), right0 = widen<false>(right);
    add(0, 0, left0, right0, a0, a1);
    if (kRows > 1) add(1, 0, left0, right0, b0, b1);
    if (kRows > 2) add(2, 0, left0, right0, c0, c1);
    if (kRows > 3) add(3, 0, left0, right0, d0, d1);
    const __m256i left1 = widen<true>(left), right1 = widen<true>(right);
    add(0, 2, left1, right1, a0, a1);
    if (kRows > 1) add(1, 2, left1, right1, b0, b1);
    if (kRows > 2) add(2, 2, left1, right1, c0, c1);
    if (kRows > 3) add(3, 2, left1, right1, d0, d1);
  }
  const auto store = [&](int r, __m256i sum0, __m256i sum1) {
    __m256i* to = reinterpret_cast<__m256i*>(sums + r * row);
    _mm256_storeu_si256(to, sum0);
    _mm256_storeu_si256(to + 1, sum1);
  };
  store(0, a0, a1);
  if (kRows > 1) store(1, b0, b1);
  if (kRows > 2) store(2, c0, c1);
  if (kRows > 3) store(3, d0, d1);
}

}  // namespace detail

/// One panel: sums[r][c] is the sum over the quads of the order of (x + 128) * w, plus what it was unless `is_first`.
/// `sums` has rows of `row` elements.
inline void add_products_avx2(TileRows x, int rows, Order order, const int8_t* w, int32_t* sums, int row,
                              bool is_first) {
  switch (rows) {
    case 1:
      return detail::add_rows<1>(x, order, w, sums, row, is_first);
    case 2:
      return detail::add_rows<2>(x, order, w, sums, row, is_first);
    case 3:
      return detail::add_rows<3>(x, order, w, sums, row, is_first);
    default:
      return detail::add_rows<kRowsAvx2>(x, order, w, sums, row, is_first);
  }
}

}  // namespace etir::integer

#endif
