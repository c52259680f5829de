// Layer normalization over the trailing dims, and its gradient.
#include <cmath>

#include "kernels/normalization/layer_norm.gen.h"
#include "kernels/normalization/parts.h"

namespace etir {
namespace {

/// The bits of the dims that are normalized: the shape must be that of the last dims of the input.
bool trailing_dims(KernelContext& ctx, const Tensor& input, const IntList& shape, int shape_position, uint32_t* mask) {
  const int count = shape.size() > kMaxRank ? kMaxRank + 1 : static_cast<int>(shape.size());
  if (count < 1 || count > input.rank) return ctx.fail(Check::KernelArgument, shape_position, count), false;
  *mask = 0;
  for (int i = 0; i < count; ++i) {
    const int d = input.rank - count + i;
    if (shape[i] != input.sizes[d]) return ctx.fail(Check::KernelArgument, shape_position, shape[i]), false;
    *mask |= uint32_t{1} << d;
  }
  return true;
}

constexpr int64_t kCachedElements = 4096;  ///< elements of rows that are read a second time while they are in cache
constexpr int64_t kRowsTogether = 4;       ///< rows that load the parameters once

/// out = (x - mean) * rstd * weight + bias for `kRows` rows, which load the parameters once.
template <int kRows, typename T>
void normalize_rows(const T* x, T* out, int64_t stride, int64_t n, const T* means, const T* rstds, const T* weight,
                    const T* bias) {
  using V = typename Vector<T>::type;
  constexpr int kLanes = Vector<T>::kLanes;
  T mean[kRows], rstd[kRows];
  for (int r = 0; r < kRows; ++r) mean[r] = means[r], rstd[r] = rstds[r];
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    const V w = load_vector<T>(weight + j), b = load_vector<T>(bias + j);
    ETIR_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const V centered = load_vector<T>(x + r * stride + j) - mean[r];
      store_vector<T>(out + r * stride + j, centered * rstd[r] * w + b);
    }
  }
  for (; j < n; ++j) {
    for (int r = 0; r < kRows; ++r) {
      out[r * stride + j] = (x[r * stride + j] - mean[r]) * rstd[r] * weight[j] + bias[j];
    }
  }
}

/// The same for `rows` contiguous rows of any dtype, a block of elements at a time.
template <typename T>
void normalize(const Source<T>& in, const Sink<T>& out, int64_t offset, int64_t rows, int64_t size, const T* means,
               const T* rstds, const Parameter<T>& weight, const Parameter<T>& bias) {
  T x_buffer[kRowBlock], w_buffer[kRowBlock], b_buffer[kRowBlock], out_buffer[kRowBlock];
  const bool direct = in.load == nullptr && out.is_direct;
  for (int64_t i = 0; i < size; i += kRowBlock) {
    const int64_t n = size - i < kRowBlock ? size - i : kRowBlock;
    const T* w = weight.block(i, n, w_buffer);
    const T* b = bias.block(i, n, b_buffer);
    int64_t row = 0;
    for (; direct && row + kRowsTogether <= rows; row += kRowsTogether) {
      const int64_t at = offset + row * size + i;
      normalize_rows<kRowsTogether>(in.get(at, n, x_buffer), out.place(at, out_buffer), size, n, means + row,
                                    rstds + row, w, b);
    }
    for (; row < rows; ++row) {
      const int64_t at = offset + row * size + i;
      T* to = out.place(at, out_buffer);
      normalize_rows<1>(in.get(at, n, x_buffer), to, size, n, means + row, rstds + row, w, b);
      out.flush(at, to, n);
    }
  }
}

/// The normalized dims in row-major order, as a walk over the input's memory.
struct Trailing {
  ReducePlan::Dim dims[kMaxRank];
  int rank = 0;
  Trailing(const Tensor& input, uint32_t mask) {
    int64_t strides[kMaxRank];
    input.strides(strides);
    for (int d = 0; d < input.rank; ++d) {
      if ((mask >> d) & 1u) dims[rank++] = {input.sizes[d], strides[d], 0};
    }
  }
};

