// The core of all matrix products and convolutions: a blocked product of two matrices that need not lie in memory.
//
// The right matrix is cut into blocks of kDepth x kBlockCols, which are packed, panel by panel, into a buffer on the
// stack that stays in the cache while all rows of the left matrix go by; a register-blocked inner kernel multiplies
// kRows rows by one panel. Packing is a callback per panel, so that a convolution packs patches of its image instead of
// a matrix (no im2col image exists), and 16-bit types are converted there. The buffers' size is fixed when the runtime
// is built: about 80 KB where there is an operating system, about 4 KB elsewhere (ETIR_SMALL_STACK). They are on the
// stack because every thread of a parallel loop needs its own, and because a product must not fail for want of scratch
// memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/util/vectors.h"

#if !defined(ETIR_SMALL_STACK)
#if (defined(__x86_64__) || defined(__aarch64__)) && (defined(__linux__) || defined(__APPLE__) || defined(_WIN32))
#define ETIR_SMALL_STACK 0
#else
#define ETIR_SMALL_STACK 1
#endif
#endif

namespace etir {

/// Sizes of the blocks, in elements, for the type C that is computed in.
template <typename C>
struct GemmBlocks {
  static constexpr int kLanes = Vector<C>::kLanes;
  // As many accumulators as registers hold: 12 of 16, or of 32 on the targets that have them.
  static constexpr int kVectors = kLanes > 1 ? 2 : sizeof(C) <= 8 ? 4 : 2;
  static constexpr int kRows = kLanes > 1 ? 6 : sizeof(C) <= 8 ? 4 : 2;
  static constexpr int kPanel = kVectors * kLanes;
  static constexpr int kDepth = ETIR_SMALL_STACK ? 64 : sizeof(C) <= 8 ? 256 : 128;
  static constexpr int kPanels =
      ETIR_SMALL_STACK ? 1 : std::max(1, 65536 / (kDepth * kPanel * static_cast<int>(sizeof(C))));
  static constexpr int kBlockCols = kPanels * kPanel;
  /// Rows whose sums are kept aside when the result's type cannot hold them between two blocks of depth.
  static constexpr int kSumRows = ETIR_SMALL_STACK ? kRows : 4 * kRows;
  /// Panels that a single row takes at once.
  static constexpr int kWide = ETIR_SMALL_STACK || kLanes == 1 ? 1 : 4;
};

/// A product of an m x k and a k x n matrix. The callbacks get `context`.
template <typename C>
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  /// Left matrix where its rows lie: element (i, p) is a[i * a_row + p]. Null: pack_a writes `rows` rows of `depth`.
  const C* a = nullptr;
  int64_t a_row = 0;
  void (*pack_a)(const void* context, int64_t i, int rows, int64_t p, int depth, C* to) = nullptr;
  /// Right matrix where its rows lie: element (p, j) is b[p * b_row + j]; used when it is not worth packing.
  const C* b = nullptr;
  int64_t b_row = 0;
  /// Writes a panel: `depth` rows of kPanel elements, zeros behind the first `cols`.
  void (*pack_b)(const void* context, int64_t p, int depth, int64_t j, int cols, C* to) = nullptr;
  /// Takes sums of products; rows of `sums` are `stride` apart. `first` is false when they add to what is there.
  void (*store)(const void* context, const C* sums, int stride, int64_t i, int rows, int64_t j, int cols,
                bool first) = nullptr;
  /// Whether store() can add. If not, it is called once for each element.
  bool accumulates = true;
  const void* context = nullptr;
};

/// sums[r][j] (+)= a[r][:depth] * b[:depth][j] for kRows rows and kVectors vectors of columns.
template <typename C, int kRows, int kVectors>
inline void gemm_tile(const C* a, int64_t a_row, const C* b, int64_t b_row, int depth, C* sums, int stride, bool add) {
  using V = typename Vector<C>::type;
  constexpr int kLanes = Vector<C>::kLanes;
  V acc[kRows][kVectors];
  ETIR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) acc[r][v] = V{};
  }
  const C* rows[kRows];
  ETIR_UNROLL
  for (int r = 0; r < kRows; ++r) rows[r] = a + r * a_row;
  for (int p = 0; p < depth; ++p) {
    V right[kVectors];
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) right[v] = load_vector<C>(b + v * kLanes);
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const C left = rows[r][p];
      ETIR_UNROLL
      for (int v = 0; v < kVectors; ++v) multiply_add<C>(acc[r][v], left, right[v]);
    }
    b += b_row;
  }
  ETIR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      C* to = sums + r * stride + v * kLanes;
      if (add) acc[r][v] += load_vector<C>(to);
      store_vector<C>(to, acc[r][v]);
    }
  }
}

