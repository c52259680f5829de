// Products of int8 rows with packed weights, block by block, on the stack.
//
// A caller gives the rows as pieces of the depth that lie in memory (a matrix has one, a convolution one for each tap),
// and takes finished int32 sums, which are never in memory as a whole. The variant with VNNI reads pieces where they
// are; where a piece is no multiple of four numbers, and in the other variants, pieces are copied to the stack first.
// The variant is that of the processor: AMX for enough rows, VNNI or AVX2, which prepares panels for enough rows
// (prepared_avx2.h); i8mm, dot products or NEON (product_arm.h); MVE, or portable C++.
#pragma once

#include "kernels/integer/image_amx.h"
#include "kernels/integer/operands.h"
#include "kernels/integer/prepared_avx2.h"
#include "kernels/integer/product_amx.h"
#include "kernels/integer/product_arm.h"
#include "kernels/integer/tile_avx2.h"
#include "kernels/integer/tile_mve.h"
#include "kernels/kernel.h"

namespace etir::integer {

/// The most numbers of a piece: a run of padding of that length is on the stack.
constexpr int kMostPiece = 256;

namespace detail {

constexpr int kPieces = 48;                            ///< pieces that are looked up at once
constexpr int64_t kCachedBytes = int64_t{192} * 1024;  ///< weights that stay in the cache while rows go by

/// Rows [begin, end), pieces copied first.
template <typename Rows, typename Store>
void multiply_copied(const Rows& source, const Weights& weights, int64_t begin, int64_t end, int64_t panel_begin,
                     int64_t panel_end, bool vnni, const Store& store) {
  constexpr int kRow = kSumPanels * kPanel;
  alignas(64) int8_t copy[kMostRows * kCopied];
  alignas(64) int32_t sums[kMostRows * kRow];
  for (int64_t i = begin; i < end; i += kMostRows) {
    const int rows = static_cast<int>(std::min<int64_t>(kMostRows, end - i));
    for (int64_t j = panel_begin; j < panel_end; j += kSumPanels) {
      const int panels = static_cast<int>(std::min<int64_t>(kSumPanels, panel_end - j));
      std::memset(sums, 0, sizeof(int32_t) * static_cast<size_t>(rows * kRow));
      for (int64_t k = 0; k < weights.depth; k += kCopied) {
        const int64_t count = std::min<int64_t>(kCopied, weights.depth - k);
        const int8_t* w = weights.data + j * weights.panel_bytes() + k / kQuad * kPanelQuad;
        copy_rows<kQuad>(source, i, rows, k, count, copy, kCopied);
        Piece piece = {quads_of(count), {}};
        for (int r = 0; r < rows; ++r) piece.rows[r] = copy + r * kCopied;
        for (int p = 0; p < panels; p += kWidePanels) {
          const Panels some = {w + p * weights.panel_bytes(), weights.panel_bytes(), std::min(kWidePanels, panels - p)};
#if ETIR_INT8_X86 && ETIR_INT8_VNNI
          if (vnni) {
            add_products_vnni(&piece, 1, rows, some, sums + p * kPanel, kRow);
            continue;
          }
#endif
          (void)vnni;
#if ETIR_MVE
          add_products_mve(&piece, 1, rows, some, sums + p * kPanel, kRow);
#else
          add_products(&piece, 1, rows, some, sums + p * kPanel, kRow);
#endif
        }
      }
      const int64_t columns = std::min<int64_t>(panels * kPanel, weights.columns - j * kPanel);
      store(Block{i, j * kPanel, rows, static_cast<int>(columns), sums, kRow});
    }
  }
}

#if ETIR_INT8_X86

constexpr int kOrderedQuads = 8192;  ///< quads of a task's panels whose order is kept, 64 bytes of weights each
constexpr int kOrderedRows = 12;     ///< rows that make it worth to look for an order
static_assert(kCopied / kQuad <= kMostOrdered);

/// The orders of the quads of panels, a list for each panel and for what is copied at once of its depth.
class Orders {
 public:
  /// Looks at the panels [begin, end), unless there is no room: then no quad is taken to fit.
  Orders(const Weights& weights, int64_t rows, int64_t begin, int64_t end)
      : first_(begin), quads_(weights.quads()), chunks_((weights.depth + kCopied - 1) / kCopied) {
    for (int i = 0; i < kMostOrdered; ++i) all_[i] = static_cast<uint8_t>(i);
    if (rows < kOrderedRows || (end - begin) * quads_ > kOrderedQuads) return;
    known_ = true;
    for (int64_t p = begin; p < end; ++p) {
      for (int64_t c = 0; c < chunks_; ++c) {
        const int8_t* w = weights.data + p * weights.panel_bytes() + c * kCopied * kPanel;
        uint8_t* to = list_(p, c);
        fitting_[(p - begin) * chunks_ + c] = static_cast<uint16_t>(order_quads(w, count_of(c), to));
      }
    }
  }
  Order operator()(int64_t panel, int64_t chunk) const {
    if (!known_) return {all_, 0, count_of(chunk)};
    return {order_ + (panel - first_) * quads_ + chunk * (kCopied / kQuad),
            fitting_[(panel - first_) * chunks_ + chunk], count_of(chunk)};
  }
  /// Whether all quads of a chunk fit in all of some panels.
  bool fit(int64_t panel, int64_t panels, int64_t chunk) const {
    for (int64_t p = panel; p < panel + panels; ++p) {
      if ((*this)(p, chunk).fitting < count_of(chunk)) return false;
    }
    return true;
  }

