// The inner loops of integer products with AVX2: as add_products (tile.h), and the same bits.
//
// One instruction multiplies bytes and adds pairs of products in 16 bits, where it saturates: 255 * 127 * 2 is too
// much. It is exact where two weights side by side have different signs, or add up to no more than 128, as nearly all
// of a trained layer do. So the quads of each panel are put in an order, those that are exact first, once for all rows
// of a task; the others are multiplied in 16 bits, at two thirds of the speed.
#pragma once

#include "kernels/integer/tile.h"

#if ETIR_INT8_X86

namespace etir::integer {

constexpr int kRowsAvx2 = 6;       ///< rows that a tile has at most
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

inline void add_to(int32_t* sums, __m256i more) {
  __m256i* to = reinterpret_cast<__m256i*>(sums);
  _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), more));
}

/// sum += more. GCC computes several rows at a time otherwise, which needs more registers than there are, and moves
/// each sum to another register and back: up to a third of the time.
inline void add_in_place(__m256i& sum, __m256i more) { asm("vpaddd %1, %0, %0" : "+x"(sum) : "x"(more)); }

/// Quads that fit. Sums have names, since GCC keeps arrays of this size in memory.
template <int kRows>
[[gnu::noinline]] void add_fitting(const uint8_t* x, int stride, const uint8_t* quads, int count, const int8_t* w,
                                   int32_t* sums, int row) {
  __m256i a0 = _mm256_setzero_si256(), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0;
  const __m256i ones = _mm256_set1_epi16(1);
  for (int i = 0; i < count; ++i) {
    const size_t q = quads[i];
    const __m256i* panel = reinterpret_cast<const __m256i*>(w + q * kPanelQuad);
    const __m256i left = _mm256_loadu_si256(panel), right = _mm256_loadu_si256(panel + 1);
    const auto add = [&](int r, __m256i& sum0, __m256i& sum1) {
      int four;
      std::memcpy(&four, x + r * stride + q * kQuad, sizeof(four));
      const __m256i numbers = _mm256_set1_epi32(four);
      add_in_place(sum0, _mm256_madd_epi16(_mm256_maddubs_epi16(numbers, left), ones));
      add_in_place(sum1, _mm256_madd_epi16(_mm256_maddubs_epi16(numbers, right), ones));
    };
    add(0, a0, a1);
    if (kRows > 1) add(1, b0, b1);
    if (kRows > 2) add(2, c0, c1);
    if (kRows > 3) add(3, d0, d1);
  }
  const auto store = [&](int r, __m256i sum0, __m256i sum1) {
    add_to(sums + r * row, sum0);
    add_to(sums + r * row + 8, sum1);
  };
  store(0, a0, a1);
  if (kRows > 1) store(1, b0, b1);
  if (kRows > 2) store(2, c0, c1);
  if (kRows > 3) store(3, d0, d1);
}

/// Any quads of one or two rows, in 16 bits: sums of pairs of products, which are added up by fours of the depth at the
/// end.
template <int kRows>
[[gnu::noinline]] void add_wide(const int16_t* x, int stride, const uint8_t* quads, int count, const int8_t* w,
                                int32_t* sums, int row) {
  __m256i a0 = _mm256_setzero_si256(), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  for (int i = 0; i < count; ++i) {
    const size_t q = quads[i];
    const auto numbers = [&](int r) {
      long long four;
      std::memcpy(&four, x + r * stride + q * kQuad, sizeof(four));
      return _mm256_set1_epi64x(four);
    };
    const __m256i x0 = numbers(0), x1 = numbers(kRows - 1);
    const __m128i* panel = reinterpret_cast<const __m128i*>(w + q * kPanelQuad);
    const auto add = [&](int v, __m256i& sum0, __m256i& sum1) {
      const __m256i weights = _mm256_cvtepi8_epi16(_mm_loadu_si128(panel + v));
      add_in_place(sum0, _mm256_madd_epi16(x0, weights));
      if (kRows > 1) add_in_place(sum1, _mm256_madd_epi16(x1, weights));
    };
    add(0, a0, b0);
    add(1, a1, b1);
    add(2, a2, b2);
    add(3, a3, b3);
  }
  const auto store = [&](int32_t* to, __m256i sum0, __m256i sum1) {
    add_to(to, _mm256_permute4x64_epi64(_mm256_hadd_epi32(sum0, sum1), 0xd8));
  };
  store(sums, a0, a1);
  store(sums + 8, a2, a3);
  if (kRows > 1) store(sums + row, b0, b1);
  if (kRows > 1) store(sums + row + 8, b2, b3);
}

