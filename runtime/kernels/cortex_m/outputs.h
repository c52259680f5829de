// What convolutions of all kinds do with their sums: bias, a factor and limits for each channel.
#pragma once

#include "kernels/cortex_m/fixed_point.h"

namespace etir::cortex_m {

/// What a convolution adds to its sums, and how they are stored.
struct Outputs {
  const int32_t* bias;
  const int32_t* multipliers;
  const int32_t* shifts;
  Limits limits;
  int8_t operator()(int64_t channel, int64_t sum) const {
    const Factor factor = {multipliers[channel], shifts[channel]};
    return limits(factor(bias == nullptr ? sum : sum + bias[channel]));
  }
};

#if ETIR_MVE
/// The same for the channels [first, first + count), four at a time. Where a sum with its bias, or before a factor that
/// makes it larger, has no room in 32 bits, or is -2^31, one at a time.
inline void store_sums_mve(const Outputs& outputs, int64_t first, const int32_t* sums, int64_t count, int8_t* to) {
  const int32x4_t zero = vdupq_n_s32(0);
  const int32x4_t low = vdupq_n_s32(outputs.limits.low), high = vdupq_n_s32(outputs.limits.high);
  for (int64_t c = 0; c < count; c += 4) {
    const int64_t at = first + c;
    const mve_pred16_t some = vctp32q(static_cast<uint32_t>(count - c));
    const int32x4_t sum = vldrwq_z_s32(sums + c, some);
    const int32x4_t bias = outputs.bias == nullptr ? zero : vldrwq_z_s32(outputs.bias + at, some);
    const int32x4_t shifts = vldrwq_z_s32(outputs.shifts + at, some);
    const int32x4_t left = vmaxq_s32(shifts, zero), right = vminq_s32(shifts, zero);
    const int32x4_t whole = vaddq_s32(sum, bias), shifted = vshlq_s32(whole, left);
    const uint32_t outside = vcmpneq_s32(vqaddq_s32(sum, bias), whole) | vcmpneq_s32(vqshlq_s32(whole, left), shifted) |
                             vcmpneq_s32(vqabsq_s32(shifted), vabsq_s32(shifted));
    if (outside != 0) {
      for (int64_t i = c; i < c + 4 && i < count; ++i) to[i] = outputs(first + i, sums[i]);
      continue;
    }
    // Half up, then half away from zero: one is taken off a negative number before it is rounded half up.
    const int32x4_t product = vqrdmulhq_s32(shifted, vldrwq_z_s32(outputs.multipliers + at, some));
    const int32x4_t less = vshrq_n_s32(vandq_s32(product, right), 31);
    const int32x4_t rounded = vrshlq_s32(vqaddq_s32(product, less), right);
    const int32x4_t moved = vqaddq_n_s32(rounded, outputs.limits.offset);
    vstrbq_p_s32(to + c, vminq_s32(vmaxq_s32(moved, low), high), some);
  }
}
#endif

/// Stores sums of the channels [first, first + count).
inline void store_sums(const Outputs& outputs, int64_t first, const int32_t* sums, int64_t count, int8_t* to) {
#if ETIR_MVE
  store_sums_mve(outputs, first, sums, count, to);
#else
  for (int64_t c = 0; c < count; ++c) to[c] = outputs(first + c, sums[c]);
#endif
}

/// The constants of `columns` channels, checked.
inline bool read_outputs(KernelContext& ctx, const Tensor* bias, const Tensor& multipliers, const Tensor& shifts,
                         int64_t columns, Outputs* outputs) {
  for (const Tensor* tensor : {bias, &multipliers, &shifts}) {
    if (tensor == nullptr) continue;
    if (!check_constant(ctx, *tensor, ScalarType::Int, 1) || !check_size(ctx, *tensor, 0, columns)) return false;
  }
  for (int64_t c = 0; c < columns; ++c) {
    const int32_t shift = shifts.ptr<int32_t>()[c];
    if (shift < -31 || shift > 31) return ctx.fail(Check::KernelShape, shifts, shift), false;
  }
  outputs->bias = bias == nullptr ? nullptr : bias->ptr<int32_t>();
  outputs->multipliers = multipliers.ptr<int32_t>(), outputs->shifts = shifts.ptr<int32_t>();
  return true;
}

}  // namespace etir::cortex_m
