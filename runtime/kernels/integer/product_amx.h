// Products of int8 rows with packed weights with AMX, block by block, on the stack.
#pragma once

#include "kernels/integer/operands.h"
#include "kernels/integer/tile_amx.h"

#if ETIR_INT8_AMX

namespace etir::integer::detail {

constexpr int kLeastRowsAmx = 8;                       ///< rows that a register is worth it for
constexpr int kCopiedAmx = 1024;                       ///< numbers of a row that are copied at once
constexpr int kStrideAmx = kCopiedAmx + kTileBytes;    ///< so that rows do not compete for places in the cache
constexpr int kSumPanelsAmx = 16;                      ///< panels whose sums are kept between parts of the depth
constexpr int64_t kCachedBytesAmx = int64_t{1} << 20;  ///< weights that stay in the cache while rows go by

/// The part of the panels that belongs to quads [first, first + quads) of the depth. The last tile of the last panel of
/// all is copied to `last`, where it reaches beyond the weights.
class PanelParts {
 public:
  PanelParts(const Weights& weights, int64_t first, int64_t quads, int8_t* last)
      : weights_(weights), first_(first), last_(last), steps_(static_cast<int>((quads + kTileQuads - 1) / kTileQuads)) {
    const int64_t left = quads - (steps_ - 1) * kTileQuads;
    if (left == kTileQuads) return;
    const int8_t* from = data_(weights.panels() - 1) + (steps_ - 1) * kTileWeights;
    std::memcpy(last, from, static_cast<size_t>(left * kPanelQuad));
    std::memset(last + left * kPanelQuad, 0, static_cast<size_t>((kTileQuads - left) * kPanelQuad));
    copied_ = true;
  }
  int steps() const { return steps_; }
  TilePanel operator()(int64_t panel) const {
    const int8_t* data = data_(panel);
    return {data, copied_ && panel + 1 == weights_.panels() ? last_ : data + (steps_ - 1) * kTileWeights};
  }

 private:
  const int8_t* data_(int64_t panel) const {
    return weights_.data + panel * weights_.panel_bytes() + first_ * kPanelQuad;
  }
  const Weights& weights_;
  int64_t first_;
  int8_t* last_;
  int steps_;
  bool copied_ = false;
};

/// Rows [begin, end), copied first. The sums of two panels are finished one after the other if all of the depth is
/// copied at once; those of more panels are kept between the parts of the depth otherwise.
template <typename Rows, typename Store>
void multiply_amx(const Rows& source, const Weights& weights, int64_t begin, int64_t end, int64_t panel_begin,
                  int64_t panel_end, const Store& store) {
  alignas(64) uint8_t copy[kRowsAmx * kStrideAmx];
  alignas(64) int32_t sums[kRowsAmx * kSumPanelsAmx * kPanel];
  alignas(64) int8_t last[kTileWeights];
  const TileRegisters registers;
  const int64_t depth = weights.depth;
  const bool at_once = depth <= kCopiedAmx;
  const int64_t together = at_once ? panel_end - panel_begin : kSumPanelsAmx;
  for (int64_t i = begin; i < end; i += kRowsAmx) {
    const int rows = static_cast<int>(std::min<int64_t>(kRowsAmx, end - i));
    for (int64_t j = panel_begin; j < panel_end; j += together) {
      const int64_t stop = std::min(panel_end, j + together);
      const int row = static_cast<int>(at_once ? kPanelsAmx : stop - j) * kPanel;
      for (int64_t k = 0; k < depth; k += kCopiedAmx) {
        const int64_t count = std::min<int64_t>(kCopiedAmx, depth - k);
        copy_rows(source, i, rows, k, count, kTileBytes, copy, kStrideAmx);
        const PanelParts parts(weights, k / kQuad, quads_of(count), last);
        const bool done = k + count == depth;
        for (int64_t p = j; p < stop; p += kPanelsAmx) {
          const int panels = static_cast<int>(std::min<int64_t>(kPanelsAmx, stop - p));
          const TilePanel both[kPanelsAmx] = {parts(p), parts(p + panels - 1)};
          int32_t* to = at_once ? sums : sums + (p - j) * kPanel;
          add_products_amx(copy, kStrideAmx, rows, both, panels, parts.steps(), k == 0, to, row);
          const int64_t columns = std::min<int64_t>(panels * kPanel, weights.columns - p * kPanel);
          if (done) store(Block{i, p * kPanel, rows, static_cast<int>(columns), to, row});
        }
      }
    }
  }
}

}  // namespace etir::integer::detail

#endif
