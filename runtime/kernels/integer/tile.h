// The inner loops of integer products: a tile of int32 sums, rows of int8 numbers times panels of packed weights.
//
// Weights are packed [panel of 16 columns][four of the depth][16][4], zeros where the matrix ends, so that the four
// numbers that one instruction adds up lie together. The left numbers are taken as x + 128, from 0 to 255: that is what
// x86 multiplies with signed weights in one instruction, and whoever made the bias has taken 128 times the sum of a
// column's weights off it. Sums wrap modulo 2^32, in all variants alike: they give the same bits.
//
// Variants: portable C++, and AVX-512 with VNNI (kernels/util/vnni.h), here; AVX2 (tile_avx2.h), AMX (tile_amx.h); on
// Arm NEON (tile_neon.h), dot products (tile_dot.h) and products of matrices (tile_i8mm.h),
// and on Cortex-M MVE (tile_mve.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/util/gemm.h"
#include "kernels/util/vnni.h"

#if defined(__x86_64__) && defined(__AVX2__)
#include <immintrin.h>
#define ETIR_INT8_X86 1
#else
#define ETIR_INT8_X86 0
#endif

namespace etir::integer {

constexpr int kPanel = 16;  ///< columns of a panel
constexpr int kQuad = 4;    ///< numbers of the depth that lie together
constexpr int kPanelQuad = kPanel * kQuad;
constexpr int kWidePanels = 4;  ///< panels that a tile has at most
constexpr int kMostRows = 6;    ///< rows that a tile has at most

inline int64_t quads_of(int64_t depth) { return (depth + kQuad - 1) / kQuad; }
inline int64_t panels_of(int64_t columns) { return (columns + kPanel - 1) / kPanel; }

/// A piece of the depth of some rows: `quads` times four numbers of each, wherever they are.
struct Piece {
  int64_t quads;
  const int8_t* rows[kMostRows];
};

/// The panels that a tile is multiplied with: `count` of them, `stride` bytes apart.
struct Panels {
  const int8_t* data;
  int64_t stride;
  int count;
};

/// Portable: sums[r][c] += sum over the depth of (x + 128) * w. `sums` has rows of `row` elements.
inline void add_products(const Piece* pieces, int piece_count, int rows, const Panels& panels, int32_t* sums, int row) {
  for (int p = 0; p < panels.count; ++p) {
    const int8_t* w = panels.data + p * panels.stride;
    for (int i = 0; i < piece_count; ++i) {
      for (int r = 0; r < rows; ++r) {
        uint32_t acc[kPanel];
        std::memcpy(acc, sums + r * row + p * kPanel, sizeof(acc));
        for (int64_t q = 0; q < pieces[i].quads; ++q) {
          for (int j = 0; j < kQuad; ++j) {
            const int32_t x = pieces[i].rows[r][q * kQuad + j] + 128;
            for (int c = 0; c < kPanel; ++c) acc[c] += static_cast<uint32_t>(x * w[q * kPanelQuad + c * kQuad + j]);
          }
        }
        std::memcpy(sums + r * row + p * kPanel, acc, sizeof(acc));
      }
      w += pieces[i].quads * kPanelQuad;
    }
  }
}

#if ETIR_INT8_X86
#if ETIR_INT8_VNNI
/// AVX-512 VNNI: the left numbers are read where they are.
template <int kRows, int kPanels>
ETIR_VNNI inline void add_products_vnni(const Piece* pieces, int piece_count, const Panels& panels, int32_t* sums,
                                        int row) {
  __m512i acc[kRows][kPanels];
  ETIR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ETIR_UNROLL
    for (int v = 0; v < kPanels; ++v) acc[r][v] = _mm512_loadu_si512(sums + r * row + v * kPanel);
  }
  const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80808080u));
  const int8_t* w = panels.data;
  for (int i = 0; i < piece_count; ++i) {
    const int8_t* from[kRows];
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) from[r] = pieces[i].rows[r];
    for (int64_t q = 0; q < pieces[i].quads; ++q, w += kPanelQuad) {
      __m512i b[kPanels];
      ETIR_UNROLL
      for (int v = 0; v < kPanels; ++v) b[v] = _mm512_loadu_si512(w + v * panels.stride);
      ETIR_UNROLL
      for (int r = 0; r < kRows; ++r) {
        int four;
        std::memcpy(&four, from[r] + q * kQuad, sizeof(four));
        const __m512i x = _mm512_xor_si512(_mm512_set1_epi32(four), sign);
        ETIR_UNROLL
        for (int v = 0; v < kPanels; ++v) acc[r][v] = _mm512_dpbusd_epi32(acc[r][v], x, b[v]);
      }
    }
  }
  ETIR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ETIR_UNROLL
    for (int v = 0; v < kPanels; ++v) _mm512_storeu_si512(sums + r * row + v * kPanel, acc[r][v]);
  }
}

template <int kPanels>
ETIR_VNNI inline void add_rows_vnni(const Piece* pieces, int piece_count, int rows, const Panels& panels, int32_t* sums,
                                    int row) {
  switch (rows) {
    case 1:
      return add_products_vnni<1, kPanels>(pieces, piece_count, panels, sums, row);
    case 2:
      return add_products_vnni<2, kPanels>(pieces, piece_count, panels, sums, row);
    case 3:
      return add_products_vnni<3, kPanels>(pieces, piece_count, panels, sums, row);
    case 4:
      return add_products_vnni<4, kPanels>(pieces, piece_count, panels, sums, row);
    case 5:
      return add_products_vnni<5, kPanels>(pieces, piece_count, panels, sums, row);
    default:
      return add_products_vnni<6, kPanels>(pieces, piece_count, panels, sums, row);
  }
}

/// The same as add_products.
ETIR_VNNI inline void add_products_vnni(const Piece* pieces, int piece_count, int rows, const Panels& panels,
                                        int32_t* sums, int row) {
  switch (panels.count) {
    case 1:
      return add_rows_vnni<1>(pieces, piece_count, rows, panels, sums, row);
    case 2:
      return add_rows_vnni<2>(pieces, piece_count, rows, panels, sums, row);
    case 3:
      return add_rows_vnni<3>(pieces, piece_count, rows, panels, sums, row);
    default:
      return add_rows_vnni<4>(pieces, piece_count, rows, panels, sums, row);
  }
}
#endif
#endif

}  // namespace etir::integer
