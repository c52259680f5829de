// Copies of a tensor with a part replaced: slice_scatter, select_scatter, diagonal_scatter, as_strided_scatter.
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

}  // namespace etir