 private:
  int count_of(int64_t chunk) const {
    return static_cast<int>(std::min<int64_t>(kCopied / kQuad, quads_ - chunk * (kCopied / kQuad)));
  }
  uint8_t* list_(int64_t panel, int64_t chunk) {
    return order_ + (panel - first_) * quads_ + chunk * (kCopied / kQuad);
  }

  int64_t first_, quads_, chunks_;
  bool known_ = false;
  uint8_t all_[kMostOrdered];
  uint8_t order_[kOrderedQuads];
  uint16_t fitting_[kOrderedQuads];
};

/// Rows [begin, end) with AVX2, pieces copied first.
template <typename Rows, typename Store>
void multiply_avx2(const Rows& source, const Weights& weights, int64_t begin, int64_t end, int64_t panel_begin,
                   int64_t panel_end, const Store& store) {
  const Orders orders(weights, end - begin, panel_begin, panel_end);
  alignas(64) uint8_t copy[kRowsAvx2 * kCopied];
  alignas(64) int16_t wide[kRowsAvx2 * kCopied];
  alignas(64) int32_t sums[kRowsAvx2 * kSumPanels * kPanel];
  for (int64_t i = begin; i < end; i += kRowsAvx2) {
    const int rows = static_cast<int>(std::min<int64_t>(kRowsAvx2, end - i));
    for (int64_t j = panel_begin; j < panel_end; j += kSumPanels) {
      const int panels = static_cast<int>(std::min<int64_t>(kSumPanels, panel_end - j));
      const int row = panels * kPanel;
      if (weights.depth == 0) std::memset(sums, 0, sizeof(sums));
      for (int64_t k = 0, chunk = 0; k < weights.depth; k += kCopied, ++chunk) {
        const int64_t count = std::min<int64_t>(kCopied, weights.depth - k), padded = quads_of(count) * kQuad;
        copy_rows<kQuad>(source, i, rows, k, count, copy, kCopied);
        if (!orders.fit(j, panels, chunk)) {
          for (int r = 0; r < rows; ++r) {
            for (int64_t n = 0; n < padded; ++n) wide[r * kCopied + n] = copy[r * kCopied + n];
          }
        }
        const int8_t* w = weights.data + j * weights.panel_bytes() + k / kQuad * kPanelQuad;
        for (int p = 0; p < panels; ++p, w += weights.panel_bytes()) {
          add_products_avx2({copy, wide, kCopied}, rows, orders(j + p, chunk), w, sums + p * kPanel, row, k == 0);
        }
      }
      const int64_t columns = std::min<int64_t>(panels * kPanel, weights.columns - j * kPanel);
      store(Block{i, j * kPanel, rows, static_cast<int>(columns), sums, row});
    }
  }
}
#endif

#if ETIR_INT8_X86 && ETIR_INT8_VNNI
/// Rows [begin, end), pieces where they are.
template <typename Rows, typename Store>
void multiply_in_place(const Rows& source, const Weights& weights, int64_t begin, int64_t end, int64_t panel_begin,
                       int64_t panel_end, const Store& store) {
  constexpr int kRow = kWidePanels * kPanel;
  alignas(64) int32_t sums[kMostRows * kRow];
  Piece pieces[kPieces];
  const int64_t length = source.piece(), count = source.pieces();
  for (int64_t i = begin; i < end; i += kMostRows) {
    const int rows = static_cast<int>(std::min<int64_t>(kMostRows, end - i));
    const bool all = count <= kPieces;
    const auto look_up = [&](int64_t first, int64_t last) {
      for (int64_t s = first; s < last; ++s) pieces[s - first].quads = length / kQuad;
      source.locate(i, rows, first, last, pieces);
    };
    if (all) look_up(0, count);
    for (int64_t j = panel_begin; j < panel_end; j += kWidePanels) {
      const int panels = static_cast<int>(std::min<int64_t>(kWidePanels, panel_end - j));
      std::memset(sums, 0, sizeof(int32_t) * static_cast<size_t>(rows * kRow));
      const int8_t* w = weights.data + j * weights.panel_bytes();
      for (int64_t s = 0; s < count; s += kPieces) {
        const int64_t last = std::min<int64_t>(count, s + kPieces);
        if (!all) look_up(s, last);
        add_products_vnni(pieces, static_cast<int>(last - s), rows, {w, weights.panel_bytes(), panels}, sums, kRow);
        w += (last - s) * (length / kQuad) * kPanelQuad;
      }
      const int64_t columns = std::min<int64_t>(panels * kPanel, weights.columns - j * kPanel);
      store(Block{i, j * kPanel, rows, static_cast<int>(columns), sums, kRow});
    }
  }
}
#endif

}  // namespace detail

/// Calls `store(block)` with the sums of each Block of the product.
///
/// `Rows` has `rows()`, the length `piece()` of a piece and their number `pieces()`, whose product is the depth,
/// `locate(row, some, first, last, pieces)`, which says where pieces [first, last) of some rows are, and
/// `copy(row, some, k, count, to, to_row)`, which copies numbers [k, k + count) of their depth with copy_numbers(),
/// `widen(row, some, k, count, to, to_row)`, which does the same with detail::widen_numbers or, where they do not lie
/// side by side, nothing and says so, and `multiply_image(ctx, weights, store)`, which is detail::multiply_image of
/// what they are patches of.
template <typename Rows, typename Store>
void multiply(KernelContext& ctx, const Rows& source, const Weights& weights, const Store& store) {
  const int64_t rows = source.rows(), panels = weights.panels();
  if (rows <= 0 || panels <= 0) return;
#if ETIR_INT8_X86 && ETIR_INT8_VNNI
  const bool vnni = has_vnni();
#else
  const bool vnni = false;
#endif
  bool amx = false;
  int64_t cached = detail::kCachedBytes, unit = 12;
#if ETIR_INT8_AMX
  if (rows >= detail::kLeastRowsAmx && weights.depth > 0 && has_amx()) {
    if (source.multiply_image(ctx, weights, store)) return;
    amx = true, cached = detail::kCachedBytesAmx, unit = kRowsAmx;
  }
#endif
  (void)amx, (void)vnni;
#if ETIR_INT8_X86
  if (!vnni && multiply_prepared(ctx, source, weights, store)) return;
#endif
#if ETIR_NEON
  const ArmBytes bytes = arm_bytes();
  unit = detail::kUnitArm;
#endif
  // Weights that stay in the cache, times rows that make a task long enough.
  const int64_t most = cached / std::max<int64_t>(1, weights.panel_bytes());
  const int64_t whole = most >= detail::kSumPanels ? detail::kSumPanels : kWidePanels;
  const int64_t group = std::max<int64_t>(kWidePanels, most / whole * whole);
  const int64_t groups = (panels + group - 1) / group;
  const int64_t strips = ctx.parallel.run == nullptr ? 1 : std::min<int64_t>(64, (rows + 2 * unit - 1) / (2 * unit));
  const int64_t strip = ((rows + strips - 1) / strips + unit - 1) / unit * unit;
  ctx.parallel_for(groups * strips, 1, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t begin = task % strips * strip, end = std::min(rows, begin + strip);
      const int64_t panel = task / strips * group, panel_end = std::min(panels, panel + group);
#if ETIR_INT8_AMX
      if (amx) {
        detail::multiply_amx(source, weights, begin, end, panel, panel_end, store);
        continue;
      }
#endif
#if ETIR_INT8_X86 && ETIR_INT8_VNNI
      if (vnni && source.piece() % kQuad == 0) {
        detail::multiply_in_place(source, weights, begin, end, panel, panel_end, store);
        continue;
      }
#endif
#if ETIR_INT8_X86
      if (!vnni) {
        detail::multiply_avx2(source, weights, begin, end, panel, panel_end, store);
        continue;
      }
#endif
#if ETIR_NEON
      detail::multiply_arm(bytes, source, weights, begin, end, panel, panel_end, store);
#else
      detail::multiply_copied(source, weights, begin, end, panel, panel_end, vnni, store);
#endif
    }
  });
}

