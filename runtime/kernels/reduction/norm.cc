// Vector norms over dims: norm and linalg_vector_norm, and the distance of two tensors.
//
// The exponents that have an operator of their own (0, 1, 2 and the infinities) need no pow.
#include <cmath>

#include "kernels/util/reduce.h"
#include "kernels/util/reduce_args.h"

namespace etir {
namespace {

template <typename T>
struct CountOp : SumOp<T> {
  T map(T x, int64_t) const { return x != T(0) ? T(1) : T(0); }
};
template <typename T>
struct MagnitudeOp : SumOp<T> {
  T map(T x, int64_t) const { return std::fabs(x); }
};
template <typename T>
struct SquareOp : SumOp<T> {
  T map(T x, int64_t) const { return x * x; }
};
template <typename T>
struct PowerOp : SumOp<T> {
  static constexpr bool kCheap = false;
  T exponent;
  T map(T x, int64_t) const { return std::pow(std::fabs(x), exponent); }
};
template <typename T, bool kMax>
struct ExtremeMagnitudeOp : ExtremeOp<T, kMax> {
  T identity() const { return kMax ? T(0) : std::numeric_limits<T>::infinity(); }
  T map(T x, int64_t) const { return std::fabs(x); }
};

template <typename T>
void norm_as(KernelContext& ctx, uint32_t mask, double p, int out_index) {
  const Tensor& self = ctx.tensor(0);
  const Tensor& out = ctx.tensor(out_index);
  Source<T> in;
  Sink<T> sink;
  if (!make_source<T, kFloats>(self, &in)) return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
  if (!make_sink<T, kFloats>(out, &sink)) return ctx.fail(Check::KernelDtype, out_index, static_cast<int64_t>(out.dtype));
  const ReducePlan plan = make_reduce_plan(self, mask, out);
  const auto same = [](T value) { return value; };
  if (p == 0) return reduce(ctx, plan, in, sink, CountOp<T>(), same);
  if (p == 1) return reduce(ctx, plan, in, sink, MagnitudeOp<T>(), same);
  if (p == 2) return reduce(ctx, plan, in, sink, SquareOp<T>(), [](T value) { return std::sqrt(value); });
  if (std::isinf(p)) {
    if (p > 0) return reduce(ctx, plan, in, sink, ExtremeMagnitudeOp<T, true>(), same);
    return reduce(ctx, plan, in, sink, ExtremeMagnitudeOp<T, false>(), same);
  }
  PowerOp<T> op;
  op.exponent = static_cast<T>(p);
  const T inverse = static_cast<T>(1 / p);
  reduce(ctx, plan, in, sink, op, [inverse](T value) { return std::pow(value, inverse); });
}

/// `dims_index` < 0: all dims. `dtype_index` < 0: the result has the dtype of self.
void norm(KernelContext& ctx, double p, int dims_index, bool keepdim, int dtype_index, int out_index) {
  const Tensor& self = ctx.tensor(0);
  uint32_t mask = all_dims(self);
  if (dims_index >= 0 && !dim_mask(ctx, dims_index, self, &mask)) return;
  const ScalarType dtype = ctx.tensor(out_index).dtype;
  const int64_t wanted = dtype_index >= 0 && ctx.has(dtype_index) ? ctx.integer(dtype_index)
                                                                  : static_cast<int64_t>(self.dtype);
  if (static_cast<int64_t>(dtype) != wanted) {
    return ctx.fail(Check::KernelDtypeMismatch, out_index, static_cast<int64_t>(dtype));
  }
  if (!is_floating(self.dtype)) return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
  if (p < 0 || std::isinf(p)) {
    // These have no value for an empty set.
    for (int d = 0; d < self.rank; ++d) {
      if (((mask >> d) & 1u) && self.sizes[d] == 0) return ctx.fail(Check::KernelShape, 0, 0);
    }
  }
  if (!require_data(ctx, 0) || !resize_reduced(ctx, out_index, self, mask, keepdim)) return;
  if (dtype == ScalarType::Double) return norm_as<double>(ctx, mask, p, out_index);
  norm_as<float>(ctx, mask, p, out_index);
}

}  // namespace

void norm_dims_out(KernelContext& ctx) { norm(ctx, ctx.real_or(1, 2), 2, ctx.boolean(3), -1, 4); }
void norm_dims_dtype_out(KernelContext& ctx) { norm(ctx, ctx.real_or(1, 2), 2, ctx.boolean(3), 4, 5); }
void norm_all_out(KernelContext& ctx) { norm(ctx, ctx.real(1), -1, false, -1, 2); }
void norm_all_dtype_out(KernelContext& ctx) { norm(ctx, ctx.real_or(1, 2), -1, false, 2, 3); }
void linalg_vector_norm_out(KernelContext& ctx) { norm(ctx, ctx.real(1), 2, ctx.boolean(3), 4, 5); }

}  // namespace etir
