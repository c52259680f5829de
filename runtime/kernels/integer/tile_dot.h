// The inner loops of integer products with Arm's dot products of four bytes: as add_products (tile.h), and the same
// bits.
//
// One instruction multiplies the four numbers of a row with those of four columns, and adds them up. Eight rows of half
// of a panel go by at a time, four or less of a whole one: 16 registers of sums. The left numbers are read as they are,
// so that 128 times the sum of a column is missing: begin() gives it, once for all rows of a task.
#pragma once

#include "kernels/integer/tile.h"
#include "kernels/util/arm.h"

#if ETIR_NEON

namespace etir::integer {

/// The same as TileNeon (tile_neon.h).
struct TileDot {
  using Number = int8_t;
  static constexpr int kRows = 8;
  static constexpr bool kBegins = true;
  static constexpr bool kArranges = false;

  ETIR_DOT static void begin(const int8_t* w, int64_t quads, int32_t* sums) {
    const int8x16_t ones = vdupq_n_s8(1);
    for (int v = 0; v < 4; ++v) {
      int32x4_t sum = vdupq_n_s32(0);
      for (int64_t q = 0; q < quads; ++q) sum = vdotq_s32(sum, vld1q_s8(w + q * kPanelQuad + v * 16), ones);
      int32_t* to = sums + v * 4;
      vst1q_s32(to, vaddq_s32(vld1q_s32(to), vshlq_n_s32(sum, 7)));
    }
  }

  static void add(const Number* x, int stride, int rows, int64_t quads, const int8_t* w, int32_t* sums, int row) {
    if (rows > 4) return add_rows<8>(x, stride, rows, quads, w, sums, row);
    if (rows > 2) return add_rows<4>(x, stride, rows, quads, w, sums, row);
    if (rows > 1) return add_rows<2>(x, stride, rows, quads, w, sums, row);
    add_rows<1>(x, stride, rows, quads, w, sums, row);
  }

 private:
  /// One quad of some rows, number kLane of the vectors of these, times some vectors of weights.
  template <int kLane, int kSome, int kVectors>
  ETIR_DOT static void add_quad(const int8x16_t (&left)[kSome], const int8_t* w, int32x4_t (&acc)[kSome][kVectors]) {
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const int8x16_t weights = vld1q_s8(w + v * 16);
      ETIR_UNROLL
      for (int r = 0; r < kSome; ++r) acc[r][v] = vdotq_laneq_s32(acc[r][v], weights, left[r], kLane);
    }
  }

  template <int kSome>
  [[gnu::noinline]] ETIR_DOT static void add_rows(const Number* x, int stride, int rows, int64_t quads, const int8_t* w,
                                                  int32_t* sums, int row) {
    constexpr int kVectors = kSome > 4 ? 2 : 4;
    const Number* from[kSome];
    for (int r = 0; r < kSome; ++r) from[r] = x + (r < rows ? r : rows - 1) * stride;
    for (int first = 0; first < 4; first += kVectors) {
      int32x4_t acc[kSome][kVectors];
      ETIR_UNROLL
      for (int r = 0; r < kSome; ++r) {
        ETIR_UNROLL
        for (int v = 0; v < kVectors; ++v) acc[r][v] = vld1q_s32(sums + r * row + (first + v) * 4);
      }
      const int8_t* at = w + first * 16;
      int8x16_t left[kSome];
      int64_t q = 0;
      for (; q + 4 <= quads; q += 4, at += 4 * kPanelQuad) {
        ETIR_UNROLL
        for (int r = 0; r < kSome; ++r) left[r] = vld1q_s8(from[r] + q * kQuad);
        add_quad<0>(left, at, acc);
        add_quad<1>(left, at + kPanelQuad, acc);
        add_quad<2>(left, at + 2 * kPanelQuad, acc);
        add_quad<3>(left, at + 3 * kPanelQuad, acc);
      }
      for (; q < quads; ++q, at += kPanelQuad) {
        ETIR_UNROLL
        for (int r = 0; r < kSome; ++r) {
          int32_t four;
          std::memcpy(&four, from[r] + q * kQuad, sizeof(four));
          left[r] = vreinterpretq_s8_s32(vdupq_n_s32(four));
        }
        add_quad<0>(left, at, acc);
      }
      ETIR_UNROLL
      for (int r = 0; r < kSome; ++r) {
        ETIR_UNROLL
        for (int v = 0; v < kVectors; ++v) vst1q_s32(sums + r * row + (first + v) * 4, acc[r][v]);
      }
    }
  }
};

}  // namespace etir::integer

#endif