/// The same for any number of rows up to GemmBlocks::kRows.
template <typename C>
void gemm_strip(const C* a, int64_t a_row, const C* b, int64_t b_row, int depth, int rows, C* sums, int stride,
                bool add) {
  using Blocks = GemmBlocks<C>;
  constexpr int kVectors = Blocks::kVectors;
  if (rows == Blocks::kRows) {
    return gemm_tile<C, Blocks::kRows, kVectors>(a, a_row, b, b_row, depth, sums, stride, add);
  }
  if constexpr (Blocks::kRows > 4) {
    if (rows >= 4) {
      gemm_tile<C, 4, kVectors>(a, a_row, b, b_row, depth, sums, stride, add);
      a += 4 * a_row, sums += 4 * stride, rows -= 4;
    }
  }
  if constexpr (Blocks::kRows > 2) {
    if (rows >= 2) {
      gemm_tile<C, 2, kVectors>(a, a_row, b, b_row, depth, sums, stride, add);
      a += 2 * a_row, sums += 2 * stride, rows -= 2;
    }
  }
  if (rows == 1) gemm_tile<C, 1, kVectors>(a, a_row, b, b_row, depth, sums, stride, add);
}

template <typename C, typename Out, typename More>
inline void store_row_rest(Out* to, const C* from, int begin, int end, const More& more) {
  for (int c = begin; c < end; ++c) to[c] = static_cast<Out>(more(c) + from[c]);
}
/// Writes a row of sums plus `more(column)`. Rows of a whole panel, the usual case, are a loop of fixed length.
template <typename C, typename Out, typename More>
inline void store_row(Out* to, const C* __restrict from, int cols, const More& more) {
  constexpr int kPanel = GemmBlocks<C>::kPanel;
  C row[kPanel];
  int done = 0;
  if (cols >= kPanel) {
    for (int c = 0; c < kPanel; ++c) row[c] = more(c);
    for (int c = 0; c < kPanel; ++c) row[c] += from[c];
    for (int c = 0; c < kPanel; ++c) to[c] = static_cast<Out>(row[c]);
    done = kPanel;
  }
  store_row_rest<C>(to, from, done, cols, more);
}

/// One row times a right matrix that stays where it is: several panels at once, so that long pieces of rows are read.
template <typename C>
void gemm_row(const Gemm<C>& g, int64_t j_begin, int64_t j_end) {
  using Blocks = GemmBlocks<C>;
  constexpr int kDepth = Blocks::kDepth, kPanel = Blocks::kPanel, kCols = kPanel * Blocks::kWide;
  C panel[kDepth * kPanel];
  C row[kDepth];
  C sums[kCols];
  int64_t p = 0;
  do {
    const int depth = static_cast<int>(std::min<int64_t>(kDepth, g.k - p));
    const C* a = g.a != nullptr ? g.a + p : row;
    if (g.a == nullptr) g.pack_a(g.context, 0, 1, p, depth, row);
    int64_t j = j_begin;
    for (; j + kCols <= j_end; j += kCols) {
      gemm_tile<C, 1, Blocks::kVectors * Blocks::kWide>(a, 0, g.b + p * g.b_row + j, g.b_row, depth, sums, kCols,
                                                        false);
      g.store(g.context, sums, kCols, 0, 1, j, kCols, p == 0);
    }
    for (; j < j_end; j += kPanel) {
      const int cols = static_cast<int>(std::min<int64_t>(kPanel, j_end - j));
      const bool direct = cols == kPanel;
      if (!direct) g.pack_b(g.context, p, depth, j, cols, panel);
      gemm_tile<C, 1, Blocks::kVectors>(a, 0, direct ? g.b + p * g.b_row + j : panel, direct ? g.b_row : kPanel, depth,
                                        sums, kPanel, false);
      g.store(g.context, sums, kPanel, 0, 1, j, cols, p == 0);
    }
    p += depth;
  } while (p < g.k);
}

