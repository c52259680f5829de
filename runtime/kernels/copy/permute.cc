// Copies with the dims in another order or direction, added or dropped.
#include "kernels/copy/permute.gen.h"
#include "kernels/copy/rearrange.h"
#include "kernels/copy/view.h"

namespace etir {
namespace {

/// Whether the elements of a view are all of the result's memory, and have been moved to where the result has them.
bool moved_in_place(const View& view, const Tensor& out) {
  if (view.data == nullptr || view.data != out.data) return false;
  const View to = view_of(out);
  CopyDims dims;
  for (int d = 0; d < to.rank; ++d) dims.add(to.sizes[d], view.strides[d], to.strides[d]);
  return rearrange(dims, to.data, to.element);
}

}  // namespace

void permute_copy_out(KernelContext& ctx, const Tensor& self, const IntList& dims, Tensor& out) {
  using arg = arguments::permute_copy_out;
  if (!check_dtype(ctx, self, out)) return;
  if (dims.size() != self.rank) return ctx.fail(Check::KernelArgument, arg::dims, static_cast<int64_t>(dims.size()));
  const View from = view_of(self);
  View view = from;
  uint32_t seen = 0;
  for (int d = 0; d < self.rank; ++d) {
    const int dim = checked_dim(ctx, dims[d], self.rank);
    if (dim < 0) return;
    if ((seen >> dim & 1) != 0) return ctx.fail(Check::KernelArgument, arg::dims, dims[d]);
    seen |= 1u << dim;
    view.sizes[d] = from.sizes[dim];
    view.strides[d] = from.strides[dim];
  }
  if (!ctx.resize(out, view.sizes, view.rank) || moved_in_place(view, out)) return;
  copy_view(ctx, view, self, out);
}

static void swap_dims(View& view, int a, int b) {
  const int64_t size = view.sizes[a], stride = view.strides[a];
  view.sizes[a] = view.sizes[b];
  view.strides[a] = view.strides[b];
  view.sizes[b] = size;
  view.strides[b] = stride;
}

void transpose_copy_int_out(KernelContext& ctx, const Tensor& self, int64_t dim0, int64_t dim1, Tensor& out) {
  if (!check_dtype(ctx, self, out)) return;
  const int a = checked_dim(ctx, dim0, self.rank), b = checked_dim(ctx, dim1, self.rank);
  if (a < 0 || b < 0) return;
  View view = view_of(self);
  if (view.rank > 0) swap_dims(view, a, b);
  copy_view(ctx, view, self, out);
}

void t_copy_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (!check_dtype(ctx, self, out)) return;
  if (self.rank > 2) return ctx.fail(Check::KernelRank, self, self.rank);
  View view = view_of(self);
  if (view.rank == 2) swap_dims(view, 0, 1);
  copy_view(ctx, view, self, out);
}

static void flip_dim(View& view, int dim) {
  if (view.sizes[dim] > 0) view.shift((view.sizes[dim] - 1) * view.strides[dim]);
  view.strides[dim] = -view.strides[dim];
}

void flip_out(KernelContext& ctx, const Tensor& self, const IntList& dims, Tensor& out) {
  using arg = arguments::flip_out;
  if (!check_dtype(ctx, self, out)) return;
  View view = view_of(self);
  uint32_t seen = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int dim = checked_dim(ctx, dims[i], self.rank);
    if (dim < 0) return;
    if ((seen >> dim & 1) != 0) return ctx.fail(Check::KernelArgument, arg::dims, dims[i]);
    seen |= 1u << dim;
    if (self.rank > 0) flip_dim(view, dim);
  }
  copy_view(ctx, view, self, out);
}

void rot90_out(KernelContext& ctx, const Tensor& self, int64_t k, const IntList& dims, Tensor& out) {
  using arg = arguments::rot90_out;
  if (!check_dtype(ctx, self, out)) return;
  if (self.rank < 2) return ctx.fail(Check::KernelRank, self, self.rank);
  if (dims.size() != 2) return ctx.fail(Check::KernelArgument, arg::dims, static_cast<int64_t>(dims.size()));
  const int a = checked_dim(ctx, dims[0], self.rank), b = checked_dim(ctx, dims[1], self.rank);
  if (a < 0 || b < 0) return;
  if (a == b) return ctx.fail(Check::KernelArgument, arg::dims, dims[1]);
  const int turns = static_cast<int>(((k % 4) + 4) % 4);
  View view = view_of(self);
  if (turns == 1 || turns == 2) flip_dim(view, b);
  if (turns == 2 || turns == 3) flip_dim(view, a);
  if (turns % 2 == 1) swap_dims(view, a, b);
  copy_view(ctx, view, self, out);
}

void unsqueeze_copy_out(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  if (!check_dtype(ctx, self, out)) return;
  const int axis = checked_dim(ctx, dim, self.rank + 1);
  if (axis < 0) return;
  View view = view_of(self);
  view.add(1, 1);
  for (int d = self.rank; d > axis; --d) swap_dims(view, d - 1, d);
  copy_view(ctx, view, self, out);
}

/// Drops those dims of size 1 whose bits are set.
static void squeeze(KernelContext& ctx, const Tensor& self, uint32_t dims, Tensor& out) {
  if (!check_dtype(ctx, self, out)) return;
  View view = view_of(self);
  for (int d = self.rank - 1; d >= 0; --d) {
    if ((dims >> d & 1) != 0 && view.sizes[d] == 1) view.remove(d);
  }
  copy_view(ctx, view, self, out);
}

void squeeze_copy_out(KernelContext& ctx, const Tensor& self, Tensor& out) { squeeze(ctx, self, ~uint32_t{0}, out); }

void squeeze_copy_dim_out(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  const int axis = checked_dim(ctx, dim, self.rank);
  if (axis >= 0) squeeze(ctx, self, 1u << axis, out);
}

void squeeze_copy_dims_out(KernelContext& ctx, const Tensor& self, const IntList& dim, Tensor& out) {
  using arg = arguments::squeeze_copy_dims_out;
  uint32_t dims = 0;
  for (size_t i = 0; i < dim.size(); ++i) {
    const int axis = checked_dim(ctx, dim[i], self.rank);
    if (axis < 0) return;
    if ((dims >> axis & 1) != 0) return ctx.fail(Check::KernelArgument, arg::dim, dim[i]);
    dims |= 1u << axis;
  }
  squeeze(ctx, self, dims, out);
}

}  // namespace etir
