// Advanced indexing: index and index_put.
#include "kernels/indexing/index.gen.h"
#include "kernels/indexing/index_walk.h"

namespace etir {

using namespace lines;

void index_tensor_out(KernelContext& ctx, const Tensor& self, const TensorList& indices, Tensor& out) {
  using arg = arguments::index_tensor_out;
  if (!has_data(ctx, self)) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  IndexPlan plan;
  if (!plan_indices(ctx, plan, self, indices, arg::indices)) return;
  if (!ctx.resize(out, plan.sizes, plan.rank) || !has_data(ctx, out)) return;
  read_indexed(ctx, plan, self, out, arg::out);
}

/// Puts `values` into `out`, which holds the elements of self already.
static void put(KernelContext& ctx, const TensorList& indices, const Tensor& values, bool accumulate, Tensor& out,
                int out_position) {
  if (!takes_same(ctx, values, out) || !has_data(ctx, out)) return;
  IndexPlan plan;
  if (!plan_indices(ctx, plan, out, indices, arguments::index_put_out::indices)) return;
  if (!broadcasts_to_result(plan, values)) return ctx.fail(Check::KernelShape, values, values.numel());
  if (accumulate) {
    combine_indexed<kRealBool | kComplex>(ctx, plan, out, values, out_position,
                                          [](auto a, auto b) { return wrapping_add(a, b); });
  } else {
    write_indexed(ctx, plan, out, values, out_position);
  }
}

void index_put_out(KernelContext& ctx, const Tensor& self, const TensorList& indices, const Tensor& values,
                   bool accumulate, Tensor& out) {
  if (!has_data(ctx, self)) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  if (copy_to_out(ctx, self, out)) put(ctx, indices, values, accumulate, out, arguments::index_put_out::out);
}

void index_put_inplace(KernelContext& ctx, Tensor& self, const TensorList& indices, const Tensor& values,
                       bool accumulate) {
  put(ctx, indices, values, accumulate, self, arguments::index_put_inplace::self);
}

}  // namespace etir