template <typename T>
void layer_norm_as(KernelContext& ctx, const Tensor& input, uint32_t mask, const Tensor* weight_given,
                   const Tensor* bias_given, double eps_given, Tensor& result, Tensor& mean, Tensor& rstd) {
  Source<T> in;
  Sink<T> out, mean_out, rstd_out;
  Parameter<T> weight, bias;
  const int64_t size = reduced_count(input, mask);
  if (!float_source(ctx, input, &in) || !weight.make(ctx, weight_given, size, T(1))) return;
  if (!bias.make(ctx, bias_given, size, T(0)) || !resize_alike(ctx, result, input)) return;
  if (!resize_reduced(ctx, mean, input, mask, true) || !resize_reduced(ctx, rstd, input, mask, true)) return;
  if (!float_sink(ctx, result, &out) || !float_sink(ctx, mean, &mean_out) || !float_sink(ctx, rstd, &rstd_out)) return;
  if (!same_layout(mean, rstd)) return ctx.fail(Check::KernelDimOrder, rstd);
  const T eps = static_cast<T>(eps_given);
  const ReducePlan plan = make_reduce_plan(input, mask, mean);
  const bool contiguous = plan.rows && plan.reduced_rank <= 1 && in_plain_order(input);
  const auto part = [&](int64_t from, int64_t to, int64_t stride, int64_t n) {
    T means[kColumnBlock];
    T rstds[kColumnBlock];
    if (plan.reduced_count == 0) {
      for (int64_t j = 0; j < n; ++j) means[j] = rstds[j] = T(0);
    } else if (plan.rows) {
      for (int64_t j = 0; j < n; ++j) part_moments(plan, in, from + j * plan.row_stride(), 1, means + j, rstds + j);
    } else {
      part_moments(plan, in, from, n, means, rstds);
    }
    for (int64_t j = 0; j < n; ++j) rstds[j] = T(1) / std::sqrt(rstds[j] + eps);
    mean_out.put(to, stride, means, n);
    rstd_out.put(to, stride, rstds, n);
    if (contiguous) return normalize(in, out, from, n, size, means, rstds, weight, bias);
    if (plan.reduced_count == 0) return;
    // Columns, or dims whose order in memory is not that of the weights: one weight for n neighbors.
    const Trailing trailing(input, mask);
    DimWalk walk(trailing.dims, trailing.rank, 0);
    for (int64_t i = 0; i < size; ++i, walk.next()) {
      const T w = weight.at(i);
      const T b = bias.at(i);
      transform_run<false>(in, out, from + walk.in, n,
                           [&](T x, int64_t j) { return (x - means[j]) * rstds[j] * w + b; });
    }
  };
  // Contiguous rows are neighbors: a few at once, but no more than stay in cache for all passes.
  const int64_t rows = rows_at_once(plan, kCachedElements);
  for_each_part(ctx, plan, part, !contiguous ? 1 : rows < kRowsTogether ? rows : rows / kRowsTogether * kRowsTogether);
}

