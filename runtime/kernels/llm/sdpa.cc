// custom_sdpa, sdpa_with_kv_cache and custom_quantized_sdpa: attention on [batch, position, head, dim] tensors with a
// cache of keys and values; cached_attention is the first and the last of them with what other models have beside it:
// a soft cap of the scores, sinks, and values of another size than keys.
//
// Without a mask the keys up to the last query's position are used; with one, all keys of the cache.
#include <limits>

#include "kernels/llm/attention.h"
#include "kernels/llm/attention_panel.h"
#include "kernels/llm/attention_tiles.h"
#include "kernels/llm/attention_token.h"
#include "kernels/llm/cache.h"
#include "kernels/llm/sdpa.gen.h"

namespace etir {
namespace {

using namespace llm;

/// Where the arguments are.
/// A tensor of vectors with the scale and the zero point of each, null where they are not quantized.
struct Quantized {
  const Tensor& tensor;
  const Tensor* scales = nullptr;
  const Tensor* zero_points = nullptr;
};

/// The arguments of all forms of attention. `causal_position` is where causality is among them; dropout is before it.
struct SdpaArgs {
  Quantized query, key, value;
  int64_t start;
  const Tensor* mask;
  double dropout;
  bool causal;
  std::optional<double> scale;
  Tensor& out;
  int causal_position;
  bool heads_first;  ///< [batch, head, position, dim]
  bool takes_quantized;
  bool takes_halved;  ///< caches of float16 or bfloat16 beside queries of float32
  double softcap = 0;
  int softcap_position = 0;  ///< where there is such an argument
  const Tensor* sinks = nullptr;
  bool takes_sizes = false;  ///< values of another size than keys

