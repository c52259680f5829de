// Sums, means and products over dims.
//
// They are taken in the result's dtype, as torch does: in float for the 16-bit types, in int64 (wrapping, so that the
// low bits are right for every narrower type) for integers. As bool a sum is "any" and a product is "all".
#include "kernels/util/reduce.h"
#include "kernels/util/reduce_args.h"
#include "kernels/util/reduce_ops.h"

namespace etir {
namespace {

/// Skips NaNs.
template <typename T>
struct NanSumOp : SumOp<T> {
  T map(T x, int64_t) const { return x != x ? T(0) : x; }
};

/// Folds `self` into result `out_index`, dividing by `divisor`. The shape has been set.
template <typename Op>
void fold(KernelContext& ctx, uint32_t mask, int out_index, int64_t divisor) {
  using T = typename Op::Value;
  const Tensor& self = ctx.tensor(0);
  const Tensor& out = ctx.tensor(out_index);
  Source<T> source;
  Sink<T> sink;
  if (!make_source(self, &source)) return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
  if (!make_sink(out, &sink)) return ctx.fail(Check::KernelDtype, out_index, static_cast<int64_t>(out.dtype));
  reduce(ctx, make_reduce_plan(self, mask, out), source, sink, Op(), [&](T value) {
    if constexpr (kIsComplex<T>) {
      return value / static_cast<typename T::value_type>(divisor);
    } else if constexpr (std::is_floating_point_v<T>) {
      return value / static_cast<T>(divisor);
    } else {
      return value;
    }
  });
}

template <template <typename> class Op, typename BoolOp>
void fold_as_result(KernelContext& ctx, uint32_t mask, int out_index, int64_t divisor) {
  const ScalarType dtype = ctx.tensor(out_index).dtype;
  if (contains(kHalfFloats, dtype) || dtype == ScalarType::Float) return fold<Op<float>>(ctx, mask, out_index, divisor);
  if (dtype == ScalarType::Double) return fold<Op<double>>(ctx, mask, out_index, divisor);
  if (contains(kAllInts, dtype)) return fold<Op<int64_t>>(ctx, mask, out_index, divisor);
  if (dtype == ScalarType::Bool) return fold<BoolOp>(ctx, mask, out_index, divisor);
  if (dtype == ScalarType::ComplexDouble) return fold<Op<ComplexDouble>>(ctx, mask, out_index, divisor);
  if (contains(kComplex, dtype)) return fold<Op<ComplexFloat>>(ctx, mask, out_index, divisor);
  ctx.fail(Check::KernelDtype, out_index, static_cast<int64_t>(dtype));
}

/// Whether the result has the dtype that the optional argument asks for.
bool is_dtype_asked(KernelContext& ctx, int dtype_index, int out_index) {
  const ScalarType dtype = ctx.tensor(out_index).dtype;
  if (!ctx.has(dtype_index) || ctx.integer(dtype_index) == static_cast<int64_t>(dtype)) return true;
  ctx.fail(Check::KernelDtypeMismatch, out_index, static_cast<int64_t>(dtype));
  return false;
}

void sum(KernelContext& ctx, uint32_t mask, bool keepdim, int dtype_index) {
  const int out = dtype_index + 1;
  if (!is_dtype_asked(ctx, dtype_index, out) || !require_data(ctx, 0)) return;
  if (!resize_reduced(ctx, out, ctx.tensor(0), mask, keepdim)) return;
  fold_as_result<SumOp, AnyOp>(ctx, mask, out, 1);
}

void mean(KernelContext& ctx, uint32_t mask, bool keepdim, int dtype_index) {
  const int out = dtype_index + 1;
  const Tensor& self = ctx.tensor(0);
  const ScalarType dtype = ctx.tensor(out).dtype;
  if (!is_dtype_asked(ctx, dtype_index, out) || !require_data(ctx, 0)) return;
  if (!ctx.has(dtype_index) && !contains(kFloats | kComplex, self.dtype)) {
    return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
  }
  if (!contains(kFloats | kComplex, dtype)) return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(dtype));
  if (!resize_reduced(ctx, out, self, mask, keepdim)) return;
  fold_as_result<SumOp, AnyOp>(ctx, mask, out, reduced_count(self, mask));
}

void product(KernelContext& ctx, uint32_t mask, bool keepdim, int dtype_index) {
  const int out = dtype_index + 1;
  if (!is_dtype_asked(ctx, dtype_index, out) || !require_data(ctx, 0)) return;
  if (!resize_reduced(ctx, out, ctx.tensor(0), mask, keepdim)) return;
  fold_as_result<ProductOp, AllOp>(ctx, mask, out, 1);
}

}  // namespace

void sum_dims_out(KernelContext& ctx) {
  uint32_t mask;
  if (dim_mask(ctx, 1, ctx.tensor(0), &mask)) sum(ctx, mask, ctx.boolean(2), 3);
}
void sum_all_out(KernelContext& ctx) { sum(ctx, all_dims(ctx.tensor(0)), false, 1); }

void mean_dims_out(KernelContext& ctx) {
  uint32_t mask;
  if (dim_mask(ctx, 1, ctx.tensor(0), &mask)) mean(ctx, mask, ctx.boolean(2), 3);
}
void mean_all_out(KernelContext& ctx) { mean(ctx, all_dims(ctx.tensor(0)), false, 1); }

void prod_dim_out(KernelContext& ctx) {
  uint32_t mask;
  if (one_dim(ctx, ctx.integer(1), ctx.tensor(0), &mask)) product(ctx, mask, ctx.boolean(2), 3);
}
void prod_all_out(KernelContext& ctx) { product(ctx, all_dims(ctx.tensor(0)), false, 1); }

/// Sums what is not NaN; integers have no NaN.
void nansum_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  const ScalarType dtype = ctx.tensor(4).dtype;
  uint32_t mask;
  if (!dim_mask(ctx, 1, self, &mask) || !is_dtype_asked(ctx, 3, 4) || !require_data(ctx, 0)) return;
  if (is_complex(self.dtype)) return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
  const bool floating = is_floating(self.dtype);
  if (floating && !is_floating(dtype)) return ctx.fail(Check::KernelDtype, 4, static_cast<int64_t>(dtype));
  if (!resize_reduced(ctx, 4, self, mask, ctx.boolean(2))) return;
  if (!floating) return fold_as_result<SumOp, AnyOp>(ctx, mask, 4, 1);
  if (dtype == ScalarType::Double) return fold<NanSumOp<double>>(ctx, mask, 4, 1);
  fold<NanSumOp<float>>(ctx, mask, 4, 1);
}

}  // namespace etir
