// What a product is added to, before it is: the addend with the bias of the product, in the result's memory.
//
// A product that adds to its result needs no bytes but those of the addend, which dies there. So kernels that add to a
// tensor put it into the result first, unless it is there already, and let their sums begin with what they find.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/util/checks.h"
#include "kernels/util/compute.h"
#include "kernels/util/dispatch.h"

namespace etir {

/// Writes addend + bias to `out`, with the bias (null: none) along dim `dim`. The addend has the shape and the dim
/// order of the result, and may be in its memory. False, with the failure recorded, if it has not.
inline bool begin_sum(KernelContext& ctx, const Tensor& addend, const Tensor* bias, int dim, Tensor& out) {
  if (addend.rank != out.rank) return ctx.fail(Check::KernelRank, addend, addend.rank), false;
  int64_t strides[kMaxRank] = {}, wanted[kMaxRank] = {};
  addend.strides(strides);
  out.strides(wanted);
  for (int d = 0; d < out.rank; ++d) {
    if (addend.sizes[d] != out.sizes[d]) return ctx.fail(Check::KernelShape, addend, addend.sizes[d]), false;
  }
  for (int d = 0; d < out.rank; ++d) {
    if (out.sizes[d] > 1 && strides[d] != wanted[d]) return ctx.fail(Check::KernelDimOrder, addend, strides[d]), false;
  }
  if (bias != nullptr && (bias->rank != 1 || bias->sizes[0] != out.sizes[dim])) {
    return ctx.fail(Check::KernelShape, *bias, bias->rank != 1 ? bias->rank : bias->sizes[0]), false;
  }
  const int64_t count = out.numel();
  if (count == 0) return true;
  if (!has_data(ctx, addend) || (bias != nullptr && !has_data(ctx, *bias))) return false;
  if (bias == nullptr) {
    const size_t bytes = static_cast<size_t>(count) * element_size(out.dtype);
    if (addend.data != out.data) std::memmove(out.data, addend.data, bytes);
    return true;
  }
  // Elements of one bias lie in runs, and runs of all of them follow one another.
  const int64_t run = out.sizes[dim] > 1 ? wanted[dim] : count, biases = bias->numel();
  dispatch<kFloats>(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = addend.ptr<T>();
    const T* more = bias->ptr<T>();
    T* to = out.ptr<T>();
    ctx.parallel_for(count / run / biases, std::max<int64_t>(1, (int64_t{1} << 15) / (run * biases)),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i) {
                         const int64_t first = i * biases * run;
                         if (run == 1) {
                           for (int64_t b = 0; b < biases; ++b) {
                             to[first + b] = from_compute<T>(to_compute(from[first + b]) + to_compute(more[b]));
                           }
                           continue;
                         }
                         for (int64_t b = 0; b < biases; ++b) {
                           const auto same = to_compute(more[b]);
                           for (int64_t k = first + b * run; k < first + (b + 1) * run; ++k) {
                             to[k] = from_compute<T>(to_compute(from[k]) + same);
                           }
                         }
                       }
                     });
  });
  return true;
}

}  // namespace etir
