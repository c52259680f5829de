// A mixture of experts whose weights are packed: each token goes through the few experts that a router chooses for it,
// each of which is a feed-forward network with a SiLU gate, w2 (silu(w1 x) * w3 x).
//
// Tokens are routed some hundred at a time, and are then put in the order of their experts (a counting sort), so that
// an expert's weights are unpacked once for several of them. w1 and w3 are the two halves of the rows of one matrix: a
// panel of the one and its panel of the other together give 8 elements of the hidden vector, whose pairs of numbers
// are never stored. Work is divided by panels, as one token has to keep all threads busy.
//
// The header of an expert's weights is read when the expert is chosen: those that never are need not be in memory.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/llm/cache.h"
#include "kernels/llm/dot.h"
#include "kernels/llm/packed_weights.h"
#include "kernels/llm/quantized_moe_ffn.gen.h"
#include "kernels/util/vector_math.h"

namespace etir {
namespace {

using namespace llm;

/// Tokens that are routed at once.
constexpr int64_t kRouted = 256;

struct Mixture {
  PackedLayout w13, w2;
  int64_t dim, hidden, experts, active;
  const float *gate, *bias;  ///< bias: of the choice alone, or null
  bool sigmoid;
  float route_scale;
};

/// Temporary memory.
struct Scratch {
  float *scores, *keys;  ///< values of one token, by expert
  int32_t* order;        ///< experts, the best first; later where each expert's tokens end
  int32_t* chosen;       ///< [tokens, active]
  float* shares;
  int32_t* tokens;  ///< the token of each choice, by expert
  float* weights;   ///< and its share
  float* inputs;    ///< [vectors, dim], arranged
  float* middle;    ///< [vectors, hidden], likewise
};

int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

/// The experts of one token and what each of them contributes.
void route(KernelContext& ctx, const Mixture& task, const float* x, const Scratch& scratch, int32_t* chosen,
           float* shares) {
  float *scores = scratch.scores, *keys = scratch.keys;
  ctx.parallel_for(task.experts, 16384 / task.dim + 1, [&](int64_t begin, int64_t end) {
    for (int64_t e = begin; e < end; ++e) scores[e] = dot(x, task.gate + e * task.dim, task.dim);
  });
  if (task.sigmoid) {
    // Down to the smallest numbers: the shares of experts may be divided by a sum of such.
    for (int64_t e = 0; e < task.experts; ++e) {
      const float small = vexp(-std::fabs(scores[e]));
      scores[e] = (scores[e] < 0 ? small : 1.0f) / (1.0f + small);
    }
  }
  for (int64_t e = 0; e < task.experts; ++e) {
    keys[e] = task.bias != nullptr ? scores[e] + task.bias[e] : scores[e];
    scratch.order[e] = static_cast<int32_t>(e);
  }
  // A total order: NaN comes last, and of equals the first.
  std::partial_sort(scratch.order, scratch.order + task.active, scratch.order + task.experts,
                    [keys](int32_t a, int32_t b) {
                      if (keys[a] > keys[b]) return true;
                      if (keys[a] < keys[b]) return false;
                      const bool a_is_number = keys[a] == keys[a], b_is_number = keys[b] == keys[b];
                      return a_is_number != b_is_number ? a_is_number : a < b;
                    });
  float total = 0;
  for (int64_t i = 0; i < task.active; ++i) {
    chosen[i] = scratch.order[i];
    shares[i] = task.sigmoid ? scores[chosen[i]] : vexp(scores[chosen[i]] - scores[chosen[0]]);
    total += shares[i];
  }
  constexpr float kLeast = std::numeric_limits<float>::min();
  const float by = task.sigmoid ? task.route_scale / (total < kLeast ? kLeast : total) : 1.0f / total;
  for (int64_t i = 0; i < task.active; ++i) shares[i] *= by;
}

/// Puts the choices of `count` tokens in the order of their experts: scratch.order has the end of each expert's.
void sort_by_expert(const Mixture& task, int64_t count, const Scratch& scratch) {
  int32_t* ends = scratch.order;
  std::memset(ends, 0, static_cast<size_t>(task.experts) * sizeof(int32_t));
  const int64_t choices = count * task.active;
  for (int64_t i = 0; i < choices; ++i) ++ends[scratch.chosen[i]];
  int32_t begin = 0;
  for (int64_t e = 0; e < task.experts; ++e) {
    const int32_t own = ends[e];
    ends[e] = begin;
    begin += own;
  }
  for (int64_t i = 0; i < choices; ++i) {
    const int32_t at = ends[scratch.chosen[i]]++;
    scratch.tokens[at] = static_cast<int32_t>(i / task.active);
    scratch.weights[at] = scratch.shares[i];
  }
}

/// Adds what one expert gives for up to kVectors tokens to `out`: `at` is the first of its choices. `x` and `out` are
/// those of the first token that is routed.
void add_expert(KernelContext& ctx, const Mixture& task, const uint8_t* w13, const uint8_t* w2, const float* x,
                const Scratch& scratch, int64_t at, int count, float* out) {
  const float *inputs[kVectors], *middles[kVectors];
  for (int v = 0; v < count; ++v) {
    float* input = scratch.inputs + v * 2 * task.dim;
    arrange(x + scratch.tokens[at + v] * task.dim, task.dim, input);
    inputs[v] = input;
    middles[v] = scratch.middle + v * 2 * task.hidden;
  }
  const int64_t panels = task.hidden / kPanel;
  ctx.parallel_for(panels, 4096 / task.dim + 1, [&](int64_t begin, int64_t end) {
    float up[kVectors][kPanel], gate[kVectors][kPanel];
    for (int64_t panel = begin; panel < end; ++panel) {
      multiply_panel(task.w13, w13, panel, inputs, count, up);
      multiply_panel(task.w13, w13, panels + panel, inputs, count, gate);
      for (int v = 0; v < count; ++v) {
        float middle[kPanel];
        for (int row = 0; row < kPanel; ++row) middle[row] = up[v][row] * vsigmoid(up[v][row]) * gate[v][row];
        arrange(middle, kPanel, scratch.middle + 2 * (v * task.hidden + panel * kPanel));
      }
    }
  });
  ctx.parallel_for(task.dim / kPanel, 8192 / task.hidden + 1, [&](int64_t begin, int64_t end) {
    float sums[kVectors][kPanel];
    for (int64_t panel = begin; panel < end; ++panel) {
      multiply_panel(task.w2, w2, panel, middles, count, sums);
      for (int v = 0; v < count; ++v) {
        float* to = out + scratch.tokens[at + v] * task.dim + panel * kPanel;
        for (int row = 0; row < kPanel; ++row) to[row] += scratch.weights[at + v] * sums[v][row];
      }
    }
  });
}

struct Tensors {
  const Tensor &x, &gate_weight, &expert_bias, &packed_w13, &packed_w2;
};

/// Checks dtypes, ranks, layouts and sizes of the tensors against the numbers.
bool check_tensors(KernelContext& ctx, const Mixture& task, const Tensors& given, const Tensor& out) {
  for (const Tensor* tensor : {&given.x, &given.gate_weight, &given.expert_bias, &given.packed_w13, &given.packed_w2}) {
    const bool is_bias = tensor == &given.expert_bias, is_input = tensor == &given.x;
    const bool is_packed = tensor == &given.packed_w13 || tensor == &given.packed_w2;
    // A bias without elements is none, whatever its shape.
    if (is_bias && tensor->numel() == 0) continue;
    if (!check_dtype(ctx, *tensor, is_packed ? ScalarType::Byte : ScalarType::Float)) return false;
    if (!check_tensor(ctx, *tensor, is_bias ? 1 : 2)) return false;
    if (!is_input && !check_size(ctx, *tensor, 0, task.experts)) return false;
    if (!is_bias && !is_packed && !check_size(ctx, *tensor, 1, task.dim)) return false;
  }
  const auto is_whole = [&](const Tensor& packed, const PackedLayout& layout) {
    if (packed.sizes[1] >= layout.bytes()) return true;
    return ctx.fail(Check::KernelShape, packed, packed.sizes[1]), false;
  };
  if (!is_whole(given.packed_w13, task.w13) || !is_whole(given.packed_w2, task.w2)) return false;
  return check_dtype(ctx, out, ScalarType::Float);
}

/// Checks the numbers, after which sizes are below 2^31.
bool read_numbers(KernelContext& ctx, int64_t active, int64_t experts, int64_t hidden, int64_t dim, int64_t group,
                  int64_t bits, const StringView& score, const Tensor& bias, double route_scale, Mixture* task) {
  using arg = arguments::quantized_moe_ffn_out;
  const auto refuse = [&](int position, int64_t value) {
    return ctx.fail(Check::KernelArgument, position, value), false;
  };
  if (experts < 1 || experts > INT32_MAX) return refuse(arg::num_experts, experts);
  if (active < 1 || active > experts) return refuse(arg::num_activated_experts, active);
  if (group < 1 || group > INT32_MAX || group % kChunk != 0) return refuse(arg::group_size, group);
  // w13 has twice as many rows as the hidden vector has elements.
  if (hidden < 1 || hidden > INT32_MAX / 2 || hidden % group != 0) return refuse(arg::hidden_dim, hidden);
  if (dim < 1 || dim > INT32_MAX || dim % group != 0) return refuse(arg::dim, dim);
  if (bits != 4 && bits != 8) return refuse(arg::weight_nbit, bits);
  task->sigmoid = score == "sigmoid";
  if (!task->sigmoid && !(score == "softmax")) return refuse(arg::score_func, static_cast<int64_t>(score.size));
  if (!task->sigmoid && bias.numel() > 0) return refuse(arg::expert_bias, bias.numel());
  task->dim = dim;
  task->hidden = hidden;
  task->experts = experts;
  task->active = active;
  task->route_scale = static_cast<float>(route_scale);
  task->w13 = {2 * hidden, dim, group, static_cast<int>(bits)};
  task->w2 = {dim, hidden, group, static_cast<int>(bits)};
  return true;
}

/// 12 bytes for each expert, 16 for each choice of the tokens that are routed at once, and 8 for each element of the
/// inputs and hidden vectors of kVectors tokens.
bool take_scratch(KernelContext& ctx, const Mixture& task, int64_t tokens, Scratch* scratch) {
  const int64_t choices = min64(tokens, kRouted) * task.active, vectors = min64(tokens, kVectors);
  // Each of them is below 2^43, but may not fit into 32 bits.
  const int64_t bytes = 12 * task.experts + 16 * choices + 8 * vectors * (task.dim + task.hidden);
  if (choices > INT32_MAX || bytes > PTRDIFF_MAX) return ctx.fail(Check::KernelTemp, bytes, 0), false;
  float* at = static_cast<float*>(ctx.temp(static_cast<size_t>(bytes)));
  if (at == nullptr) return false;
  const auto take = [&at](int64_t count) {
    float* result = at;
    at += count;
    return result;
  };
  scratch->scores = take(task.experts);
  scratch->keys = take(task.experts);
  scratch->order = reinterpret_cast<int32_t*>(take(task.experts));
  scratch->chosen = reinterpret_cast<int32_t*>(take(choices));
  scratch->shares = take(choices);
  scratch->tokens = reinterpret_cast<int32_t*>(take(choices));
  scratch->weights = take(choices);
  scratch->inputs = take(2 * vectors * task.dim);
  scratch->middle = take(2 * vectors * task.hidden);
  return true;
}

}  // namespace

void quantized_moe_ffn_out(KernelContext& ctx, const Tensor& x, const Tensor& gate_weight, const Tensor& expert_bias,
                           const Tensor& packed_w13, const Tensor& packed_w2, int64_t num_activated_experts,
                           int64_t num_experts, int64_t hidden_dim, int64_t dim, int64_t group_size,
                           int64_t weight_nbit, StringView score_func, double route_scale, Tensor& out) {
  Mixture task;
  if (!read_numbers(ctx, num_activated_experts, num_experts, hidden_dim, dim, group_size, weight_nbit, score_func,
                    expert_bias, route_scale, &task)) {
    return;
  }
  const Tensor &bias = expert_bias, &w13 = packed_w13, &w2 = packed_w2;
  if (!check_tensors(ctx, task, {x, gate_weight, bias, w13, w2}, out)) return;
  if (!ctx.resize_like(out, x) || !check_tensor(ctx, out, 2)) return;
  const int64_t tokens = x.sizes[0];
  Scratch scratch;
  if (tokens == 0 || !take_scratch(ctx, task, tokens, &scratch)) return;
  task.gate = gate_weight.ptr<float>();
  task.bias = bias.numel() > 0 ? bias.ptr<float>() : nullptr;
  std::memset(out.data, 0, out.nbytes());
  for (int64_t first = 0; first < tokens; first += kRouted) {
    const int64_t count = min64(kRouted, tokens - first);
    const float* from = x.ptr<float>() + first * task.dim;
    for (int64_t t = 0; t < count; ++t) {
      route(ctx, task, from + t * task.dim, scratch, scratch.chosen + t * task.active,
            scratch.shares + t * task.active);
    }
    sort_by_expert(task, count, scratch);
    int64_t at = 0;
    for (int64_t expert = 0; expert < task.experts; ++expert) {
      const int64_t end = scratch.order[expert];
      if (at == end) continue;
      const uint8_t* const blobs[] = {w13.ptr<uint8_t>() + expert * w13.sizes[1],
                                      w2.ptr<uint8_t>() + expert * w2.sizes[1]};
      for (int i = 0; i < 2; ++i) {
        int32_t found;
        if (wrong_in_header(blobs[i], task.w13.bits, &found) >= 0) {
          return ctx.fail(Check::KernelArgument, i == 0 ? w13 : w2, found);
        }
      }
      for (; at < end; at += kVectors) {
        const int together = static_cast<int>(min64(kVectors, end - at));
        add_expert(ctx, task, blobs[0], blobs[1], from, scratch, at, together, out.ptr<float>() + first * task.dim);
      }
      at = end;
    }
  }
}

}  // namespace etir
