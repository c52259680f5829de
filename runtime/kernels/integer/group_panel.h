// Groupwise products of integers in portable C++: rows of int8 numbers times a panel of 16 rows of packed weights of 4
// or 8 bits (kernels/util/group_weights.h). What other variants have to give, to the bit.
//
// The sum of a group is an exact int32, that of x * n - zero * x over the unsigned numbers n of the weight. It becomes
// float32, is multiplied by the group's scale and added to the sum of the groups before it: a product and a sum that
// round by themselves, in the order of the groups. That is the whole of the floating point, so that all variants give
// the same bits (group_tile.h, group_tile_arm.h).
//
// Left numbers lie as [four of the depth][row][4], so that those of all rows of a tile are read with one pointer.
#pragma once

#include "kernels/integer/tile.h"
#include "kernels/util/arm.h"
#include "kernels/util/group_weights.h"

namespace etir::integer {

static_assert(groups::kLanes == kPanel && groups::kFour == kQuad);

/// Left rows of a tile, and what is needed of each of their groups: arrays of [group][row].
struct GroupRows {
  const int8_t* numbers;
  const int32_t* offsets;  ///< what the sum of a group begins with: -zero * sum of x, or 0 where there are minimums
  const float* sums;       ///< the sum of x by which a minimum is multiplied, in units of the result; null: no minimums
  const float* scales;     ///< null: a group has no scale of its own
};

/// Groups of a panel: `chunks` times kChunk numbers each.
struct GroupPanel {
  const uint8_t* data;
  const float* scales;    ///< [group][16]
  const float* minimums;  ///< null: none
  int64_t groups, chunks;
};

namespace detail {

/// acc += scale * sum, and the minimum's share: what ends each group of a row.
inline void end_group(const GroupRows& x, const GroupPanel& w, int64_t group, int64_t at, const int32_t* sums,
                      float* acc) {
  const float* scales = w.scales + group * groups::kLanes;
  if (x.scales == nullptr) {
    for (int c = 0; c < groups::kLanes; ++c) acc[c] += scales[c] * static_cast<float>(sums[c]);
  } else {
    const float scale = x.scales[at];
    for (int c = 0; c < groups::kLanes; ++c) acc[c] += scales[c] * scale * static_cast<float>(sums[c]);
  }
  if (w.minimums != nullptr) {
    const float* minimums = w.minimums + group * groups::kLanes;
    const float sum = x.sums[at];
    for (int c = 0; c < groups::kLanes; ++c) acc[c] += minimums[c] * sum;
  }
}

}  // namespace detail

/// Portable: acc[row][16] += the products of the groups.
template <int kBits, int kRows>
void add_groups(GroupRows x, GroupPanel w, float* acc) {
  using namespace groups;
  for (int64_t g = 0; g < w.groups; ++g) {
    int32_t sums[kRows][kPanel];
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kPanel; ++c) sums[r][c] = x.offsets[g * kRows + r];
    }
    for (int64_t chunk = 0; chunk < w.chunks; ++chunk) {
      for (int q = 0; q < kChunk / kQuad; ++q, x.numbers += kRows * kQuad) {
        const uint8_t* from = w.data + (kBits == 4 ? q / 2 : q) * kPanel * kQuad;
        const int shift = kBits == 4 && q % 2 != 0 ? 4 : 0, mask = kBits == 4 ? 15 : 255;
        for (int r = 0; r < kRows; ++r) {
          for (int j = 0; j < kQuad; ++j) {
            const int32_t left = x.numbers[r * kQuad + j];
            for (int c = 0; c < kPanel; ++c) sums[r][c] += left * ((from[c * kQuad + j] >> shift) & mask);
          }
        }
      }
      w.data += kChunkBytes<kBits>;
    }
    for (int r = 0; r < kRows; ++r) detail::end_group(x, w, g, g * kRows + r, sums[r], acc + r * kPanel);
  }
}

}  // namespace etir::integer
