// Variance and standard deviation, with or without the mean.
//
// Two passes over a row or a block of columns, which is in cache for the second: the mean, then the pairwise sum of
// squared deviations. No cancellation, and no division for each element as in a running update.
#include <cmath>

#include "kernels/util/reduce.h"
#include "kernels/util/reduce_args.h"

namespace etir {
namespace {

/// Sum of squared distances from the column's mean.
template <typename T>
struct SquaredDeviationOp : SumOp<T> {
  const T* means;
  T map(T x, int64_t j) const {
    const T deviation = x - means[j];
    return deviation * deviation;
  }
};

template <typename T>
void moments_as(KernelContext& ctx, const Tensor& self, uint32_t mask, double divisor, bool root, const Tensor& out,
                const Tensor* mean) {
  Source<T> source;
  Sink<T> sink;
  Sink<T> mean_sink;
  if (!make_source<T, kFloats>(self, &source)) return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
  if (!make_sink<T, kFloats>(out, &sink) || (mean != nullptr && !make_sink<T, kFloats>(*mean, &mean_sink))) {
    return ctx.fail(Check::KernelDtype, -1, static_cast<int64_t>(out.dtype));
  }
  const int passes = mean != nullptr && !same_layout(out, *mean) ? 2 : 1;
  for (int pass = 0; pass < passes; ++pass) {
    const ReducePlan plan = make_reduce_plan(self, mask, pass == 0 ? out : *mean);
    const T count = static_cast<T>(plan.reduced_count);
    for_each_part(ctx, plan, [&](int64_t from, int64_t to, int64_t stride, int64_t n) {
      T means[kColumnBlock];
      T squares[kColumnBlock];
      reduce_part(plan, source, from, n, SumOp<T>(), means);
      for (int64_t j = 0; j < n; ++j) means[j] /= count;
      if (mean != nullptr && pass == passes - 1) mean_sink.put(to, stride, means, n);
      if (pass == 1) return;
      SquaredDeviationOp<T> op;
      op.means = means;
      reduce_part(plan, source, from, n, op, squares);
      for (int64_t j = 0; j < n; ++j) {
        const T variance = squares[j] / static_cast<T>(divisor);
        squares[j] = root ? std::sqrt(variance) : variance;
      }
      sink.put(to, stride, squares, n);
    });
  }
}

/// Results are `out_index` and, with `has_mean`, the one after it.
void moments(KernelContext& ctx, double correction, bool keepdim, int out_index, bool has_mean, bool root) {
  const Tensor& self = ctx.tensor(0);
  uint32_t mask;
  if (!dim_mask(ctx, 1, self, &mask)) return;
  if (!is_floating(self.dtype)) return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
  for (int i = out_index; i < out_index + (has_mean ? 2 : 1); ++i) {
    const ScalarType dtype = ctx.tensor(i).dtype;
    if (has_mean ? dtype != self.dtype : !is_floating(dtype)) {
      return ctx.fail(Check::KernelDtype, i, static_cast<int64_t>(dtype));
    }
  }
  if (!require_data(ctx, 0)) return;
  for (int i = out_index; i < out_index + (has_mean ? 2 : 1); ++i) {
    if (!resize_reduced(ctx, i, self, mask, keepdim)) return;
  }
  const double degrees = static_cast<double>(reduced_count(self, mask)) - correction;
  const double divisor = degrees > 0 ? degrees : 0;
  const Tensor* mean = has_mean ? &ctx.tensor(out_index + 1) : nullptr;
  if (self.dtype == ScalarType::Double) {
    moments_as<double>(ctx, self, mask, divisor, root, ctx.tensor(out_index), mean);
  } else {
    moments_as<float>(ctx, self, mask, divisor, root, ctx.tensor(out_index), mean);
  }
}

void corrected(KernelContext& ctx, bool has_mean, bool root) {
  moments(ctx, ctx.real_or(2, 1.0), ctx.boolean(3), 4, has_mean, root);
}
void unbiased(KernelContext& ctx, bool root) {
  moments(ctx, ctx.boolean(2) ? 1.0 : 0.0, ctx.boolean(3), 4, false, root);
}

}  // namespace

void var_unbiased_out(KernelContext& ctx) { unbiased(ctx, false); }
void std_unbiased_out(KernelContext& ctx) { unbiased(ctx, true); }
void var_correction_out(KernelContext& ctx) { corrected(ctx, false, false); }
void std_correction_out(KernelContext& ctx) { corrected(ctx, false, true); }
void var_mean_correction_out(KernelContext& ctx) { corrected(ctx, true, false); }
void std_mean_correction_out(KernelContext& ctx) { corrected(ctx, true, true); }

}  // namespace etir
