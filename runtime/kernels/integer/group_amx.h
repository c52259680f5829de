// Groupwise products of many rows with AMX: the sums of group_tile.h, and the same bits.
//
// A group is as deep as half a register or more, so that its sum is one or more products of registers: sixteen rows
// times sixteen columns, an exact int32 each. What ends a group is floating point as everywhere, and takes most of the
// time: sums go through memory to vectors, those of two groups while the two after them are multiplied.
//
// Weights become bytes with their zero taken off, sixteen rows of a panel and some groups at a time, which all rows of
// a strip are multiplied by. Left numbers lie in rows, a cache line more than their depth apart: rows of a depth that
// is a power of two would compete for the same places in the cache.
#pragma once

#include "kernels/integer/group_tile.h"
#include "kernels/integer/tile_amx.h"

#if ETIR_INT8_AMX

namespace etir::integer {

constexpr int kStripRowsAmx = 128;  ///< rows whose sums are kept while the groups of a panel go by
constexpr int kUnpackedAmx = 1024;  ///< numbers of a row of a panel that are bytes at once
constexpr int kTileSums = kTileRows * kPanel;

/// Rows in whole registers.
inline int64_t whole_registers_amx(int64_t rows) { return (rows + kTileRows - 1) / kTileRows * kTileRows; }
/// Whether rows leave so little of their registers empty that VNNI takes longer for them: it has tiles of eight.
inline bool fills_registers_amx(int64_t rows) { return rows >= kTileRows && whole_registers_amx(rows) * 3 <= rows * 4; }

/// Rows of one register, and what is needed of their groups: arrays of [row][group], from the same group on.
struct GroupTileAmx {
  const int8_t* numbers;
  int64_t stride;       ///< bytes from one row to the next
  const float* sums;    ///< as in GroupRows
  const float* scales;  ///< as in GroupRows
  int64_t groups;       ///< of a row
};

/// Some groups of a panel as bytes, each `steps` registers of `depth` numbers a row.
struct GroupBlockAmx {
  const int8_t* weights;
  const float* scales;    ///< [group][16]
  const float* minimums;  ///< null: none
  int64_t groups;
  int steps, depth;
};

/// The bytes of `chunks` chunks of a panel: [four of the depth][16][4], less the zero where there are no minimums.
/// Numbers of 8 bits with minimums stay unsigned.
template <int kBits>
ETIR_AMX inline void unpack_amx(const uint8_t* from, int64_t chunks, bool minimums, int8_t* to) {
  constexpr int kLoad = kPanel * kQuad;
  const __m512i low = _mm512_set1_epi8(15);
  const __m512i zero = _mm512_set1_epi8(static_cast<char>(minimums ? 0 : groups::kZero<kBits>));
  for (int64_t i = 0; i < chunks * groups::kChunkBytes<kBits>; i += kLoad) {
    const __m512i raw = _mm512_loadu_si512(from + i);
    if constexpr (kBits == 4) {
      _mm512_storeu_si512(to + 2 * i, _mm512_sub_epi8(_mm512_and_si512(raw, low), zero));
      const __m512i upper = _mm512_and_si512(_mm512_srli_epi16(raw, 4), low);
      _mm512_storeu_si512(to + 2 * i + kLoad, _mm512_sub_epi8(upper, zero));
    } else {
      _mm512_storeu_si512(to + i, _mm512_sub_epi8(raw, zero));
    }
  }
}

namespace detail {

/// A register of sums (0 or 1), with rows in register 4 + kTile and weights in 6 + kTile.
template <int kTile, bool kUnsigned>
ETIR_AMX inline void add_step_amx(const int8_t* x, int64_t stride, const int8_t* weights) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(x), "r"(stride), "i"(4 + kTile) : "memory");
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(weights), "r"(int64_t{kTileBytes}), "i"(6 + kTile) : "memory");
  if constexpr (kUnsigned) {
    asm volatile("tdpbsud %%tmm%c0, %%tmm%c1, %%tmm%c2" ::"i"(6 + kTile), "i"(4 + kTile), "i"(kTile));
  } else {
    asm volatile("tdpbssd %%tmm%c0, %%tmm%c1, %%tmm%c2" ::"i"(6 + kTile), "i"(4 + kTile), "i"(kTile));
  }
}

