// Losses of a prediction against a target of the same shape: mean squared, smooth L1 and Huber, and the gradient of the
// first. The reduction is 0 none, 1 mean, 2 sum.
#include <cmath>

#include "kernels/normalization/loss.gen.h"
#include "kernels/normalization/parts.h"

namespace etir {
namespace {

template <typename T>
struct SquaredError {
  T operator()(T x, T y) const { return (x - y) * (x - y); }
};
/// Quadratic below `beta`, linear above.
template <typename T>
struct SmoothL1 {
  T beta;
  T operator()(T x, T y) const {
    const T z = std::fabs(x - y);
    return z < beta ? T(0.5) * z * z / beta : z - T(0.5) * beta;
  }
};
template <typename T>
struct Huber {
  T delta;
  T operator()(T x, T y) const {
    const T z = std::fabs(x - y);
    return z <= delta ? T(0.5) * z * z : delta * (z - T(0.5) * delta);
  }
};

/// `loss` of every pair, into result `out_index`: each by itself, or their sum or mean.
template <typename T, typename Loss>
void loss_as(KernelContext& ctx, const Tensor& self, const Tensor& target, int64_t reduction, Tensor& out,
             const Loss& loss) {
  Source<T> a, b;
  Sink<T> sink;
  if (!float_source(ctx, self, &a) || !float_source(ctx, target, &b)) return;
  const bool resized =
      reduction == 0 ? resize_alike(ctx, out, self) : resize_reduced(ctx, out, self, all_dims(self), false);
  if (!resized) return;
  if (!float_sink(ctx, out, &sink)) return;
  const int64_t numel = self.numel();
  const SumOp<T> op;
  detail::Tree<SumOp<T>> total(op);
  T a_buffer[kRowBlock], b_buffer[kRowBlock], losses[kRowBlock];
  for (int64_t i = 0; i < numel; i += kRowBlock) {
    const int64_t n = numel - i < kRowBlock ? numel - i : kRowBlock;
    const T* __restrict x = a.get(i, n, a_buffer);
    const T* __restrict y = b.get(i, n, b_buffer);
    for (int64_t j = 0; j < n; ++j) losses[j] = loss(x[j], y[j]);
    if (reduction == 0) {
      sink.put(i, 1, losses, n);
    } else {
      total.add(detail::fold_block(losses, n, op));
    }
  }
  if (reduction == 0) return;
  const T result = reduction == 1 ? total.total() / static_cast<T>(numel) : total.total();
  sink.put(0, 1, &result, 1);
}

/// Whether self, target and result go together. They are read side by side, so they must lie alike.
bool check_loss(KernelContext& ctx, const Tensor& self, const Tensor& target, int64_t reduction, const Tensor& out) {
  if (reduction < 0 || reduction > 2) {
    return ctx.fail(Check::KernelArgument, arguments::mse_loss_out::reduction, reduction), false;
  }
  for (const Tensor* tensor : {&target, &out}) {
    if (tensor->dtype != self.dtype) {
      return ctx.fail(Check::KernelDtypeMismatch, *tensor, static_cast<int64_t>(tensor->dtype)), false;
    }
  }
  return require_alike(ctx, target, self);
}

}  // namespace

void mse_loss_out(KernelContext& ctx, const Tensor& self, const Tensor& target, int64_t reduction, Tensor& out) {
  if (!check_loss(ctx, self, target, reduction, out)) return;
  if (self.dtype == ScalarType::Double)
    return loss_as<double>(ctx, self, target, reduction, out, SquaredError<double>());
  loss_as<float>(ctx, self, target, reduction, out, SquaredError<float>());
}

void smooth_l1_loss_out(KernelContext& ctx, const Tensor& self, const Tensor& target, int64_t reduction, double beta,
                        Tensor& out) {
  using arg = arguments::smooth_l1_loss_out;
  if (!check_loss(ctx, self, target, reduction, out)) return;
  if (!(beta >= 0)) return ctx.fail(Check::KernelArgument, arg::beta, -1);
  if (self.dtype == ScalarType::Double)
    return loss_as<double>(ctx, self, target, reduction, out, SmoothL1<double>{beta});
  loss_as<float>(ctx, self, target, reduction, out, SmoothL1<float>{static_cast<float>(beta)});
}

void huber_loss_out(KernelContext& ctx, const Tensor& self, const Tensor& target, int64_t reduction, double delta,
                    Tensor& out) {
  using arg = arguments::huber_loss_out;
  if (!check_loss(ctx, self, target, reduction, out)) return;
  if (!(delta > 0)) return ctx.fail(Check::KernelArgument, arg::delta, -1);
  if (self.dtype == ScalarType::Double) return loss_as<double>(ctx, self, target, reduction, out, Huber<double>{delta});
  loss_as<float>(ctx, self, target, reduction, out, Huber<float>{static_cast<float>(delta)});
}

}  // namespace etir
