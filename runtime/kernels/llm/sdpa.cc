// custom_sdpa, sdpa_with_kv_cache and custom_quantized_sdpa: attention on [batch, position, head, dim] tensors with a
// cache of keys and values.
//
// Without a mask the keys up to the last query's position are used; with one, all keys of the cache.
#include "kernels/llm/attention.h"
#include "kernels/llm/cache.h"

namespace etir {
namespace {

using namespace llm;

/// Where the arguments are.
struct SdpaArgs {
  int query, key, value, start, mask, result;
  int scales[3], zero_points[3];  ///< of query, key, value; -1: none
  bool heads_first;               ///< [batch, head, position, dim]
};

Vectors vectors_of(const Tensor& tensor, bool heads_first) {
  Vectors vectors;
  vectors.tensor = &tensor;
  vectors.scales = nullptr;
  vectors.zero_points = nullptr;
  vectors.positions = tensor.size(heads_first ? 2 : 1);
  vectors.heads = tensor.size(heads_first ? 1 : 2);
  vectors.dim = tensor.size(3);
  vectors.batch_step = vectors.positions * vectors.heads;
  vectors.position_step = heads_first ? 1 : vectors.heads;
  vectors.head_step = heads_first ? vectors.positions : 1;
  return vectors;
}

/// Reads scale and zero point of each vector. False: failed.
bool read_parameters(KernelContext& ctx, int scales_arg, int zero_points_arg, Vectors* vectors) {
  const Tensor* both[2] = {ctx.optional_tensor(scales_arg), ctx.optional_tensor(zero_points_arg)};
  for (int i = 0; i < 2; ++i) {
    const int arg = i == 0 ? scales_arg : zero_points_arg;
    if (both[i] == nullptr) {
      ctx.fail(Check::KernelArgument, arg, 0);
      return false;
    }
    if (!check_tensor(ctx, arg, *both[i], 4) ||
        !check_dtype(ctx, arg, *both[i], i == 0 ? ScalarType::Float : ScalarType::Char)) {
      return false;
    }
    for (int d = 0; d < 4; ++d) {
      if (!check_size(ctx, arg, *both[i], d, d < 3 ? vectors->tensor->size(d) : 1)) return false;
    }
  }
  vectors->scales = both[0];
  vectors->zero_points = both[1];
  return true;
}

/// Checks all arguments, gives the result its shape and fills in the task. False: failed.
bool prepare(KernelContext& ctx, const SdpaArgs& args, Attention* attention) {
  Attention& task = *attention;
  const Tensor& query = ctx.tensor(args.query);
  const Tensor& key = ctx.tensor(args.key);
  const Tensor& value = ctx.tensor(args.value);
  Tensor& out = ctx.tensor(args.result);
  const bool quantized = query.dtype == ScalarType::Char;
  for (const int arg : {args.query, args.key, args.value}) {
    if (!check_tensor(ctx, arg, ctx.tensor(arg), 4) || !check_dtype(ctx, arg, ctx.tensor(arg), query.dtype)) {
      return false;
    }
  }
  if (!contains(kAttentionTypes & kSelectedDtypes, query.dtype) || (quantized && args.scales[0] < 0)) {
    return ctx.fail(Check::KernelDtype, args.query, static_cast<int64_t>(query.dtype)), false;
  }
  if (!check_dtype(ctx, args.result, out, quantized ? ScalarType::Float : query.dtype)) return false;
  task.query = vectors_of(query, args.heads_first);
  task.key = vectors_of(key, args.heads_first);
  task.value = vectors_of(value, args.heads_first);
  Vectors* const all[3] = {&task.query, &task.key, &task.value};
  for (int i = 0; quantized && i < 3; ++i) {
    if (!read_parameters(ctx, args.scales[i], args.zero_points[i], all[i])) return false;
  }
  for (int d = 0; d < 3; ++d) {
    if (!check_size(ctx, args.value, value, d, key.sizes[d])) return false;
  }
  if (!check_size(ctx, args.key, key, 0, query.sizes[0]) || !check_size(ctx, args.key, key, 3, query.sizes[3]) ||
      !check_size(ctx, args.value, value, 3, query.sizes[3])) {
    return false;
  }
  task.start = ctx.integer(args.start);
  task.causal = ctx.boolean(args.mask + 2);
  task.mask = ctx.optional_tensor(args.mask);
  if (ctx.real(args.mask + 1) != 0) return ctx.fail(Check::KernelArgument, args.mask + 1, 1), false;
  if (task.mask != nullptr) {
    if (task.causal) return ctx.fail(Check::KernelArgument, args.mask + 2, 1), false;
    task.keys = task.key.positions;
    if (!check_tensor(ctx, args.mask, *task.mask, 2) ||
        !check_size(ctx, args.mask, *task.mask, 0, task.query.positions) ||
        !check_size(ctx, args.mask, *task.mask, 1, task.keys)) {
      return false;
    }
    if (!contains(kFloats & kSelectedDtypes, task.mask->dtype)) {
      return ctx.fail(Check::KernelDtype, args.mask, static_cast<int64_t>(task.mask->dtype)), false;
    }
  } else {
    if (!check_positions(ctx, task.start, task.query.positions, task.key.positions)) return false;
    task.keys = task.start + task.query.positions;
  }
  if (!ctx.resize_like(out, query) || !check_tensor(ctx, args.result, out, 4)) return false;
  if (out.numel() > 0 && (task.key.heads == 0 || task.query.heads % task.key.heads != 0)) {
    return ctx.fail(Check::KernelShape, args.key, task.key.heads), false;
  }
  task.out = &out;
  task.batches = query.size(0);
  task.scale = static_cast<float>(ctx.real_or(args.mask + 3, 1.0 / std::sqrt(static_cast<double>(task.query.dim))));
  return true;
}

void sdpa(KernelContext& ctx, const SdpaArgs& args) {
  Attention task;
  if (prepare(ctx, args, &task) && task.out->numel() > 0) run_attention(ctx, task);
}

}  // namespace

void custom_sdpa_out(KernelContext& ctx) { sdpa(ctx, {0, 1, 2, 3, 4, 8, {-1, -1, -1}, {-1, -1, -1}, false}); }

void sdpa_with_kv_cache_out(KernelContext& ctx) {
  const Tensor& key = ctx.tensor(1);
  const Tensor& value = ctx.tensor(2);
  const int64_t start = ctx.integer(5);
  if (!check_update(ctx, 1, 3) || !check_update(ctx, 2, 4) ||
      !check_positions(ctx, start, key.size(1), ctx.tensor(3).size(1)) ||
      !check_positions(ctx, start, value.size(1), ctx.tensor(4).size(1))) {
    return;
  }
  if (ctx.integer(6) != key.size(1)) return ctx.fail(Check::KernelArgument, 6, ctx.integer(6));
  Attention task;
  if (!prepare(ctx, {0, 3, 4, 5, 7, 11, {-1, -1, -1}, {-1, -1, -1}, false}, &task)) return;
  write_cache(key, ctx.tensor(3), start);
  write_cache(value, ctx.tensor(4), start);
  if (task.out->numel() > 0) run_attention(ctx, task);
}

void custom_quantized_sdpa_out(KernelContext& ctx) {
  sdpa(ctx, {0, 1, 2, 3, 4, 15, {9, 11, 13}, {8, 10, 12}, ctx.boolean(14)});
}

}  // namespace etir
