// log(sum(exp(x))) over dims: the largest value is taken out first, so that nothing overflows.
#include <cmath>

#include "kernels/util/reduce.h"
#include "kernels/util/reduce_args.h"
#include "kernels/util/vector_math.h"

namespace etir {
namespace {

template <typename T>
struct ShiftedExpOp : SumOp<T> {
  static constexpr bool kCheap = false;
  const T* shifts;
  T map(T x, int64_t j) const { return vexp(x - shifts[j]); }
};

template <typename T>
void logsumexp_as(KernelContext& ctx, uint32_t mask) {
  const Tensor& self = ctx.tensor(0);
  const Tensor& out = ctx.tensor(3);
  Source<T> source;
  Sink<T> sink;
  if (!make_source(self, &source)) return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
  if (!make_sink<T, kFloats>(out, &sink)) return ctx.fail(Check::KernelDtype, 3, static_cast<int64_t>(out.dtype));
  const ReducePlan plan = make_reduce_plan(self, mask, out);
  for_each_part(ctx, plan, [&](int64_t from, int64_t to, int64_t stride, int64_t n) {
    T shifts[kColumnBlock];
    T sums[kColumnBlock];
    reduce_part(plan, source, from, n, ExtremeOp<T, true>(), shifts);
    for (int64_t j = 0; j < n; ++j) shifts[j] = std::isinf(shifts[j]) ? T(0) : shifts[j];
    ShiftedExpOp<T> op;
    op.shifts = shifts;
    reduce_part(plan, source, from, n, op, sums);
    for (int64_t j = 0; j < n; ++j) sums[j] = vlog(sums[j]) + shifts[j];
    sink.put(to, stride, sums, n);
  });
}

}  // namespace

void logsumexp_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  const ScalarType dtype = ctx.tensor(3).dtype;
  uint32_t mask;
  if (!dim_mask(ctx, 1, self, &mask)) return;
  if (!is_floating(dtype)) return ctx.fail(Check::KernelDtype, 3, static_cast<int64_t>(dtype));
  if (!require_data(ctx, 0) || !resize_reduced(ctx, 3, self, mask, ctx.boolean(2))) return;
  if (dtype == ScalarType::Double || self.dtype == ScalarType::Double) return logsumexp_as<double>(ctx, mask);
  logsumexp_as<float>(ctx, mask);
}

}  // namespace etir
