// The inner loops of integer products with AMX: as add_products (tile.h), and the same bits.
//
// Panels are what AMX wants: sixteen quads of one, a kilobyte, are a tile register. The left numbers are copied as
// x + 128, rows of whole tiles with zeros at their ends, so that weights beyond the depth count for nothing and the
// last tile of a panel may reach into the next one. Two tiles of rows times two panels are four registers of sums: each
// tile that is loaded is multiplied twice, which is what it takes to keep the multiplier busy.
#pragma once

#include "kernels/integer/tile.h"
#include "kernels/util/amx.h"

// ETIR_INT8_AMX=0 leaves that variant out, so that the one below it can be tested and measured.
#ifndef ETIR_INT8_AMX
#define ETIR_INT8_AMX ETIR_TILES
#endif

#if ETIR_INT8_AMX

namespace etir::integer {

constexpr int kTileQuads = kTileBytes / kQuad;        ///< quads of a panel that are one register
constexpr int kRowsAmx = 2 * kTileRows;               ///< rows that a block has at most
constexpr int kPanelsAmx = 2;                         ///< panels that a block has at most
constexpr int kTileWeights = kTileRows * kTileBytes;  ///< bytes of a register

#define ETIR_AMX __attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

/// Whether the processor has AMX for int8 numbers, and the system lets this process use it.
inline bool has_amx() {
  static const bool has = has_vnni() && ask_for_tiles(TileNumbers::Int8);
  return has;
}

/// One panel of weights: tiles from `data` on, but for the last of them, which may lie elsewhere.
struct TilePanel {
  const int8_t* data;
  const int8_t* last;
};

/// Two tiles of rows, wherever they are, times two panels; the second ones may be null. In each step of the depth, rows
/// are `offset` bytes from where they begin, and the panels' weights `step_bytes` after those of the step before.
struct TileProduct {
  const uint8_t *above, *below;
  const int8_t *left, *right;
  int64_t stride;  ///< bytes from one row to the next
  const int32_t* offsets;
  int steps, step_bytes;
};

namespace detail {

#define ETIR_TILE_MULTIPLY(sum, x, w) asm volatile("tdpbusd %%tmm" #w ", %%tmm" #x ", %%tmm" #sum ::: "memory")

/// Registers 0 to 3 are sums, 4 and 5 rows, 6 and 7 panels.
template <bool kBothRows, bool kBothPanels>
ETIR_AMX inline void add_step_amx(const uint8_t* above, const uint8_t* below, int64_t stride, const int8_t* left,
                                  const int8_t* right) {
  ETIR_TILE_LOAD(6, left, kTileBytes);
  ETIR_TILE_LOAD(4, above, stride);
  ETIR_TILE_MULTIPLY(0, 4, 6);
  if (kBothPanels) {
    ETIR_TILE_LOAD(7, right, kTileBytes);
    ETIR_TILE_MULTIPLY(1, 4, 7);
  }
  if (kBothRows) {
    ETIR_TILE_LOAD(5, below, stride);
    ETIR_TILE_MULTIPLY(2, 5, 6);
    if (kBothPanels) ETIR_TILE_MULTIPLY(3, 5, 7);
  }
}

template <bool kBothRows, bool kBothPanels>
ETIR_AMX inline void clear_sums_amx() {
  ETIR_TILE_ZERO(0);
  if (kBothPanels) ETIR_TILE_ZERO(1);
  if (kBothRows) ETIR_TILE_ZERO(2);
  if (kBothRows && kBothPanels) ETIR_TILE_ZERO(3);
}

template <bool kBothRows, bool kBothPanels>
ETIR_AMX inline void store_sums_amx(int32_t* sums, int row) {
  const int64_t row_bytes = row * static_cast<int64_t>(sizeof(int32_t));
  int32_t* const below = sums + kTileRows * row;
  ETIR_TILE_STORE(0, sums, row_bytes);
  if (kBothPanels) ETIR_TILE_STORE(1, sums + kPanel, row_bytes);
  if (kBothRows) ETIR_TILE_STORE(2, below, row_bytes);
  if (kBothRows && kBothPanels) ETIR_TILE_STORE(3, below + kPanel, row_bytes);
}

template <bool kBothRows, bool kBothPanels>
ETIR_AMX inline void add_products_amx(const uint8_t* x, int64_t stride, const TilePanel* panels, int steps, bool begin,
                                      int32_t* sums, int row) {
  const int64_t row_bytes = row * static_cast<int64_t>(sizeof(int32_t));
  int32_t* const below = sums + kTileRows * row;
  if (begin) {
    clear_sums_amx<kBothRows, kBothPanels>();
  } else {
    ETIR_TILE_LOAD(0, sums, row_bytes);
    if (kBothPanels) ETIR_TILE_LOAD(1, sums + kPanel, row_bytes);
    if (kBothRows) ETIR_TILE_LOAD(2, below, row_bytes);
    if (kBothRows && kBothPanels) ETIR_TILE_LOAD(3, below + kPanel, row_bytes);
  }
  const int8_t *left = panels[0].data, *right = panels[kBothPanels ? 1 : 0].data;
  for (int s = 0; s + 1 < steps; ++s) {
    add_step_amx<kBothRows, kBothPanels>(x, x + kTileRows * stride, stride, left, right);
    x += kTileBytes, left += kTileWeights, right += kTileWeights;
  }
  const int8_t *left_end = panels[0].last, *right_end = panels[kBothPanels ? 1 : 0].last;
  add_step_amx<kBothRows, kBothPanels>(x, x + kTileRows * stride, stride, left_end, right_end);
  store_sums_amx<kBothRows, kBothPanels>(sums, row);
}

template <bool kBothRows, bool kBothPanels>
ETIR_AMX inline void multiply_tiles_amx(const TileProduct& t, int32_t* sums, int row) {
  clear_sums_amx<kBothRows, kBothPanels>();
  const int8_t *left = t.left, *right = t.right;
  for (int s = 0; s < t.steps; ++s, left += t.step_bytes, right += t.step_bytes) {
    add_step_amx<kBothRows, kBothPanels>(t.above + t.offsets[s], t.below + t.offsets[s], t.stride, left, right);
  }
  store_sums_amx<kBothRows, kBothPanels>(sums, row);
}

#undef ETIR_TILE_MULTIPLY

}  // namespace detail

/// sums[r][c] (+)= sum over `steps` tiles of the depth of x * w, for one or two tiles of rows, which are `stride` bytes
/// apart, and one or two panels. Sums begin at zero if `begin`; they have rows of `row` elements.
ETIR_AMX inline void add_products_amx(const uint8_t* x, int64_t stride, int rows, const TilePanel* panels, int count,
                                      int steps, bool begin, int32_t* sums, int row) {
  if (rows > kTileRows) {
    if (count > 1) return detail::add_products_amx<true, true>(x, stride, panels, steps, begin, sums, row);
    return detail::add_products_amx<true, false>(x, stride, panels, steps, begin, sums, row);
  }
  if (count > 1) return detail::add_products_amx<false, true>(x, stride, panels, steps, begin, sums, row);
  return detail::add_products_amx<false, false>(x, stride, panels, steps, begin, sums, row);
}

/// Writes the sums of a product, all of its depth, to rows of `row` elements.
ETIR_AMX inline void multiply_tiles_amx(const TileProduct& product, int32_t* sums, int row) {
  if (product.below != nullptr) {
    if (product.right != nullptr) return detail::multiply_tiles_amx<true, true>(product, sums, row);
    return detail::multiply_tiles_amx<true, false>(product, sums, row);
  }
  if (product.right != nullptr) return detail::multiply_tiles_amx<false, true>(product, sums, row);
  return detail::multiply_tiles_amx<false, false>(product, sums, row);
}

}  // namespace etir::integer

#endif
