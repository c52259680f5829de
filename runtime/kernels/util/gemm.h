// The core of all matrix products and convolutions: a blocked product of two matrices that need not lie in memory.
//
// The right matrix is packed, in panels of a few vectors of columns and some hundred rows, into a buffer that stays in
// the first-level cache while rows of the left matrix go by; a register-blocked inner kernel multiplies kRows rows by
// one panel and adds to the result where it lies. Packing is a callback per panel, so that a convolution packs patches
// of its image instead of a matrix (no im2col image exists), and 16-bit types are converted there. A left matrix is
// read where it is if its rows or its columns lie in memory, and packed a strip at a time otherwise.
//
// Buffers are on the stack: every thread of a parallel loop needs its own, how many threads there are is not known when
// a program's memory is planned, and a product must not fail for want of scratch memory. One buffer serves all, of
// 15 KB where there is an operating system and of 4 KB elsewhere (ETIR_SMALL_STACK); what is packed at once follows
// from its size.
//
// A product that is added to what lies where the result goes (`waits`) may write nothing there before all of the depth
// is done. Its sums wait in the buffer, which is 64 KB longer then, for as many panels of a strip of rows as that
// holds. It is rounded as the product alone would be, so that a program has the same bits whether an addition is part
// of a product or not.
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
  static constexpr int kBuffer = (ETIR_SMALL_STACK ? 4224 : 15360) / static_cast<int>(sizeof(C));
  /// The most that a block has along the depth.
  static constexpr int kDepth = ETIR_SMALL_STACK ? 64 : sizeof(C) <= 8 ? 256 : 128;
  static constexpr int kTile = kRows * kPanel;
  /// Rows whose sums are kept aside when the result's type cannot hold them between two blocks of depth.
  static constexpr int kSumRows = ETIR_SMALL_STACK ? kRows : 4 * kRows;
  /// What the buffer has besides for sums that wait.
  static constexpr int kWaiting = (ETIR_SMALL_STACK ? 0 : 65536) / static_cast<int>(sizeof(C));
  /// Panels that a single row takes at once.
  static constexpr int kWide = ETIR_SMALL_STACK || kLanes == 1 ? 1 : 4;
  /// Bytes of the left matrix that are to stay in the second-level cache.
  static constexpr int kLeftBytes = 192 * 1024;
};

/// A product of an m x k and a k x n matrix. The callbacks get `context`.
template <typename C>
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  /// Left matrix where it lies: element (i, p) is a[i * a_row + p * a_col], and one of the strides is 1: a_col, unless
  /// C has vectors. Null: pack_a writes `rows` rows of `depth`.
  const C* a = nullptr;
  int64_t a_row = 0, a_col = 1;
  void (*pack_a)(const void* context, int64_t i, int rows, int64_t p, int depth, C* to) = nullptr;
  /// Right matrix where its rows lie: element (p, j) is b[p * b_row + j]; used when it is not worth packing.
  const C* b = nullptr;
  int64_t b_row = 0;
  /// Writes a panel: `depth` rows of kPanel elements, zeros after the first `cols`.
  void (*pack_b)(const void* context, int64_t p, int depth, int64_t j, int cols, C* to) = nullptr;
  /// Takes sums of products; rows of `sums` are `stride` apart. `first` is false when they add to what is there. Where
  /// the product waits, it gets finished sums and adds them to what is to be added; `first` is false when they have the
  /// addend already.
  void (*store)(const void* context, const C* sums, int stride, int64_t i, int rows, int64_t j, int cols,
                bool first) = nullptr;
  /// Whether store() can add. If not, it is called once for each element.
  bool accumulates = true;
  /// The most products that are added one after the other: where the depth is that of an image and terms cancel, a sum
  /// of short sums loses less.
  int most_depth = GemmBlocks<C>::kDepth;
  /// Result whose rows lie in memory and which is nothing but the sums plus the addend: whole panels are added to it in
  /// place, without store(). Element (i, j) of the addend, which may be null, is addend[i * addend_row + j *
  /// addend_col]; addend_col is 0 or 1.
  C* out = nullptr;
  int64_t out_row = 0;
  const C* addend = nullptr;
  int64_t addend_row = 0, addend_col = 0;
  /// Whether the finished product, which is what would be stored otherwise, is added to something that may be where the
  /// result goes. With `out`, element (i, j) of that is added[i * out_row + j].
  bool waits = false;
  const C* added = nullptr;
  const void* context = nullptr;
};

