// Negative log likelihood: -weight[target] * self[target], for one class each, per sample (nll_loss) or pixel
// (nll_loss2d), and the gradients. Targets equal to ignore_index count for nothing; all others are checked first.
#include <cstring>

#include "kernels/normalization/parts.h"

namespace etir {
namespace {

/// [N, C], [C] or [N, C, H, W] as samples of C classes with `inner` elements in between, in plain order.
struct Classes {
  int64_t samples, classes, inner;
};

bool class_layout(KernelContext& ctx, int self_index, int target_index, bool is_2d, Classes* result) {
  const Tensor& self = ctx.tensor(self_index);
  const Tensor& target = ctx.tensor(target_index);
  const int rank = self.rank;
  if (is_2d ? rank != 4 : rank != 1 && rank != 2) return ctx.fail(Check::KernelRank, self_index, rank), false;
  if (target.rank != rank - 1 && !(rank == 1 && target.numel() == 1)) {
    return ctx.fail(Check::KernelRank, target_index, target.rank), false;
  }
  for (int d = 0; rank > 1 && d < target.rank; ++d) {
    if (target.sizes[d] != self.sizes[d == 0 ? 0 : d + 1]) {
      return ctx.fail(Check::KernelShape, target_index, target.sizes[d]), false;
    }
  }
  for (const int i : {self_index, target_index}) {
    if (!in_plain_order(ctx.tensor(i))) return ctx.fail(Check::KernelDimOrder, i), false;
  }
  if (target.dtype != ScalarType::Long && target.dtype != ScalarType::Byte) {
    return ctx.fail(Check::KernelDtype, target_index, static_cast<int64_t>(target.dtype)), false;
  }
  const int class_dim = rank == 1 ? 0 : 1;
  *result = {rank == 1 ? 1 : self.sizes[0], self.sizes[class_dim], 1};
  // Sizes of a tensor without elements may be anything, but the target then has none either, or there is no class.
  if (target.numel() > 0 && is_2d) result->inner = int64_t{self.sizes[2]} * self.sizes[3];
  return require_data(ctx, self_index) && require_data(ctx, target_index);
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
void forward_as(KernelContext& ctx, const Classes& shape) {
  const Tensor& self = ctx.tensor(0);
  const Tensor& target = ctx.tensor(1);
  const int64_t reduction = ctx.integer(3);
  const int64_t ignore = ctx.integer(4);
  Source<T> in;
  Sink<T> out, total_out;
  Parameter<T> weight;
  if (!float_source(ctx, 0, &in) || !weight.make(ctx, 2, shape.classes, T(1))) return;
  if (!check_targets(ctx, target, shape.classes, ignore)) return;
  if (reduction == 0 && self.rank > 1) {
    if (!resize_alike(ctx, 5, target)) return;
  } else if (!ctx.resize(ctx.tensor(5), nullptr, 0) || !require_data(ctx, 5)) {
    return;
  }
  if (!ctx.resize(ctx.tensor(6), nullptr, 0) || !require_data(ctx, 6)) return;
  if (!float_sink(ctx, 5, &out) || !float_sink(ctx, 6, &total_out)) return;
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
void backward_as(KernelContext& ctx, const Classes& shape) {
  const Tensor& self = ctx.tensor(1);
  const Tensor& target = ctx.tensor(2);
  const int64_t reduction = ctx.integer(4);
  const int64_t ignore = ctx.integer(5);
  const bool each = reduction == 0 && self.rank > 1;
  const int64_t count = target.numel();
  Parameter<T> grad, weight, total;
  Sink<T> out;
  if (!grad.make(ctx, 0, each ? count : 1, T(0)) || !weight.make(ctx, 3, shape.classes, T(1))) return;
  if (!total.make(ctx, 6, 1, T(1)) || !check_targets(ctx, target, shape.classes, ignore)) return;
  if (!resize_alike(ctx, 7, self) || !float_sink(ctx, 7, &out)) return;
  if (self.numel() > 0) std::memset(out.data, 0, ctx.tensor(7).nbytes());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t t = target_at(target, i);
    if (t == ignore) continue;
    const int64_t at = ((i / shape.inner) * shape.classes + t) * shape.inner + i % shape.inner;
    const T scaled = -weight.at(t) * grad.at(each ? i : 0);
    const T result = reduction == 1 ? scaled / total.at(0) : scaled;
    out.put(at, 1, &result, 1);
  }
}

void forward(KernelContext& ctx, bool is_2d) {
  const Tensor& self = ctx.tensor(0);
  const int64_t reduction = ctx.integer(3);
  Classes shape;
  if (reduction < 0 || reduction > 2) return ctx.fail(Check::KernelArgument, 3, reduction);
  for (const int i : {5, 6}) {
    const ScalarType dtype = ctx.tensor(i).dtype;
    if (dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, i, static_cast<int64_t>(dtype));
  }
  if (!class_layout(ctx, 0, 1, is_2d, &shape)) return;
  if (self.dtype == ScalarType::Double) return forward_as<double>(ctx, shape);
  forward_as<float>(ctx, shape);
}

void backward(KernelContext& ctx, bool is_2d) {
  const Tensor& self = ctx.tensor(1);
  const int64_t reduction = ctx.integer(4);
  const ScalarType dtype = ctx.tensor(7).dtype;
  Classes shape;
  if (reduction < 0 || reduction > 2) return ctx.fail(Check::KernelArgument, 4, reduction);
  if (dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, 7, static_cast<int64_t>(dtype));
  if (!class_layout(ctx, 1, 2, is_2d, &shape)) return;
  if (self.dtype == ScalarType::Double) return backward_as<double>(ctx, shape);
  backward_as<float>(ctx, shape);
}

}  // namespace

void nll_loss_forward_out(KernelContext& ctx) { forward(ctx, false); }
void nll_loss2d_forward_out(KernelContext& ctx) { forward(ctx, true); }
void nll_loss_backward_out(KernelContext& ctx) { backward(ctx, false); }
void nll_loss2d_backward_out(KernelContext& ctx) { backward(ctx, true); }

}  // namespace etir
