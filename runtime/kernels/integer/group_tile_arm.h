// The inner loops of groupwise products on 64-bit Arm: as add_groups (group_panel.h), and the same bits, with NEON's
// widening products, which every processor has, and with dot products.
#pragma once

#include "kernels/integer/group_panel.h"
#include "kernels/util/arm.h"

#if ETIR_NEON

namespace etir::integer {

namespace detail {

/// end_group, from registers.
inline void end_group_neon(const GroupRows& x, const GroupPanel& w, int64_t group, int64_t at,
                           const int32x4_t (&sums)[4], float* acc) {
  ETIR_UNROLL
  for (int v = 0; v < 4; ++v) {
    const int64_t from = group * groups::kLanes + v * 4;
    float32x4_t scale = vld1q_f32(w.scales + from), total = vld1q_f32(acc + v * 4);
    if (x.scales != nullptr) scale = vmulq_n_f32(scale, x.scales[at]);
    total = vaddq_f32(total, vmulq_f32(scale, vcvtq_f32_s32(sums[v])));
    if (w.minimums != nullptr) total = vaddq_f32(total, vmulq_n_f32(vld1q_f32(w.minimums + from), x.sums[at]));
    vst1q_f32(acc + v * 4, total);
  }
}

/// The sums of a chunk of kRows rows and kVectors times four columns of numbers of 4 bits, in 16 bits, which hold them:
/// of the first two and the last two columns of a vector, each number's two sums side by side.
template <int kRows, int kVectors>
inline void add_chunk_neon(const int8_t* numbers, const uint8_t* data, int16x8_t (&pairs)[kRows][kVectors][2]) {
  const uint8x16_t low = vdupq_n_u8(15);
  ETIR_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) pairs[r][v][0] = pairs[r][v][1] = vdupq_n_s16(0);
  }
  ETIR_NO_UNROLL
  for (int q = 0; q < groups::kChunk / kQuad; q += 2, data += kPanel * kQuad, numbers += 2 * kRows * kQuad) {
    int8x16_t left[kRows][2];
    ETIR_UNROLL
    for (int r = 0; r < 2 * kRows; ++r) {
      int32_t four;
      std::memcpy(&four, numbers + r * kQuad, sizeof(four));
      left[r % kRows][r / kRows] = vreinterpretq_s8_s32(vdupq_n_s32(four));
    }
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const uint8x16_t both = vld1q_u8(data + v * 16);
      const int8x16_t first = vreinterpretq_s8_u8(vandq_u8(both, low));
      const int8x16_t second = vreinterpretq_s8_u8(vshrq_n_u8(both, 4));
      ETIR_UNROLL
      for (int r = 0; r < kRows; ++r) {
        int16x8_t(&sums)[2] = pairs[r][v];
        sums[0] = vmlal_s8(sums[0], vget_low_s8(first), vget_low_s8(left[r][0]));
        sums[1] = vmlal_high_s8(sums[1], first, left[r][0]);
        sums[0] = vmlal_s8(sums[0], vget_low_s8(second), vget_low_s8(left[r][1]));
        sums[1] = vmlal_high_s8(sums[1], second, left[r][1]);
      }
    }
  }
}

/// The same for a chunk of numbers of 8 bits, 128 less than they are: two products of them do not fit into 16 bits.
template <int kRows, int kVectors>
inline void add_chunk_neon(const int8_t* numbers, const uint8_t* data, int32x4_t (&pairs)[kRows][kVectors][2]) {
  const uint8x16_t sign = vdupq_n_u8(128);
  ETIR_NO_UNROLL
  for (int q = 0; q < groups::kChunk / kQuad; ++q, data += kPanel * kQuad, numbers += kRows * kQuad) {
    int8x16_t left[kRows];
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      int32_t four;
      std::memcpy(&four, numbers + r * kQuad, sizeof(four));
      left[r] = vreinterpretq_s8_s32(vdupq_n_s32(four));
    }
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const int8x16_t right = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(data + v * 16), sign));
      ETIR_UNROLL
      for (int r = 0; r < kRows; ++r) {
        int32x4_t(&sums)[2] = pairs[r][v];
        sums[0] = vpadalq_s16(sums[0], vmull_s8(vget_low_s8(right), vget_low_s8(left[r])));
        sums[1] = vpadalq_s16(sums[1], vmull_high_s8(right, left[r]));
      }
    }
  }
}

/// The sum of the numbers of row r of kRows, over `quads` fours of the depth.
template <int kRows>
inline int32_t row_sum_neon(const int8_t* numbers, int r, int64_t quads) {
  int32x4_t sum = vdupq_n_s32(0);
  for (int64_t q = 0; q < quads; ++q) {
    int32_t four;
    std::memcpy(&four, numbers + (q * kRows + r) * kQuad, sizeof(four));
    sum = vpadalq_s16(sum, vmovl_s8(vreinterpret_s8_s32(vset_lane_s32(four, vdup_n_s32(0), 0))));
  }
  return vaddvq_s32(sum);
}

}  // namespace detail

