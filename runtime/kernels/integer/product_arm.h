// Products of int8 rows with packed weights on 64-bit Arm, block by block, on the stack: with the tile of the
// processor.
//
// A tile has the numbers of its rows copied side by side, which takes little beside their product with all columns of
// some panels. What it is named is in TileNeon (tile_neon.h).
#pragma once

#include "kernels/integer/operands.h"
#include "kernels/integer/tile_dot.h"
#include "kernels/integer/tile_i8mm.h"
#include "kernels/integer/tile_neon.h"

#if ETIR_NEON

namespace etir::integer::detail {

constexpr int kUnitArm = 16;  ///< rows that those of a task are a multiple of

/// Rows [begin, end), copied first.
template <typename Tile, typename Rows, typename Store>
void multiply_tiles(const Rows& source, const Weights& weights, int64_t begin, int64_t end, int64_t panel_begin,
                    int64_t panel_end, const Store& store) {
  constexpr int kRow = kSumPanels * kPanel, kStride = kCopied;
  alignas(16) typename Tile::Number copy[Tile::kRows * kStride];
  alignas(16) int32_t sums[Tile::kRows * kRow], first[kRow];
  for (int64_t j = panel_begin; j < panel_end; j += kSumPanels) {
    const int panels = static_cast<int>(std::min<int64_t>(kSumPanels, panel_end - j));
    const int8_t* data = weights.data + j * weights.panel_bytes();
    const size_t row_bytes = static_cast<size_t>(panels) * kPanel * sizeof(int32_t);
    std::memset(first, 0, row_bytes);
    if (Tile::kBegins) {
      for (int p = 0; p < panels; ++p) {
        Tile::begin(data + p * weights.panel_bytes(), weights.quads(), first + p * kPanel);
      }
    }
    for (int64_t i = begin; i < end; i += Tile::kRows) {
      const int rows = static_cast<int>(std::min<int64_t>(Tile::kRows, end - i));
      // Tiles add to rows that there are not, too.
      for (int r = 0; r < Tile::kRows; ++r) std::memcpy(sums + r * kRow, first, row_bytes);
      for (int64_t k = 0; k < weights.depth; k += kCopied) {
        const int64_t count = std::min<int64_t>(kCopied, weights.depth - k);
        copy_rows<16>(source, i, rows, k, count, copy, kStride);
        if constexpr (Tile::kArranges) Tile::arrange(copy, kStride, rows, count);
        const int8_t* w = data + k / kQuad * kPanelQuad;
        for (int p = 0; p < panels; ++p, w += weights.panel_bytes()) {
          Tile::add(copy, kStride, rows, quads_of(count), w, sums + p * kPanel, kRow);
        }
      }
      const int64_t columns = std::min<int64_t>(panels * kPanel, weights.columns - j * kPanel);
      store(Block{i, j * kPanel, rows, static_cast<int>(columns), sums, kRow});
    }
  }
}

/// The same with the best tile there is.
template <typename Rows, typename Store>
void multiply_arm(ArmBytes bytes, const Rows& source, const Weights& weights, int64_t begin, int64_t end,
                  int64_t panel_begin, int64_t panel_end, const Store& store) {
  switch (bytes) {
    case ArmBytes::Matrix:
      return multiply_tiles<TileMatrix>(source, weights, begin, end, panel_begin, panel_end, store);
    case ArmBytes::Dot:
      return multiply_tiles<TileDot>(source, weights, begin, end, panel_begin, panel_end, store);
    default:
      return multiply_tiles<TileNeon>(source, weights, begin, end, panel_begin, panel_end, store);
  }
}

}  // namespace etir::integer::detail

#endif
