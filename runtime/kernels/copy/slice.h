// Slices of a view, with torch's rules for indices: used by the operators that copy slices and by those that fill them.
#pragma once

#include "kernels/copy/view.h"

namespace etir {

/// Cuts `dim` down to start, start + step, ... before end; bounds are wrapped and clamped. `step_position` is the
/// argument to blame for a step that is not positive.
inline bool slice_view(KernelContext& ctx, View& view, int dim, int64_t start, int64_t end, int64_t step,
                       int step_position) {
  if (step <= 0) {
    ctx.fail(Check::KernelArgument, step_position, step);
    return false;
  }
  const int64_t size = view.sizes[dim];
  const auto clamp = [size](int64_t i, int64_t low) {
    if (i < 0) i += size;
    return i < low ? low : i > size ? size : i;
  };
  start = clamp(start, 0);
  end = clamp(end, start);
  const int64_t length = end - start;
  view.sizes[dim] = length / step + (length % step != 0 ? 1 : 0);
  if (length > 0) view.shift(start * view.strides[dim]);
  // The stride of a dim of one element is never used, but must not overflow.
  view.strides[dim] = view.sizes[dim] > 1 ? view.strides[dim] * step : view.strides[dim];
  return true;
}

/// Takes element `index` of `dim` and drops the dim.
inline bool select_view(KernelContext& ctx, View& view, int dim, int64_t index) {
  const int64_t size = view.sizes[dim];
  if (index < -size || index >= size) {
    ctx.fail(Check::KernelIndex, index, size);
    return false;
  }
  view.shift((index < 0 ? index + size : index) * view.strides[dim]);
  view.remove(dim);
  return true;
}

/// Replaces two dims by their diagonal, as the last dim. The second one is the argument at `dim2_position`.
inline bool diagonal_view(KernelContext& ctx, View& view, int64_t offset, int64_t dim1_given, int64_t dim2_given,
                          int dim2_position) {
  const int dim1 = checked_dim(ctx, dim1_given, view.rank);
  const int dim2 = checked_dim(ctx, dim2_given, view.rank);
  if (dim1 < 0 || dim2 < 0) return false;
  if (dim1 == dim2) {
    ctx.fail(Check::KernelArgument, dim2_position, dim2);
    return false;
  }
  const int64_t rows = view.sizes[dim1] + (offset < 0 ? offset : 0);
  const int64_t columns = view.sizes[dim2] - (offset > 0 ? offset : 0);
  const int64_t size = rows < columns ? rows : columns;
  const int64_t stride = view.strides[dim1] + view.strides[dim2];
  if (size > 0) view.shift(offset < 0 ? -offset * view.strides[dim1] : offset * view.strides[dim2]);
  view.remove(dim1 > dim2 ? dim1 : dim2);
  view.remove(dim1 > dim2 ? dim2 : dim1);
  view.add(size > 0 ? size : 0, stride);
  return true;
}

/// A dim argument of an operator on parts of `whole`, which must have dims; -1 with the failure recorded.
inline int part_dim(KernelContext& ctx, int64_t dim, const Tensor& whole) {
  if (whole.rank == 0) return ctx.fail(Check::KernelRank, whole, 0), -1;
  return checked_dim(ctx, dim, whole.rank);
}

}  // namespace etir
