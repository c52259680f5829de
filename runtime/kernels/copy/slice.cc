// Copies of parts: select, slice, narrow, split, unbind, diagonal, unfold.
#include "kernels/copy/slice.h"

#include "kernels/copy/slice.gen.h"

namespace etir {

void select_copy_int_out(KernelContext& ctx, const Tensor& self, int64_t dim, int64_t index, Tensor& out) {
  const int axis = part_dim(ctx, dim, self);
  if (axis < 0 || !check_dtype(ctx, self, out)) return;
  View view = view_of(self);
  if (select_view(ctx, view, axis, index)) copy_view(ctx, view, self, out);
}

void slice_copy_tensor_out(KernelContext& ctx, const Tensor& self, int64_t dim, std::optional<int64_t> start,
                           std::optional<int64_t> end, int64_t step, Tensor& out) {
  const int axis = part_dim(ctx, dim, self);
  if (axis < 0 || !check_dtype(ctx, self, out)) return;
  View view = view_of(self);
  if (slice_view(ctx, view, axis, start.value_or(0), end.value_or(INT64_MAX), step,
                 arguments::slice_copy_tensor_out::step)) {
    copy_view(ctx, view, self, out);
  }
}

void narrow_copy_out(KernelContext& ctx, const Tensor& self, int64_t dim, int64_t start, int64_t length, Tensor& out) {
  using arg = arguments::narrow_copy_out;
  const int axis = part_dim(ctx, dim, self);
  if (axis < 0 || !check_dtype(ctx, self, out)) return;
  View view = view_of(self);
  const int64_t size = view.sizes[axis];
  if (start < -size || start > size) return ctx.fail(Check::KernelIndex, start, size);
  if (start < 0) start += size;
  if (length < 0 || length > size - start) return ctx.fail(Check::KernelArgument, arg::length, length);
  if (slice_view(ctx, view, axis, start, start + length, 1, arg::start)) copy_view(ctx, view, self, out);
}

/// Copies `size` elements of `dim` from `start` on into a result of a list.
static bool copy_part(KernelContext& ctx, const Tensor& self, int dim, int64_t start, int64_t size, Tensor& out) {
  if (!check_dtype(ctx, self, out)) return false;
  View view = view_of(self);
  view.sizes[dim] = size;
  if (size > 0) view.shift(start * view.strides[dim]);
  copy_view(ctx, view, self, out);
  return !ctx.failed();
}

void split_copy_tensor_out(KernelContext& ctx, const Tensor& self, int64_t split_size, int64_t dim,
                           const TensorList& out) {
  using arg = arguments::split_copy_tensor_out;
  const int axis = part_dim(ctx, dim, self);
  if (axis < 0) return;
  const int64_t size = self.sizes[axis];
  if (split_size < 0 || (split_size == 0 && size != 0))
    return ctx.fail(Check::KernelArgument, arg::split_size, split_size);
  const int64_t parts = size == 0 ? 1 : (size - 1) / split_size + 1;
  if (static_cast<int64_t>(out.size()) != parts) return ctx.fail(Check::KernelArgument, arg::out, parts);
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t start = i * split_size, left = size - start;
    if (!copy_part(ctx, self, axis, start, left < split_size ? left : split_size, out[static_cast<size_t>(i)])) return;
  }
}

void split_with_sizes_copy_out(KernelContext& ctx, const Tensor& self, const IntList& split_sizes, int64_t dim,
                               const TensorList& out) {
  using arg = arguments::split_with_sizes_copy_out;
  const int axis = part_dim(ctx, dim, self);
  if (axis < 0) return;
  int64_t left = self.sizes[axis];
  for (size_t i = 0; i < split_sizes.size(); ++i) {
    if (split_sizes[i] < 0 || split_sizes[i] > left)
      return ctx.fail(Check::KernelArgument, arg::split_sizes, split_sizes[i]);
    left -= split_sizes[i];
  }
  if (left != 0) return ctx.fail(Check::KernelArgument, arg::split_sizes, left);
  if (out.size() != split_sizes.size())
    return ctx.fail(Check::KernelArgument, arg::out, static_cast<int64_t>(out.size()));
  int64_t start = 0;
  for (size_t i = 0; i < split_sizes.size(); ++i) {
    if (!copy_part(ctx, self, axis, start, split_sizes[i], out[i])) return;
    start += split_sizes[i];
  }
}

void unbind_copy_int_out(KernelContext& ctx, const Tensor& self, int64_t dim, const TensorList& out) {
  using arg = arguments::unbind_copy_int_out;
  const int axis = part_dim(ctx, dim, self);
  if (axis < 0) return;
  if (static_cast<int64_t>(out.size()) != self.sizes[axis])
    return ctx.fail(Check::KernelArgument, arg::out, self.sizes[axis]);
  for (size_t i = 0; i < out.size(); ++i) {
    View view = view_of(self);
    if (!check_dtype(ctx, self, out[i]) || !select_view(ctx, view, axis, static_cast<int64_t>(i))) return;
    copy_view(ctx, view, self, out[i]);
    if (ctx.failed()) return;
  }
}

void diagonal_copy_out(KernelContext& ctx, const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2,
                       Tensor& out) {
  if (!check_dtype(ctx, self, out)) return;
  if (self.rank < 2) return ctx.fail(Check::KernelRank, self, self.rank);
  View view = view_of(self);
  if (diagonal_view(ctx, view, offset, dim1, dim2, arguments::diagonal_copy_out::dim2)) copy_view(ctx, view, self, out);
}

void unfold_copy_out(KernelContext& ctx, const Tensor& self, int64_t dimension, int64_t size, int64_t step,
                     Tensor& out) {
  using arg = arguments::unfold_copy_out;
  if (!check_dtype(ctx, self, out)) return;
  const int dim = checked_dim(ctx, dimension, self.rank);
  if (dim < 0) return;
  View view = view_of(self);
  const int64_t available = self.rank == 0 ? 1 : view.sizes[dim];
  if (size < 0 || size > available) return ctx.fail(Check::KernelArgument, arg::size, size);
  if (step <= 0) return ctx.fail(Check::KernelArgument, arg::step, step);
  const int64_t stride = self.rank == 0 ? 1 : view.strides[dim];
  if (self.rank > 0) {
    view.sizes[dim] = (available - size) / step + 1;
    view.strides[dim] = view.sizes[dim] > 1 ? stride * step : stride;
  }
  view.add(size, stride);
  copy_view(ctx, view, self, out);
}

}  // namespace etir
