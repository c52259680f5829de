// The gradient of group normalization, for tensors in row-major order: a channel of a sample is one contiguous run.
#include <cmath>

#include "kernels/normalization/group_norm_backward.gen.h"
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
void group_backward_as(KernelContext& ctx, const Tensor& grad_out, const Tensor& input, const Tensor& mean_given,
                       const Tensor& rstd_given, const Tensor* weight_given, int64_t size, int64_t groups,
                       const BoolList& wanted, Tensor* const (&results)[3]) {
  const int64_t samples = input.sizes[0];
  const int64_t channels = input.sizes[1];
  const int64_t per_group = channels / groups;
  const bool empty = input.numel() == 0;
  Source<T> grad, in;
  Sink<T> grad_input, grad_weight, grad_bias;
  Parameter<T> mean, rstd, weight;
  if (!float_source(ctx, grad_out, &grad) || !float_source(ctx, input, &in)) return;
  if (!weight.make(ctx, weight_given, channels, T(1)) || !mean.make(ctx, &mean_given, samples * groups, T(0))) return;
  if (!rstd.make(ctx, &rstd_given, samples * groups, T(1))) return;
  if (wanted[0] && (!resize_alike(ctx, *results[0], input) || !float_sink(ctx, *results[0], &grad_input))) return;
  for (int i = 1; i < 3; ++i) {
    if (!wanted[i]) continue;
    if (!ctx.resize(*results[i], &channels, 1) || !has_data(ctx, *results[i])) return;
    if (!float_sink(ctx, *results[i], i == 1 ? &grad_weight : &grad_bias)) return;
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

void native_group_norm_backward_out(KernelContext& ctx, const Tensor& grad_out, const Tensor& input, const Tensor& mean,
                                    const Tensor& rstd, const Tensor* weight, int64_t N, int64_t C, int64_t HxW,
                                    int64_t group, const BoolList& output_mask, Tensor& out0, Tensor& out1,
                                    Tensor& out2) {
  using arg = arguments::native_group_norm_backward_out;
  if (input.rank < 2) return ctx.fail(Check::KernelRank, input, input.rank);
  if (output_mask.size() != 3) return ctx.fail(Check::KernelArgument, arg::output_mask, -1);
  if (!in_plain_order(input)) return ctx.fail(Check::KernelDimOrder, input);
  if (!require_alike(ctx, grad_out, input)) return;
  if (!check_group_sizes(ctx, input, N, C, HxW, group, arg::N)) return;
  Tensor* const results[] = {&out0, &out1, &out2};
  const auto run = input.dtype == ScalarType::Double ? group_backward_as<double> : group_backward_as<float>;
  run(ctx, grad_out, input, mean, rstd, weight, HxW, group, output_mask, results);
}

}  // namespace etir
