// The inner loops of integer products with Arm's products of matrices of bytes (i8mm): as add_products (tile.h), and
// the same bits.
//
// One instruction multiplies eight numbers of two rows with those of two columns: twice what a dot product does. Its
// left operand is unsigned, so that numbers are copied as x + 128, and nothing is missing. Two quads of a column come
// side by side by interleaving two vectors of weights; those of a pair of rows do when the rows are arranged, once for
// all panels. A row alone takes the dot products, whose left operand may be unsigned there, too.
#pragma once

#include "kernels/integer/tile.h"
#include "kernels/util/arm.h"

#if ETIR_NEON

namespace etir::integer {

/// The same as TileNeon (tile_neon.h).
struct TileMatrix {
  using Number = uint8_t;
  static constexpr int kRows = 8;
  static constexpr bool kBegins = false;
  static constexpr bool kArranges = true;

  static void begin(const int8_t*, int64_t, int32_t*) {}

  /// Of each 16 numbers of two rows, the first eight of both come to the place of the one, the others to that of the
  /// other. A row without a second one is its own.
  static void arrange(Number* x, int stride, int rows, int64_t count) {
    if (rows == 1) return;
    for (int r = 0; r < rows; r += 2) {
      Number *one = x + r * stride, *other = one + stride;
      if (r + 1 == rows) std::memcpy(other, one, static_cast<size_t>(count + 15) / 16 * 16);
      for (int64_t k = 0; k < count; k += 16) {
        const uint64x2_t a = vreinterpretq_u64_u8(vld1q_u8(one + k)), b = vreinterpretq_u64_u8(vld1q_u8(other + k));
        vst1q_u8(one + k, vreinterpretq_u8_u64(vzip1q_u64(a, b)));
        vst1q_u8(other + k, vreinterpretq_u8_u64(vzip2q_u64(a, b)));
      }
    }
  }

  static void add(const Number* x, int stride, int rows, int64_t quads, const int8_t* w, int32_t* sums, int row) {
    if (rows > 4) return add_pairs<4>(x, stride, rows, quads, w, sums, row);
    if (rows > 2) return add_pairs<2>(x, stride, rows, quads, w, sums, row);
    if (rows > 1) return add_pairs<1>(x, stride, rows, quads, w, sums, row);
    add_row(x, quads, w, sums);
  }

 private:
  template <int kLane>
  ETIR_I8MM static void add_quad(uint8x16_t left, const int8_t* w, int32x4_t (&acc)[4]) {
    ETIR_UNROLL
    for (int v = 0; v < 4; ++v) acc[v] = vsudotq_laneq_s32(acc[v], vld1q_s8(w + v * 16), left, kLane);
  }

  [[gnu::noinline]] ETIR_I8MM static void add_row(const Number* x, int64_t quads, const int8_t* w, int32_t* sums) {
    int32x4_t acc[4];
    ETIR_UNROLL
    for (int v = 0; v < 4; ++v) acc[v] = vld1q_s32(sums + v * 4);
    int64_t q = 0;
    for (; q + 4 <= quads; q += 4, x += 4 * kQuad, w += 4 * kPanelQuad) {
      const uint8x16_t left = vld1q_u8(x);
      add_quad<0>(left, w, acc);
      add_quad<1>(left, w + kPanelQuad, acc);
      add_quad<2>(left, w + 2 * kPanelQuad, acc);
      add_quad<3>(left, w + 3 * kPanelQuad, acc);
    }
    for (; q < quads; ++q, x += kQuad, w += kPanelQuad) {
      uint32_t four;
      std::memcpy(&four, x, sizeof(four));
      add_quad<0>(vreinterpretq_u8_u32(vdupq_n_u32(four)), w, acc);
    }
    ETIR_UNROLL
    for (int v = 0; v < 4; ++v) vst1q_s32(sums + v * 4, acc[v]);
  }

  /// Two quads of some columns, which are at w and at `other`, and their eight numbers of some pairs of rows.
  template <int kPairs, int kVectors>
  ETIR_I8MM static void add_quads(const Number* const (&pairs)[kPairs], int64_t k, const int8_t* w, const int8_t* other,
                                  int32x4_t (&acc)[kPairs][kVectors][2]) {
    uint8x16_t left[kPairs];
    ETIR_UNROLL
    for (int p = 0; p < kPairs; ++p) left[p] = vld1q_u8(pairs[p] + k);
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const int32x4_t a = vreinterpretq_s32_s8(vld1q_s8(w + v * 16));
      const int32x4_t b = vreinterpretq_s32_s8(vld1q_s8(other + v * 16));
      const int8x16_t low = vreinterpretq_s8_s32(vzip1q_s32(a, b)), high = vreinterpretq_s8_s32(vzip2q_s32(a, b));
      ETIR_UNROLL
      for (int p = 0; p < kPairs; ++p) {
        acc[p][v][0] = vusmmlaq_s32(acc[p][v][0], left[p], low);
        acc[p][v][1] = vusmmlaq_s32(acc[p][v][1], left[p], high);
      }
    }
  }

  template <int kPairs>
  [[gnu::noinline]] ETIR_I8MM static void add_pairs(const Number* x, int stride, int rows, int64_t quads,
                                                    const int8_t* w, int32_t* sums, int row) {
    constexpr int kVectors = kPairs > 2 ? 2 : 4;
    static const int8_t kNothing[kPanelQuad] = {};
    const Number *even[kPairs], *odd[kPairs];
    for (int p = 0; p < kPairs; ++p) {
      const int pair = std::min(p, (rows - 1) / 2);
      even[p] = x + 2 * pair * stride, odd[p] = even[p] + stride;
    }
    for (int first = 0; first < 4; first += kVectors) {
      int32x4_t acc[kPairs][kVectors][2];
      ETIR_UNROLL
      for (int p = 0; p < kPairs; ++p) {
        ETIR_UNROLL
        for (int v = 0; v < kVectors; ++v) acc[p][v][0] = acc[p][v][1] = vdupq_n_s32(0);
      }
      const int8_t* at = w + first * 16;
      int64_t q = 0;
      for (; q + 4 <= quads; q += 4, at += 4 * kPanelQuad) {
        add_quads(even, q * kQuad, at, at + kPanelQuad, acc);
        add_quads(odd, q * kQuad, at + 2 * kPanelQuad, at + 3 * kPanelQuad, acc);
      }
      // Up to three quads are left; the numbers of one that is none are 0, and its weights need not be there.
      const int64_t left = quads - q;
      if (left > 0) add_quads(even, q * kQuad, at, left > 1 ? at + kPanelQuad : kNothing, acc);
      if (left > 2) add_quads(odd, q * kQuad, at + 2 * kPanelQuad, kNothing, acc);
      ETIR_UNROLL
      for (int p = 0; p < kPairs; ++p) {
        ETIR_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          // Two columns of both rows each.
          const int64x2_t a = vreinterpretq_s64_s32(acc[p][v][0]), b = vreinterpretq_s64_s32(acc[p][v][1]);
          int32_t* to = sums + 2 * p * row + (first + v) * 4;
          vst1q_s32(to, vaddq_s32(vld1q_s32(to), vreinterpretq_s32_s64(vzip1q_s64(a, b))));
          to += row;
          vst1q_s32(to, vaddq_s32(vld1q_s32(to), vreinterpretq_s32_s64(vzip2q_s64(a, b))));
        }
      }
    }
  }
};

}  // namespace etir::integer

#endif
