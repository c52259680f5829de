// The inner loop of integer products with Arm's vectors for Cortex-M (MVE, Helium): as add_products (tile.h), and the
// same bits.
//
// One instruction multiplies 16 numbers of a row with those of a column and adds all of them to a sum in a register of
// the core. The four quads of a column are 64 bytes apart in a panel: a gathering load brings them together, once for
// up to three rows. The left numbers are read as they are; the 128 that is missing is added as 128 times the column's
// sum, by one instruction more. What is left of the depth goes by with the lanes after it switched off.
#pragma once

#include "kernels/integer/tile.h"
#include "kernels/util/mve.h"

#if ETIR_MVE

namespace etir::integer {

/// Rows [first, first + kRows) of one panel and one piece.
template <int kRows>
[[gnu::noinline]] inline void add_rows_mve(const Piece& piece, int first, const int8_t* w, int32_t* sums, int row) {
  const uint32x4_t quads = vmulq_n_u32(vidupq_n_u32(0, 1), kPanelQuad);
  const uint32_t depth = static_cast<uint32_t>(piece.quads) * kQuad;
  for (int c = 0; c < kPanel; ++c, w += kQuad, ++sums) {
    const int8_t *x[kRows], *at = w;
    int32_t acc[kRows], whole = 0;
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) x[r] = piece.rows[first + r], acc[r] = sums[r * row];
    uint32_t left = depth;
    for (; left >= 16; left -= 16, at += 4 * kPanelQuad) {
      const int8x16_t weights =
          vreinterpretq_s8_s32(vldrwq_gather_offset_s32(reinterpret_cast<const int32_t*>(at), quads));
      whole = vaddvaq_s8(whole, weights);
      ETIR_UNROLL
      for (int r = 0; r < kRows; ++r) {
        acc[r] = vmladavaq_s8(acc[r], vldrbq_s8(x[r]), weights);
        x[r] += 16;
        // Pointers stay pointers: as one offset from all of them they would take more registers than there are.
        asm("" : "+r"(x[r]));
      }
    }
    if (left > 0) {
      const int8x16_t weights = vreinterpretq_s8_s32(
          vldrwq_gather_offset_z_s32(reinterpret_cast<const int32_t*>(at), quads, vctp32q(left / kQuad)));
      whole = vaddvaq_s8(whole, weights);
      ETIR_UNROLL
      for (int r = 0; r < kRows; ++r) acc[r] = vmladavaq_s8(acc[r], vldrbq_z_s8(x[r], vctp8q(left)), weights);
    }
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sums[r * row] = static_cast<int32_t>(static_cast<uint32_t>(acc[r]) + 128 * static_cast<uint32_t>(whole));
    }
  }
}

/// The same as add_products.
inline void add_products_mve(const Piece* pieces, int piece_count, int rows, const Panels& panels, int32_t* sums,
                             int row) {
  for (int p = 0; p < panels.count; ++p, sums += kPanel) {
    const int8_t* w = panels.data + p * panels.stride;
    for (int i = 0; i < piece_count; ++i) {
      for (int r = 0; r < rows; r += 3) {
        int32_t* to = sums + r * row;
        if (rows - r > 2) {
          add_rows_mve<3>(pieces[i], r, w, to, row);
        } else if (rows - r > 1) {
          add_rows_mve<2>(pieces[i], r, w, to, row);
        } else {
          add_rows_mve<1>(pieces[i], r, w, to, row);
        }
      }
      w += pieces[i].quads * kPanelQuad;
    }
  }
}

}  // namespace etir::integer

#endif