/// The sums of a run of `steps` registers of the depth, to `sums`; added to what is there unless they begin.
template <int kTile, bool kUnsigned>
ETIR_AMX inline void multiply_group_amx(const int8_t* x, int64_t stride, const int8_t* weights, int steps, int depth,
                                        bool begin, int32_t* sums) {
  const int64_t row_bytes = kPanel * static_cast<int64_t>(sizeof(int32_t));
  if (begin) {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  } else {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(sums), "r"(row_bytes), "i"(kTile) : "memory");
  }
  for (int s = 0; s < steps; ++s, x += depth, weights += depth * kPanel) {
    add_step_amx<kTile, kUnsigned>(x, stride, weights);
  }
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(sums), "r"(row_bytes), "i"(kTile) : "memory");
}

/// detail::end_group of sixteen rows on registers.
template <bool kMinimums, bool kScaled>
ETIR_AMX inline void end_group_amx(const GroupTileAmx& x, const GroupBlockAmx& w, int64_t group, const int32_t* sums,
                                   __m512 (&totals)[kTileRows]) {
  const __m512 scales = _mm512_loadu_ps(w.scales + group * kPanel);
  const __m512 minimums = kMinimums ? _mm512_loadu_ps(w.minimums + group * kPanel) : scales;
  ETIR_UNROLL
  for (int r = 0; r < kTileRows; ++r) {
    const __m512 sum = _mm512_maskz_cvtepi32_ps(0xffff, _mm512_load_si512(sums + r * kPanel));
    __m512 scale = scales;
    if constexpr (kScaled) scale = _mm512_mul_ps(scale, _mm512_set1_ps(x.scales[r * x.groups + group]));
    totals[r] = _mm512_add_ps(totals[r], _mm512_mul_ps(scale, sum));
    if constexpr (kMinimums) {
      totals[r] = _mm512_add_ps(totals[r], _mm512_mul_ps(minimums, _mm512_set1_ps(x.sums[r * x.groups + group])));
    }
  }
}

template <bool kMinimums, bool kScaled, bool kUnsigned>
ETIR_AMX void add_groups_amx(const GroupTileAmx& x, const GroupBlockAmx& w, const int32_t* known, float* acc) {
  alignas(64) int32_t sums[2][2][kTileSums];
  __m512 totals[kTileRows];
  ETIR_UNROLL
  for (int r = 0; r < kTileRows; ++r) totals[r] = _mm512_loadu_ps(acc + r * kPanel);
  if (known != nullptr) {
    end_group_amx<kMinimums, kScaled>(x, w, 0, known, totals);
  } else {
    const int64_t length = int64_t{w.steps} * w.depth;
    const int8_t *numbers = x.numbers, *weights = w.weights;
    for (int64_t g = 0; g < w.groups + 2; g += 2) {
      int32_t(&now)[2][kTileSums] = sums[g / 2 % 2], (&before)[2][kTileSums] = sums[g / 2 % 2 ^ 1];
      if (g < w.groups) multiply_group_amx<0, kUnsigned>(numbers, x.stride, weights, w.steps, w.depth, true, now[0]);
      numbers += length, weights += length * kPanel;
      if (g + 1 < w.groups) {
        multiply_group_amx<1, kUnsigned>(numbers, x.stride, weights, w.steps, w.depth, true, now[1]);
      }
      numbers += length, weights += length * kPanel;
      if (g >= 2) end_group_amx<kMinimums, kScaled>(x, w, g - 2, before[0], totals);
      if (g >= 2 && g - 1 < w.groups) end_group_amx<kMinimums, kScaled>(x, w, g - 1, before[1], totals);
    }
  }
  ETIR_UNROLL
  for (int r = 0; r < kTileRows; ++r) _mm512_storeu_ps(acc + r * kPanel, totals[r]);
}

}  // namespace detail

