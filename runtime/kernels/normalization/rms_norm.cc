// etir::rms_norm: x / sqrt(mean(x^2) + eps) * weight over the last dim of float32 rows (Zhang and Sennrich 2019, "Root
// mean square layer normalization"). One read of the row for the sum and one for the result; written out, a model has
// six operators for it, and as many trips through the executor for each layer of a token. The bits are theirs.
#include <cmath>

#include "kernels/normalization/rms_norm.gen.h"
#include "kernels/util/checks.h"
#include "kernels/util/reduce.h"
#include "kernels/util/reduce_ops.h"

namespace etir {
namespace {

/// The sum of squares, in the order in which the mean of a tensor of them is taken.
float sum_of_squares(const float* x, int64_t n) {
  const SumOp<float> op;
  detail::Tree<SumOp<float>> total(op);
  for (int64_t at = 0; at < n; at += kDirectBlock) {
    const int64_t count = n - at < kDirectBlock ? n - at : kDirectBlock;
    float squares[kDirectBlock];  // numbers of their own: a square and a sum that are one rounding have other bits
    for (int64_t i = 0; i < count; ++i) squares[i] = x[at + i] * x[at + i];
    total.add(detail::fold_block(squares, count, op));
  }
  return total.total();
}

}  // namespace

void rms_norm_out(KernelContext& ctx, const Tensor& input, const Tensor* weight, double eps, Tensor& out) {
  if (input.rank < 1) return ctx.fail(Check::KernelRank, input, input.rank);
  for (const Tensor* tensor : {&input, static_cast<const Tensor*>(&out), weight}) {
    if (tensor != nullptr && tensor->dtype != ScalarType::Float) {
      return ctx.fail(Check::KernelDtype, *tensor, static_cast<int64_t>(tensor->dtype));
    }
  }
  const int64_t n = input.sizes[input.rank - 1];
  if (weight != nullptr && (weight->rank != 1 || weight->sizes[0] != n)) {
    return ctx.fail(Check::KernelShape, *weight, weight->rank < 1 ? 0 : weight->sizes[0]);
  }
  if (!ctx.resize_like(out, input)) return;
  for (const Tensor* tensor : {&input, static_cast<const Tensor*>(&out), weight}) {
    if (tensor == nullptr || tensor->numel() == 0) continue;
    if (!tensor->is_row_major()) return ctx.fail(Check::KernelDimOrder, *tensor);
    if (!has_data(ctx, *tensor)) return;
  }
  if (n == 0) return;
  const float* factors = weight == nullptr ? nullptr : weight->ptr<float>();
  ctx.parallel_for(input.numel() / n, 8192 / n + 1, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const float* x = input.ptr<float>() + row * n;
      float* to = out.ptr<float>() + row * n;  // may be the row itself
      const float by = 1.0f / std::sqrt(sum_of_squares(x, n) / static_cast<float>(n) + static_cast<float>(eps));
      if (factors == nullptr) {
        for (int64_t i = 0; i < n; ++i) to[i] = x[i] * by;
      } else {
        for (int64_t i = 0; i < n; ++i) to[i] = factors[i] * (x[i] * by);
      }
    }
  });
}

}  // namespace etir
