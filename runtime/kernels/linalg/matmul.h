// Products of strided matrices: chooses between dot products of rows (few rows), matrices read in place, and packed
// blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/util/compute.h"
#include "kernels/util/gemm.h"

namespace etir {

/// out = beta * addend + alpha * a @ b, with a m x k and b k x n, and then what is `added`. Strides are in elements.
template <typename T, typename Out>
struct Matmul {
  using C = compute_t<T>;
  int64_t m, n, k;
  const T* a;
  int64_t a_row, a_col;
  const T* b;
  int64_t b_row, b_col;
  Out* out;
  int64_t out_row, out_col;
  const Out* addend;  ///< null: nothing is added
  int64_t addend_row, addend_col;
  C alpha, beta;
  /// Null: nothing. It lies as the result does, and may be where that goes; the factors are 1 then, and the addend of
  /// each element is a whole element (addend_row and addend_col are 0 or 1).
  const Out* added = nullptr;

  /// The same product, told of the transposed matrices.
  void transpose() {
    std::swap(m, n);
    std::swap(a, b);
    std::swap(a_row, b_col);
    std::swap(a_col, b_row);
    std::swap(out_row, out_col);
    std::swap(addend_row, addend_col);
  }

  void store(const C* sums, int stride, int64_t i, int rows, int64_t j, int cols, bool first) const {
    if constexpr (std::is_floating_point_v<C>) {
      if (added != nullptr) return store_sum(sums, stride, i, rows, j, cols, first);
    }
    const bool plain = out_col == 1 && alpha == C(1) && (beta == C(1) || addend == nullptr) && addend_col <= 1;
    for (int r = 0; r < rows; ++r) {
      const C* from = sums + r * stride;
      Out* to = out + (i + r) * out_row + j * out_col;
      const Out* more = addend == nullptr ? nullptr : addend + (i + r) * addend_row + j * addend_col;
      if (plain) {
        if (!first) {
          store_row<C>(to, from, cols, [&](int c) { return static_cast<C>(to[c]); });
        } else if (more == nullptr) {
          store_row<C>(to, from, cols, [](int) { return C(0); });
        } else if (addend_col == 0) {
          const C same = static_cast<C>(*more);
          store_row<C>(to, from, cols, [&](int) { return same; });
        } else {
          store_row<C>(to, from, cols, [&](int c) { return static_cast<C>(more[c]); });
        }
        continue;
      }
      for (int c = 0; c < cols; ++c) {
        C sum = multiply(alpha, from[c]);
        if (!first) {
          sum += static_cast<C>(to[c * out_col]);
        } else if (more != nullptr) {
          sum += multiply(beta, static_cast<C>(more[c * addend_col]));
        }
        to[c * out_col] = from_compute<Out>(sum);
      }
    }
  }

