// Negative log likelihood: -weight[target] * self[target], for one class each, per sample (nll_loss) or pixel
// (nll_loss2d), and the gradients. Targets equal to ignore_index count for nothing; all others are checked first.
#include <cstring>

#include "kernels/normalization/nll_loss.gen.h"
#include "kernels/normalization/parts.h"

namespace etir {
namespace {

/// [N, C], [C] or [N, C, H, W] as samples of C classes with `inner` elements in between, contiguous.
struct Classes {
  int64_t samples, classes, inner;
};

bool class_layout(KernelContext& ctx, const Tensor& self, const Tensor& target, bool is_2d, Classes* result) {
  const int rank = self.rank;
  if (is_2d ? rank != 4 : rank != 1 && rank != 2) return ctx.fail(Check::KernelRank, self, rank), false;
  if (target.rank != rank - 1 && !(rank == 1 && target.numel() == 1)) {
    return ctx.fail(Check::KernelRank, target, target.rank), false;
  }
  for (int d = 0; rank > 1 && d < target.rank; ++d) {
    if (target.sizes[d] != self.sizes[d == 0 ? 0 : d + 1]) {
      return ctx.fail(Check::KernelShape, target, target.sizes[d]), false;
    }
  }
  for (const Tensor* tensor : {&self, &target}) {
    if (!in_plain_order(*tensor)) return ctx.fail(Check::KernelDimOrder, *tensor), false;
  }
  if (target.dtype != ScalarType::Long && target.dtype != ScalarType::Byte) {
    return ctx.fail(Check::KernelDtype, target, static_cast<int64_t>(target.dtype)), false;
  }
  const int class_dim = rank == 1 ? 0 : 1;
  *result = {rank == 1 ? 1 : self.sizes[0], self.sizes[class_dim], 1};
  // Sizes of a tensor without elements may be anything, but the target then has none either, or there is no class.
  if (target.numel() > 0 && is_2d) result->inner = int64_t{self.sizes[2]} * self.sizes[3];
  return has_data(ctx, self) && has_data(ctx, target);
}

int64_t target_at(const Tensor& target, int64_t i) {
  return target.dtype == ScalarType::Long ? target.ptr<int64_t>()[i] : target.ptr<uint8_t>()[i];
}

/// Every target is a class or to be ignored.
bool check_targets(KernelContext& ctx, const Tensor& target, int64_t classes, int64_t ignore) {
  const int64_t count = target.numel();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t t = target_at(target, i);
    if (t != ignore && (t < 0 || t >= classes)) return ctx.fail(Check::KernelIndex, t, classes), false;
  }
  return true;
}

template <typename T>
void nll_forward_as(KernelContext& ctx, const Classes& shape, const Tensor& self, const Tensor& target,
                    const Tensor* weight_given, int64_t reduction, int64_t ignore, Tensor& output,
                    Tensor& total_weight) {
  Source<T> in;
  Sink<T> out, total_out;
  Parameter<T> weight;
  if (!float_source(ctx, self, &in) || !weight.make(ctx, weight_given, shape.classes, T(1))) return;
  if (!check_targets(ctx, target, shape.classes, ignore)) return;
  if (reduction == 0 && self.rank > 1) {
    if (!resize_alike(ctx, output, target)) return;
  } else if (!ctx.resize(output, nullptr, 0) || !has_data(ctx, output)) {
    return;
  }
  if (!ctx.resize(total_weight, nullptr, 0) || !has_data(ctx, total_weight)) return;
  if (!float_sink(ctx, output, &out) || !float_sink(ctx, total_weight, &total_out)) return;
  const SumOp<T> op;
  detail::Tree<SumOp<T>> losses(op), weights(op);
  const int64_t count = target.numel();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t t = target_at(target, i);
    T loss = T(0);
    if (t != ignore) {
      const int64_t at = ((i / shape.inner) * shape.classes + t) * shape.inner + i % shape.inner;
      T buffer;
      const T w = weight.at(t);
      loss = -w * *in.get(at, 1, &buffer);
      losses.add(loss);
      weights.add(w);
    }
    if (reduction == 0) out.put(i, 1, &loss, 1);
  }
  const bool each = reduction == 0 && self.rank > 1;
  const T total = each ? T(0) : weights.total();
  total_out.put(0, 1, &total, 1);
  if (reduction == 0) return;
  const T result = reduction == 1 ? losses.total() / total : losses.total();
  out.put(0, 1, &result, 1);
}

