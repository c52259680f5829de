// Copies of a tensor with a part replaced (slice, select, diagonal, as_strided), and the gradients of such parts, which
// are zero elsewhere.
#include "kernels/copy/as_strided.h"
#include "kernels/copy/convert.h"
#include "kernels/copy/slice.h"

namespace etir {

/// Copies argument 0 to `out`, and argument 1 to `region`, a part of `out`.
static void replace_region(KernelContext& ctx, Tensor& out, int out_index, const View& region) {
  const Tensor& self = ctx.tensor(0);
  const Tensor& src = ctx.tensor(1);
  if (src.rank != region.rank) return ctx.fail(Check::KernelRank, 1, src.rank);
  for (int d = 0; d < src.rank; ++d) {
    if (src.sizes[d] != region.sizes[d]) return ctx.fail(Check::KernelShape, 1, src.sizes[d]);
  }
  if (!can_convert(src.dtype, out.dtype)) {
    return ctx.fail(Check::KernelDtypeMismatch, 1, static_cast<int64_t>(src.dtype));
  }
  if (!check_memory(ctx, src, 1, out, out_index) || !copy_same_shape(ctx, self, 0, out, out_index)) return;
  copy_converted(ctx, view_of(src), src.dtype, region, out.dtype);
}

/// Gives the result its shape, that of argument 0; what replace_region needs.
static bool start_scatter(KernelContext& ctx, Tensor& out, int out_index) {
  return check_dtype(ctx, ctx.tensor(0), 0, out, out_index) && ctx.resize_like(out, ctx.tensor(0));
}

/// A dim of the result, which must have one.
static int region_dim(KernelContext& ctx, int dim_index, const Tensor& out) {
  if (out.rank == 0) return ctx.fail(Check::KernelRank, 0, 0), -1;
  return checked_dim(ctx, ctx.integer(dim_index), out.rank);
}

void slice_scatter_out(KernelContext& ctx) {
  Tensor& out = ctx.tensor(6);
  if (!start_scatter(ctx, out, 6)) return;
  const int dim = region_dim(ctx, 2, out);
  if (dim < 0) return;
  View region = view_of(out);
  if (slice_view(ctx, region, dim, ctx.integer_or(3, 0), ctx.integer_or(4, INT64_MAX), ctx.integer(5), 5)) {
    replace_region(ctx, out, 6, region);
  }
}

void select_scatter_out(KernelContext& ctx) {
  Tensor& out = ctx.tensor(4);
  if (!start_scatter(ctx, out, 4)) return;
  const int dim = region_dim(ctx, 2, out);
  if (dim < 0) return;
  View region = view_of(out);
  if (select_view(ctx, region, dim, ctx.integer(3))) replace_region(ctx, out, 4, region);
}

void diagonal_scatter_out(KernelContext& ctx) {
  Tensor& out = ctx.tensor(5);
  if (!start_scatter(ctx, out, 5)) return;
  if (out.rank < 2) return ctx.fail(Check::KernelRank, 0, out.rank);
  View region = view_of(out);
  if (diagonal_view(ctx, region, ctx.integer(2), 3)) replace_region(ctx, out, 5, region);
}

void as_strided_scatter_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(5);
  if (!start_scatter(ctx, out, 5)) return;
  // Strides say where elements lie in memory: they mean the same elements in the same layout only.
  if (!same_dim_order(self, out)) return ctx.fail(Check::KernelDimOrder, 5);
  View region = view_of(out);
  if (!as_strided(ctx, region, out.numel(), 2, 3, ctx.integer_or(4, 0))) return;
  for (int d = 0; d < region.rank; ++d) {
    if (region.strides[d] == 0 && region.sizes[d] > 1) return ctx.fail(Check::KernelArgument, 3, 0);
  }
  replace_region(ctx, out, 5, region);
}

// --- gradients: argument 0 goes to a part of a result whose sizes are argument 1 ---

static bool start_gradient(KernelContext& ctx, Tensor& out, int out_index) {
  const IntList list = ctx.int_list(1);
  if (!check_dtype(ctx, ctx.tensor(0), 0, out, out_index)) return false;
  if (list.size() != out.rank) {
    ctx.fail(Check::KernelResizeRank, static_cast<int64_t>(list.size()), out.rank);
    return false;
  }
  int64_t sizes[kMaxRank];
  for (int d = 0; d < out.rank; ++d) sizes[d] = list[d];
  return ctx.resize(out, sizes, out.rank);
}

static void place_gradient(KernelContext& ctx, const Tensor& out, int out_index, const View& region) {
  const Tensor& grad = ctx.tensor(0);
  if (grad.rank != region.rank) return ctx.fail(Check::KernelRank, 0, grad.rank);
  for (int d = 0; d < grad.rank; ++d) {
    if (grad.sizes[d] != region.sizes[d]) return ctx.fail(Check::KernelShape, 0, grad.sizes[d]);
  }
  if (!check_memory(ctx, grad, 0, out, out_index)) return;
  fill_zero(ctx, view_of(out));
  copy_elements(ctx, view_of(grad), region);
}

void select_backward_out(KernelContext& ctx) {
  Tensor& out = ctx.tensor(4);
  if (!start_gradient(ctx, out, 4)) return;
  const int dim = region_dim(ctx, 2, out);
  if (dim < 0) return;
  View region = view_of(out);
  if (select_view(ctx, region, dim, ctx.integer(3))) place_gradient(ctx, out, 4, region);
}

void slice_backward_out(KernelContext& ctx) {
  Tensor& out = ctx.tensor(6);
  if (!start_gradient(ctx, out, 6)) return;
  const int dim = region_dim(ctx, 2, out);
  if (dim < 0) return;
  View region = view_of(out);
  if (slice_view(ctx, region, dim, ctx.integer(3), ctx.integer(4), ctx.integer(5), 5)) {
    place_gradient(ctx, out, 6, region);
  }
}

void diagonal_backward_out(KernelContext& ctx) {
  Tensor& out = ctx.tensor(5);
  if (!start_gradient(ctx, out, 5)) return;
  if (out.rank < 2) return ctx.fail(Check::KernelRank, 1, out.rank);
  View region = view_of(out);
  if (diagonal_view(ctx, region, ctx.integer(2), 3)) place_gradient(ctx, out, 5, region);
}

}  // namespace etir
