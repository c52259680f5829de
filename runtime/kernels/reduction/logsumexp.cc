// log(sum(exp(x))) over dims: the largest value is taken out first, so that nothing overflows.
#include <cmath>

#include "kernels/reduction/logsumexp.gen.h"
#include "kernels/util/reduce.h"
#include "kernels/util/reduce_args.h"
#include "kernels/util/reduce_ops.h"
#include "kernels/util/vector_math.h"

namespace etir {
namespace {

template <typename T>
struct ShiftedExpOp : SumOp<T> {
  static constexpr bool kCheap = false;
  const T* shifts;
  T map(T x, int64_t j) const {
    if constexpr (kIsComplex<T>) {
      return std::exp(x - shifts[j]);
    } else {
      return vexp(x - shifts[j]);
    }
  }
};

/// The largest real part, as a complex number.
template <typename C>
struct LargestPartOp {
  using Value = C;
  using T = typename C::value_type;
  static constexpr bool kRounds = false;
  static constexpr bool kCheap = false;
  C identity() const { return C(-std::numeric_limits<T>::infinity()); }
  C map(C x, int64_t) const { return C(x.real()); }
  C combine(C a, C b) const { return (a.real() > b.real()) | (a.real() != a.real()) ? a : b; }
};

template <typename C>
void logsumexp_complex(KernelContext& ctx, const Tensor& self, uint32_t mask, const Tensor& out) {
  using T = typename C::value_type;
  Source<C> source;
  Sink<C> sink;
  if (!make_source(self, &source)) return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  if (!make_sink<C, kFullComplex>(out, &sink)) {
    return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  }
  const ReducePlan plan = make_reduce_plan(self, mask, out);
  for_each_part(ctx, plan, [&](int64_t from, int64_t to, int64_t stride, int64_t n) {
    C shifts[kColumnBlock];
    C sums[kColumnBlock];
    reduce_part(plan, source, from, n, LargestPartOp<C>(), shifts);
    for (int64_t j = 0; j < n; ++j) shifts[j] = std::isinf(shifts[j].real()) ? C(T(0)) : shifts[j];
    ShiftedExpOp<C> op;
    op.shifts = shifts;
    reduce_part(plan, source, from, n, op, sums);
    for (int64_t j = 0; j < n; ++j) sums[j] = std::log(sums[j]) + shifts[j];
    sink.put(to, stride, sums, n);
  });
}

template <typename T>
void logsumexp_as(KernelContext& ctx, const Tensor& self, uint32_t mask, const Tensor& out) {
  Source<T> source;
  Sink<T> sink;
  if (!make_source(self, &source)) return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  if (!make_sink<T, kFloats>(out, &sink)) return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
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

void logsumexp_out(KernelContext& ctx, const Tensor& self, const IntList& dim, bool keepdim, Tensor& out) {
  const ScalarType dtype = out.dtype;
  uint32_t mask;
  if (!dim_mask(ctx, dim, arguments::logsumexp_out::dim, self, &mask)) return;
  const bool complex = contains(kFullComplex, self.dtype) && contains(kFullComplex, dtype);
  if (!complex && !is_floating(dtype)) return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(dtype));
  if (!has_data(ctx, self) || !resize_reduced(ctx, out, self, mask, keepdim)) return;
  if (complex && dtype == ScalarType::ComplexFloat && self.dtype == ScalarType::ComplexFloat) {
    return logsumexp_complex<ComplexFloat>(ctx, self, mask, out);
  }
  if (complex) return logsumexp_complex<ComplexDouble>(ctx, self, mask, out);
  if (dtype == ScalarType::Double || self.dtype == ScalarType::Double)
    return logsumexp_as<double>(ctx, self, mask, out);
  logsumexp_as<float>(ctx, self, mask, out);
}

}  // namespace etir