/// NEON alone. More than two rows go by for half of a panel at a time, whose sums stay in registers.
template <int kBits, int kRows>
void add_groups_neon(GroupRows x, GroupPanel w, float* acc) {
  using namespace groups;
  constexpr int kVectors = kRows > 2 ? 2 : 4;
  for (int64_t g = 0; g < w.groups; ++g) {
    int32x4_t whole[kRows][4];
    ETIR_UNROLL
    for (int first = 0; first < 4; first += kVectors) {
      const int8_t* numbers = x.numbers;
      const uint8_t* data = w.data + first * 16;
      int32x4_t sums[kRows][kVectors], wide[kRows][kVectors][2];
      ETIR_UNROLL
      for (int r = 0; r < kRows; ++r) {
        ETIR_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          sums[r][v] = vdupq_n_s32(x.offsets[g * kRows + r]);
          wide[r][v][0] = wide[r][v][1] = vdupq_n_s32(0);
        }
      }
      for (int64_t chunk = 0; chunk < w.chunks; ++chunk, numbers += kRows * kChunk, data += kChunkBytes<kBits>) {
        if constexpr (kBits == 8) {
          detail::add_chunk_neon<kRows, kVectors>(numbers, data, wide);
        } else {
          int16x8_t pairs[kRows][kVectors][2];
          detail::add_chunk_neon<kRows, kVectors>(numbers, data, pairs);
          ETIR_UNROLL
          for (int r = 0; r < kRows; ++r) {
            ETIR_UNROLL
            for (int v = 0; v < kVectors; ++v) {
              // Two sums of eight products each, at most 2 * 8 * 15 * 128, still fit.
              sums[r][v] = vpadalq_s16(sums[r][v], vpaddq_s16(pairs[r][v][0], pairs[r][v][1]));
            }
          }
        }
      }
      ETIR_UNROLL
      for (int r = 0; r < kRows; ++r) {
        ETIR_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          if (kBits == 8) sums[r][v] = vaddq_s32(sums[r][v], vpaddq_s32(wide[r][v][0], wide[r][v][1]));
          whole[r][first + v] = sums[r][v];
        }
      }
    }
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if (kBits == 8) {
        const int32_t more = 128 * detail::row_sum_neon<kRows>(x.numbers, r, w.chunks * (kChunk / kQuad));
        ETIR_UNROLL
        for (int v = 0; v < 4; ++v) whole[r][v] = vaddq_s32(whole[r][v], vdupq_n_s32(more));
      }
      detail::end_group_neon(x, w, g, g * kRows + r, whole[r], acc + r * kPanel);
    }
    x.numbers += w.chunks * kRows * kChunk;
    w.data += w.chunks * kChunkBytes<kBits>;
  }
}

/// Arm's dot product of four signed bytes. Numbers of 4 bits are such as they are; those of 8 become so, and the sum
/// begins with 128 times more.
template <int kBits, int kRows>
ETIR_DOT void add_groups_dot(GroupRows x, GroupPanel w, float* acc) {
  using namespace groups;
  const uint8x16_t low = vdupq_n_u8(15), sign = vdupq_n_u8(128);
  const int8x16_t one = vdupq_n_s8(1);
  for (int64_t g = 0; g < w.groups; ++g) {
    int32x4_t sums[kRows][4], left_sums[kRows];
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      left_sums[r] = vdupq_n_s32(0);
      ETIR_UNROLL
      for (int v = 0; v < 4; ++v) sums[r][v] = vdupq_n_s32(x.offsets[g * kRows + r]);
    }
    ETIR_NO_UNROLL
    for (int64_t q = 0; q < w.chunks * (kChunk / kQuad) * kBits / 8; ++q, w.data += kPanel * kQuad) {
      uint8x16_t right[4];
      ETIR_UNROLL
      for (int v = 0; v < 4; ++v) right[v] = vld1q_u8(w.data + v * 16);
      ETIR_UNROLL
      for (int half = 0; half < 8 / kBits; ++half, x.numbers += kRows * kQuad) {
        int8x16_t numbers[4];
        ETIR_UNROLL
        for (int v = 0; v < 4; ++v) {
          numbers[v] = vreinterpretq_s8_u8(kBits == 8  ? veorq_u8(right[v], sign)
                                           : half == 0 ? vandq_u8(right[v], low)
                                                       : vshrq_n_u8(right[v], 4));
        }
        ETIR_UNROLL
        for (int r = 0; r < kRows; ++r) {
          int four;
          std::memcpy(&four, x.numbers + r * kQuad, sizeof(four));
          const int8x16_t left = vreinterpretq_s8_s32(vdupq_n_s32(four));
          if constexpr (kBits == 8) left_sums[r] = vdotq_s32(left_sums[r], left, one);
          ETIR_UNROLL
          for (int v = 0; v < 4; ++v) sums[r][v] = vdotq_s32(sums[r][v], left, numbers[v]);
        }
      }
    }
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if constexpr (kBits == 8) {
        ETIR_UNROLL
        for (int v = 0; v < 4; ++v) sums[r][v] = vmlaq_n_s32(sums[r][v], left_sums[r], 128);
      }
      detail::end_group_neon(x, w, g, g * kRows + r, sums[r], acc + r * kPanel);
    }
  }
}

}  // namespace etir::integer

#endif
