// Softmax and its logarithm along a dim, and their gradients.
//
// Each slice is read for its largest value, for the sum of exponentials, and for the result. In float the exponentials
// of contiguous slices are kept in the result in between, so that exp runs once for each element.
#include <cmath>

#include "kernels/normalization/parts.h"
#include "kernels/normalization/softmax.gen.h"

namespace etir {
namespace {

template <typename T>
struct ShiftedExpOp : SumOp<T> {
  static constexpr bool kCheap = false;
  const T* shifts;
  T map(T x, int64_t j) const { return vexp_nonpositive(x - shifts[j]); }
};

/// The largest element of a row that need not have NaNs to be told of: they make all of the result NaN anyhow.
template <typename T>
struct LargestOp : ExtremeOp<T, true> {
  T combine(T a, T b) const { return a > b ? a : b; }
  template <typename V, typename = std::enable_if_t<is_vector_of_v<V, T>>>
  V combine(const V& a, const V& b) const {
    return a > b ? a : b;
  }
};

/// out = exp(in - shift); the result may lie over the input.
template <typename T>
void exponentials(const T* in, T* out, int64_t n, T shift) {
  if (in == out) {
    for (int64_t j = 0; j < n; ++j) out[j] = vexp_nonpositive(out[j] - shift);
    return;
  }
  const T* __restrict p = in;
  T* __restrict q = out;
  for (int64_t j = 0; j < n; ++j) q[j] = vexp_nonpositive(p[j] - shift);
}

/// Softmax of one contiguous row that is also written as T.
template <typename T>
void softmax_row(const T* in, T* out, int64_t n, T shift) {
  const SumOp<T> op;
  detail::Tree<SumOp<T>> total(op);
  for (int64_t i = 0; i < n; i += kRowBlock) {
    const int64_t count = n - i < kRowBlock ? n - i : kRowBlock;
    exponentials(in + i, out + i, count, shift);
    total.add(detail::fold_block(out + i, count, op));
  }
  const T scale = T(1) / total.total();
  for (int64_t i = 0; i < n; ++i) out[i] *= scale;
}

template <typename T, bool kLog>
void softmax_as(KernelContext& ctx, const Tensor& self, uint32_t mask, const Tensor& out) {
  Source<T> in;
  Sink<T> sink;
  if (!float_source(ctx, self, &in) || !float_sink(ctx, out, &sink)) return;
  const ReducePlan plan = make_reduce_plan(self, mask, out);
  if (plan.reduced_count == 0) return;
  for_each_part(ctx, plan, [&](int64_t from, int64_t, int64_t, int64_t n) {
    T shifts[kColumnBlock];
    T sums[kColumnBlock];
    reduce_part(plan, in, from, n, LargestOp<T>(), shifts);
    if (!kLog && plan.rows && in.load == nullptr && sink.is_direct) {
      const T* row = reinterpret_cast<const T*>(in.data) + from;
      return softmax_row(row, reinterpret_cast<T*>(sink.data) + from, plan.reduced_count, shifts[0]);
    }
    ShiftedExpOp<T> op;
    op.shifts = shifts;
    reduce_part(plan, in, from, n, op, sums);
    const T* __restrict shift = shifts;
    const T* __restrict factor = sums;
    if (kLog) {
      for (int64_t j = 0; j < n; ++j) sums[j] = vlog(sums[j]);
      transform_part(plan, in, sink, from, n, [=](T x, int64_t j) { return x - shift[j] - factor[j]; });
    } else {
      for (int64_t j = 0; j < n; ++j) sums[j] = T(1) / sums[j];
      transform_part(plan, in, sink, from, n,
                     [=](T x, int64_t j) { return vexp_nonpositive(x - shift[j]) * factor[j]; });
    }
  });
}

template <bool kLog>
void softmax(KernelContext& ctx, const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
  const ScalarType dtype = out.dtype;
  uint32_t mask;
  if (!one_dim(ctx, dim, self, &mask)) return;
  // half_to_float: a result of Float for a Half.
  const bool widens = half_to_float && self.dtype == ScalarType::Half && dtype == ScalarType::Float;
  if (!widens && dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(dtype));
  if (!is_floating(self.dtype)) return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  if (!has_data(ctx, self) || !resize_alike(ctx, out, self)) return;
  if (self.dtype == ScalarType::Double) return softmax_as<double, kLog>(ctx, self, mask, out);
  softmax_as<float, kLog>(ctx, self, mask, out);
}

template <typename T, bool kLog>
void softmax_backward_as(KernelContext& ctx, const Tensor& grad_output, const Tensor& output, uint32_t mask,
                         const Tensor& grad_input) {
  Source<T> grad;
  Source<T> result;
  Sink<T> sink;
  if (!float_source(ctx, grad_output, &grad) || !float_source(ctx, output, &result)) return;
  if (!float_sink(ctx, grad_input, &sink)) return;
  const ReducePlan plan = make_reduce_plan(output, mask, output);
  for_each_part(ctx, plan, [&](int64_t from, int64_t, int64_t, int64_t n) {
    T sums[kColumnBlock];
    T unused[kColumnBlock];
    sum_pairs(
        plan, grad, result, from, n, sums, unused, [](T g, T y, int64_t) { return kLog ? g : g * y; },
        [](T, T, int64_t) { return T(0); });
    T grads[kRowBlock];
    T results[kRowBlock];
    T buffer[kRowBlock];
    for_each_run(plan, from, n, [&](int64_t at, int64_t count) {
      const T* __restrict g = grad.get(at, count, grads);
      const T* __restrict y = result.get(at, count, results);
      T* __restrict to = sink.place(at, buffer);
      const int64_t step = plan.rows ? 0 : 1;
      for (int64_t j = 0; j < count; ++j) {
        const T sum = sums[j * step];
        to[j] = kLog ? g[j] - vexp(y[j]) * sum : (g[j] - sum) * y[j];
      }
      sink.flush(at, to, count);
    });
  });
}

template <bool kLog>
void softmax_backward(KernelContext& ctx, const Tensor& grad, const Tensor& output, int64_t dim, ScalarType input_dtype,
                      Tensor& grad_input) {
  const ScalarType dtype = grad_input.dtype;
  uint32_t mask;
  if (!one_dim(ctx, dim, output, &mask)) return;
  if (grad.dtype != output.dtype) return ctx.fail(Check::KernelDtypeMismatch, grad, static_cast<int64_t>(grad.dtype));
  if (input_dtype != dtype) {
    return ctx.fail(Check::KernelDtypeMismatch, grad_input, static_cast<int64_t>(dtype));
  }
  if (dtype != grad.dtype && !(dtype == ScalarType::Half && grad.dtype == ScalarType::Float)) {
    return ctx.fail(Check::KernelDtypeMismatch, grad_input, static_cast<int64_t>(dtype));
  }
  if (!require_alike(ctx, grad, output) || !resize_alike(ctx, grad_input, output)) return;
  if (grad.dtype == ScalarType::Double) return softmax_backward_as<double, kLog>(ctx, grad, output, mask, grad_input);
  softmax_backward_as<float, kLog>(ctx, grad, output, mask, grad_input);
}

}  // namespace

void softmax_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
  softmax<false>(ctx, self, dim, half_to_float, out);
}
void log_softmax_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
  softmax<true>(ctx, self, dim, half_to_float, out);
}
void softmax_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& output, int64_t dim,
                          ScalarType input_dtype, Tensor& grad_input) {
  softmax_backward<false>(ctx, grad_output, output, dim, input_dtype, grad_input);
}
void log_softmax_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& output, int64_t dim,
                              ScalarType input_dtype, Tensor& out) {
  softmax_backward<true>(ctx, grad_output, output, dim, input_dtype, out);
}

}  // namespace etir
