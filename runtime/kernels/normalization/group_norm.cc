// Group normalization: each group of channels of each sample by its own statistics.
#include <cmath>

#include "kernels/normalization/group_norm.gen.h"
#include "kernels/normalization/parts.h"

namespace etir {
namespace {

/// The input with its channel dim split into groups and channels of a group: still dense, with one more dim.
struct GroupedView {
  int32_t sizes[kMaxRank + 1];
  uint8_t order[kMaxRank + 1];
  Tensor tensor;

  GroupedView(const Tensor& input, int32_t groups, const Tensor& data) : tensor(data) {
    for (int d = 0; d < input.rank; ++d) sizes[d < 2 ? d : d + 1] = input.sizes[d];
    sizes[1] = groups;
    sizes[2] = input.sizes[1] / groups;
    int next = 0;
    for (int position = 0; position < input.rank; ++position) {
      const int d = input.order(position);
      order[next++] = static_cast<uint8_t>(d < 2 ? d : d + 1);
      if (d == 1) order[next++] = 2;
    }
    tensor.sizes = sizes;
    tensor.dim_order = input.is_row_major() ? nullptr : order;
    tensor.rank = static_cast<uint8_t>(input.rank + 1);
  }
};

template <typename T>
void group_norm_as(KernelContext& ctx, const Tensor& input, const Tensor* weight_given, const Tensor* bias_given,
                   int32_t groups, double eps_given, Tensor& result, Tensor& mean, Tensor& rstd) {
  const int64_t channels = input.sizes[1];
  const int64_t per_group = channels / groups;
  Source<T> in;
  Sink<T> out, mean_out, rstd_out;
  Parameter<T> weight, bias;
  if (!float_source(ctx, input, &in) || !weight.make(ctx, weight_given, channels, T(1))) return;
  if (!bias.make(ctx, bias_given, channels, T(0))) return;
  const int64_t stat_shape[2] = {input.sizes[0], groups};
  if (!resize_alike(ctx, result, input)) return;
  for (Tensor* statistic : {&mean, &rstd}) {
    if (!ctx.resize(*statistic, stat_shape, 2) || !has_data(ctx, *statistic)) return;
    if (!in_plain_order(*statistic)) return ctx.fail(Check::KernelDimOrder, *statistic);
  }
  if (!float_sink(ctx, result, &out) || !float_sink(ctx, mean, &mean_out) || !float_sink(ctx, rstd, &rstd_out)) return;
  const T eps = static_cast<T>(eps_given);

  const GroupedView view(input, groups, input);
  const ReducePlan plan = make_reduce_plan(view.tensor, all_dims(view.tensor) & ~3u, mean);
  // The dims after the channels, to walk one channel.
  int64_t strides[kMaxRank] = {};
  if (plan.reduced_count > 0) input.strides(strides);
  ReducePlan::Dim spatial[kMaxRank];
  int spatial_rank = 0;
  int64_t spatial_count = 1;
  for (int position = 0; position < input.rank && plan.reduced_count > 0; ++position) {
    const int d = input.order(position);
    if (d < 2 || input.sizes[d] == 1) continue;
    spatial_count *= input.sizes[d];
    ReducePlan::Dim* last = spatial_rank > 0 ? &spatial[spatial_rank - 1] : nullptr;
    if (last != nullptr && last->in == strides[d] * input.sizes[d]) {
      *last = {last->size * input.sizes[d], strides[d], 0};
    } else {
      spatial[spatial_rank++] = {input.sizes[d], strides[d], 0};
    }
  }
  const bool runs = spatial_rank > 0 && spatial[spatial_rank - 1].in == 1;
  const int64_t run = runs ? spatial[spatial_rank - 1].size : 1;
  const int outer = runs ? spatial_rank - 1 : spatial_rank;
  for_each_part(ctx, plan, [&](int64_t from, int64_t to, int64_t stride, int64_t n) {
    T means[kColumnBlock] = {};
    T rstds[kColumnBlock] = {};
    if (plan.reduced_count > 0) part_moments(plan, in, from, n, means, rstds);
    for (int64_t j = 0; j < n; ++j) {
      rstds[j] = T(1) / std::sqrt(rstds[j] + eps);
      // A group of no elements has no deviation to divide by.
      if (plan.reduced_count == 0) rstds[j] = std::numeric_limits<T>::quiet_NaN();
      mean_out.put(to + j * stride, 1, &means[j], 1);
      rstd_out.put(to + j * stride, 1, &rstds[j], 1);
    }
    if (plan.reduced_count == 0) return;
    // Mean, scale and shift of a block of channels: of one group in rows, of one channel from each group in columns.
    const bool by_column = !plan.rows && stride == 1 && per_group == 1;
    const int64_t count = by_column ? n : per_group;
    for (int64_t part = 0; part < (by_column ? 1 : n); ++part) {
      const int64_t group = (to + part * stride) % groups;
      const int64_t base = by_column || plan.rows ? from : from + part;
      T scale[kColumnBlock];
      T shift[kColumnBlock];
      T center[kColumnBlock];
      for (int64_t c = 0; c < count; c += kColumnBlock) {
        const int64_t block = count - c < kColumnBlock ? count - c : kColumnBlock;
        for (int64_t j = 0; j < block; ++j) {
          const int64_t stat = by_column ? j : part;
          const int64_t channel = by_column ? (to + j) % groups : group * per_group + c + j;
          scale[j] = rstds[stat] * weight.at(channel);
          shift[j] = bias.at(channel);
          center[j] = means[stat];
        }
        if (strides[1] == 1 || by_column) {
          DimWalk walk(spatial, spatial_rank, 0);
          for (int64_t i = 0; i < spatial_count; ++i, walk.next()) {
            transform_run<false>(in, out, base + c + walk.in, block,
                                 [&](T x, int64_t j) { return (x - center[j]) * scale[j] + shift[j]; });
          }
          continue;
        }
        for (int64_t j = 0; j < block; ++j) {
          const T a = scale[j];
          const T b = shift[j];
          const T m = center[j];
          DimWalk walk(spatial, outer, 0);
          for (int64_t i = spatial_count / run; i > 0; --i, walk.next()) {
            const int64_t at = base + (c + j) * strides[1] + walk.in;
            for (int64_t k = 0; k < run; k += kRowBlock) {
              const int64_t length = run - k < kRowBlock ? run - k : kRowBlock;
              transform_run<true>(in, out, at + k, length, [&](T x, int64_t) { return (x - m) * a + b; });
            }
          }
        }
      }
    }
  });
}

}  // namespace

void native_group_norm_out(KernelContext& ctx, const Tensor& input, const Tensor* weight, const Tensor* bias, int64_t N,
                           int64_t C, int64_t HxW, int64_t group, double eps, Tensor& out0, Tensor& out1,
                           Tensor& out2) {
  const ScalarType dtype = out0.dtype;
  if (dtype != input.dtype) return ctx.fail(Check::KernelDtypeMismatch, out0, static_cast<int64_t>(dtype));
  if (input.rank >= kMaxRank) return ctx.fail(Check::KernelRank, input, input.rank);
  if (!check_group_sizes(ctx, input, N, C, HxW, group, arguments::native_group_norm_out::N)) return;
  const auto run = input.dtype == ScalarType::Double ? group_norm_as<double> : group_norm_as<float>;
  run(ctx, input, weight, bias, static_cast<int32_t>(group), eps, out0, out1, out2);
}

}  // namespace etir
