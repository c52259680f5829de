// Rows of a table of packed weights, dequantized: int4_group_embedding and int8_group_embedding read the same bytes as
// the linear layers, so that a matrix which is both a table and a layer is stored once.
#include "kernels/integer/group_embedding.gen.h"
#include "kernels/util/group_weights.h"

namespace etir {
namespace {

/// Row `row` of the table as float32, `count` numbers.
template <int kBits>
void dequantize_row(const groups::Weights& weights, int64_t row, int64_t count, float* to) {
  using namespace groups;
  const uint8_t* data = weights.panel<kBits>(row / kLanes) + row % kLanes * kFour;
  const int64_t group = weights.group();
  for (int64_t g = 0; g < weights.groups; ++g) {
    const int64_t at = (row / kLanes * weights.groups + g) * kLanes + row % kLanes;
    float scale, minimum = 0.0f;
    read_factors(*weights.scales, at, 1, &scale);
    if (weights.minimums != nullptr) read_factors(*weights.minimums, at, 1, &minimum);
    const int zero = weights.minimums == nullptr ? kZero<kBits> : 0;
    for (int64_t k = g * group; k < std::min(count, (g + 1) * group); k += kFour) {
      const uint8_t* from = data + (kBits == 4 ? k / 8 : k / 4) * kLanes * kFour;
      const int shift = kBits == 4 && k % 8 != 0 ? 4 : 0, mask = kBits == 4 ? 15 : 255;
      for (int64_t j = 0; j < std::min<int64_t>(kFour, count - k); ++j) {
        to[k + j] = static_cast<float>(((from[j] >> shift) & mask) - zero) * scale + minimum;
      }
    }
  }
}

template <int kBits>
void group_embedding(KernelContext& ctx, const Tensor& weight, const Tensor& scales, const Tensor* minimums,
                     const Tensor& indices, int64_t rows, int64_t depth, int position, Tensor& out) {
  if (indices.dtype != ScalarType::Long && indices.dtype != ScalarType::Int) {
    return ctx.fail(Check::KernelDtype, indices, static_cast<int64_t>(indices.dtype));
  }
  if (out.dtype != ScalarType::Float) return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  if (indices.rank >= kMaxRank) return ctx.fail(Check::KernelRank, indices, indices.rank);
  if (depth < 0 || depth > groups::kMostDepth) return ctx.fail(Check::KernelArgument, position + 1, depth);
  groups::Weights weights;
  if (!groups::read_weights<kBits>(ctx, weight, scales, minimums, rows, position, depth, &weights) ||
      !groups::check_rows(ctx, indices)) {
    return;
  }
  const int64_t count = indices.numel();
  const bool narrow = indices.dtype == ScalarType::Int;
  const auto index = [&](int64_t i) -> int64_t {
    return narrow ? indices.ptr<int32_t>()[i] : indices.ptr<int64_t>()[i];
  };
  for (int64_t i = 0; i < count; ++i) {
    if (index(i) < 0 || index(i) >= rows) return ctx.fail(Check::KernelIndex, index(i), rows);
  }
  int64_t sizes[kMaxRank];
  for (int d = 0; d < indices.rank; ++d) sizes[d] = indices.sizes[d];
  sizes[indices.rank] = depth;
  if (!ctx.resize(out, sizes, indices.rank + 1) || !groups::check_rows(ctx, out)) return;
  ctx.parallel_for(count, 4096 / (depth + 1) + 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      dequantize_row<kBits>(weights, index(i), depth, out.ptr<float>() + i * depth);
  });
}

}  // namespace

void int4_group_embedding_out(KernelContext& ctx, const Tensor& weight, const Tensor& scales, const Tensor* minimums,
                              const Tensor& indices, int64_t rows, int64_t depth, Tensor& out) {
  group_embedding<4>(ctx, weight, scales, minimums, indices, rows, depth, arguments::int4_group_embedding_out::rows,
                     out);
}

void int8_group_embedding_out(KernelContext& ctx, const Tensor& weight, const Tensor& scales, const Tensor* minimums,
                              const Tensor& indices, int64_t rows, int64_t depth, Tensor& out) {
  group_embedding<8>(ctx, weight, scales, minimums, indices, rows, depth, arguments::int8_group_embedding_out::rows,
                     out);
}

}  // namespace etir