/// The product's rows [i_begin, i_end) and columns [j_begin, j_end).
template <typename C>
void gemm_range(const Gemm<C>& g, int64_t i_begin, int64_t i_end, int64_t j_begin, int64_t j_end) {
  using Blocks = GemmBlocks<C>;
  constexpr int kRows = Blocks::kRows, kPanel = Blocks::kPanel, kDepth = Blocks::kDepth;
  if (g.m == 1 && g.b != nullptr && g.accumulates && i_begin < i_end) return gemm_row(g, j_begin, j_end);
  alignas(64) C block[Blocks::kPanels * kDepth * kPanel];
  alignas(64) C strip[kRows * kDepth];
  alignas(64) C sums[Blocks::kSumRows * Blocks::kBlockCols];
  const bool keep = !g.accumulates && g.k > kDepth;
  const int64_t row_step = keep ? Blocks::kSumRows : i_end - i_begin;
  // A right matrix in place pays as long as few strips read it.
  const bool in_place = g.b != nullptr && i_end - i_begin <= 2 * kRows;
  for (int64_t i_block = i_begin; i_block < i_end; i_block += row_step) {
    const int64_t i_stop = std::min(i_end, i_block + row_step);
    for (int64_t j = j_begin; j < j_end; j += Blocks::kBlockCols) {
      const int cols = static_cast<int>(std::min<int64_t>(Blocks::kBlockCols, j_end - j));
      int64_t p = 0;
      do {
        const int depth = static_cast<int>(std::min<int64_t>(kDepth, g.k - p));
        for (int c = 0; c < cols; c += kPanel) {
          const int count = std::min(kPanel, cols - c);
          if (in_place && count == kPanel) continue;
          g.pack_b(g.context, p, depth, j + c, count, block + c * kDepth);
        }
        for (int64_t i = i_block; i < i_stop; i += kRows) {
          const int rows = static_cast<int>(std::min<int64_t>(kRows, i_stop - i));
          const C* a = strip;
          int64_t a_row = depth;
          if (g.a != nullptr) {
            a = g.a + i * g.a_row + p;
            a_row = g.a_row;
          } else {
            g.pack_a(g.context, i, rows, p, depth, strip);
          }
          C* to = keep ? sums + (i - i_block) * Blocks::kBlockCols : sums;
          const int stride = keep ? Blocks::kBlockCols : kPanel;
          for (int c = 0; c < cols; c += kPanel) {
            const int count = std::min(kPanel, cols - c);
            const bool direct = in_place && count == kPanel;
            C* tile = keep ? to + c : to;
            gemm_strip<C>(a, a_row, direct ? g.b + p * g.b_row + j + c : block + c * kDepth, direct ? g.b_row : kPanel,
                          depth, rows, tile, stride, keep && p > 0);
            if (!keep) g.store(g.context, tile, stride, i, rows, j + c, count, p == 0);
          }
        }
        p += depth;
      } while (p < g.k);
      if (keep) {
        g.store(g.context, sums, Blocks::kBlockCols, i_block, static_cast<int>(i_stop - i_block), j, cols, true);
      }
    }
  }
}

/// The whole product, in parallel over the longer side.
template <typename C, typename Context>
void gemm(Context& ctx, const Gemm<C>& g) {
  using Blocks = GemmBlocks<C>;
  if (g.m <= 0 || g.n <= 0) return;
  // Work below some hundred thousand products is not worth a second thread.
  const int64_t depth = std::max<int64_t>(g.k, 1);
  if (g.n >= g.m) {
    constexpr int64_t kStep = Blocks::kPanel;
    const int64_t work = std::max<int64_t>(1, (int64_t{1} << 18) / depth / g.m / kStep);
    ctx.parallel_for(
        (g.n + kStep - 1) / kStep, std::max<int64_t>(work, Blocks::kPanels),
        [&](int64_t begin, int64_t end) { gemm_range(g, 0, g.m, begin * kStep, std::min(g.n, end * kStep)); });
  } else {
    constexpr int64_t kStep = Blocks::kRows;
    const int64_t work = std::max<int64_t>(4, (int64_t{1} << 18) / depth / g.n / kStep);
    ctx.parallel_for((g.m + kStep - 1) / kStep, work, [&](int64_t begin, int64_t end) {
      gemm_range(g, begin * kStep, std::min(g.m, end * kStep), 0, g.n);
    });
  }
}

}  // namespace etir
