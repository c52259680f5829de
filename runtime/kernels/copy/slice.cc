// Copies of parts: select, slice, narrow, split, unbind, diagonal, unfold.
#include "kernels/copy/slice.h"

namespace etir {

/// Checks what parts of argument 0 along the dim in argument `dim_index` have in common; its dim, or -1.
static int part_dim(KernelContext& ctx, int dim_index) {
  const Tensor& self = ctx.tensor(0);
  if (self.rank == 0) return ctx.fail(Check::KernelRank, 0, 0), -1;
  return checked_dim(ctx, ctx.integer(dim_index), self.rank);
}

void select_copy_int_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(3);
  const int dim = part_dim(ctx, 1);
  if (dim < 0 || !check_dtype(ctx, self, 0, out, 3)) return;
  View view = view_of(self);
  if (select_view(ctx, view, dim, ctx.integer(2))) copy_view(ctx, view, self, 0, out, 3);
}

void slice_copy_tensor_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(5);
  const int dim = part_dim(ctx, 1);
  if (dim < 0 || !check_dtype(ctx, self, 0, out, 5)) return;
  View view = view_of(self);
  if (slice_view(ctx, view, dim, ctx.integer_or(2, 0), ctx.integer_or(3, INT64_MAX), ctx.integer(4), 4)) {
    copy_view(ctx, view, self, 0, out, 5);
  }
}

void narrow_copy_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  int64_t start = ctx.integer(2);
  const int64_t length = ctx.integer(3);
  Tensor& out = ctx.tensor(4);
  const int dim = part_dim(ctx, 1);
  if (dim < 0 || !check_dtype(ctx, self, 0, out, 4)) return;
  View view = view_of(self);
  const int64_t size = view.sizes[dim];
  if (start < -size || start > size) return ctx.fail(Check::KernelIndex, start, size);
  if (start < 0) start += size;
  if (length < 0 || length > size - start) return ctx.fail(Check::KernelArgument, 3, length);
  if (slice_view(ctx, view, dim, start, start + length, 1, 3)) copy_view(ctx, view, self, 0, out, 4);
}

/// Copies `size` elements of `dim` from `start` on into a result of a list.
static bool copy_part(KernelContext& ctx, const Tensor& self, int dim, int64_t start, int64_t size, Tensor& out,
                      int out_index) {
  if (!check_dtype(ctx, self, 0, out, out_index)) return false;
  View view = view_of(self);
  view.sizes[dim] = size;
  if (size > 0) view.shift(start * view.strides[dim]);
  copy_view(ctx, view, self, 0, out, out_index);
  return !ctx.failed();
}

void split_copy_tensor_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  const int64_t part = ctx.integer(1);
  const TensorList outs = ctx.tensor_list(3);
  const int dim = part_dim(ctx, 2);
  if (dim < 0) return;
  const int64_t size = self.sizes[dim];
  if (part < 0 || (part == 0 && size != 0)) return ctx.fail(Check::KernelArgument, 1, part);
  const int64_t parts = size == 0 ? 1 : (size - 1) / part + 1;
  if (static_cast<int64_t>(outs.size()) != parts) return ctx.fail(Check::KernelArgument, 3, parts);
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t start = i * part, left = size - start;
    if (!copy_part(ctx, self, dim, start, left < part ? left : part, outs[static_cast<size_t>(i)], 3)) return;
  }
}

void split_with_sizes_copy_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  const IntList sizes = ctx.int_list(1);
  const TensorList outs = ctx.tensor_list(3);
  const int dim = part_dim(ctx, 2);
  if (dim < 0) return;
  int64_t left = self.sizes[dim];
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > left) return ctx.fail(Check::KernelArgument, 1, sizes[i]);
    left -= sizes[i];
  }
  if (left != 0) return ctx.fail(Check::KernelArgument, 1, left);
  if (outs.size() != sizes.size()) return ctx.fail(Check::KernelArgument, 3, static_cast<int64_t>(outs.size()));
  int64_t start = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!copy_part(ctx, self, dim, start, sizes[i], outs[i], 3)) return;
    start += sizes[i];
  }
}

void unbind_copy_int_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  const TensorList outs = ctx.tensor_list(2);
  const int dim = part_dim(ctx, 1);
  if (dim < 0) return;
  if (static_cast<int64_t>(outs.size()) != self.sizes[dim]) return ctx.fail(Check::KernelArgument, 2, self.sizes[dim]);
  for (size_t i = 0; i < outs.size(); ++i) {
    View view = view_of(self);
    if (!check_dtype(ctx, self, 0, outs[i], 2) || !select_view(ctx, view, dim, static_cast<int64_t>(i))) return;
    copy_view(ctx, view, self, 0, outs[i], 2);
    if (ctx.failed()) return;
  }
}

void diagonal_copy_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(4);
  if (!check_dtype(ctx, self, 0, out, 4)) return;
  if (self.rank < 2) return ctx.fail(Check::KernelRank, 0, self.rank);
  View view = view_of(self);
  if (diagonal_view(ctx, view, ctx.integer(1), 2)) copy_view(ctx, view, self, 0, out, 4);
}

void unfold_copy_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  const int64_t size = ctx.integer(2), step = ctx.integer(3);
  Tensor& out = ctx.tensor(4);
  if (!check_dtype(ctx, self, 0, out, 4)) return;
  const int dim = checked_dim(ctx, ctx.integer(1), self.rank);
  if (dim < 0) return;
  View view = view_of(self);
  const int64_t available = self.rank == 0 ? 1 : view.sizes[dim];
  if (size < 0 || size > available) return ctx.fail(Check::KernelArgument, 2, size);
  if (step <= 0) return ctx.fail(Check::KernelArgument, 3, step);
  const int64_t stride = self.rank == 0 ? 1 : view.strides[dim];
  if (self.rank > 0) {
    view.sizes[dim] = (available - size) / step + 1;
    view.strides[dim] = view.sizes[dim] > 1 ? stride * step : stride;
  }
  view.add(size, stride);
  copy_view(ctx, view, self, 0, out, 4);
}

}  // namespace etir
