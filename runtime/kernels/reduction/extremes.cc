// Largest and smallest values: amax, amin, aminmax, and max and min of a whole tensor. NaN wins over every number.
#include "kernels/reduction/extremes.gen.h"
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
void extreme(KernelContext& ctx, const Tensor& self, uint32_t mask, bool keepdim, Tensor& out) {
  // There is no extreme of nothing.
  for (int d = 0; d < self.rank; ++d) {
    if (((mask >> d) & 1u) && self.sizes[d] == 0) return ctx.fail(Check::KernelShape, self, 0);
  }
  if (!has_data(ctx, self) || !resize_reduced(ctx, out, self, mask, keepdim)) return;
  const bool done = self.dtype == ScalarType::Double ? extreme_as<double, kMax>(ctx, self, mask, out)
                    : is_integral(self.dtype, true)  ? extreme_as<int64_t, kMax>(ctx, self, mask, out)
                                                     : extreme_as<float, kMax>(ctx, self, mask, out);
  if (!done) ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
}

bool require_same_dtype(KernelContext& ctx, const Tensor& self, const Tensor& out) {
  if (out.dtype == self.dtype) return true;
  ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  return false;
}

template <bool kMax>
void extreme_dims(KernelContext& ctx, const Tensor& self, const IntList& dim, bool keepdim, Tensor& out) {
  uint32_t mask;
  if (require_same_dtype(ctx, self, out) && dim_mask(ctx, dim, arguments::amax_out::dim, self, &mask)) {
    extreme<kMax>(ctx, self, mask, keepdim, out);
  }
}

/// The result may be of any dtype that values of self's kind can be cast to.
template <bool kMax>
void extreme_all(KernelContext& ctx, const Tensor& self, Tensor& out) {
  const ScalarType from = self.dtype, to = out.dtype;
  const auto category = [](ScalarType type) { return type == ScalarType::Bool ? 0 : is_floating(type) ? 2 : 1; };
  if (!contains(kRealBool, to) || category(to) < category(from)) {
    return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(to));
  }
  extreme<kMax>(ctx, self, all_dims(self), false, out);
}

}  // namespace

void amax_out(KernelContext& ctx, const Tensor& self, const IntList& dim, bool keepdim, Tensor& out) {
  extreme_dims<true>(ctx, self, dim, keepdim, out);
}
void amin_out(KernelContext& ctx, const Tensor& self, const IntList& dim, bool keepdim, Tensor& out) {
  extreme_dims<false>(ctx, self, dim, keepdim, out);
}
void max_all_out(KernelContext& ctx, const Tensor& self, Tensor& out) { extreme_all<true>(ctx, self, out); }
void min_all_out(KernelContext& ctx, const Tensor& self, Tensor& out) { extreme_all<false>(ctx, self, out); }

void aminmax_out(KernelContext& ctx, const Tensor& self, std::optional<int64_t> dim, bool keepdim, Tensor& min,
                 Tensor& max) {
  uint32_t mask = all_dims(self);
  if (dim.has_value() && !one_dim(ctx, *dim, self, &mask)) return;
  if (!require_same_dtype(ctx, self, min) || !require_same_dtype(ctx, self, max)) return;
  extreme<false>(ctx, self, mask, keepdim, min);
  if (!ctx.failed()) extreme<true>(ctx, self, mask, keepdim, max);
}

}  // namespace etir
