// Gradients of parts of a tensor (slice, select, diagonal): the part's gradient in its place, zeros elsewhere.
#include "kernels/copy/fill.h"
#include "kernels/copy/slice.h"

namespace etir {

/// Gives the result the sizes of argument 1.
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

/// Copies argument 0 to `region`, a part of `out`, and zeros elsewhere.
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