namespace detail {

/// Where a tile's rows of the left matrix are, and those of the tile below, which are fetched in advance.
template <typename C>
struct GemmLeft {
  const C* at;
  int64_t row, col;
  const C* next;
};
/// Where a tile's sums go: rows of `to`, plus those of `add` if there is one, and then those of `then`, which are as
/// far apart as those of `to`.
template <typename C>
struct GemmTarget {
  const C* add;
  int64_t add_row;
  C* to;
  int64_t to_row;
  const C* then = nullptr;
};

/// target = (add + a[r][:depth] * b[:depth][j]) + then for kRows rows and kVectors vectors of columns. With kByColumns
/// a.row is 1, otherwise a.col.
template <typename C, int kRows, int kVectors, bool kByColumns>
inline void gemm_tile(const GemmLeft<C>& a, const C* b, int64_t b_row, int depth, const GemmTarget<C>& target) {
  using V = typename Vector<C>::type;
  constexpr int kLanes = Vector<C>::kLanes;
  // As much depth as one line of the cache has in a row of the left matrix.
  constexpr int kChunk = kLanes > 1 && !ETIR_SMALL_STACK ? 64 / static_cast<int>(sizeof(C)) : 1;
  V acc[kRows][kVectors];
  ETIR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) acc[r][v] = V{};
  }
  const int64_t row = kByColumns ? 1 : a.row, col = kByColumns ? a.col : 1;
  const C* left = a.at;
  const auto step = [&]() {
    V right[kVectors];
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) right[v] = load_vector<C>(b + v * kLanes);
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const C factor = left[r * row];
      ETIR_UNROLL
      for (int v = 0; v < kVectors; ++v) multiply_add<C>(acc[r][v], factor, right[v]);
    }
    left += col;
    b += b_row;
  };
  if constexpr (kChunk > 1) {
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) __builtin_prefetch(target.to + r * target.to_row, 1);
    const C* next = a.next;
    for (; depth >= kChunk; depth -= kChunk) {
      if (!kByColumns && next != nullptr) {
        ETIR_UNROLL
        for (int r = 0; r < kRows; ++r) __builtin_prefetch(next + r * row);
        next += kChunk;
      }
      // Not unrolled: the accumulators leave no register to spare.
      ETIR_NO_UNROLL
      for (int p = 0; p < kChunk; ++p) step();
    }
  }
  for (; depth > 0; --depth) step();
  if (target.add != nullptr) {
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ETIR_UNROLL
      for (int v = 0; v < kVectors; ++v) acc[r][v] += load_vector<C>(target.add + r * target.add_row + v * kLanes);
    }
  }
  if (target.then != nullptr) {
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ETIR_UNROLL
      for (int v = 0; v < kVectors; ++v) acc[r][v] += load_vector<C>(target.then + r * target.to_row + v * kLanes);
    }
  }
  ETIR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) store_vector<C>(target.to + r * target.to_row + v * kLanes, acc[r][v]);
  }
}

/// The same for any number of rows up to GemmBlocks::kRows.
template <typename C, int kVectors, bool kByColumns>
void gemm_strip(GemmLeft<C> a, const C* b, int64_t b_row, int depth, int rows, GemmTarget<C> target) {
  constexpr int kRows = GemmBlocks<C>::kRows;
  if (rows == kRows) return gemm_tile<C, kRows, kVectors, kByColumns>(a, b, b_row, depth, target);
  a.next = nullptr;
  const auto advance = [&](int done) {
    a.at += done * a.row, target.to += done * target.to_row, rows -= done;
    if (target.add != nullptr) target.add += done * target.add_row;
    if (target.then != nullptr) target.then += done * target.to_row;
  };
  if constexpr (kRows > 4) {
    if (rows >= 4) {
      gemm_tile<C, 4, kVectors, kByColumns>(a, b, b_row, depth, target);
      advance(4);
    }
  }
  if constexpr (kRows > 2) {
    if (rows >= 2) {
      gemm_tile<C, 2, kVectors, kByColumns>(a, b, b_row, depth, target);
      advance(2);
    }
  }
  if (rows == 1) gemm_tile<C, 1, kVectors, kByColumns>(a, b, b_row, depth, target);
}