/// Rows of a matrix that lies in memory.
struct MatrixRows {
  const int8_t* data;
  int64_t count, depth;
  int64_t rows() const { return count; }
  int64_t piece() const { return depth; }
  int64_t pieces() const { return depth > 0 ? 1 : 0; }
  void locate(int64_t row, int some, int64_t, int64_t, Piece* pieces) const {
    for (int r = 0; r < some; ++r) pieces[0].rows[r] = data + (row + r) * depth;
  }
  template <typename T>
  void copy(int64_t row, int some, int64_t k, int64_t length, T* to, int to_row) const {
    for (int r = 0; r < some; ++r) {
      const int8_t* const from = data + (row + r) * depth + k;
      prefetch(from + some * depth, length);
      detail::copy_numbers(from, length, to + r * to_row);
    }
  }
#if ETIR_INT8_X86
  bool widen(int64_t row, int some, int64_t k, int64_t length, int16_t* to, int to_row) const {
    for (int r = 0; r < some; ++r) {
      const int8_t* const from = data + (row + r) * depth + k;
      prefetch(from + some * depth, length);
      detail::widen_numbers(from, length, to + r * to_row);
    }
    return true;
  }
#endif
  /// Rows that come next, from other caches.
  static void prefetch(const int8_t* from, int64_t length) {
    for (int64_t i = 0; i < length; i += 64) __builtin_prefetch(from + i);
  }
#if ETIR_INT8_AMX
  template <typename Store>
  bool multiply_image(KernelContext& ctx, const Weights& weights, const Store& store) const {
    const Window window = {1, depth, {count, 1}, {count, 1}, {1, 1}, {1, 1}, {0, 0}, {1, 1}};
    return detail::multiply_image(ctx, window, data, depth, 0, weights, store);
  }
#endif
};

}  // namespace etir::integer
