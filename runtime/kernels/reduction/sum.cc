// Sums, means and products over dims.
//
// They are taken in the result's dtype, as torch does: in float for the 16-bit types, in int64 (wrapping, so that the
// low bits are right for every narrower type) for integers. As bool a sum is "any" and a product is "all".
#include "kernels/reduction/sum.gen.h"
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
void fold(KernelContext& ctx, const Tensor& self, uint32_t mask, const Tensor& out, int64_t divisor) {
  using T = typename Op::Value;
  Source<T> source;
  Sink<T> sink;
  if (!make_source(self, &source)) return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  if (!make_sink(out, &sink)) return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
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
void fold_as_result(KernelContext& ctx, const Tensor& self, uint32_t mask, const Tensor& out, int64_t divisor) {
  const ScalarType dtype = out.dtype;
  if (contains(kHalfFloats, dtype) || dtype == ScalarType::Float) return fold<Op<float>>(ctx, self, mask, out, divisor);
  if (dtype == ScalarType::Double) return fold<Op<double>>(ctx, self, mask, out, divisor);
  if (contains(kAllInts, dtype)) return fold<Op<int64_t>>(ctx, self, mask, out, divisor);
  if (dtype == ScalarType::Bool) return fold<BoolOp>(ctx, self, mask, out, divisor);
  if (dtype == ScalarType::ComplexDouble) return fold<Op<ComplexDouble>>(ctx, self, mask, out, divisor);
  if (contains(kComplex, dtype)) return fold<Op<ComplexFloat>>(ctx, self, mask, out, divisor);
  ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(dtype));
}

/// Whether the result has the dtype that the optional argument asks for.
bool is_dtype_asked(KernelContext& ctx, std::optional<ScalarType> dtype, const Tensor& out) {
  if (dtype.value_or(out.dtype) == out.dtype) return true;
  ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  return false;
}

void sum(KernelContext& ctx, const Tensor& self, uint32_t mask, bool keepdim, std::optional<ScalarType> dtype,
         Tensor& out) {
  if (!is_dtype_asked(ctx, dtype, out) || !has_data(ctx, self)) return;
  if (!resize_reduced(ctx, out, self, mask, keepdim)) return;
  fold_as_result<SumOp, AnyOp>(ctx, self, mask, out, 1);
}

void mean(KernelContext& ctx, const Tensor& self, uint32_t mask, bool keepdim, std::optional<ScalarType> dtype,
          Tensor& out) {
  if (!is_dtype_asked(ctx, dtype, out) || !has_data(ctx, self)) return;
  if (!dtype.has_value() && !contains(kFloats | kComplex, self.dtype)) {
    return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  }
  if (!contains(kFloats | kComplex, out.dtype)) {
    return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  }
  if (!resize_reduced(ctx, out, self, mask, keepdim)) return;
  fold_as_result<SumOp, AnyOp>(ctx, self, mask, out, reduced_count(self, mask));
}

void product(KernelContext& ctx, const Tensor& self, uint32_t mask, bool keepdim, std::optional<ScalarType> dtype,
             Tensor& out) {
  if (!is_dtype_asked(ctx, dtype, out) || !has_data(ctx, self)) return;
  if (!resize_reduced(ctx, out, self, mask, keepdim)) return;
  fold_as_result<ProductOp, AllOp>(ctx, self, mask, out, 1);
}

}  // namespace

void sum_dims_out(KernelContext& ctx, const Tensor& self, std::optional<IntList> dim, bool keepdim,
                  std::optional<ScalarType> dtype, Tensor& out) {
  uint32_t mask;
  if (dim_mask(ctx, dim, arguments::sum_dims_out::dim, self, &mask)) sum(ctx, self, mask, keepdim, dtype, out);
}
void sum_all_out(KernelContext& ctx, const Tensor& self, std::optional<ScalarType> dtype, Tensor& out) {
  sum(ctx, self, all_dims(self), false, dtype, out);
}

void mean_dims_out(KernelContext& ctx, const Tensor& self, std::optional<IntList> dim, bool keepdim,
                   std::optional<ScalarType> dtype, Tensor& out) {
  uint32_t mask;
  if (dim_mask(ctx, dim, arguments::mean_dims_out::dim, self, &mask)) mean(ctx, self, mask, keepdim, dtype, out);
}
void mean_all_out(KernelContext& ctx, const Tensor& self, std::optional<ScalarType> dtype, Tensor& out) {
  mean(ctx, self, all_dims(self), false, dtype, out);
}

void prod_dim_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, std::optional<ScalarType> dtype,
                  Tensor& out) {
  uint32_t mask;
  if (one_dim(ctx, dim, self, &mask)) product(ctx, self, mask, keepdim, dtype, out);
}
void prod_all_out(KernelContext& ctx, const Tensor& self, std::optional<ScalarType> dtype, Tensor& out) {
  product(ctx, self, all_dims(self), false, dtype, out);
}

/// Sums what is not NaN; integers have no NaN.
void nansum_out(KernelContext& ctx, const Tensor& self, std::optional<IntList> dim, bool keepdim,
                std::optional<ScalarType> dtype, Tensor& out) {
  const ScalarType dtype_value = out.dtype;
  uint32_t mask;
  if (!dim_mask(ctx, dim, arguments::nansum_out::dim, self, &mask) || !is_dtype_asked(ctx, dtype, out) ||
      !has_data(ctx, self))
    return;
  if (is_complex(self.dtype)) return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  const bool floating = is_floating(self.dtype);
  if (floating && !is_floating(dtype_value))
    return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(dtype_value));
  if (!resize_reduced(ctx, out, self, mask, keepdim)) return;
  if (!floating) return fold_as_result<SumOp, AnyOp>(ctx, self, mask, out, 1);
  if (dtype_value == ScalarType::Double) return fold<NanSumOp<double>>(ctx, self, mask, out, 1);
  fold<NanSumOp<float>>(ctx, self, mask, out, 1);
}

}  // namespace etir
