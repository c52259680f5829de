// Advanced indexing: index and index_put.
#include "kernels/indexing/index_walk.h"

namespace etir {

using namespace lines;

void index_tensor_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(2);
  if (!has_data(ctx, 0, self)) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, 2, number(out.dtype));
  IndexPlan plan;
  if (!plan_indices(ctx, plan, self, ctx.tensor_list(1), 1)) return;
  if (!ctx.resize(out, plan.sizes, plan.rank) || !has_data(ctx, 2, out)) return;
  read_indexed(ctx, plan, self, out, 2);
}

/// Puts `values` into `out`, which holds the elements of self already.
static void put(KernelContext& ctx, Tensor& out, int out_argument) {
  const Tensor& values = ctx.tensor(2);
  if (!takes_same(ctx, 2, values, out) || !has_data(ctx, out_argument, out)) return;
  IndexPlan plan;
  if (!plan_indices(ctx, plan, out, ctx.tensor_list(1), 1)) return;
  if (!broadcasts_to_result(plan, values)) return ctx.fail(Check::KernelShape, 2, values.numel());
  if (ctx.boolean(3)) {
    combine_indexed<kRealBool | kComplex>(ctx, plan, out, values, out_argument,
                                          [](auto a, auto b) { return wrapping_add(a, b); });
  } else {
    write_indexed(ctx, plan, out, values, out_argument);
  }
}

void index_put_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(4);
  if (!has_data(ctx, 0, self)) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, 4, number(out.dtype));
  if (copy_to_out(ctx, self, 4, out)) put(ctx, out, 4);
}

void index_put_inplace(KernelContext& ctx) { put(ctx, ctx.tensor(0), 0); }

}  // namespace etir