/// And for any number of columns up to a panel: half of it, where that does.
template <typename C>
inline void gemm_panel(const GemmLeft<C>& a, const C* b, int64_t b_row, int depth, int rows, int cols,
                       const GemmTarget<C>& target) {
  constexpr int kLanes = Vector<C>::kLanes, kVectors = GemmBlocks<C>::kVectors;
  if constexpr (kLanes > 1 && !ETIR_SMALL_STACK) {
    if (a.col != 1) return gemm_strip<C, kVectors, true>(a, b, b_row, depth, rows, target);
    if (cols <= kLanes * (kVectors / 2)) {
      return gemm_strip<C, kVectors / 2, false>(a, b, b_row, depth, rows, target);
    }
  }
  (void)cols;
  gemm_strip<C, kVectors, false>(a, b, b_row, depth, rows, target);
}

}  // namespace detail

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

/// Writes a row of finished sums plus `more(column)`, rounded as store_row() does, plus `added`, which may be where it
/// is written.
template <typename C, typename Out, typename More>
inline void store_sum_row(Out* to, const Out* added, const C* __restrict from, int cols, const More& more) {
  constexpr int kPanel = GemmBlocks<C>::kPanel;
  Out product[kPanel];
  for (int done = 0; done < cols; done += kPanel) {
    const int count = std::min(kPanel, cols - done);
    store_row<C>(product, from + done, count, [&](int c) { return more(done + c); });
    if (count == kPanel) {
      C row[kPanel];
      for (int c = 0; c < kPanel; ++c) row[c] = static_cast<C>(added[done + c]) + static_cast<C>(product[c]);
      for (int c = 0; c < kPanel; ++c) to[done + c] = static_cast<Out>(row[c]);
      continue;
    }
    for (int c = done; c < cols; ++c) {
      to[c] = static_cast<Out>(static_cast<C>(added[c]) + static_cast<C>(product[c - done]));
    }
  }
}

/// One row times a right matrix that stays where it is: several panels at once, so that long pieces of rows are read.
template <typename C>
void gemm_row(const Gemm<C>& g, int64_t j_begin, int64_t j_end) {
  using Blocks = GemmBlocks<C>;
  constexpr int kPanel = Blocks::kPanel, kCols = kPanel * Blocks::kWide;
  constexpr int kDepth = std::min(Blocks::kDepth, (Blocks::kBuffer - kCols) / (kPanel + 1));
  C panel[kDepth * kPanel];
  C row[kDepth];
  C sums[kCols];
  const bool direct_a = g.a != nullptr && g.a_col == 1;
  const auto left = [&](int64_t p, int depth) -> detail::GemmLeft<C> {
    if (!direct_a) g.pack_a(g.context, 0, 1, p, depth, row);
    return {direct_a ? g.a + p : row, 0, 1, nullptr};
  };
  const auto columns_at = [&](int64_t j) {
    return j + kCols <= j_end ? kCols : static_cast<int>(std::min<int64_t>(kPanel, j_end - j));
  };
  const auto multiply = [&](const detail::GemmLeft<C>& a, int64_t p, int depth, int64_t j, int cols, const C* add) {
    const C* b = g.b + p * g.b_row + j;
    const detail::GemmTarget<C> target = {add, 0, sums, kCols};
    if (kCols > kPanel && cols == kCols) {
      return detail::gemm_tile<C, 1, Blocks::kVectors * Blocks::kWide, false>(a, b, g.b_row, depth, target);
    }
    const bool direct = cols == kPanel;
    if (!direct) g.pack_b(g.context, p, depth, j, cols, panel);
    detail::gemm_tile<C, 1, Blocks::kVectors, false>(a, direct ? b : panel, direct ? g.b_row : kPanel, depth, target);
  };
  const auto depth_at = [&](int64_t p) { return static_cast<int>(std::min<int64_t>(kDepth, g.k - p)); };
  if (g.waits) {
    for (int64_t j = j_begin, cols = 0; j < j_end; j += cols) {
      const int count = columns_at(j);
      cols = count;
      if (g.addend != nullptr) {
        for (int c = 0; c < kCols; ++c) sums[c] = c < count ? g.addend[(j + c) * g.addend_col] : C(0);
      }
      int64_t p = 0;
      do {
        const int depth = depth_at(p);
        multiply(left(p, depth), p, depth, j, count, p == 0 && g.addend == nullptr ? nullptr : sums);
        p += depth;
      } while (p < g.k);
      g.store(g.context, sums, kCols, 0, 1, j, count, false);
    }
    return;
  }
  int64_t p = 0;
  do {
    const int depth = depth_at(p);
    const detail::GemmLeft<C> a = left(p, depth);
    for (int64_t j = j_begin, cols = 0; j < j_end; j += cols) {
      const int count = columns_at(j);
      cols = count;
      multiply(a, p, depth, j, count, nullptr);
      g.store(g.context, sums, kCols, 0, 1, j, count, p == 0);
    }
    p += depth;
  } while (p < g.k);
}

