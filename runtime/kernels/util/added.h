// What a finished product is added to, in the result's memory or apart from it.
//
// A product that is written over what it is added to needs no bytes but those, which die there. It has the bits of the
// product alone and an addition after it: each element is rounded as the product would be stored, and then added. So a
// program may have an addition in a product or leave it beside it, as in a delegate.
#pragma once

#include <cstdint>

#include "kernels/util/checks.h"

namespace etir {

/// Whether what a product is added to has the shape and the dim order of the result, and data; records the failure.
inline bool check_added(KernelContext& ctx, const Tensor& added, const Tensor& out) {
  if (added.rank != out.rank) return ctx.fail(Check::KernelRank, added, added.rank), false;
  int64_t strides[kMaxRank] = {}, wanted[kMaxRank] = {};
  added.strides(strides);
  out.strides(wanted);
  for (int d = 0; d < out.rank; ++d) {
    if (added.sizes[d] != out.sizes[d]) return ctx.fail(Check::KernelShape, added, added.sizes[d]), false;
  }
  for (int d = 0; d < out.rank; ++d) {
    if (out.sizes[d] > 1 && strides[d] != wanted[d]) return ctx.fail(Check::KernelDimOrder, added, strides[d]), false;
  }
  return has_data(ctx, added);
}

}  // namespace etir
