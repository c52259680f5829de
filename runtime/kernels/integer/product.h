// Products of int8 rows with packed weights, block by block, on the stack.
//
// A caller gives the rows as pieces of the depth that lie in memory (a matrix has one, a convolution one for each tap),
// and takes finished int32 sums, which are never in memory as a whole. The variant with VNNI reads pieces where they
// are; where a piece is no multiple of four numbers, and in the other variants, pieces are copied to the stack first.
#pragma once

#include "kernels/integer/tile.h"
#include "kernels/kernel.h"

namespace etir::integer {

/// Packed weights of one product: `panels` panels, of `quads` fours of the depth each.
struct Weights {
  const int8_t* data;
  int64_t columns, depth;
  int64_t quads() const { return quads_of(depth); }
  int64_t panels() const { return panels_of(columns); }
  int64_t panel_bytes() const { return quads() * kPanelQuad; }
};

/// The most numbers of a piece: a run of padding of that length is on the stack.
constexpr int kMostPiece = 256;

namespace detail {

constexpr int kPieces = 48;                             ///< pieces that are looked up at once
constexpr int kCopied = ETIR_SMALL_STACK ? 256 : 1024;  ///< numbers of a row that are copied at once
constexpr int kSumPanels = ETIR_SMALL_STACK ? 4 : 16;   ///< panels whose sums are kept
constexpr int64_t kCachedBytes = int64_t{192} * 1024;   ///< weights that stay in the cache while rows go by

/// Copies numbers as they are, or as x + 128 in 16 bits.
template <typename T>
inline void copy_numbers(const int8_t* from, int64_t count, T* to) {
  if constexpr (sizeof(T) == 1) {
    // Runs are short as a rule: eights, the last of which may overlap the one before.
    if (count < 8) {
      for (int64_t i = 0; i < count; ++i) to[i] = from[i];
      return;
    }
    for (int64_t i = 0; i < count - 8; i += 8) std::memcpy(to + i, from + i, 8);
    std::memcpy(to + count - 8, from + count - 8, 8);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i] + 128);
  }
}

/// Copies numbers [k, k + count) of the depth of `rows` rows; what comes after, up to whole fours, is 0.
template <typename Rows, typename T>
inline void copy_rows(const Rows& source, int64_t row, int rows, int64_t k, int64_t count, T* to, int to_row) {
  source.copy(row, rows, k, count, to, to_row);
  for (int r = 0; r < rows; ++r, to += to_row) {
    for (int64_t i = count; i < quads_of(count) * kQuad; ++i) to[i] = T(0);
  }
}

