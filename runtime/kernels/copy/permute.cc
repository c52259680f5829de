// Copies with the dims in another order or direction, added or dropped.
#include "kernels/copy/view.h"

namespace etir {

void permute_copy_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  const IntList dims = ctx.int_list(1);
  Tensor& out = ctx.tensor(2);
  if (!check_dtype(ctx, self, 0, out, 2)) return;
  if (dims.size() != self.rank) return ctx.fail(Check::KernelArgument, 1, static_cast<int64_t>(dims.size()));
  const View from = view_of(self);
  View view = from;
  uint32_t seen = 0;
  for (int d = 0; d < self.rank; ++d) {
    const int dim = checked_dim(ctx, dims[d], self.rank);
    if (dim < 0) return;
    if ((seen >> dim & 1) != 0) return ctx.fail(Check::KernelArgument, 1, dims[d]);
    seen |= 1u << dim;
    view.sizes[d] = from.sizes[dim];
    view.strides[d] = from.strides[dim];
  }
  copy_view(ctx, view, self, 0, out, 2);
}

static void swap_dims(View& view, int a, int b) {
  const int64_t size = view.sizes[a], stride = view.strides[a];
  view.sizes[a] = view.sizes[b];
  view.strides[a] = view.strides[b];
  view.sizes[b] = size;
  view.strides[b] = stride;
}

void transpose_copy_int_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(3);
  if (!check_dtype(ctx, self, 0, out, 3)) return;
  const int a = checked_dim(ctx, ctx.integer(1), self.rank), b = checked_dim(ctx, ctx.integer(2), self.rank);
  if (a < 0 || b < 0) return;
  View view = view_of(self);
  if (view.rank > 0) swap_dims(view, a, b);
  copy_view(ctx, view, self, 0, out, 3);
}

void t_copy_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(1);
  if (!check_dtype(ctx, self, 0, out, 1)) return;
  if (self.rank > 2) return ctx.fail(Check::KernelRank, 0, self.rank);
  View view = view_of(self);
  if (view.rank == 2) swap_dims(view, 0, 1);
  copy_view(ctx, view, self, 0, out, 1);
}

static void flip_dim(View& view, int dim) {
  if (view.sizes[dim] > 0) view.shift((view.sizes[dim] - 1) * view.strides[dim]);
  view.strides[dim] = -view.strides[dim];
}

void flip_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  const IntList dims = ctx.int_list(1);
  Tensor& out = ctx.tensor(2);
  if (!check_dtype(ctx, self, 0, out, 2)) return;
  View view = view_of(self);
  uint32_t seen = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int dim = checked_dim(ctx, dims[i], self.rank);
    if (dim < 0) return;
    if ((seen >> dim & 1) != 0) return ctx.fail(Check::KernelArgument, 1, dims[i]);
    seen |= 1u << dim;
    if (self.rank > 0) flip_dim(view, dim);
  }
  copy_view(ctx, view, self, 0, out, 2);
}

void rot90_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  const IntList dims = ctx.int_list(2);
  Tensor& out = ctx.tensor(3);
  if (!check_dtype(ctx, self, 0, out, 3)) return;
  if (self.rank < 2) return ctx.fail(Check::KernelRank, 0, self.rank);
  if (dims.size() != 2) return ctx.fail(Check::KernelArgument, 2, static_cast<int64_t>(dims.size()));
  const int a = checked_dim(ctx, dims[0], self.rank), b = checked_dim(ctx, dims[1], self.rank);
  if (a < 0 || b < 0) return;
  if (a == b) return ctx.fail(Check::KernelArgument, 2, dims[1]);
  const int turns = static_cast<int>(((ctx.integer(1) % 4) + 4) % 4);
  View view = view_of(self);
  if (turns == 1 || turns == 2) flip_dim(view, b);
  if (turns == 2 || turns == 3) flip_dim(view, a);
  if (turns % 2 == 1) swap_dims(view, a, b);
  copy_view(ctx, view, self, 0, out, 3);
}

void unsqueeze_copy_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(2);
  if (!check_dtype(ctx, self, 0, out, 2)) return;
  const int dim = checked_dim(ctx, ctx.integer(1), self.rank + 1);
  if (dim < 0) return;
  View view = view_of(self);
  view.add(1, 1);
  for (int d = self.rank; d > dim; --d) swap_dims(view, d - 1, d);
  copy_view(ctx, view, self, 0, out, 2);
}

/// Drops those dims of size 1 whose bits are set.
static void squeeze(KernelContext& ctx, uint32_t dims, int out_index) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(out_index);
  if (!check_dtype(ctx, self, 0, out, out_index)) return;
  View view = view_of(self);
  for (int d = self.rank - 1; d >= 0; --d) {
    if ((dims >> d & 1) != 0 && view.sizes[d] == 1) view.remove(d);
  }
  copy_view(ctx, view, self, 0, out, out_index);
}

void squeeze_copy_out(KernelContext& ctx) { squeeze(ctx, ~uint32_t{0}, 1); }

void squeeze_copy_dim_out(KernelContext& ctx) {
  const int dim = checked_dim(ctx, ctx.integer(1), ctx.tensor(0).rank);
  if (dim >= 0) squeeze(ctx, 1u << dim, 2);
}

void squeeze_copy_dims_out(KernelContext& ctx) {
  const IntList list = ctx.int_list(1);
  uint32_t dims = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const int dim = checked_dim(ctx, list[i], ctx.tensor(0).rank);
    if (dim < 0) return;
    if ((dims >> dim & 1) != 0) return ctx.fail(Check::KernelArgument, 1, list[i]);
    dims |= 1u << dim;
  }
  squeeze(ctx, dims, 2);
}

}  // namespace etir
