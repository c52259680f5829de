// Batch normalization: by running statistics, or by the batch's own, which may update the running ones.
//
// All forms come down to out = x * scale + shift with one scale and shift for each channel; a part of the plan is one
// channel, or a block of them when channels are innermost.
#include <cmath>

#include "kernels/normalization/batch_norm.gen.h"
#include "kernels/normalization/parts.h"

namespace etir {
namespace {

/// The arguments that the forms have in common. Running statistics may be absent, or not to be written.
struct BatchNorm {
  const Tensor& input;
  const Tensor* weight;
  const Tensor* bias;
  const Tensor* running_mean;
  const Tensor* running_var;
  bool training;
  double momentum;
  double eps;
  Tensor& out;
  Tensor& save_mean;
  Tensor& save_invstd;
  int running_mean_position;  ///< among the arguments, for error records
};

template <typename T>
void batch_norm_as(KernelContext& ctx, const BatchNorm& call) {
  const Tensor& input = call.input;
  const bool training = call.training;
  const int64_t channels = input.sizes[1];
  Source<T> in;
  Sink<T> out, save_mean, save_invstd, mean_update, var_update;
  Parameter<T> weight, bias, running_mean, running_var;
  if (!float_source(ctx, input, &in) || !weight.make(ctx, call.weight, channels, T(1))) return;
  if (!bias.make(ctx, call.bias, channels, T(0))) return;
  if (!running_mean.make(ctx, call.running_mean, channels, T(0))) return;
  if (!running_var.make(ctx, call.running_var, channels, T(1))) return;
  if (!training && !(running_mean.present() && running_var.present())) {
    return ctx.fail(Check::KernelArgument, call.running_mean_position, -1);
  }
  const int64_t saved = training ? channels : 0;
  if (!resize_alike(ctx, call.out, input)) return;
  for (Tensor* result : {&call.save_mean, &call.save_invstd}) {
    if (!ctx.resize(*result, &saved, 1) || !has_data(ctx, *result)) return;
  }
  if (!float_sink(ctx, call.out, &out) || !float_sink(ctx, call.save_mean, &save_mean)) return;
  if (!float_sink(ctx, call.save_invstd, &save_invstd)) return;
  const bool updates_mean = training && running_mean.present();
  const bool updates_var = training && running_var.present();
  if (updates_mean && !float_sink(ctx, *call.running_mean, &mean_update)) return;
  if (updates_var && !float_sink(ctx, *call.running_var, &var_update)) return;
  const T momentum = static_cast<T>(call.momentum);
  const T eps = static_cast<T>(call.eps);

  // The statistics' own shape: a part's place in it is its first channel.
  const int32_t stat_size = input.sizes[1];
  Tensor stats{};
  stats.sizes = &stat_size;
  stats.rank = 1;
  const ReducePlan plan = make_reduce_plan(input, all_dims(input) & ~2u, stats);
  if (training && plan.reduced_count == 0) return ctx.fail(Check::KernelShape, input, 0);
  for_each_part(ctx, plan, [&](int64_t from, int64_t channel, int64_t, int64_t n) {
    T scale[kColumnBlock];
    T shift[kColumnBlock];
    T means[kColumnBlock];
    T variances[kColumnBlock];
    if (training) {
      part_moments(plan, in, from, n, means, variances);
    } else {
      for (int64_t j = 0; j < n; ++j) {
        means[j] = running_mean.at(channel + j);
        variances[j] = running_var.at(channel + j);
      }
    }
    for (int64_t j = 0; j < n; ++j) {
      const T invstd = T(1) / std::sqrt(variances[j] + eps);
      scale[j] = invstd * weight.at(channel + j);
      shift[j] = bias.at(channel + j) - means[j] * scale[j];
      if (!training) continue;
      save_mean.put(channel + j, 1, &means[j], 1);
      save_invstd.put(channel + j, 1, &invstd, 1);
      if (updates_mean) {
        const T updated = momentum * means[j] + (T(1) - momentum) * running_mean.at(channel + j);
        mean_update.put(channel + j, 1, &updated, 1);
      }
      if (updates_var) {
        const T count = static_cast<T>(plan.reduced_count);
        const T unbiased = variances[j] * count / (count - T(1));
        const T updated = momentum * unbiased + (T(1) - momentum) * running_var.at(channel + j);
        var_update.put(channel + j, 1, &updated, 1);
      }
    }
    transform_part(plan, in, out, from, n, [&](T x, int64_t j) { return x * scale[j] + shift[j]; });
  });
}

void batch_norm(KernelContext& ctx, const BatchNorm& call) {
  const Tensor& input = call.input;
  const ScalarType dtype = call.out.dtype;
  if (input.rank < 2) return ctx.fail(Check::KernelRank, input, input.rank);
  if (dtype != input.dtype) return ctx.fail(Check::KernelDtypeMismatch, call.out, static_cast<int64_t>(dtype));
  if (input.dtype == ScalarType::Double) return batch_norm_as<double>(ctx, call);
  batch_norm_as<float>(ctx, call);
}

/// The arguments of the backward operator.
struct Backward {
  const Tensor& grad_out;
  const Tensor& input;
  const Tensor* weight;
  const Tensor* running_mean;
  const Tensor* running_var;
  const Tensor* save_mean;
  const Tensor* save_invstd;
  bool training;
  double eps;
  const BoolList& wanted;
  Tensor* results[3];
};

template <typename T>
void batch_backward_as(KernelContext& ctx, const Backward& call) {
  using arg = arguments::native_batch_norm_backward_out;
  const Tensor& input = call.input;
  const int64_t channels = input.sizes[1];
  const bool training = call.training;
  const BoolList& wanted = call.wanted;
  Source<T> grad, in;
  Sink<T> grad_input, grad_weight, grad_bias;
  Parameter<T> weight, running_mean, running_var, save_mean, save_invstd;
  if (!float_source(ctx, call.grad_out, &grad) || !float_source(ctx, input, &in)) return;
  if (!weight.make(ctx, call.weight, channels, T(1))) return;
  if (training ? !save_mean.make(ctx, call.save_mean, channels, T(0)) ||
                     !save_invstd.make(ctx, call.save_invstd, channels, T(1))
               : !running_mean.make(ctx, call.running_mean, channels, T(0)) ||
                     !running_var.make(ctx, call.running_var, channels, T(1))) {
    return;
  }
  if (training ? !(save_mean.present() && save_invstd.present()) : !(running_mean.present() && running_var.present())) {
    return ctx.fail(Check::KernelArgument, training ? arg::save_mean : arg::running_mean, -1);
  }
  Tensor& first = *call.results[0];
  if (wanted[0] && (!resize_alike(ctx, first, input) || !float_sink(ctx, first, &grad_input))) return;
  for (int i = 1; i < 3; ++i) {
    if (!wanted[i]) continue;
    Tensor& result = *call.results[i];
    if (!ctx.resize(result, &channels, 1) || !has_data(ctx, result)) return;
    if (!float_sink(ctx, result, i == 1 ? &grad_weight : &grad_bias)) return;
  }
  const T eps = static_cast<T>(call.eps);
  const int32_t stat_size = input.sizes[1];
  Tensor stats{};
  stats.sizes = &stat_size;
  stats.rank = 1;
  const ReducePlan plan = make_reduce_plan(input, all_dims(input) & ~2u, stats);
  for_each_part(ctx, plan, [&](int64_t from, int64_t channel, int64_t, int64_t n) {
    T means[kColumnBlock], invstds[kColumnBlock], sums[kColumnBlock], dots[kColumnBlock];
    for (int64_t j = 0; j < n; ++j) {
      const int64_t c = channel + j;
      means[j] = training ? save_mean.at(c) : running_mean.at(c);
      invstds[j] = training ? save_invstd.at(c) : T(1) / std::sqrt(running_var.at(c) + eps);
    }
    sum_pairs(
        plan, grad, in, from, n, sums, dots, [](T g, T, int64_t) { return g; },
        [&](T g, T x, int64_t j) { return g * (x - means[j]); });
    for (int64_t j = 0; j < n; ++j) {
      const T of_weight = dots[j] * invstds[j];
      if (wanted[1]) grad_weight.put(channel + j, 1, &of_weight, 1);
      if (wanted[2]) grad_bias.put(channel + j, 1, &sums[j], 1);
    }
    if (!wanted[0]) return;
    // grad_input = (g - mean(g) - (x - mean) * projection) * scale; in evaluation g * scale.
    T scales[kColumnBlock];
    const T count = static_cast<T>(plan.reduced_count);
    for (int64_t j = 0; j < n; ++j) {
      scales[j] = invstds[j] * weight.at(channel + j);
      dots[j] = training ? dots[j] * invstds[j] * invstds[j] / count : T(0);
      sums[j] = training ? sums[j] / count : T(0);
    }
    T grads[kRowBlock], inputs[kRowBlock], buffer[kRowBlock];
    for_each_run(plan, from, n, [&](int64_t at, int64_t run) {
      const T* __restrict g = grad.get(at, run, grads);
      const T* __restrict x = in.get(at, run, inputs);
      T* __restrict to = grad_input.place(at, buffer);
      const int64_t step = plan.rows ? 0 : 1;
      if (training) {
        for (int64_t j = 0; j < run; ++j) {
          const int64_t k = j * step;
          to[j] = (g[j] - sums[k] - (x[j] - means[k]) * dots[k]) * scales[k];
        }
      } else {
        for (int64_t j = 0; j < run; ++j) to[j] = g[j] * scales[j * step];
      }
      grad_input.flush(at, to, run);
    });
  });
}

}  // namespace

void native_batch_norm_out(KernelContext& ctx, const Tensor& input, const Tensor* weight, const Tensor* bias,
                           const Tensor* running_mean, const Tensor* running_var, bool training, double momentum,
                           double eps, Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  batch_norm(ctx, {input, weight, bias, running_mean, running_var, training, momentum, eps, out, save_mean, save_invstd,
                   arguments::native_batch_norm_out::running_mean});
}
void batch_norm_no_stats_out(KernelContext& ctx, const Tensor& input, const Tensor* weight, const Tensor* bias,
                             bool training, double /*momentum*/, double eps, Tensor& out, Tensor& save_mean,
                             Tensor& save_invstd) {
  // Without running statistics the batch's own are all there is.
  batch_norm(ctx, {input, weight, bias, nullptr, nullptr, training, 0.0, eps, out, save_mean, save_invstd, -1});
}
void batch_norm_no_training_out(KernelContext& ctx, const Tensor& input, const Tensor* weight, const Tensor* bias,
                                const Tensor& running_mean, const Tensor& running_var, double momentum, double eps,
                                Tensor& out0, Tensor& out1, Tensor& out2) {
  batch_norm(ctx, {input, weight, bias, &running_mean, &running_var, false, momentum, eps, out0, out1, out2,
                   arguments::batch_norm_no_training_out::running_mean});
}

void native_batch_norm_backward_out(KernelContext& ctx, const Tensor& grad_out, const Tensor& input,
                                    const Tensor* weight, const Tensor* running_mean, const Tensor* running_var,
                                    const Tensor* save_mean, const Tensor* save_invstd, bool train, double eps,
                                    const BoolList& output_mask, Tensor& out0, Tensor& out1, Tensor& out2) {
  using arg = arguments::native_batch_norm_backward_out;
  if (input.rank < 2) return ctx.fail(Check::KernelRank, input, input.rank);
  if (output_mask.size() != 3) return ctx.fail(Check::KernelArgument, arg::output_mask, -1);
  if (!require_alike(ctx, grad_out, input)) return;
  const Backward call{grad_out,    input, weight, running_mean, running_var,          save_mean,
                      save_invstd, train, eps,    output_mask,  {&out0, &out1, &out2}};
  if (input.dtype == ScalarType::Double) return batch_backward_as<double>(ctx, call);
  batch_backward_as<float>(ctx, call);
}

}  // namespace etir
