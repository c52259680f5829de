// The gradient of group normalisation, for tensors in row-major order: a channel of a sample is one contiguous run.
#include <cmath>

#include "kernels/normalization/parts.h"

namespace etir {
namespace {

/// Sums of g and of g * (x - mean) over one run.
template <typename T>
void run_sums(const Source<T>& grad, const Source<T>& in, int64_t offset, int64_t size, T mean, T* sum, T* dot) {
  T g_buffer[kRowBlock], x_buffer[kRowBlock], terms[kRowBlock];
  const SumOp<T> op;
  detail::Tree<SumOp<T>> sums(op), dots(op);
  for (int64_t i = 0; i < size; i += kRowBlock) {
    const int64_t n = size - i < kRowBlock ? size - i : kRowBlock;
    const T* __restrict g = grad.get(offset + i, n, g_buffer);
    const T* __restrict x = in.get(offset + i, n, x_buffer);
    sums.add(detail::fold_block(g, n, op));
    for (int64_t j = 0; j < n; ++j) terms[j] = g[j] * (x[j] - mean);
    dots.add(detail::fold_block(terms, n, op));
  }
  *sum = sums.total();
  *dot = dots.total();
}

template <typename T>
void group_backward_as(KernelContext& ctx) {
  const Tensor& input = ctx.tensor(1);
  const BoolList wanted = ctx.bool_list(9);
  const int64_t samples = input.sizes[0];
  const int64_t channels = input.sizes[1];
  const int64_t groups = ctx.integer(8);
  const int64_t per_group = channels / groups;
  const bool empty = input.numel() == 0;
  const int64_t size = ctx.integer(7);
  Source<T> grad, in;
  Sink<T> grad_input, grad_weight, grad_bias;
  Parameter<T> mean, rstd, weight;
  if (!float_source(ctx, 0, &grad) || !float_source(ctx, 1, &in) || !weight.make(ctx, 4, channels, T(1))) return;
  if (!mean.make(ctx, 2, samples * groups, T(0)) || !rstd.make(ctx, 3, samples * groups, T(1))) return;
  if (wanted[0] && (!resize_alike(ctx, 10, input) || !float_sink(ctx, 10, &grad_input))) return;
  for (int i = 1; i < 3; ++i) {
    if (!wanted[i]) continue;
    if (!ctx.resize(ctx.tensor(10 + i), &channels, 1) || !require_data(ctx, 10 + i)) return;
    if (!float_sink(ctx, 10 + i, i == 1 ? &grad_weight : &grad_bias)) return;
  }
  if (wanted[0] && !empty) {
    ctx.parallel_for(samples * groups, 1, [&](int64_t begin, int64_t end) {
      T g_buffer[kRowBlock], x_buffer[kRowBlock], to_buffer[kRowBlock];
      for (int64_t group = begin; group < end; ++group) {
        const T m = mean.at(group);
        const T r = rstd.at(group);
        const int64_t first = group % groups * per_group;
        const int64_t offset = group * per_group * size;
        T sum = T(0), dot = T(0);
        for (int64_t c = 0; c < per_group; ++c) {
          T channel_sum, channel_dot;
          run_sums(grad, in, offset + c * size, size, m, &channel_sum, &channel_dot);
          sum += channel_sum * weight.at(first + c);
          dot += channel_dot * weight.at(first + c);
        }
        const T count = static_cast<T>(per_group * size);
        const T mean_grad = sum / count;
        const T projection = dot * r * r / count;
        for (int64_t c = 0; c < per_group; ++c) {
          const T w = weight.at(first + c);
          for (int64_t i = 0; i < size; i += kRowBlock) {
            const int64_t n = size - i < kRowBlock ? size - i : kRowBlock;
            const int64_t at = offset + c * size + i;
            const T* __restrict g = grad.get(at, n, g_buffer);
            const T* __restrict x = in.get(at, n, x_buffer);
            T* __restrict to = grad_input.place(at, to_buffer);
            for (int64_t j = 0; j < n; ++j) to[j] = (g[j] * w - mean_grad - (x[j] - m) * projection) * r;
            grad_input.flush(at, to, n);
          }
        }
      }
    });
  }
  if (!wanted[1] && !wanted[2]) return;
  for (int64_t c = 0; c < channels; ++c) {
    T of_weight = T(0), of_bias = T(0);
    for (int64_t n = 0; !empty && n < samples; ++n) {
      const int64_t group = n * groups + c / per_group;
      T sum, dot;
      run_sums(grad, in, (n * channels + c) * size, size, mean.at(group), &sum, &dot);
      of_weight += dot * rstd.at(group);
      of_bias += sum;
    }
    if (wanted[1]) grad_weight.put(c, 1, &of_weight, 1);
    if (wanted[2]) grad_bias.put(c, 1, &of_bias, 1);
  }
}

}  // namespace

void native_group_norm_backward_out(KernelContext& ctx) {
  const Tensor& input = ctx.tensor(1);
  if (input.rank < 2) return ctx.fail(Check::KernelRank, 1, input.rank);
  if (ctx.bool_list(9).size() != 3) return ctx.fail(Check::KernelArgument, 9, -1);
  if (!in_plain_order(input)) return ctx.fail(Check::KernelDimOrder, 1);
  if (!require_alike(ctx, 0, input)) return;
  int64_t pixels = 1;
  for (int d = 2; d < input.rank; ++d) {
    if (__builtin_mul_overflow(pixels, int64_t{input.sizes[d]}, &pixels)) pixels = -1;
  }
  const int64_t expected[3] = {input.sizes[0], input.sizes[1], pixels};
  for (int i = 0; i < 3; ++i) {
    if (ctx.integer(5 + i) != expected[i]) return ctx.fail(Check::KernelArgument, 5 + i, ctx.integer(5 + i));
  }
  const int64_t groups = ctx.integer(8);
  if (groups <= 0 || groups > INT32_MAX || input.sizes[1] % groups != 0) {
    return ctx.fail(Check::KernelArgument, 8, groups);
  }
  if (input.dtype == ScalarType::Double) return group_backward_as<double>(ctx);
  group_backward_as<float>(ctx);
}

}  // namespace etir
