// Linear layers of float32 whose weights are integers, multiplied out block by block while they are packed, so that
// they are read as they are in the file: int8_weight_linear (int8), int4_weight_linear (two numbers in a byte, the
// first one in the lower half, each 8 more than it stands for).
//
// A row of weights has one scale, or one for each of several groups of equal length in it.
#include "kernels/linalg/matmul.h"
#include "kernels/linalg/weight_linear.gen.h"
#include "kernels/util/checks.h"

namespace etir {
namespace {

constexpr int kUnpacked = 32;  ///< numbers of a row that are multiplied out at once
constexpr int kFewRows = 4;    ///< rows of the input for which nothing is packed

/// out = input @ weight' + bias, with rows of `depth` numbers of kBits bits.
template <int kBits>
struct WeightProduct {
  const float* input;
  const uint8_t* weight;
  const float* scales;
  const float* bias;  ///< null: none
  float* out;
  int64_t rows, columns, depth, groups;

  int64_t group() const { return groups > 0 ? depth / groups : 1; }

  /// Numbers [begin, begin + count) of a row of weights, times their scales; `count` is at most kUnpacked.
  void unpack(int64_t row, int64_t begin, int count, float* to) const {
    for (int done = 0; done < count;) {
      const int64_t at = begin + done, index = at / group();
      const int size = static_cast<int>(std::min<int64_t>(count - done, (index + 1) * group() - at));
      const float scale = scales[row * groups + index];
      if constexpr (kBits == 8) {
        const int8_t* from = reinterpret_cast<const int8_t*>(weight) + row * depth + at;
        for (int i = 0; i < size; ++i) to[done + i] = static_cast<float>(from[i]) * scale;
      } else {
        // Groups and rows have an even number of elements.
        const uint8_t* from = weight + (row * depth + at) / 2;
        int i = 0;
        if (at % 2 != 0) to[done + i++] = static_cast<float>((*from++ >> 4) - 8) * scale;
        for (; i + 1 < size; i += 2, ++from) {
          to[done + i] = static_cast<float>((*from & 15) - 8) * scale;
          to[done + i + 1] = static_cast<float>((*from >> 4) - 8) * scale;
        }
        if (i < size) to[done + i] = static_cast<float>((*from & 15) - 8) * scale;
      }
      done += size;
    }
  }

  void pack(int64_t p, int depth_of_panel, int64_t j, int cols, float* to) const {
    constexpr int kPanel = GemmBlocks<float>::kPanel;
    float block[kPanel * kUnpacked];
    for (int done = 0; done < depth_of_panel; done += kUnpacked) {
      const int count = std::min(kUnpacked, depth_of_panel - done);
      for (int c = 0; c < cols; ++c) unpack(j + c, p + done, count, block + c * kUnpacked);
      pack_transposed(block, kUnpacked, count, cols, to + done * kPanel);
    }
  }

  void store(const float* sums, int stride, int64_t i, int some, int64_t j, int cols, bool first) const {
    for (int r = 0; r < some; ++r) {
      float* to = out + (i + r) * columns + j;
      for (int c = 0; c < cols; ++c) {
        const float before = !first ? to[c] : bias == nullptr ? 0.0f : bias[j + c];
        to[c] = before + sums[r * stride + c];
      }
    }
  }

  /// Columns [begin, end) for a few rows of the input: each weight is multiplied out once.
  void dot(int64_t begin, int64_t end) const {
    constexpr int kLanes = 8;
    for (int64_t j = begin; j < end; ++j) {
      float sums[kFewRows][kLanes] = {};
      for (int64_t p = 0; p < depth; p += kUnpacked) {
        float block[kUnpacked] = {};
        const int count = static_cast<int>(std::min<int64_t>(kUnpacked, depth - p));
        unpack(j, p, count, block);
        for (int64_t r = 0; r < rows; ++r) {
          const float* x = input + r * depth + p;
          int i = 0;
          for (; i + kLanes <= count; i += kLanes) {
            for (int k = 0; k < kLanes; ++k) sums[r][k] += x[i + k] * block[i + k];
          }
          for (; i < count; ++i) sums[r][i % kLanes] += x[i] * block[i];
        }
      }
      for (int64_t r = 0; r < rows; ++r) {
        float total = bias == nullptr ? 0.0f : bias[j];
        for (const float sum : sums[r]) total += sum;
        out[r * columns + j] = total;
      }
    }
  }

