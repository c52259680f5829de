// Gradients of parts of a tensor (slice, select, diagonal): the part's gradient in its place, zeros elsewhere.
#include "kernels/copy/fill.h"
#include "kernels/copy/slice.h"
#include "kernels/copy/slice_backward.gen.h"

namespace etir {

/// Gives the result its sizes.
static bool start_gradient(KernelContext& ctx, const Tensor& grad, const IntList& list, Tensor& out) {
  if (!check_dtype(ctx, grad, out)) return false;
  if (list.size() != out.rank) {
    ctx.fail(Check::KernelResizeRank, static_cast<int64_t>(list.size()), out.rank);
    return false;
  }
  int64_t sizes[kMaxRank];
  for (int d = 0; d < out.rank; ++d) sizes[d] = list[d];
  return ctx.resize(out, sizes, out.rank);
}

/// Copies `grad` to `region`, a part of `out`, and zeros elsewhere.
static void place_gradient(KernelContext& ctx, const Tensor& grad, const Tensor& out, const View& region) {
  if (grad.rank != region.rank) return ctx.fail(Check::KernelRank, grad, grad.rank);
  for (int d = 0; d < grad.rank; ++d) {
    if (grad.sizes[d] != region.sizes[d]) return ctx.fail(Check::KernelShape, grad, grad.sizes[d]);
  }
  if (!check_memory(ctx, grad, out)) return;
  fill_zero(ctx, view_of(out));
  copy_elements(ctx, view_of(grad), region);
}

void select_backward_out(KernelContext& ctx, const Tensor& grad_output, const IntList& input_sizes, int64_t dim,
                         int64_t index, Tensor& out) {
  if (!start_gradient(ctx, grad_output, input_sizes, out)) return;
  const int axis = part_dim(ctx, dim, out);
  if (axis < 0) return;
  View region = view_of(out);
  if (select_view(ctx, region, axis, index)) place_gradient(ctx, grad_output, out, region);
}

void slice_backward_out(KernelContext& ctx, const Tensor& grad_output, const IntList& input_sizes, int64_t dim,
                        int64_t start, int64_t end, int64_t step, Tensor& out) {
  if (!start_gradient(ctx, grad_output, input_sizes, out)) return;
  const int axis = part_dim(ctx, dim, out);
  if (axis < 0) return;
  View region = view_of(out);
  if (slice_view(ctx, region, axis, start, end, step, arguments::slice_backward_out::step)) {
    place_gradient(ctx, grad_output, out, region);
  }
}

void diagonal_backward_out(KernelContext& ctx, const Tensor& grad_output, const IntList& input_sizes, int64_t offset,
                           int64_t dim1, int64_t dim2, Tensor& out) {
  using arg = arguments::diagonal_backward_out;
  if (!start_gradient(ctx, grad_output, input_sizes, out)) return;
  if (out.rank < 2) return ctx.fail(Check::KernelRank, arg::input_sizes, out.rank);
  View region = view_of(out);
  if (diagonal_view(ctx, region, offset, dim1, dim2, arguments::diagonal_backward_out::dim2))
    place_gradient(ctx, grad_output, out, region);
}

}  // namespace etir
