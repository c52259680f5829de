// Largest and smallest values: amax, amin, aminmax, and max and min of a whole tensor. NaN wins over every number.
#include "kernels/util/reduce.h"
#include "kernels/util/reduce_args.h"
#include "kernels/util/reduce_ops.h"

namespace etir {
namespace {

template <typename T, bool kMax>
bool extreme_as(KernelContext& ctx, const Tensor& self, uint32_t mask, const Tensor& out) {
  Source<T> source;
  Sink<T> sink;
  if (!make_source<T, kRealBool>(self, &source) || !make_sink<T, kRealBool>(out, &sink)) return false;
  reduce(ctx, make_reduce_plan(self, mask, out), source, sink, ExtremeOp<T, kMax>(), [](T value) { return value; });
  return true;
}

/// Into result `out_index`, whose shape is set here.
template <bool kMax>
void extreme(KernelContext& ctx, uint32_t mask, bool keepdim, int out_index) {
  const Tensor& self = ctx.tensor(0);
  const Tensor& out = ctx.tensor(out_index);
  // There is no extreme of nothing.
  for (int d = 0; d < self.rank; ++d) {
    if (((mask >> d) & 1u) && self.sizes[d] == 0) return ctx.fail(Check::KernelShape, 0, 0);
  }
  if (!require_data(ctx, 0) || !resize_reduced(ctx, out_index, self, mask, keepdim)) return;
  const bool done = self.dtype == ScalarType::Double ? extreme_as<double, kMax>(ctx, self, mask, out)
                    : is_integral(self.dtype, true)  ? extreme_as<int64_t, kMax>(ctx, self, mask, out)
                                                     : extreme_as<float, kMax>(ctx, self, mask, out);
  if (!done) ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
}

bool require_same_dtype(KernelContext& ctx, int out_index) {
  const ScalarType dtype = ctx.tensor(out_index).dtype;
  if (dtype == ctx.tensor(0).dtype) return true;
  ctx.fail(Check::KernelDtypeMismatch, out_index, static_cast<int64_t>(dtype));
  return false;
}

template <bool kMax>
void extreme_dims(KernelContext& ctx) {
  uint32_t mask;
  if (require_same_dtype(ctx, 3) && dim_mask(ctx, 1, ctx.tensor(0), &mask)) {
    extreme<kMax>(ctx, mask, ctx.boolean(2), 3);
  }
}

/// The result may be of any dtype that values of self's kind can be cast to.
template <bool kMax>
void extreme_all(KernelContext& ctx) {
  const ScalarType from = ctx.tensor(0).dtype;
  const ScalarType to = ctx.tensor(1).dtype;
  const auto category = [](ScalarType type) { return type == ScalarType::Bool ? 0 : is_floating(type) ? 2 : 1; };
  if (!contains(kRealBool, to) || category(to) < category(from)) {
    return ctx.fail(Check::KernelDtype, 1, static_cast<int64_t>(to));
  }
  extreme<kMax>(ctx, all_dims(ctx.tensor(0)), false, 1);
}

}  // namespace

void amax_out(KernelContext& ctx) { extreme_dims<true>(ctx); }
void amin_out(KernelContext& ctx) { extreme_dims<false>(ctx); }
void max_all_out(KernelContext& ctx) { extreme_all<true>(ctx); }
void min_all_out(KernelContext& ctx) { extreme_all<false>(ctx); }

void aminmax_out(KernelContext& ctx) {
  uint32_t mask = all_dims(ctx.tensor(0));
  if (ctx.has(1) && !one_dim(ctx, ctx.integer(1), ctx.tensor(0), &mask)) return;
  if (!require_same_dtype(ctx, 3) || !require_same_dtype(ctx, 4)) return;
  extreme<false>(ctx, mask, ctx.boolean(2), 3);
  if (!ctx.failed()) extreme<true>(ctx, mask, ctx.boolean(2), 4);
}

}  // namespace etir