/// Rows [begin, end), pieces copied first.
template <typename Rows, typename Store>
void multiply_copied(const Rows& source, const Weights& weights, int64_t begin, int64_t end, int64_t panel_begin,
                     int64_t panel_end, bool vnni, const Store& store) {
  using Copied = std::conditional_t<ETIR_INT8_X86 != 0, int16_t, int8_t>;
  constexpr int kRow = kSumPanels * kPanel;
  // As int8, twice as many rows as in 16 bits.
  constexpr int kCopiedRows = kMostRows / static_cast<int>(sizeof(Copied));
  const int step = vnni ? kMostRows : kCopiedRows;
  alignas(64) Copied copy[kCopiedRows * kCopied];
  alignas(64) int32_t sums[kMostRows * kRow];
  for (int64_t i = begin; i < end; i += step) {
    const int rows = static_cast<int>(std::min<int64_t>(step, end - i));
    for (int64_t j = panel_begin; j < panel_end; j += kSumPanels) {
      const int panels = static_cast<int>(std::min<int64_t>(kSumPanels, panel_end - j));
      std::memset(sums, 0, sizeof(int32_t) * static_cast<size_t>(rows * kRow));
      for (int64_t k = 0; k < weights.depth; k += kCopied) {
        const int64_t count = std::min<int64_t>(kCopied, weights.depth - k), quads = quads_of(count);
        const int8_t* w = weights.data + j * weights.panel_bytes() + k / kQuad * kPanelQuad;
        const auto narrow = [&](const auto& add) {
          int8_t* numbers = reinterpret_cast<int8_t*>(copy);
          copy_rows(source, i, rows, k, count, numbers, kCopied);
          Piece piece = {quads, {}};
          for (int r = 0; r < rows; ++r) piece.rows[r] = numbers + r * kCopied;
          for (int p = 0; p < panels; p += kWidePanels) {
            const Panels some = {w + p * weights.panel_bytes(), weights.panel_bytes(),
                                 std::min(kWidePanels, panels - p)};
            add(&piece, 1, rows, some, sums + p * kPanel, kRow);
          }
        };
#if ETIR_INT8_X86
#if ETIR_INT8_VNNI
        if (vnni) {
          narrow([](const Piece* p, int n, int r, const Panels& some, int32_t* to, int row) {
            add_products_vnni(p, n, r, some, to, row);
          });
          continue;
        }
#endif
        copy_rows(source, i, rows, k, count, copy, kCopied);
        for (int p = 0; p < panels; ++p, w += weights.panel_bytes()) {
          int32_t* to = sums + p * kPanel;
          if (rows == 3) {
            add_products_avx2<3>(copy, kCopied, quads, w, to, kRow);
          } else if (rows == 2) {
            add_products_avx2<2>(copy, kCopied, quads, w, to, kRow);
          } else {
            add_products_avx2<1>(copy, kCopied, quads, w, to, kRow);
          }
        }
        (void)narrow;
#else
        narrow([](const Piece* p, int n, int r, const Panels& some, int32_t* to, int row) {
          add_products(p, n, r, some, to, row);
        });
#endif
      }
      const int64_t columns = std::min<int64_t>(panels * kPanel, weights.columns - j * kPanel);
      for (int r = 0; r < rows; ++r) store(i + r, j * kPanel, static_cast<int>(columns), sums + r * kRow);
    }
  }
}

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
      for (int r = 0; r < rows; ++r) store(i + r, j * kPanel, static_cast<int>(columns), sums + r * kRow);
    }
  }
}
#endif

}  // namespace detail

/// Calls `store(row, column, count, sums)` with the sums of `count` columns from `column` on, for all rows.
///
/// `Rows` has `rows()`, the length `piece()` of a piece and their number `pieces()`, whose product is the depth,
/// `locate(row, some, first, last, pieces)`, which says where pieces [first, last) of some rows are, and
/// `copy(row, some, k, count, to, to_row)`, which copies numbers [k, k + count) of their depth with copy_numbers().
template <typename Rows, typename Store>
void multiply(KernelContext& ctx, const Rows& source, const Weights& weights, const Store& store) {
  const int64_t rows = source.rows(), panels = weights.panels();
  if (rows <= 0 || panels <= 0) return;
#if ETIR_INT8_X86 && ETIR_INT8_VNNI
  const bool vnni = has_vnni();
#else
  const bool vnni = false;
#endif
  // Weights that stay in the cache, times rows that make a task long enough.
  const int64_t group =
      std::max<int64_t>(kWidePanels, detail::kCachedBytes / std::max<int64_t>(1, weights.panel_bytes()) /
                                         detail::kSumPanels * detail::kSumPanels);
  const int64_t groups = (panels + group - 1) / group;
  const int64_t strips = ctx.parallel.run == nullptr ? 1 : std::min<int64_t>(64, (rows + 23) / 24);
  const int64_t strip = ((rows + strips - 1) / strips + 11) / 12 * 12;
  ctx.parallel_for(groups * strips, 1, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t begin = task % strips * strip, end = std::min(rows, begin + strip);
      const int64_t panel = task / strips * group, panel_end = std::min(panels, panel + group);
#if ETIR_INT8_X86 && ETIR_INT8_VNNI
      if (vnni && source.piece() % kQuad == 0) {
        detail::multiply_in_place(source, weights, begin, end, panel, panel_end, store);
        continue;
      }
#endif
      detail::multiply_copied(source, weights, begin, end, panel, panel_end, vnni, store);
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
    for (int r = 0; r < some; ++r) detail::copy_numbers(data + (row + r) * depth + k, length, to + r * to_row);
  }
};

}  // namespace etir::integer
