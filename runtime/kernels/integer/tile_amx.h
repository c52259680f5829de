// The inner loops of integer products with AMX: as add_products (tile.h), and the same bits.
//
// Panels are what AMX wants: sixteen quads of one, a kilobyte, are a tile register. The left numbers are copied as
// x + 128, rows of whole tiles with zeros at their ends, so that weights beyond the depth count for nothing and the
// last tile of a panel may reach into the next one. Two tiles of rows times two panels are four registers of sums: each
// tile that is loaded is multiplied twice, which is what it takes to keep the multiplier busy.
//
// Linux gives a process the registers when it asks for them. Instructions are written as such: intrinsics of some
// compilers do not say that they read memory.
#pragma once

#include "kernels/integer/tile.h"

// ETIR_INT8_AMX=0 leaves that variant out, so that the one below it can be tested and measured.
#ifndef ETIR_INT8_AMX
#if defined(__linux__) && (defined(__clang__) ? __clang_major__ >= 12 : defined(__GNUC__) && __GNUC__ >= 11)
#define ETIR_INT8_AMX 1
#else
#define ETIR_INT8_AMX 0
#endif
#endif
#if !ETIR_INT8_X86 || !ETIR_INT8_VNNI
#undef ETIR_INT8_AMX
#define ETIR_INT8_AMX 0
#endif

#if ETIR_INT8_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace etir::integer {

constexpr int kTileRows = 16;                         ///< rows of a register
constexpr int kTileBytes = 64;                        ///< bytes of a row of a register
constexpr int kTileQuads = kTileBytes / kQuad;        ///< quads of a panel that are one register
constexpr int kRowsAmx = 2 * kTileRows;               ///< rows that a block has at most
constexpr int kPanelsAmx = 2;                         ///< panels that a block has at most
constexpr int kTileWeights = kTileRows * kTileBytes;  ///< bytes of a register

#define ETIR_AMX __attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

namespace detail {

inline bool ask_for_amx() {
  unsigned a, b, c, d;
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25;
  if (!has_vnni() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & (kTile | kInt8)) != (kTile | kInt8)) {
    return false;
  }
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace detail

/// Whether the processor has AMX for int8 numbers, and the system lets this process use it.
inline bool has_amx() {
  static const bool has = detail::ask_for_amx();
  return has;
}

/// The registers of a thread, for the time that this lives: tiles of sixteen rows of left numbers of `quads` fours
/// each, and of that many quads of a panel.
class TileRegisters {
 public:
  ETIR_AMX explicit TileRegisters(int quads = kTileQuads) {
    struct alignas(64) {
      uint8_t palette = 1, start = 0, reserved[14] = {};
      uint16_t bytes[16] = {};
      uint8_t rows[16] = {};
    } shape;
    static_assert(sizeof(shape) == 64);
    for (int i = 0; i < 8; ++i) {
      const bool is_left = i == 4 || i == 5, is_right = i >= 6;
      shape.bytes[i] = static_cast<uint16_t>(is_left ? quads * kQuad : kTileBytes);
      shape.rows[i] = static_cast<uint8_t>(is_right ? quads : kTileRows);
    }
    asm volatile("ldtilecfg %0" ::"m"(shape));
  }
  ETIR_AMX ~TileRegisters() { asm volatile("tilerelease"); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

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

#define ETIR_TILE_LOAD(tile, from, stride) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"(static_cast<int64_t>(stride)) : "memory")
#define ETIR_TILE_STORE(tile, to, stride) \
  asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(static_cast<int64_t>(stride)) : "memory")
#define ETIR_TILE_ZERO(tile) asm volatile("tilezero %%tmm" #tile ::: "memory")
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

#undef ETIR_TILE_LOAD
#undef ETIR_TILE_STORE
#undef ETIR_TILE_ZERO
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