  /// One more score for each head, or none. False: failed.
  bool check_scores(KernelContext& ctx) const {
    const float cap = static_cast<float>(softcap);
    if (!(cap >= 0 && cap <= std::numeric_limits<float>::max()) || (cap == 0) != (softcap == 0)) {
      return ctx.fail(Check::KernelArgument, softcap_position, 0), false;
    }
    return sinks == nullptr || (check_tensor(ctx, *sinks, 1) && check_dtype(ctx, *sinks, ScalarType::Float) &&
                                check_size(ctx, *sinks, 0, query.tensor.size(heads_first ? 1 : 2)));
  }
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
bool read_parameters(KernelContext& ctx, const Quantized& given, Vectors* vectors) {
  const Tensor* both[2] = {given.scales, given.zero_points};
  for (int i = 0; i < 2; ++i) {
    if (both[i] == nullptr) {
      ctx.fail(Check::KernelArgument, given.tensor, 0);
      return false;
    }
    if (!check_tensor(ctx, *both[i], 4) || !check_dtype(ctx, *both[i], i == 0 ? ScalarType::Float : ScalarType::Char)) {
      return false;
    }
    for (int d = 0; d < 4; ++d) {
      if (!check_size(ctx, *both[i], d, d < 3 ? vectors->tensor->size(d) : 1)) return false;
    }
  }
  vectors->scales = both[0];
  vectors->zero_points = both[1];
  return true;
}

/// Checks all arguments, gives the result its shape and fills in the task. False: failed.
bool prepare(KernelContext& ctx, const SdpaArgs& args, Attention* attention) {
  Attention& task = *attention;
  const Tensor& query = args.query.tensor;
  const Tensor& key = args.key.tensor;
  const Tensor& value = args.value.tensor;
  Tensor& out = args.out;
  const bool quantized = query.dtype == ScalarType::Char;
  // A cache may be of half of the query's precision.
  const bool halved = args.takes_halved && query.dtype == ScalarType::Float &&
                      (key.dtype == ScalarType::Half || key.dtype == ScalarType::BFloat16);
  for (const Tensor* tensor : {&query, &key, &value}) {
    const ScalarType wanted = halved && tensor != &query ? key.dtype : query.dtype;
    if (!check_tensor(ctx, *tensor, 4) || !check_dtype(ctx, *tensor, wanted)) return false;
  }
  if (!contains(kAttentionTypes & kSelectedDtypes, query.dtype) || (quantized && !args.takes_quantized)) {
    return ctx.fail(Check::KernelDtype, query, static_cast<int64_t>(query.dtype)), false;
  }
  if (!check_dtype(ctx, out, quantized ? ScalarType::Float : query.dtype)) return false;
  task.query = vectors_of(query, args.heads_first);
  task.key = vectors_of(key, args.heads_first);
  task.value = vectors_of(value, args.heads_first);
  if (quantized && (!read_parameters(ctx, args.query, &task.query) || !read_parameters(ctx, args.key, &task.key) ||
                    !read_parameters(ctx, args.value, &task.value))) {
    return false;
  }
  for (int d = 0; d < 3; ++d) {
    if (!check_size(ctx, value, d, key.sizes[d])) return false;
  }
  if (!check_size(ctx, key, 0, query.sizes[0]) || !check_size(ctx, key, 3, query.sizes[3]) ||
      (!args.takes_sizes && !check_size(ctx, value, 3, query.sizes[3])) || !args.check_scores(ctx)) {
    return false;
  }
  task.start = args.start;
  task.causal = args.causal;
  task.mask = args.mask;
  task.softcap = static_cast<float>(args.softcap);
  task.sinks = args.sinks;
  if (args.dropout != 0) return ctx.fail(Check::KernelArgument, args.causal_position - 1, 1), false;
  if (task.mask != nullptr) {
    if (task.causal) return ctx.fail(Check::KernelArgument, args.causal_position, 1), false;
    task.keys = task.key.positions;
    if (!check_tensor(ctx, *task.mask, 2) || !check_size(ctx, *task.mask, 0, task.query.positions) ||
        !check_size(ctx, *task.mask, 1, task.keys)) {
      return false;
    }
    if (!contains(kFloats & kSelectedDtypes, task.mask->dtype)) {
      return ctx.fail(Check::KernelDtype, *task.mask, static_cast<int64_t>(task.mask->dtype)), false;
    }
  } else {
    if (!check_positions(ctx, task.start, task.query.positions, task.key.positions)) return false;
    task.keys = task.start + task.query.positions;
  }
  int64_t sizes[4] = {query.size(0), query.size(1), query.size(2), value.size(3)};
  if (!ctx.resize(out, sizes, 4) || !check_tensor(ctx, out, 4)) return false;
  if (out.numel() > 0 && (task.key.heads == 0 || task.query.heads % task.key.heads != 0)) {
    return ctx.fail(Check::KernelShape, key, task.key.heads), false;
  }
  task.out = &out;
  task.batches = query.size(0);
  task.scale = static_cast<float>(args.scale.value_or(1.0 / std::sqrt(static_cast<double>(task.query.dim))));
  return true;
}

void attend_all(KernelContext& ctx, const Attention& task) {
  if (!run_tiles(ctx, task) && !run_panels(ctx, task) && !run_token(ctx, task)) run_attention(ctx, task);
}

void sdpa(KernelContext& ctx, const SdpaArgs& args) {
  Attention task;
  if (prepare(ctx, args, &task) && task.out->numel() > 0) attend_all(ctx, task);
}

}  // namespace

void custom_sdpa_out(KernelContext& ctx, const Tensor& query, const Tensor& key, const Tensor& value, int64_t start_pos,
                     const Tensor* attn_mask, double drpout_p, bool is_causal, std::optional<double> scale,
                     Tensor& out) {
  sdpa(ctx, {{query},
             {key},
             {value},
             start_pos,
             attn_mask,
             drpout_p,
             is_causal,
             scale,
             out,
             arguments::custom_sdpa_out::is_causal,
             false,
             false,
             true});
}

void sdpa_with_kv_cache_out(KernelContext& ctx, const Tensor& query, const Tensor& key, const Tensor& value,
                            Tensor& key_cache, Tensor& value_cache, int64_t start_pos, int64_t seq_len,
                            const Tensor* attn_mask, double drpout_p, bool is_causal, std::optional<double> scale,
                            Tensor& out) {
  using arg = arguments::sdpa_with_kv_cache_out;
  const int64_t start = start_pos;
  if (!check_update(ctx, key, key_cache) || !check_update(ctx, value, value_cache) ||
      !check_positions(ctx, start, key.size(1), key_cache.size(1)) ||
      !check_positions(ctx, start, value.size(1), value_cache.size(1))) {
    return;
  }
  if (seq_len != key.size(1)) return ctx.fail(Check::KernelArgument, arg::seq_len, seq_len);
  Attention task;
  if (!prepare(ctx,
               {{query},
                {key_cache},
                {value_cache},
                start,
                attn_mask,
                drpout_p,
                is_causal,
                scale,
                out,
                arg::is_causal,
                false,
                false,
                false},
               &task))
    return;
  write_cache(key, key_cache, start);
  write_cache(value, value_cache, start);
  if (task.out->numel() > 0) attend_all(ctx, task);
}

void custom_quantized_sdpa_out(KernelContext& ctx, const Tensor& query, const Tensor& key, const Tensor& value,
                               int64_t start_pos, const Tensor* attn_mask, double drpout_p, bool is_causal,
                               std::optional<double> scale, const Tensor* q_zero_points, const Tensor* q_scales,
                               const Tensor* k_zero_points, const Tensor* k_scales, const Tensor* v_zero_points,
                               const Tensor* v_scales, bool is_seq_at_dim_2, Tensor& out) {
  sdpa(ctx, {{query, q_scales, q_zero_points},
             {key, k_scales, k_zero_points},
             {value, v_scales, v_zero_points},
             start_pos,
             attn_mask,
             drpout_p,
             is_causal,
             scale,
             out,
             arguments::custom_quantized_sdpa_out::is_causal,
             is_seq_at_dim_2,
             true,
             false});
}

void cached_attention_out(KernelContext& ctx, const Tensor& query, const Tensor& key, const Tensor& value,
                          int64_t start_pos, const Tensor* attn_mask, bool is_causal, std::optional<double> scale,
                          double softcap, const Tensor* sinks, const Tensor* q_zero_points, const Tensor* q_scales,
                          const Tensor* k_zero_points, const Tensor* k_scales, const Tensor* v_zero_points,
                          const Tensor* v_scales, Tensor& out) {
  using arg = arguments::cached_attention_out;
  sdpa(ctx, {{query, q_scales, q_zero_points},
             {key, k_scales, k_zero_points},
             {value, v_scales, v_zero_points},
             start_pos,
             attn_mask,
             0,
             is_causal,
             scale,
             out,
             arg::is_causal,
             false,
             true,
             true,
             softcap,
             arg::softcap,
             sinks,
             true});
}

}  // namespace etir
