// Sums in fixed point, as CMSIS-NN brings them to the scale of a result.
#pragma once

#include "kernels/integer/image.h"
#include "kernels/util/mve.h"

namespace etir::cortex_m {

using integer::check_constant;
using integer::check_dtype;
using integer::check_image;
using integer::check_rows;
using integer::check_size;

/// sum * multiplier * 2^(shift - 31) with two roundings: half up, and then half away from zero.
struct Factor {
  int32_t multiplier, shift;

  int32_t operator()(int64_t sum) const {
    const int left = shift > 0 ? shift : 0, right = shift < 0 ? -shift : 0;
    // Modulo 2^64 where a hostile factor is too large.
    const uint64_t product = (static_cast<uint64_t>(sum) << left) * static_cast<uint64_t>(int64_t{multiplier});
    const int64_t high = static_cast<int64_t>(product + (uint64_t{1} << 30)) >> 31;
    if (right == 0) return static_cast<int32_t>(high);
    const int64_t mask = (int64_t{1} << right) - 1, rest = high & mask, whole = high >> right;
    return static_cast<int32_t>(whole + (rest > (mask >> 1) + (whole < 0) ? 1 : 0));
  }
};

/// Checks a factor's shift, the argument at `position`, and records the failure.
inline bool read_factor(KernelContext& ctx, int64_t multiplier, int64_t shift, int position, Factor* factor) {
  if (shift < -31 || shift > 31) return ctx.fail(Check::KernelArgument, position, shift), false;
  *factor = {static_cast<int32_t>(multiplier), static_cast<int32_t>(shift)};
  return true;
}

/// The offset and the limits of a result.
struct Limits {
  int32_t offset, low, high;
  int8_t operator()(int32_t value) const {
    const int64_t moved = int64_t{value} + offset;
    return static_cast<int8_t>(moved < low ? low : moved > high ? high : moved);
  }
};

/// Checks an offset and limits, arguments at the given positions, and records the failure.
inline bool read_limits(KernelContext& ctx, int64_t offset, int offset_position, int64_t low, int low_position,
                        int64_t high, int high_position, Limits* limits) {
  if (offset < -128 || offset > 127) return ctx.fail(Check::KernelArgument, offset_position, offset), false;
  if (low < -128 || low > 127) return ctx.fail(Check::KernelArgument, low_position, low), false;
  if (high < low || high > 127) return ctx.fail(Check::KernelArgument, high_position, high), false;
  *limits = {static_cast<int32_t>(offset), static_cast<int32_t>(low), static_cast<int32_t>(high)};
  return true;
}

/// Whether a zero point, or one with the opposite sign, is one of int8; records the failure.
inline bool check_offset(KernelContext& ctx, int64_t offset, int position) {
  if (offset >= -128 && offset <= 128) return true;
  return ctx.fail(Check::KernelArgument, position, offset), false;
}

/// The sum of (x + offset) * w over `count` numbers side by side.
inline int64_t dot(const int8_t* __restrict x, int32_t offset, const int8_t* __restrict w, int64_t count) {
  constexpr int64_t kBlock = 32768;  // 256 * 128 times that is at most 2^30
  int64_t sum = 0;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = begin + kBlock < count ? begin + kBlock : count;
    int32_t part = 0;
#if ETIR_MVE
    int32_t whole = 0;
    for (int64_t i = begin; i < end; i += 16) {
      const mve_pred16_t some = vctp8q(static_cast<uint32_t>(end - i));
      const int8x16_t right = vldrbq_z_s8(w + i, some);
      part = vmladavaq_s8(part, vldrbq_z_s8(x + i, some), right);
      whole = vaddvaq_s8(whole, right);
    }
    part += offset * whole;
#else
    for (int64_t i = begin; i < end; ++i) part += (x[i] + offset) * w[i];
#endif
    sum += part;
  }
  return sum;
}

}  // namespace etir::cortex_m
