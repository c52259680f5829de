// Copies of a tensor with a part replaced: slice_scatter, select_scatter, diagonal_scatter, as_strided_scatter.
#include "kernels/copy/as_strided.h"
#include "kernels/copy/convert.h"
#include "kernels/copy/slice.h"
#include "kernels/copy/slice_scatter.gen.h"

namespace etir {

/// Copies `self` to `out`, and `src` to `region`, a part of `out`.
static void replace_region(KernelContext& ctx, const Tensor& self, const Tensor& src, Tensor& out, const View& region) {
  if (src.rank != region.rank) return ctx.fail(Check::KernelRank, src, src.rank);
  for (int d = 0; d < src.rank; ++d) {
    if (src.sizes[d] != region.sizes[d]) return ctx.fail(Check::KernelShape, src, src.sizes[d]);
  }
  if (!can_convert(src.dtype, out.dtype)) {
    return ctx.fail(Check::KernelDtypeMismatch, src, static_cast<int64_t>(src.dtype));
  }
  if (!check_memory(ctx, src, out) || !copy_same_shape(ctx, self, out)) return;
  copy_converted(ctx, view_of(src), src.dtype, region, out.dtype);
}

/// Gives the result its shape, that of `self`; what replace_region needs.
static bool start_scatter(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return check_dtype(ctx, self, out) && ctx.resize_like(out, self);
}

void slice_scatter_out(KernelContext& ctx, const Tensor& self, const Tensor& src, int64_t dim,
                       std::optional<int64_t> start, std::optional<int64_t> end, int64_t step, Tensor& out) {
  if (!start_scatter(ctx, self, out)) return;
  const int axis = part_dim(ctx, dim, self);
  if (axis < 0) return;
  View region = view_of(out);
  if (slice_view(ctx, region, axis, start.value_or(0), end.value_or(INT64_MAX), step,
                 arguments::slice_scatter_out::step)) {
    replace_region(ctx, self, src, out, region);
  }
}

void select_scatter_out(KernelContext& ctx, const Tensor& self, const Tensor& src, int64_t dim, int64_t index,
                        Tensor& out) {
  if (!start_scatter(ctx, self, out)) return;
  const int axis = part_dim(ctx, dim, self);
  if (axis < 0) return;
  View region = view_of(out);
  if (select_view(ctx, region, axis, index)) replace_region(ctx, self, src, out, region);
}

void diagonal_scatter_out(KernelContext& ctx, const Tensor& self, const Tensor& src, int64_t offset, int64_t dim1,
                          int64_t dim2, Tensor& out) {
  if (!start_scatter(ctx, self, out)) return;
  if (out.rank < 2) return ctx.fail(Check::KernelRank, self, out.rank);
  View region = view_of(out);
  if (diagonal_view(ctx, region, offset, dim1, dim2, arguments::diagonal_scatter_out::dim2))
    replace_region(ctx, self, src, out, region);
}

void as_strided_scatter_out(KernelContext& ctx, const Tensor& self, const Tensor& src, const IntList& size,
                            const IntList& stride, std::optional<int64_t> storage_offset, Tensor& out) {
  using arg = arguments::as_strided_scatter_out;
  if (!start_scatter(ctx, self, out)) return;
  // Strides say where elements lie in memory: they mean the same elements in the same layout only.
  if (!same_dim_order(self, out)) return ctx.fail(Check::KernelDimOrder, out);
  View region = view_of(out);
  if (!as_strided(ctx, region, out.numel(), size, stride, storage_offset.value_or(0), arg::size)) return;
  for (int d = 0; d < region.rank; ++d) {
    if (region.strides[d] == 0 && region.sizes[d] > 1) return ctx.fail(Check::KernelArgument, arg::stride, 0);
  }
  replace_region(ctx, self, src, out, region);
}

}  // namespace etir