template <typename T>
void nll_backward_as(KernelContext& ctx, const Classes& shape, const Tensor& grad_output, const Tensor& self,
                     const Tensor& target, const Tensor* weight_given, int64_t reduction, int64_t ignore,
                     const Tensor& total_weight, Tensor& grad_input) {
  const bool each = reduction == 0 && self.rank > 1;
  const int64_t count = target.numel();
  Parameter<T> grad, weight, total;
  Sink<T> out;
  if (!grad.make(ctx, &grad_output, each ? count : 1, T(0)) || !weight.make(ctx, weight_given, shape.classes, T(1)))
    return;
  if (!total.make(ctx, &total_weight, 1, T(1)) || !check_targets(ctx, target, shape.classes, ignore)) return;
  if (!resize_alike(ctx, grad_input, self) || !float_sink(ctx, grad_input, &out)) return;
  if (self.numel() > 0) std::memset(out.data, 0, grad_input.nbytes());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t t = target_at(target, i);
    if (t == ignore) continue;
    const int64_t at = ((i / shape.inner) * shape.classes + t) * shape.inner + i % shape.inner;
    const T scaled = -weight.at(t) * grad.at(each ? i : 0);
    const T result = reduction == 1 ? scaled / total.at(0) : scaled;
    out.put(at, 1, &result, 1);
  }
}

void forward(KernelContext& ctx, const Tensor& self, const Tensor& target, const Tensor* weight, int64_t reduction,
             int64_t ignore_index, Tensor& output, Tensor& total_weight, bool is_2d) {
  Classes shape;
  if (reduction < 0 || reduction > 2)
    return ctx.fail(Check::KernelArgument, arguments::nll_loss_forward_out::reduction, reduction);
  for (const Tensor* result : {&output, &total_weight}) {
    if (result->dtype != self.dtype) {
      return ctx.fail(Check::KernelDtypeMismatch, *result, static_cast<int64_t>(result->dtype));
    }
  }
  if (!class_layout(ctx, self, target, is_2d, &shape)) return;
  if (self.dtype == ScalarType::Double) {
    return nll_forward_as<double>(ctx, shape, self, target, weight, reduction, ignore_index, output, total_weight);
  }
  nll_forward_as<float>(ctx, shape, self, target, weight, reduction, ignore_index, output, total_weight);
}

void backward(KernelContext& ctx, const Tensor& grad_output, const Tensor& self, const Tensor& target,
              const Tensor* weight, int64_t reduction, int64_t ignore_index, const Tensor& total_weight,
              Tensor& grad_input, bool is_2d) {
  const ScalarType dtype = grad_input.dtype;
  Classes shape;
  if (reduction < 0 || reduction > 2)
    return ctx.fail(Check::KernelArgument, arguments::nll_loss_backward_out::reduction, reduction);
  if (dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, grad_input, static_cast<int64_t>(dtype));
  if (!class_layout(ctx, self, target, is_2d, &shape)) return;
  const auto run = self.dtype == ScalarType::Double ? nll_backward_as<double> : nll_backward_as<float>;
  run(ctx, shape, grad_output, self, target, weight, reduction, ignore_index, total_weight, grad_input);
}

}  // namespace

void nll_loss_forward_out(KernelContext& ctx, const Tensor& self, const Tensor& target, const Tensor* weight,
                          int64_t reduction, int64_t ignore_index, Tensor& output, Tensor& total_weight) {
  forward(ctx, self, target, weight, reduction, ignore_index, output, total_weight, false);
}
void nll_loss2d_forward_out(KernelContext& ctx, const Tensor& self, const Tensor& target, const Tensor* weight,
                            int64_t reduction, int64_t ignore_index, Tensor& output, Tensor& total_weight) {
  forward(ctx, self, target, weight, reduction, ignore_index, output, total_weight, true);
}
void nll_loss_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& self, const Tensor& target,
                           const Tensor* weight, int64_t reduction, int64_t ignore_index, const Tensor& total_weight,
                           Tensor& grad_input) {
  backward(ctx, grad_output, self, target, weight, reduction, ignore_index, total_weight, grad_input, false);
}
void nll_loss2d_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& self, const Tensor& target,
                             const Tensor* weight, int64_t reduction, int64_t ignore_index, const Tensor& total_weight,
                             Tensor& grad_input) {
  backward(ctx, grad_output, self, target, weight, reduction, ignore_index, total_weight, grad_input, true);
}

}  // namespace etir
