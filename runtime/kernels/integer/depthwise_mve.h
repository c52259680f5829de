// Sums of depthwise convolutions with Arm's vectors for Cortex-M (MVE, Helium): those of the portable code.
//
// Bytes are read as numbers of 16 bits, eight channels at a time, of which one instruction multiplies the even ones and
// another the odd ones to 32 bits. Sums of even and of odd channels stay apart, in registers, until all taps have gone
// by; a store that interleaves brings them together.
#pragma once

#include <cstdint>

#include "kernels/util/mve.h"
#include "kernels/util/vectors.h"

#if ETIR_MVE

namespace etir::integer {

/// Stores the sums of eight channels. Not in memory before, whatever the optimization level.
[[gnu::always_inline]] inline void store_sums_mve(int32x4_t even, int32x4_t odd, int32_t* to) {
  int32x4x2_t both;
  both.val[0] = even, both.val[1] = odd;
  vst2q_s32(to, both);
}

/// Adds the products of eight channels.
[[gnu::always_inline]] inline void add_products_mve(int16x8_t left, int16x8_t right, int32x4_t& even, int32x4_t& odd) {
  even = vaddq_s32(even, vmullbq_int_s16(left, right));
  odd = vaddq_s32(odd, vmulltq_int_s16(left, right));
}

/// sums[c] += the sum of (x[t][c] + offset) * w[t * row + c] over the taps, for sixteen channels.
template <bool kOffset>
[[gnu::noinline]] void add_sixteen_mve(const int8_t* const* x, int16_t offset, const int8_t* w, int64_t row, int taps,
                                       int c, int32_t* sums) {
  const int32x4x2_t low = vld2q_s32(sums + c), high = vld2q_s32(sums + c + 8);
  int32x4_t even = low.val[0], odd = low.val[1], more_even = high.val[0], more_odd = high.val[1];
  const int8_t* at = w + c;
  ETIR_NO_UNROLL
  for (int t = 0; t < taps; ++t, at += row) {
    const int8_t* from = x[t] + c;
    int16x8_t left = vldrbq_s16(from), more = vldrbq_s16(from + 8);
    if (kOffset) left = vaddq_n_s16(left, offset), more = vaddq_n_s16(more, offset);
    add_products_mve(left, vldrbq_s16(at), even, odd);
    add_products_mve(more, vldrbq_s16(at + 8), more_even, more_odd);
  }
  store_sums_mve(even, odd, sums + c);
  store_sums_mve(more_even, more_odd, sums + c + 8);
}

/// The same for `count` channels, eight or fewer: the others are switched off.
template <bool kOffset>
[[gnu::noinline]] void add_eight_mve(const int8_t* const* x, int16_t offset, const int8_t* w, int64_t row, int taps,
                                     int c, int count, int32_t* sums) {
  const mve_pred16_t some = vctp16q(static_cast<uint32_t>(count));
  int32x4_t even = vdupq_n_s32(0), odd = even;
  const int8_t* at = w + c;
  ETIR_NO_UNROLL
  for (int t = 0; t < taps; ++t, at += row) {
    int16x8_t left = vldrbq_z_s16(x[t] + c, some);
    if (kOffset) left = vaddq_n_s16(left, offset);
    add_products_mve(left, vldrbq_z_s16(at, some), even, odd);
  }
  int32_t more[8];
  store_sums_mve(even, odd, more);
  for (int i = 0; i < count; i += 4) {
    const mve_pred16_t four = vctp32q(static_cast<uint32_t>(count - i));
    int32_t* to = sums + c + i;
    vstrwq_p_s32(to, vaddq_s32(vldrwq_z_s32(to, four), vld1q_s32(more + i)), four);
  }
}

/// sums[c] += the sum of (x[t][c] + offset) * w[t * row + c] over the taps, modulo 2^32. |offset| is at most 128.
template <bool kOffset>
void add_taps_mve(const int8_t* const* x, int16_t offset, const int8_t* w, int64_t row, int taps, int channels,
                  int32_t* sums) {
  int c = 0;
  for (; c + 16 <= channels; c += 16) add_sixteen_mve<kOffset>(x, offset, w, row, taps, c, sums);
  for (; c < channels; c += 8) {
    add_eight_mve<kOffset>(x, offset, w, row, taps, c, channels - c < 8 ? channels - c : 8, sums);
  }
}

}  // namespace etir::integer

#endif