namespace detail {

/// How a product is cut into blocks, and where in the buffer their parts are.
template <typename C>
struct GemmPlan {
  using Blocks = GemmBlocks<C>;
  static constexpr int kRows = Blocks::kRows, kPanel = Blocks::kPanel;

  int panels, depth;
  bool keep;       ///< sums are kept aside until all of the depth is done
  bool wait;       ///< because the product waits: they have the addend, and the last block of depth takes them out
  bool in_place;   ///< whole panels of the right matrix are read where they are
  int64_t strips;  ///< rows of the left matrix that go by at once
  int64_t wide;    ///< columns whose sums are kept at once

  GemmPlan(const Gemm<C>& g, int64_t rows) {
    // A left matrix that is packed is to serve several panels.
    const int most_panels = ETIR_SMALL_STACK || g.a != nullptr ? 1 : 3;
    panels = static_cast<int>(std::min<int64_t>(most_panels, (g.n + kPanel - 1) / kPanel));
    int room = room_for(g, Blocks::kTile);
    keep = !g.accumulates && g.k > room;
    if (keep) {
      panels = std::min(panels, 2);
      room = room_for(g, Blocks::kSumRows * kPanel * panels);
    }
    // Blocks of the same size.
    const int64_t blocks = std::max<int64_t>(1, (g.k + room - 1) / room);
    depth = static_cast<int>(std::min<int64_t>(room, ((g.k + blocks - 1) / blocks + 7) / 8 * 8));
    wait = g.waits && g.accumulates && g.k > depth;
    const int64_t cols = panels * kPanel;
    const int64_t tiles =
        std::max<int64_t>(16, Blocks::kLeftBytes / static_cast<int>(sizeof(C)) / kRows / std::max(8, depth));
    strips = (keep ? Blocks::kSumRows / kRows : tiles) * kRows;
    wide = cols;
    if (wait) {
      // As usual, if the buffer holds the sums of two blocks of columns; in strips of the same size. A strip is read
      // once for all the columns whose sums are kept: the more, the less often it comes from far away.
      keep = true;
      const int64_t room_of_sums = Blocks::kBuffer + Blocks::kWaiting - packed(g);
      const int64_t most = std::max<int64_t>(1, std::min(tiles, room_of_sums / (2 * cols * kRows)));
      const int64_t all = (rows + kRows - 1) / kRows, turns = std::max<int64_t>(1, (all + most - 1) / most);
      strips = (all + turns - 1) / turns * kRows;
      wide = std::max<int64_t>(1, room_of_sums / (strips * cols)) * cols;
    }
    // A right matrix in place pays as long as few strips read it.
    in_place = g.b != nullptr && rows <= 2 * kRows;
  }
  /// Elements of the buffer that hold what is packed of both matrices; sums follow.
  int packed(const Gemm<C>& g) const { return depth * (panels * kPanel + (g.a == nullptr ? kRows : 0)); }
  int room_for(const Gemm<C>& g, int sums) const {
    const int room = (Blocks::kBuffer - sums) / (panels * kPanel + (g.a == nullptr ? kRows : 0));
    return std::min(g.most_depth, room / 8 * 8);
  }
};

/// What a tile's sums begin with: the addend of rows [i, i + rows) and columns [j, j + cols), where it lies or, if it
/// has to be repeated, in `tile`.
template <typename C>
void gemm_begin(const Gemm<C>& g, int64_t i, int rows, int64_t j, int cols, C* tile, int64_t tile_row,
                GemmTarget<C>* target) {
  constexpr int kPanel = GemmBlocks<C>::kPanel;
  if (g.addend == nullptr) return;
  if (g.addend_col == 1 && cols == kPanel) {
    target->add = g.addend + i * g.addend_row + j, target->add_row = g.addend_row;
    return;
  }
  for (int r = 0; r < rows; ++r) {
    const C* from = g.addend + (i + r) * g.addend_row + j * g.addend_col;
    C* to = tile + r * tile_row;
    if (g.addend_col == 0) {
      const C same = *from;
      for (int k = 0; k < kPanel; ++k) to[k] = same;
    } else {
      for (int k = 0; k < kPanel; ++k) to[k] = k < cols ? from[k] : C(0);
    }
  }
  target->add = tile, target->add_row = tile_row;
}

/// Rows [i_begin, i_end) of one block of depth and columns. `sums` has room for a tile, or, when the plan keeps sums,
/// for all of them.
template <typename C>
void gemm_block(const Gemm<C>& g, const GemmPlan<C>& plan, int64_t i_begin, int64_t i_end, int64_t p, int64_t j,
                int64_t j_end, C* buffer, C* sums) {
  using Blocks = GemmBlocks<C>;
  constexpr int kRows = Blocks::kRows, kPanel = Blocks::kPanel;
  const int depth = static_cast<int>(std::min<int64_t>(plan.depth, g.k - p));
  const int cols = static_cast<int>(std::min<int64_t>(plan.panels * kPanel, j_end - j));
  C* strip = buffer + plan.panels * kPanel * plan.depth;
  const int keep_row = plan.panels * kPanel;
  for (int c = 0; c < cols; c += kPanel) {
    const int count = std::min(kPanel, cols - c);
    if (!plan.in_place || count < kPanel) g.pack_b(g.context, p, depth, j + c, count, buffer + c * plan.depth);
  }
  const bool first = p == 0, last = p + depth >= g.k;
  for (int64_t i = i_begin; i < i_end; i += kRows) {
    const int rows = static_cast<int>(std::min<int64_t>(kRows, i_end - i));
    GemmLeft<C> a = {strip, depth, 1, nullptr};
    if (g.a != nullptr) {
      a = {g.a + i * g.a_row + p * g.a_col, g.a_row, g.a_col, nullptr};
      if (i + 2 * kRows <= i_end) a.next = a.at + kRows * g.a_row;
    } else {
      g.pack_a(g.context, i, rows, p, depth, strip);
    }
    for (int c = 0; c < cols; c += kPanel) {
      const int count = std::min(kPanel, cols - c);
      const bool direct = plan.in_place && count == kPanel;
      const C* b = direct ? g.b + p * g.b_row + j + c : buffer + c * plan.depth;
      const int64_t b_row = direct ? g.b_row : kPanel;
      const bool whole = g.out != nullptr && count == kPanel;
      C* tile = plan.keep ? sums + (i - i_begin) * keep_row + c : sums;
      const int64_t tile_row = plan.keep ? keep_row : kPanel;
      if (g.waits && g.accumulates) {
        GemmTarget<C> target = {first ? nullptr : tile, tile_row, tile, tile_row};
        if (first) gemm_begin(g, i, rows, j + c, count, tile, tile_row, &target);
        if (last && whole) {
          target.to = g.out + i * g.out_row + j + c, target.to_row = g.out_row;
          target.then = g.added + i * g.out_row + j + c;
        }
        gemm_panel<C>(a, b, b_row, depth, rows, count, target);
        if (last && !whole) g.store(g.context, tile, static_cast<int>(tile_row), i, rows, j + c, count, false);
      } else if (plan.keep) {
        gemm_panel<C>(a, b, b_row, depth, rows, count, {first ? nullptr : tile, tile_row, tile, tile_row});
      } else if (whole) {
        C* to = g.out + i * g.out_row + j + c;
        GemmTarget<C> target = {first ? nullptr : to, g.out_row, to, g.out_row};
        if (first) gemm_begin(g, i, rows, j + c, count, sums, kPanel, &target);
        gemm_panel<C>(a, b, b_row, depth, rows, count, target);
      } else {
        gemm_panel<C>(a, b, b_row, depth, rows, count, {nullptr, 0, sums, kPanel});
        g.store(g.context, sums, kPanel, i, rows, j + c, count, first);
      }
    }
  }
}

/// The product's rows [i_begin, i_end) and columns [j_begin, j_end), with a buffer of kSize elements.
template <typename C, int kSize>
[[gnu::noinline]] void gemm_blocks(const Gemm<C>& g, const GemmPlan<C>& plan, int64_t i_begin, int64_t i_end,
                                   int64_t j_begin, int64_t j_end) {
  alignas(64) C buffer[kSize];
  const int cols = plan.panels * GemmPlan<C>::kPanel;
  C* sums = buffer + plan.packed(g);
  for (int64_t i = i_begin; i < i_end; i += plan.strips) {
    const int64_t i_stop = std::min(i_end, i + plan.strips);
    if (plan.keep) {
      for (int64_t j = j_begin; j < j_end; j += plan.wide) {
        const int64_t j_stop = std::min(j_end, j + plan.wide);
        for (int64_t p = 0; p < g.k; p += plan.depth) {
          C* kept = sums;
          for (int64_t c = j; c < j_stop; c += cols, kept += plan.strips * cols) {
            gemm_block(g, plan, i, i_stop, p, c, j_stop, buffer, kept);
          }
        }
        if (plan.wait) continue;
        g.store(g.context, sums, cols, i, static_cast<int>(i_stop - i), j,
                static_cast<int>(std::min<int64_t>(cols, j_end - j)), true);
      }
      continue;
    }
    int64_t p = 0;
    do {
      for (int64_t j = j_begin; j < j_end; j += cols) {
        gemm_block(g, plan, i, i_stop, p, j, j_end, buffer, sums);
      }
      p += plan.depth;
    } while (p < g.k);
  }
}

}  // namespace detail

