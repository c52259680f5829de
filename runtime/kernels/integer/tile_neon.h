// The inner loops of integer products with NEON alone: as add_products (tile.h), and the same bits.
//
// One instruction multiplies eight bytes, another adds pairs of products to sums of 32 bits. Two products fit into 16
// bits before that, unless both are -128 * -128: a panel without that weight takes two quads at once, which is a
// quarter less instructions. The left numbers are read as they are, so that 128 times the sum of a column is missing:
// begin() gives it, once for all rows of a task.
#pragma once

#include "kernels/integer/tile.h"
#include "kernels/util/arm.h"

#if ETIR_NEON

namespace etir::integer {

struct TileNeon {
  using Number = int8_t;
  static constexpr int kRows = 4;           ///< that are multiplied at once
  static constexpr bool kBegins = true;     ///< whether sums begin with what begin() gives
  static constexpr bool kArranges = false;  ///< whether rows are arranged after they are copied

  /// Adds 128 times the sums of the columns of a panel.
  static void begin(const int8_t* w, int64_t quads, int32_t* sums) {
    for (int v = 0; v < 4; ++v) {
      int32x4_t sum = vdupq_n_s32(0);
      for (int64_t q = 0; q < quads; ++q) {
        // Sums of pairs side by side, then of those.
        const int16x8_t pairs = vpaddlq_s8(vld1q_s8(w + q * kPanelQuad + v * 16));
        sum = vaddq_s32(sum, vpaddlq_s16(pairs));
      }
      int32_t* to = sums + v * 4;
      vst1q_s32(to, vaddq_s32(vld1q_s32(to), vshlq_n_s32(sum, 7)));
    }
  }

  /// sums[r][c] += sum of x * w over the quads of one panel. Rows of x are `stride` numbers apart, those of `sums`
  /// `row` elements, and there are up to kRows of the latter: those from `rows` on are anything.
  static void add(const Number* x, int stride, int rows, int64_t quads, const int8_t* w, int32_t* sums, int row) {
    const bool paired = has_no_least(w, quads);
    if (rows > 2)
      return paired ? add_rows<4, true>(x, stride, rows, quads, w, sums, row)
                    : add_rows<4, false>(x, stride, rows, quads, w, sums, row);
    if (rows > 1)
      return paired ? add_rows<2, true>(x, stride, rows, quads, w, sums, row)
                    : add_rows<2, false>(x, stride, rows, quads, w, sums, row);
    paired ? add_rows<1, true>(x, stride, rows, quads, w, sums, row)
           : add_rows<1, false>(x, stride, rows, quads, w, sums, row);
  }

 private:
  /// Whether no weight of a panel is -128.
  static bool has_no_least(const int8_t* w, int64_t quads) {
    int8x16_t least = vdupq_n_s8(127);
    for (int64_t i = 0; i < quads * kPanelQuad; i += 16) least = vminq_s8(least, vld1q_s8(w + i));
    return vminvq_s8(least) > -128;
  }

  /// Four numbers of a row twice.
  static int8x8_t twice(const Number* x) {
    int32_t four;
    std::memcpy(&four, x, sizeof(four));
    return vreinterpret_s8_s32(vdup_n_s32(four));
  }

  template <int kSome, bool kPaired>
  [[gnu::noinline]] static void add_rows(const Number* x, int stride, int rows, int64_t quads, const int8_t* w,
                                         int32_t* sums, int row) {
    constexpr int kVectors = kSome > 2 ? 2 : 4;  // of four columns, whose sums stay in registers
    const Number* from[kSome];
    for (int r = 0; r < kSome; ++r) from[r] = x + (r < rows ? r : rows - 1) * stride;
    for (int first = 0; first < 4; first += kVectors) {
      int32x4_t acc[kSome][kVectors][2];
      ETIR_UNROLL
      for (int r = 0; r < kSome; ++r) {
        ETIR_UNROLL
        for (int v = 0; v < kVectors; ++v) acc[r][v][0] = acc[r][v][1] = vdupq_n_s32(0);
      }
      const int8_t* at = w + first * 16;
      int64_t q = 0;
      if constexpr (kPaired) {
        for (; q + 2 <= quads; q += 2, at += 2 * kPanelQuad) {
          int8x8_t left[kSome][2];
          ETIR_UNROLL
          for (int r = 0; r < kSome; ++r) {
            left[r][0] = twice(from[r] + q * kQuad), left[r][1] = twice(from[r] + q * kQuad + kQuad);
          }
          ETIR_UNROLL
          for (int v = 0; v < kVectors; ++v) {
            const int8x16_t a = vld1q_s8(at + v * 16), b = vld1q_s8(at + kPanelQuad + v * 16);
            ETIR_UNROLL
            for (int r = 0; r < kSome; ++r) {
              const int16x8_t low = vmull_s8(vget_low_s8(a), left[r][0]);
              const int16x8_t high = vmull_s8(vget_high_s8(a), left[r][0]);
              acc[r][v][0] = vpadalq_s16(acc[r][v][0], vmlal_s8(low, vget_low_s8(b), left[r][1]));
              acc[r][v][1] = vpadalq_s16(acc[r][v][1], vmlal_s8(high, vget_high_s8(b), left[r][1]));
            }
          }
        }
      }
      for (; q < quads; ++q, at += kPanelQuad) {
        ETIR_UNROLL
        for (int r = 0; r < kSome; ++r) {
          const int8x8_t left = twice(from[r] + q * kQuad);
          ETIR_UNROLL
          for (int v = 0; v < kVectors; ++v) {
            const int8x16_t a = vld1q_s8(at + v * 16);
            acc[r][v][0] = vpadalq_s16(acc[r][v][0], vmull_s8(vget_low_s8(a), left));
            acc[r][v][1] = vpadalq_s16(acc[r][v][1], vmull_s8(vget_high_s8(a), left));
          }
        }
      }
      ETIR_UNROLL
      for (int r = 0; r < kSome; ++r) {
        ETIR_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          int32_t* to = sums + r * row + (first + v) * 4;
          vst1q_s32(to, vaddq_s32(vld1q_s32(to), vpaddq_s32(acc[r][v][0], acc[r][v][1])));
        }
      }
    }
  }
};

}  // namespace etir::integer

#endif