/// The same for three to six rows, of half of the columns after the other: each vector of weights is for all rows.
template <int kRows>
[[gnu::noinline]] void add_wide_rows(const int16_t* x, int stride, const uint8_t* quads, int count, const int8_t* w,
                                     int32_t* sums, int row) {
  for (int half = 0; half < 2; ++half, w += kPanelQuad / 2, sums += kPanel / 2) {
    __m256i a0 = _mm256_setzero_si256(), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0;
    __m256i d0 = a0, d1 = a0, e0 = a0, e1 = a0, f0 = a0, f1 = a0;
    for (int i = 0; i < count; ++i) {
      const size_t q = quads[i];
      const __m128i* panel = reinterpret_cast<const __m128i*>(w + q * kPanelQuad);
      const __m256i left = _mm256_cvtepi8_epi16(_mm_loadu_si128(panel));
      const __m256i right = _mm256_cvtepi8_epi16(_mm_loadu_si128(panel + 1));
      const auto add = [&](int r, __m256i& sum0, __m256i& sum1) {
        long long four;
        std::memcpy(&four, x + r * stride + q * kQuad, sizeof(four));
        const __m256i numbers = _mm256_set1_epi64x(four);
        add_in_place(sum0, _mm256_madd_epi16(numbers, left));
        add_in_place(sum1, _mm256_madd_epi16(numbers, right));
      };
      add(0, a0, a1);
      add(1, b0, b1);
      add(2, c0, c1);
      if (kRows > 3) add(3, d0, d1);
      if (kRows > 4) add(4, e0, e1);
      if (kRows > 5) add(5, f0, f1);
    }
    const auto store = [&](int r, __m256i sum0, __m256i sum1) {
      add_to(sums + r * row, _mm256_permute4x64_epi64(_mm256_hadd_epi32(sum0, sum1), 0xd8));
    };
    store(0, a0, a1);
    store(1, b0, b1);
    store(2, c0, c1);
    if (kRows > 3) store(3, d0, d1);
    if (kRows > 4) store(4, e0, e1);
    if (kRows > 5) store(5, f0, f1);
  }
}

template <int kRows>
inline void add_rows(TileRows x, Order order, const int8_t* w, int32_t* sums, int row) {
  if (order.fitting > 0) {
    constexpr int kFirst = kRows > 4 ? 3 : kRows;
    add_fitting<kFirst>(x.bytes, x.stride, order.quads, order.fitting, w, sums, row);
    if constexpr (kRows > kFirst) {
      const uint8_t* bytes = x.bytes + kFirst * x.stride;
      add_fitting<kRows - kFirst>(bytes, x.stride, order.quads, order.fitting, w, sums + kFirst * row, row);
    }
  }
  const int others = order.count - order.fitting;
  if (others == 0) return;
  const uint8_t* quads = order.quads + order.fitting;
  if constexpr (kRows < 3) {
    add_wide<kRows>(x.wide, x.stride, quads, others, w, sums, row);
  } else {
    add_wide_rows<kRows>(x.wide, x.stride, quads, others, w, sums, row);
  }
}

}  // namespace detail

/// One panel: sums[r][c] += sum over the quads of the order of (x + 128) * w. `sums` has rows of `row` elements.
inline void add_products_avx2(TileRows x, int rows, Order order, const int8_t* w, int32_t* sums, int row) {
  switch (rows) {
    case 1:
      return detail::add_rows<1>(x, order, w, sums, row);
    case 2:
      return detail::add_rows<2>(x, order, w, sums, row);
    case 3:
      return detail::add_rows<3>(x, order, w, sums, row);
    case 4:
      return detail::add_rows<4>(x, order, w, sums, row);
    case 5:
      return detail::add_rows<5>(x, order, w, sums, row);
    default:
      return detail::add_rows<kRowsAvx2>(x, order, w, sums, row);
  }
}

}  // namespace etir::integer

#endif
