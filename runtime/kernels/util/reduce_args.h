// What every reduction does with its arguments: dims to a set, the shape of the result, data that must be there.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "kernels/util/checks.h"
#include "kernels/util/loops.h"

namespace etir {

/// The bits of all dims of a tensor.
inline uint32_t all_dims(const Tensor& tensor) { return (uint32_t{1} << tensor.rank) - 1u; }

/// The bit of one dim, which may be negative; a tensor of rank 0 has none, but takes 0 and -1.
inline bool one_dim(KernelContext& ctx, int64_t dim, const Tensor& tensor, uint32_t* mask) {
  const int wrapped = wrap_dim(dim, tensor.rank);
  if (wrapped < 0) {
    ctx.fail(Check::KernelDim, dim, tensor.rank);
    return false;
  }
  *mask = tensor.rank == 0 ? 0 : uint32_t{1} << wrapped;
  return true;
}

/// The bits of the dims that a list, the argument at `position`, names. Without a list all dims, and `if_empty` for an
/// empty one.
inline bool dim_mask(KernelContext& ctx, const std::optional<IntList>& list, int position, const Tensor& tensor,
                     uint32_t if_empty, uint32_t* mask) {
  *mask = list.has_value() ? if_empty : all_dims(tensor);
  if (!list.has_value() || list->empty()) return true;
  const IntList& dims = *list;
  uint32_t seen = 0;
  for (size_t k = 0; k < dims.size(); ++k) {
    const int wrapped = wrap_dim(dims[k], tensor.rank);
    if (wrapped < 0) {
      ctx.fail(Check::KernelDim, dims[k], tensor.rank);
      return false;
    }
    if ((seen >> wrapped) & 1u) {
      ctx.fail(Check::KernelArgument, position, dims[k]);
      return false;
    }
    seen |= uint32_t{1} << wrapped;
  }
  *mask = seen & all_dims(tensor);
  return true;
}
inline bool dim_mask(KernelContext& ctx, const std::optional<IntList>& list, int position, const Tensor& tensor,
                     uint32_t* mask) {
  return dim_mask(ctx, list, position, tensor, all_dims(tensor), mask);
}

/// Gives a result the shape of `self` without the reduced dims (with size 1 for them if `keepdim`) and asks for data.
inline bool resize_reduced(KernelContext& ctx, Tensor& out, const Tensor& self, uint32_t mask, bool keepdim) {
  int64_t sizes[kMaxRank];
  int rank = 0;
  for (int d = 0; d < self.rank; ++d) {
    const bool reduced = (mask >> d) & 1u;
    if (!reduced) {
      sizes[rank++] = self.sizes[d];
    } else if (keepdim) {
      sizes[rank++] = 1;
    }
  }
  return ctx.resize(out, sizes, rank) && has_data(ctx, out);
}

/// Elements that are folded into each value of the result, saturated (a tensor without elements may have huge dims).
inline int64_t reduced_count(const Tensor& self, uint32_t mask) {
  int64_t count = 1;
  for (int d = 0; d < self.rank; ++d) {
    if (((mask >> d) & 1u) && __builtin_mul_overflow(count, int64_t{self.sizes[d]}, &count)) return INT64_MAX;
  }
  return count;
}

/// Whether elements lie in row-major order.
inline bool in_plain_order(const Tensor& tensor) {
  for (int position = 0; position < tensor.rank; ++position) {
    if (tensor.order(position) != position) return false;
  }
  return true;
}

/// Whether elements of equal index lie at equal offsets: same shape, and same strides where it matters.
inline bool same_layout(const Tensor& a, const Tensor& b) {
  if (!same_shape(a, b)) return false;
  if (a.is_row_major() && b.is_row_major()) return true;
  int64_t x[kMaxRank];
  int64_t y[kMaxRank];
  a.strides(x);
  b.strides(y);
  for (int d = 0; d < a.rank; ++d) {
    if (a.sizes[d] > 1 && x[d] != y[d]) return false;
  }
  return true;
}

}  // namespace etir