  void run(KernelContext& ctx) const {
    if (rows == 0 || columns == 0) return;
    if (rows <= kFewRows) {
      const int64_t work = std::max<int64_t>(1, (int64_t{1} << 16) / std::max<int64_t>(1, depth));
      return ctx.parallel_for(columns, work, [&](int64_t begin, int64_t end) { dot(begin, end); });
    }
    Gemm<float> g;
    g.m = rows, g.n = columns, g.k = depth;
    g.context = this;
    g.a = input, g.a_row = depth, g.a_col = 1;
    g.out = out, g.out_row = columns;
    g.addend = bias, g.addend_row = 0, g.addend_col = 1;
    g.pack_b = [](const void* context, int64_t p, int depth_of_panel, int64_t j, int cols, float* to) {
      static_cast<const WeightProduct*>(context)->pack(p, depth_of_panel, j, cols, to);
    };
    g.store = [](const void* context, const float* sums, int stride, int64_t i, int some, int64_t j, int cols,
                 bool first) {
      static_cast<const WeightProduct*>(context)->store(sums, stride, i, some, j, cols, first);
    };
    gemm(ctx, g);
  }
};

bool check_plain(KernelContext& ctx, const Tensor& tensor, ScalarType dtype) {
  if (tensor.dtype != dtype) return ctx.fail(Check::KernelDtype, tensor, static_cast<int64_t>(tensor.dtype)), false;
  if (!tensor.is_row_major()) return ctx.fail(Check::KernelDimOrder, tensor), false;
  return true;
}

template <int kBits>
void weight_linear(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& scales,
                   const Tensor* bias, Tensor& out) {
  const ScalarType stored = kBits == 8 ? ScalarType::Char : ScalarType::Byte;
  if (!check_plain(ctx, input, ScalarType::Float) || !check_plain(ctx, weight, stored) ||
      !check_plain(ctx, scales, ScalarType::Float) || !check_plain(ctx, out, ScalarType::Float) ||
      (bias != nullptr && !check_plain(ctx, *bias, ScalarType::Float))) {
    return;
  }
  if (input.rank < 1) return ctx.fail(Check::KernelRank, input, input.rank);
  for (const Tensor* tensor : {&weight, &scales}) {
    if (tensor->rank != 2) return ctx.fail(Check::KernelRank, *tensor, tensor->rank);
  }
  WeightProduct<kBits> product = {};
  product.depth = input.sizes[input.rank - 1], product.columns = weight.sizes[0], product.groups = scales.sizes[1];
  if (weight.sizes[1] != product.depth * kBits / 8 || (kBits == 4 && product.depth % 2 != 0)) {
    return ctx.fail(Check::KernelShape, weight, weight.sizes[1]);
  }
  if (scales.sizes[0] != product.columns || product.groups < 1 || product.depth % product.groups != 0) {
    return ctx.fail(Check::KernelShape, scales, scales.sizes[1]);
  }
  if (bias != nullptr && (bias->rank != 1 || bias->sizes[0] != product.columns)) {
    return ctx.fail(Check::KernelShape, *bias, bias->numel());
  }
  int64_t sizes[kMaxRank];
  product.rows = 1;
  for (int d = 0; d + 1 < input.rank; ++d) product.rows *= sizes[d] = input.sizes[d];
  sizes[input.rank - 1] = product.columns;
  if (!ctx.resize(out, sizes, input.rank) || !has_data(ctx, input) || !has_data(ctx, weight) ||
      !has_data(ctx, scales) || !has_data(ctx, out) || (bias != nullptr && !has_data(ctx, *bias))) {
    return;
  }
  product.input = input.ptr<float>(), product.weight = weight.ptr<uint8_t>(), product.scales = scales.ptr<float>();
  product.bias = bias == nullptr ? nullptr : bias->ptr<float>(), product.out = out.ptr<float>();
  product.run(ctx);
}

}  // namespace

void int8_weight_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& scales,
                            const Tensor* bias, Tensor& out) {
  weight_linear<8>(ctx, input, weight, scales, bias, out);
}

void int4_weight_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& scales,
                            const Tensor* bias, Tensor& out) {
  weight_linear<4>(ctx, input, weight, scales, bias, out);
}

}  // namespace etir