/// acc[16 rows][16] += the products of the groups of a block, or of its one group whose sums are `known`, if they are.
template <int kBits>
ETIR_AMX void add_groups_amx(const GroupTileAmx& x, const GroupBlockAmx& w, const int32_t* known, float* acc) {
  const bool scaled = x.scales != nullptr;
  if (w.minimums != nullptr) {
    scaled ? detail::add_groups_amx<true, true, kBits == 8>(x, w, known, acc)
           : detail::add_groups_amx<true, false, kBits == 8>(x, w, known, acc);
  } else {
    scaled ? detail::add_groups_amx<false, true, false>(x, w, known, acc)
           : detail::add_groups_amx<false, false, false>(x, w, known, acc);
  }
}

/// sums[16 rows][16] (+)= the products of a piece of one group, which is longer than what is unpacked at once.
template <int kBits>
ETIR_AMX void add_piece_amx(const GroupTileAmx& x, const GroupBlockAmx& w, bool begin, int32_t* sums) {
  if (kBits == 8 && w.minimums != nullptr) {
    detail::multiply_group_amx<0, true>(x.numbers, x.stride, w.weights, w.steps, w.depth, begin, sums);
  } else {
    detail::multiply_group_amx<0, false>(x.numbers, x.stride, w.weights, w.steps, w.depth, begin, sums);
  }
}

/// Numbers of a row that a register has: all of 64 where groups are a multiple of that.
inline int tile_depth_amx(int64_t group) { return group % kTileBytes == 0 ? kTileBytes : groups::kChunk; }

/// acc[row][16] = the products of rows, in whole registers, and of panel `index`. `acc` and, where a group is longer
/// than kUnpackedAmx, `sums` have room for the rows. The registers have to be those of tile_depth_amx().
template <int kBits>
void multiply_panel_amx(const GroupTileAmx& rows, int64_t count, const groups::Weights& weights, int64_t index,
                        int32_t* sums, float* acc) {
  constexpr int kMostGroups = kUnpackedAmx / groups::kChunk;
  alignas(64) int8_t bytes[kUnpackedAmx * kPanel];
  float scales[kMostGroups * kPanel], minimums[kMostGroups * kPanel];
  const int64_t group = weights.group(), length = std::min<int64_t>(group, kUnpackedAmx);
  const int64_t most = std::max<int64_t>(1, kUnpackedAmx / group);
  const bool low = weights.minimums != nullptr;
  const int depth = tile_depth_amx(group);
  std::fill(acc, acc + count * kPanel, 0.0f);
  for (int64_t g = 0; g < weights.groups; g += most) {
    const int64_t some = std::min(most, weights.groups - g), at = (index * weights.groups + g) * kPanel;
    groups::read_factors(*weights.scales, at, static_cast<int>(some * kPanel), scales);
    if (low) groups::read_factors(*weights.minimums, at, static_cast<int>(some * kPanel), minimums);
    // A group that is too long goes by in pieces.
    for (int64_t k = 0; k < group; k += length) {
      const int64_t piece = std::min(length, group - k);
      const uint8_t* from = weights.panel<kBits>(index) + (g * group + k) / groups::kChunk * groups::kChunkBytes<kBits>;
      unpack_amx<kBits>(from, some * piece / groups::kChunk, low, bytes);
      const GroupBlockAmx block = {bytes, scales, low ? minimums : nullptr, some, static_cast<int>(piece / depth),
                                   depth};
      for (int64_t r = 0; r < count; r += kTileRows) {
        GroupTileAmx x = rows;
        x.numbers += r * x.stride + g * group + k;
        if (x.sums != nullptr) x.sums += r * x.groups + g;
        if (x.scales != nullptr) x.scales += r * x.groups + g;
        if (piece == group) {
          add_groups_amx<kBits>(x, block, nullptr, acc + r * kPanel);
          continue;
        }
        add_piece_amx<kBits>(x, block, k == 0, sums + r * kPanel);
        if (k + piece == group) add_groups_amx<kBits>(x, block, sums + r * kPanel, acc + r * kPanel);
      }
    }
  }
}

}  // namespace etir::integer

#endif