template <typename T>
void layer_backward_as(KernelContext& ctx, const Tensor& grad_out, const Tensor& input, uint32_t mask,
                       const Tensor& mean_given, const Tensor& rstd_given, const Tensor* weight_given,
                       const BoolList& wanted, Tensor* const (&results)[3]) {
  const int64_t size = reduced_count(input, mask);
  const int64_t rows = input.numel() == 0 ? 0 : input.numel() / size;
  Source<T> grad, in;
  Sink<T> grad_input, grad_weight, grad_bias;
  Parameter<T> mean, rstd, weight;
  if (!float_source(ctx, grad_out, &grad) || !float_source(ctx, input, &in)) return;
  if (rows > 0 && (!mean.make(ctx, &mean_given, rows, T(0)) || !rstd.make(ctx, &rstd_given, rows, T(1)))) return;
  if (!weight.make(ctx, weight_given, size, T(1))) return;
  if (wanted[0] && (!resize_alike(ctx, *results[0], input) || !float_sink(ctx, *results[0], &grad_input))) return;
  int64_t shape[kMaxRank];
  int rank = 0;
  for (int d = 0; d < input.rank; ++d) {
    if ((mask >> d) & 1u) shape[rank++] = input.sizes[d];
  }
  for (int i = 1; i < 3; ++i) {
    if (!wanted[i]) continue;
    Tensor& result = *results[i];
    if (!ctx.resize(result, shape, rank) || !has_data(ctx, result)) return;
    if (!in_plain_order(result)) return ctx.fail(Check::KernelDimOrder, result);
    if (!float_sink(ctx, result, i == 1 ? &grad_weight : &grad_bias)) return;
  }
  if (wanted[0] && rows > 0) {
    ctx.parallel_for(rows, 32768 / (size + 1) + 1, [&](int64_t begin, int64_t end) {
      T g_buffer[kRowBlock], x_buffer[kRowBlock], w_buffer[kRowBlock], to_buffer[kRowBlock];
      for (int64_t row = begin; row < end; ++row) {
        const T m = mean.at(row);
        const T r = rstd.at(row);
        const SumOp<T> op;
        detail::Tree<SumOp<T>> sum(op), dot(op);
        // Once for the two sums of the row, once for the result.
        for (int pass = 0; pass < 2; ++pass) {
          const T mean_grad = pass == 0 ? T(0) : sum.total() / static_cast<T>(size);
          const T projection = pass == 0 ? T(0) : dot.total() * r * r / static_cast<T>(size);
          for (int64_t i = 0; i < size; i += kRowBlock) {
            const int64_t n = size - i < kRowBlock ? size - i : kRowBlock;
            const T* __restrict g = grad.get(row * size + i, n, g_buffer);
            const T* __restrict x = in.get(row * size + i, n, x_buffer);
            if (weight.present()) {
              const T* __restrict w = weight.block(i, n, w_buffer);
              for (int64_t j = 0; j < n; ++j) to_buffer[j] = g[j] * w[j];
            } else {
              for (int64_t j = 0; j < n; ++j) to_buffer[j] = g[j];
            }
            if (pass == 0) {
              sum.add(detail::fold_block(to_buffer, n, op));
              for (int64_t j = 0; j < n; ++j) to_buffer[j] *= x[j] - m;
              dot.add(detail::fold_block(to_buffer, n, op));
            } else {
              for (int64_t j = 0; j < n; ++j) {
                to_buffer[j] = (to_buffer[j] - mean_grad - (x[j] - m) * projection) * r;
              }
              grad_input.put(row * size + i, 1, to_buffer, n);
            }
          }
        }
      }
    });
  }
  if (!wanted[1] && !wanted[2]) return;
  // The parameters' gradients are sums over rows: blocks of columns.
  ctx.parallel_for((size + kColumnBlock - 1) / kColumnBlock, 1, [&](int64_t begin, int64_t end) {
    T g_buffer[kColumnBlock], x_buffer[kColumnBlock];
    for (int64_t block = begin; block < end; ++block) {
      const int64_t column = block * kColumnBlock;
      const int64_t n = size - column < kColumnBlock ? size - column : kColumnBlock;
      T sums[2][kColumnBlock] = {};
      T low[2][kColumnBlock] = {};
      const SumOp<T> op;
      for (int64_t row = 0; row < rows; ++row) {
        const T m = mean.at(row);
        const T r = rstd.at(row);
        const T* __restrict g = grad.get(row * size + column, n, g_buffer);
        const T* __restrict x = in.get(row * size + column, n, x_buffer);
        for (int64_t j = 0; j < n; ++j) {
          low[0][j] += g[j] * (x[j] - m) * r;
          low[1][j] += g[j];
        }
        if (row % 64 != 63) continue;
        detail::merge(op, sums[0], low[0], n);
        detail::merge(op, sums[1], low[1], n);
      }
      detail::merge(op, sums[0], low[0], n);
      detail::merge(op, sums[1], low[1], n);
      if (wanted[1]) grad_weight.put(column, 1, sums[0], n);
      if (wanted[2]) grad_bias.put(column, 1, sums[1], n);
    }
  });
}

}  // namespace

void native_layer_norm_out(KernelContext& ctx, const Tensor& input, const IntList& normalized_shape,
                           const Tensor* weight, const Tensor* bias, double eps, Tensor& out0, Tensor& out1,
                           Tensor& out2) {
  const ScalarType dtype = out0.dtype;
  uint32_t mask;
  if (dtype != input.dtype) return ctx.fail(Check::KernelDtypeMismatch, out0, static_cast<int64_t>(dtype));
  if (!trailing_dims(ctx, input, normalized_shape, arguments::native_layer_norm_out::normalized_shape, &mask)) return;
  if (input.dtype == ScalarType::Double)
    return layer_norm_as<double>(ctx, input, mask, weight, bias, eps, out0, out1, out2);
  layer_norm_as<float>(ctx, input, mask, weight, bias, eps, out0, out1, out2);
}

void native_layer_norm_backward_out(KernelContext& ctx, const Tensor& grad_out, const Tensor& input,
                                    const IntList& normalized_shape, const Tensor& mean, const Tensor& rstd,
                                    const Tensor* weight, const Tensor* /*bias*/, const BoolList& output_mask,
                                    Tensor& out0, Tensor& out1, Tensor& out2) {
  using arg = arguments::native_layer_norm_backward_out;
  uint32_t mask;
  if (!trailing_dims(ctx, input, normalized_shape, arg::normalized_shape, &mask)) return;
  if (output_mask.size() != 3) return ctx.fail(Check::KernelArgument, arg::output_mask, -1);
  if (!in_plain_order(input)) return ctx.fail(Check::KernelDimOrder, input);
  if (!require_alike(ctx, grad_out, input)) return;
  Tensor* const results[] = {&out0, &out1, &out2};
  if (input.dtype == ScalarType::Double) {
    return layer_backward_as<double>(ctx, grad_out, input, mask, mean, rstd, weight, output_mask, results);
  }
  layer_backward_as<float>(ctx, grad_out, input, mask, mean, rstd, weight, output_mask, results);
}

}  // namespace etir
