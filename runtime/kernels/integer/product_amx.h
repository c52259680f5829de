// Products of int8 rows with packed weights with AMX, block by block, on the stack.
#pragma once

#include "kernels/integer/operands.h"
#include "kernels/integer/tile_amx.h"

#if ETIR_INT8_AMX

namespace etir::integer::detail {

constexpr int kLeastRowsAmx = 8;                       ///< rows that a register is worth it for
constexpr int kCopiedAmx = 768;                        ///< numbers of a row that are copied at once
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

/// What is multiplied at once: a part of the depth of a block of rows, with some panels.
struct PartAmx {
  int64_t row, panel, k;
};

/// Rows [begin, end), copied first. The sums of two panels are finished one after the other if all of the depth is
/// copied at once; those of more panels are kept between the parts of the depth otherwise.
///
/// Instructions wait for numbers that were written a moment ago, and for the multiplier. So the next part is copied
/// before one is multiplied, and sums are taken when the products after them are under way.
template <typename Rows, typename Store>
void multiply_amx(const Rows& source, const Weights& weights, int64_t begin, int64_t end, int64_t panel_begin,
                  int64_t panel_end, const Store& store) {
  constexpr int kPair = kPanelsAmx * kPanel;
  alignas(64) TileByte copies[2][kRowsAmx * kStrideAmx];
  alignas(64) int32_t sums[kRowsAmx * kSumPanelsAmx * kPanel];
  alignas(64) int8_t last[kTileWeights];
  const TileRegisters registers;
  const int64_t depth = weights.depth;
  const bool at_once = depth <= kCopiedAmx;
  const int64_t together = at_once ? panel_end - panel_begin : kSumPanelsAmx;
  const auto rows_of = [&](const PartAmx& part) {
    return static_cast<int>(std::min<int64_t>(kRowsAmx, end - part.row));
  };
  const auto count_of = [&](const PartAmx& part) { return std::min<int64_t>(kCopiedAmx, depth - part.k); };
  const auto advance = [&](PartAmx& part) {
    if ((part.k += kCopiedAmx) < depth) return true;
    part.k = 0;
    if ((part.panel += together) < panel_end) return true;
    part.panel = panel_begin;
    return (part.row += kRowsAmx) < end;
  };
  const auto copy = [&](const PartAmx& part, TileByte* to) {
    copy_rows<kTileBytes>(source, part.row, rows_of(part), part.k, count_of(part), to, kStrideAmx);
  };
  Block finished = {};
  const auto finish = [&] {
    if (finished.rows > 0) store(finished);
    finished.rows = 0;
  };
  PartAmx part = {begin, panel_begin, 0}, next = part;
  copy(part, copies[0]);
  bool more = true;
  for (int turn = 0, side = 0; more; turn ^= 1, part = next) {
    if ((more = advance(next))) copy(next, copies[turn ^ 1]);
    const int rows = rows_of(part);
    const int64_t count = count_of(part), stop = std::min(panel_end, part.panel + together);
    const int row = at_once ? kPair : static_cast<int>(stop - part.panel) * kPanel;
    const PanelParts parts(weights, part.k / kQuad, quads_of(count), last);
    for (int64_t p = part.panel; p < stop; p += kPanelsAmx, side ^= 1) {
      const int panels = static_cast<int>(std::min<int64_t>(kPanelsAmx, stop - p));
      const TilePanel both[kPanelsAmx] = {parts(p), parts(p + panels - 1)};
      int32_t* to = sums + (at_once ? side * kRowsAmx * kPair : (p - part.panel) * kPanel);
      const auto* bytes = reinterpret_cast<const uint8_t*>(copies[turn]);
      add_products_amx(bytes, kStrideAmx, rows, both, panels, parts.steps(), part.k == 0, to, row);
      if (part.k + count < depth) continue;
      finish();
      const int64_t columns = std::min<int64_t>(panels * kPanel, weights.columns - p * kPanel);
      finished = {part.row, p * kPanel, rows, static_cast<int>(columns), to, row};
    }
    if (!at_once) finish();
  }
  finish();
}

}  // namespace etir::integer::detail

#endif