/// The product's rows [i_begin, i_end) and columns [j_begin, j_end).
template <typename C>
void gemm_range(const Gemm<C>& g, int64_t i_begin, int64_t i_end, int64_t j_begin, int64_t j_end) {
  using Blocks = GemmBlocks<C>;
  if (g.m == 1 && g.b != nullptr && g.accumulates && i_begin < i_end) return gemm_row(g, j_begin, j_end);
  const detail::GemmPlan<C> plan(g, i_end - i_begin);
  if constexpr (std::is_floating_point_v<C>) {
    if (plan.wait) {
      return detail::gemm_blocks<C, Blocks::kBuffer + Blocks::kWaiting>(g, plan, i_begin, i_end, j_begin, j_end);
    }
  }
  detail::gemm_blocks<C, Blocks::kBuffer>(g, plan, i_begin, i_end, j_begin, j_end);
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
    ctx.parallel_for((g.n + kStep - 1) / kStep, std::max<int64_t>(work, 4), [&](int64_t begin, int64_t end) {
      gemm_range(g, 0, g.m, begin * kStep, std::min(g.n, end * kStep));
    });
  } else {
    constexpr int64_t kStep = Blocks::kRows;
    const int64_t work = std::max<int64_t>(4, (int64_t{1} << 18) / depth / g.n / kStep);
    ctx.parallel_for((g.m + kStep - 1) / kStep, work, [&](int64_t begin, int64_t end) {
      gemm_range(g, begin * kStep, std::min(g.m, end * kStep), 0, g.n);
    });
  }
}

}  // namespace etir
