// Views with strides that the program gives, checked against the memory they are laid over.
#pragma once

#include "kernels/copy/view.h"

namespace etir {

/// Gives a view sizes and strides, from element `offset` of the `numel` elements it has. False, with the failure
/// recorded, when some element would lie outside. The strides are the argument after the sizes, at `size_position`.
inline bool as_strided(KernelContext& ctx, View& view, int64_t numel, const IntList& size, const IntList& stride,
                       int64_t offset, int size_position) {
  const int stride_position = size_position + 1;
  if (size.size() > kMaxRank || size.size() != stride.size()) {
    ctx.fail(Check::KernelArgument, stride_position, static_cast<int64_t>(stride.size()));
    return false;
  }
  view.rank = static_cast<int>(size.size());
  bool empty = false;
  int64_t last = offset;
  bool outside = offset < 0;
  for (int d = 0; d < view.rank; ++d) {
    view.sizes[d] = size[d];
    view.strides[d] = stride[d];
    if (view.sizes[d] < 0 || view.strides[d] < 0) {
      ctx.fail(Check::KernelArgument, view.sizes[d] < 0 ? size_position : stride_position,
               view.sizes[d] < 0 ? view.sizes[d] : view.strides[d]);
      return false;
    }
    int64_t length;
    empty = empty || view.sizes[d] == 0;
    outside = outside || __builtin_mul_overflow(view.sizes[d] - 1, view.strides[d], &length) ||
              __builtin_add_overflow(last, length, &last);
  }
  if (empty) return true;
  if (outside || last >= numel) {
    ctx.fail(Check::KernelIndex, outside ? offset : last, numel);
    return false;
  }
  view.shift(offset);
  return true;
}

}  // namespace etir
