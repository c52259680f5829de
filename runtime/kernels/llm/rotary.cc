// etir::rotary: rotary position embedding of heads (Su et al. 2021, "RoFormer"), in the form in which a number's
// partner is half a head away. Input [batch, positions, heads, width], cos and sin [1, positions, width]:
//
//   y[i] = x[i] * cos[i] + (i < width / 2 ? -x[i + width / 2] : x[i - width / 2]) * sin[i]
//
// The layout is that of caches and of attention over them, so that nothing is transposed. The bits are those of the
// operators that a model writes this with.
#include "kernels/llm/rotary.gen.h"
#include "kernels/util/checks.h"

namespace etir {
namespace {

constexpr int64_t kBlock = 64;

/// `n` numbers of the lower half of a head and their partners, `half` further on.
void turn(const float* x, const float* cos, const float* sin, int64_t half, int64_t n, float* __restrict to) {
  // Numbers of their own: a product and a sum that are one rounding have other bits.
  float lower[kBlock], upper[kBlock];
  for (int64_t i = 0; i < n; ++i) lower[i] = x[i + half] * sin[i], upper[i] = x[i] * sin[i + half];
  for (int64_t i = 0; i < n; ++i) to[i] = x[i] * cos[i], to[i + half] = x[i + half] * cos[i + half];
  for (int64_t i = 0; i < n; ++i) to[i] -= lower[i], to[i + half] += upper[i];
}

}  // namespace

void rotary_out(KernelContext& ctx, const Tensor& input, const Tensor& cos, const Tensor& sin, Tensor& out) {
  for (const Tensor* tensor : {&input, &cos, &sin, static_cast<const Tensor*>(&out)}) {
    if (tensor->dtype != ScalarType::Float) {
      return ctx.fail(Check::KernelDtype, *tensor, static_cast<int64_t>(tensor->dtype));
    }
  }
  if (input.rank != 4) return ctx.fail(Check::KernelRank, input, input.rank);
  const int64_t positions = input.sizes[1], heads = input.sizes[2], width = input.sizes[3], half = width / 2;
  if (width % 2 != 0) return ctx.fail(Check::KernelShape, input, width);
  for (const Tensor* table : {&cos, &sin}) {
    if (table->rank != 3) return ctx.fail(Check::KernelRank, *table, table->rank);
    const int64_t wanted[3] = {1, positions, width};
    for (int d = 0; d < 3; ++d) {
      if (table->sizes[d] != wanted[d]) return ctx.fail(Check::KernelShape, *table, table->sizes[d]);
    }
  }
  if (!ctx.resize_like(out, input)) return;
  for (const Tensor* tensor : {&input, &cos, &sin, static_cast<const Tensor*>(&out)}) {
    if (tensor->numel() == 0) continue;
    if (!tensor->is_row_major()) return ctx.fail(Check::KernelDimOrder, *tensor);
    if (!has_data(ctx, *tensor)) return;
  }
  const int64_t row = heads * width;
  if (input.numel() == 0) return;
  ctx.parallel_for(input.sizes[0] * positions, 8192 / row + 1, [&](int64_t first, int64_t last) {
    for (int64_t at = first; at < last; ++at) {
      const float* c = cos.ptr<float>() + at % positions * width;
      const float* s = sin.ptr<float>() + at % positions * width;
      for (int64_t head = 0; head < heads; ++head) {
        const float* x = input.ptr<float>() + at * row + head * width;
        float* __restrict to = out.ptr<float>() + at * row + head * width;
        for (int64_t begin = 0; begin < half; begin += kBlock) {
          turn(x + begin, c + begin, s + begin, half, half - begin < kBlock ? half - begin : kBlock, to + begin);
        }
      }
    }
  });
}

}  // namespace etir
