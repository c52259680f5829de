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