  /// The same for finished sums, rounded as they would be stored, and what is added to them.
  void store_sum(const C* sums, int stride, int64_t i, int rows, int64_t j, int cols, bool first) const {
    for (int r = 0; r < rows; ++r) {
      const C* from = sums + r * stride;
      const int64_t at = (i + r) * out_row + j * out_col;
      Out* to = out + at;
      const Out* before = added + at;
      const Out* more = first && addend != nullptr ? addend + (i + r) * addend_row + j * addend_col : nullptr;
      if (out_col != 1) {
        for (int c = 0; c < cols; ++c) {
          const C sum = more == nullptr ? from[c] : from[c] + static_cast<C>(more[c * addend_col]);
          const C product = static_cast<C>(from_compute<Out>(sum));
          to[c * out_col] = from_compute<Out>(static_cast<C>(before[c * out_col]) + product);
        }
      } else if (more == nullptr) {
        store_sum_row<C>(to, before, from, cols, [](int) { return C(0); });
      } else {
        store_sum_row<C>(to, before, from, cols, [&](int c) { return static_cast<C>(more[c * addend_col]); });
      }
    }
  }
};

#if ETIR_VECTOR_BYTES > 0 && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define ETIR_TRANSPOSES 1
#endif
#endif

/// Square transposes of elements of four bytes: kLanes rows, `from_stride` apart, are written as columns.
template <int kLanes>
struct Transpose;
#ifdef ETIR_TRANSPOSES
template <>
struct Transpose<4> {
  typedef float V __attribute__((vector_size(16)));
  template <typename C>
  static void run(const C* from, int64_t from_stride, C* to, int64_t to_stride) {
    V r[4], c[4];
    ETIR_UNROLL
    for (int i = 0; i < 4; ++i) std::memcpy(&r[i], from + i * from_stride, 16);
    const V low01 = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
            low23 = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    const V high01 = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    const V high23 = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    c[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
    c[1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
    c[2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
    c[3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
    ETIR_UNROLL
    for (int i = 0; i < 4; ++i) std::memcpy(to + i * to_stride, &c[i], 16);
  }
};
template <>
struct Transpose<8> {
  typedef float V __attribute__((vector_size(32)));
  template <typename C>
  static void run(const C* from, int64_t from_stride, C* to, int64_t to_stride) {
    V r[8], t[8];
    ETIR_UNROLL
    for (int i = 0; i < 8; ++i) std::memcpy(&r[i], from + i * from_stride, 32);
    // Pairs of rows, then of pairs, within each half of 16 bytes; then the halves.
    ETIR_UNROLL
    for (int i = 0; i < 8; i += 2) {
      t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
      t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    ETIR_UNROLL
    for (int i = 0; i < 8; i += 4) {
      r[i] = __builtin_shufflevector(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      r[i + 1] = __builtin_shufflevector(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
      r[i + 2] = __builtin_shufflevector(t[i + 1], t[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
      r[i + 3] = __builtin_shufflevector(t[i + 1], t[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    ETIR_UNROLL
    for (int i = 0; i < 4; ++i) {
      t[i] = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
      t[i + 4] = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    ETIR_UNROLL
    for (int i = 0; i < 8; ++i) std::memcpy(to + i * to_stride, &t[i], 32);
  }
};
#endif

/// A panel of a matrix whose columns lie in memory: kPanel columns of `depth` elements become rows.
template <typename T>
void pack_transposed(const T* from, int64_t from_stride, int depth, int cols, compute_t<T>* to) {
  using C = compute_t<T>;
  constexpr int kPanel = GemmBlocks<C>::kPanel;
  int done = 0;
#ifdef ETIR_TRANSPOSES
  if constexpr (sizeof(C) == 4 && GemmBlocks<C>::kLanes > 1) {
    constexpr int kSquare = GemmBlocks<C>::kLanes >= 8 ? 8 : 4;
    constexpr int kRun = 64;  // elements converted at once
    for (; done + kSquare <= cols; done += kSquare) {
      const T* column = from + done * from_stride;
      int p = 0;
      if constexpr (is_own_compute_v<T>) {
        const C* source = reinterpret_cast<const C*>(column);
        for (; p + kSquare <= depth; p += kSquare) {
          if (p % (64 / static_cast<int>(sizeof(C))) == 0) {
            // The columns of the next panel, which are nowhere near.
            for (int c = 0; c < kSquare; ++c) {
              prefetch_ahead(source + p, (c + kPanel) * from_stride * static_cast<int64_t>(sizeof(C)));
            }
          }
          Transpose<kSquare>::run(source + p, from_stride, to + p * kPanel + done, kPanel);
        }
      } else {
        C run[kSquare * kRun];
        while (p + kSquare <= depth) {
          const int length = std::min(kRun, (depth - p) / kSquare * kSquare);
          for (int c = 0; c < kSquare; ++c) read_elements(column + c * from_stride + p, 1, length, run + c * kRun);
          for (int q = 0; q < length; q += kSquare) {
            Transpose<kSquare>::run(run + q, kRun, to + (p + q) * kPanel + done, kPanel);
          }
          p += length;
        }
      }
      for (; p < depth; ++p) {
        for (int c = 0; c < kSquare; ++c) to[p * kPanel + done + c] = to_compute(column[c * from_stride + p]);
      }
    }
  }
#endif
  for (int c = done; c < kPanel; ++c) {
    if (c < cols) {
      for (int p = 0; p < depth; ++p) to[p * kPanel + c] = to_compute(from[c * from_stride + p]);
    } else {
      for (int p = 0; p < depth; ++p) to[p * kPanel + c] = C(0);
    }
  }
}

/// A panel of a matrix of any strides.
template <typename T>
void pack_panel(const T* from, int64_t row, int64_t col, int depth, int cols, compute_t<T>* to) {
  using C = compute_t<T>;
  constexpr int kPanel = GemmBlocks<C>::kPanel;
  if (row == 1 && col != 1) return pack_transposed(from, col, depth, cols, to);
  for (int p = 0; p < depth; ++p, from += row, to += kPanel) {
    if (col == 1 && cols == kPanel) {
      prefetch_ahead(from, kPanel * static_cast<int64_t>(sizeof(T)));  // for the next panel
      for (int c = 0; c < kPanel; ++c) to[c] = to_compute(from[c]);
    } else {
      for (int c = 0; c < cols; ++c) to[c] = to_compute(from[c * col]);
      for (int c = cols; c < kPanel; ++c) to[c] = C(0);
    }
  }
}

/// sums[r][j] += a[r] . b[j] for kRows and four rows of `depth` contiguous elements.
template <typename C, int kRows>
inline void dot_tile(const C* const* a, const C* const* b, int64_t depth, C (*sums)[4]) {
  using V = typename Vector<C>::type;
  constexpr int kLanes = Vector<C>::kLanes;
  V acc[kRows][4];
  ETIR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ETIR_UNROLL
    for (int j = 0; j < 4; ++j) acc[r][j] = V{};
  }
  const C *a0 = a[0], *a1 = a[kRows - 1], *b0 = b[0], *b1 = b[1], *b2 = b[2], *b3 = b[3];
  int64_t p = 0;
  if constexpr (kLanes > 1) {
    for (; p + kLanes <= depth; p += kLanes) {
      const V right[4] = {load_vector<C>(b0 + p), load_vector<C>(b1 + p), load_vector<C>(b2 + p),
                          load_vector<C>(b3 + p)};
      const V left[2] = {load_vector<C>(a0 + p), load_vector<C>(a1 + p)};
      ETIR_UNROLL
      for (int r = 0; r < kRows; ++r) {
        ETIR_UNROLL
        for (int j = 0; j < 4; ++j) acc[r][j] += left[r] * right[j];
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int j = 0; j < 4; ++j) sums[r][j] += sum_lanes<C>(acc[r][j]);
    }
  }
  for (; p < depth; ++p) {
    for (int j = 0; j < 4; ++j) {
      multiply_add_scalar(sums[0][j], a0[p], b[j][p]);
      if (kRows > 1) multiply_add_scalar(sums[kRows - 1][j], a1[p], b[j][p]);
    }
  }
}

/// Columns [j_begin, j_end) of a product whose operands both run along k in memory, for few rows: every element of b is
/// read once, in the order of memory.
template <typename T, typename Out>
void dot_range(const Matmul<T, Out>& q, int64_t j_begin, int64_t j_end) {
  using C = compute_t<T>;
  constexpr int kRows = GemmBlocks<C>::kRows;
  constexpr int kDepth = is_own_compute_v<T> ? 1 : GemmBlocks<C>::kDepth;
  C left[kRows * kDepth], right[4 * kDepth];
  const int rows = static_cast<int>(q.m);
  for (int64_t j = j_begin; j < j_end; j += 4) {
    const int cols = static_cast<int>(std::min<int64_t>(4, j_end - j));
    C sums[kRows][4] = {};
    const C *a[kRows], *b[4];
    if constexpr (is_own_compute_v<T>) {
      for (int r = 0; r < rows; ++r) a[r] = reinterpret_cast<const C*>(q.a + r * q.a_row);
      // Columns past the end repeat the last one; they are not stored.
      for (int c = 0; c < 4; ++c) b[c] = reinterpret_cast<const C*>(q.b + (j + std::min(c, cols - 1)) * q.b_col);
      int r = 0;
      for (; r + 2 <= rows; r += 2) dot_tile<C, 2>(a + r, b, q.k, sums + r);
      if (r < rows) dot_tile<C, 1>(a + r, b, q.k, sums + r);
    } else {
      for (int64_t p = 0; p < q.k; p += kDepth) {
        const int64_t depth = std::min<int64_t>(kDepth, q.k - p);
        for (int c = 0; c < 4; ++c) {
          b[c] = right + std::min(c, cols - 1) * kDepth;
          if (c < cols) read_elements(q.b + (j + c) * q.b_col + p, 1, depth, right + c * kDepth);
        }
        for (int r = 0; r < rows; ++r) {
          a[r] = left + r * kDepth;
          read_elements(q.a + r * q.a_row + p, 1, depth, left + r * kDepth);
        }
        int r = 0;
        for (; r + 2 <= rows; r += 2) dot_tile<C, 2>(a + r, b, depth, sums + r);
        if (r < rows) dot_tile<C, 1>(a + r, b, depth, sums + r);
      }
    }
    q.store(sums[0], 4, 0, rows, j, cols, true);
  }
}

/// Computes the product. `addend` and `added` may be the result itself.
template <typename T, typename Out, typename Context>
void matmul(Context& ctx, Matmul<T, Out> q) {
  using C = compute_t<T>;
  using Q = Matmul<T, Out>;
  using Blocks = GemmBlocks<C>;
  if (q.m <= 0 || q.n <= 0) return;
  // Few columns are better told as few rows, and rows of the result should lie in memory.
  if ((q.n <= Blocks::kRows && q.m > q.n) || (q.m > Blocks::kRows && q.out_col != 1 && q.out_row == 1)) q.transpose();
  if (q.k == 1) q.a_col = 1;
  if (q.m <= Blocks::kRows && q.a_col == 1 && q.b_row == 1 && q.k >= 4) {
    const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 16) / q.k / q.m);
    ctx.parallel_for((q.n + 3) / 4, grain,
                     [&](int64_t begin, int64_t end) { dot_range(q, begin * 4, std::min(q.n, end * 4)); });
    return;
  }
  Gemm<C> g;
  g.m = q.m, g.n = q.n, g.k = q.k;
  g.context = &q;
  g.accumulates = is_own_compute_v<Out>;
  g.waits = q.added != nullptr;
  if constexpr (is_own_compute_v<T>) {
    if (q.a_col == 1 || (q.a_row == 1 && Blocks::kLanes > 1 && !ETIR_SMALL_STACK)) {
      g.a = reinterpret_cast<const C*>(q.a), g.a_row = q.a_row, g.a_col = q.a_col;
    }
    if (q.b_col == 1) g.b = reinterpret_cast<const C*>(q.b), g.b_row = q.b_row;
  }
  if constexpr (is_own_compute_v<Out>) {
    const bool plain = q.addend == nullptr || (q.beta == C(1) && (q.addend_col == 0 || q.addend_col == 1));
    if (q.out_col == 1 && q.alpha == C(1) && plain) {
      g.out = reinterpret_cast<C*>(q.out), g.out_row = q.out_row;
      g.added = reinterpret_cast<const C*>(q.added);
    }
    if (g.out != nullptr || q.added != nullptr) {
      g.addend = reinterpret_cast<const C*>(q.addend), g.addend_row = q.addend_row, g.addend_col = q.addend_col;
    }
  }
  g.pack_a = [](const void* context, int64_t i, int rows, int64_t p, int depth, C* to) {
    const Q& q = *static_cast<const Q*>(context);
    for (int r = 0; r < rows; ++r) read_elements(q.a + (i + r) * q.a_row + p * q.a_col, q.a_col, depth, to + r * depth);
  };
  g.pack_b = [](const void* context, int64_t p, int depth, int64_t j, int cols, C* to) {
    const Q& q = *static_cast<const Q*>(context);
    pack_panel(q.b + p * q.b_row + j * q.b_col, q.b_row, q.b_col, depth, cols, to);
  };
  g.store = [](const void* context, const C* sums, int stride, int64_t i, int rows, int64_t j, int cols, bool first) {
    static_cast<const Q*>(context)->store(sums, stride, i, rows, j, cols, first);
  };
  gemm(ctx, g);
}

}  // namespace etir
