// The gated delta rule: a linear recurrence over the positions of a sequence with a [keys, values] matrix as its state.
//
// For each position the state decays, what it predicts for the key is corrected towards the value, and the queries of
// all heads that share it are answered. The state's columns are independent of each other: they are worked on in
// blocks, which stay in the cache for the whole sequence.
#include <cstring>

#include "kernels/llm/cache.h"
#include "kernels/llm/gated_delta_rule.gen.h"

namespace etir {
namespace {

using namespace llm;

constexpr int64_t kColumns = 64;

struct Recurrence {
  const float *query, *key, *value, *decay, *beta;
  float *state, *out;
  int64_t length, keys, values, repeats;
  bool decay_by_key;
};

/// Columns [first, first + n) of one state. `query` and `out` are those of the first head that shares it.
void run(const Recurrence& task, int64_t first, int64_t n) {
  for (int64_t t = 0; t < task.length; ++t) {
    const float* key = task.key + t * task.keys;
    float correction[kColumns] = {};
    for (int64_t k = 0; k < task.keys; ++k) {
      float* __restrict row = task.state + k * task.values + first;
      const float decay = task.decay[task.decay_by_key ? t * task.keys + k : t];
      for (int64_t i = 0; i < n; ++i) {
        row[i] *= decay;
        correction[i] += row[i] * key[k];
      }
    }
    const float* value = task.value + t * task.values + first;
    for (int64_t i = 0; i < n; ++i) correction[i] = (value[i] - correction[i]) * task.beta[t];
    for (int64_t k = 0; k < task.keys; ++k) {
      float* __restrict row = task.state + k * task.values + first;
      for (int64_t i = 0; i < n; ++i) row[i] += key[k] * correction[i];
    }
    for (int64_t head = 0; head < task.repeats; ++head) {
      const float* query = task.query + (head * task.length + t) * task.keys;
      float sum[kColumns] = {};
      for (int64_t k = 0; k < task.keys; ++k) {
        const float* row = task.state + k * task.values + first;
        for (int64_t i = 0; i < n; ++i) sum[i] += row[i] * query[k];
      }
      float* to = task.out + (head * task.length + t) * task.values + first;
      for (int64_t i = 0; i < n; ++i) to[i] = sum[i];
    }
  }
}

}  // namespace

void gated_delta_rule_out(KernelContext& ctx, const Tensor& query, const Tensor& key, const Tensor& value,
                          const Tensor& decay, const Tensor& beta, const Tensor& initial_state, Tensor& out,
                          Tensor& final_state_out) {
  // query: batch, query heads, length, keys
  // key: batch, state heads, length, keys
  // value: batch, state heads, length, values
  // decay: as key, or without its last dim
  // beta: batch, state heads, length
  const Tensor* const tensors[8] = {&query, &key, &value, &decay, &beta, &initial_state, &out, &final_state_out};
  constexpr int kRanks[6] = {4, 4, 4, -1, 3, 4};
  for (int i = 0; i < 8; ++i) {
    if (!check_dtype(ctx, *tensors[i], ScalarType::Float)) return;
    if (i < 6 && !check_tensor(ctx, *tensors[i], kRanks[i])) return;
  }
  if (decay.rank != 3 && decay.rank != 4) return ctx.fail(Check::KernelRank, decay, decay.rank);
  const int64_t sizes[4] = {key.size(0), key.size(1), key.size(2), key.size(3)};
  const int64_t values = value.size(3);
  for (int d = 0; d < 3; ++d) {
    if (!check_size(ctx, value, d, sizes[d]) || !check_size(ctx, decay, d, sizes[d]) ||
        !check_size(ctx, beta, d, sizes[d]) || (d != 1 && !check_size(ctx, query, d, sizes[d]))) {
      return;
    }
  }
  if ((decay.rank == 4 && !check_size(ctx, decay, 3, sizes[3])) || !check_size(ctx, query, 3, sizes[3]) ||
      !check_size(ctx, initial_state, 0, sizes[0]) || !check_size(ctx, initial_state, 1, sizes[1]) ||
      !check_size(ctx, initial_state, 2, sizes[3]) || !check_size(ctx, initial_state, 3, values)) {
    return;
  }
  if (sizes[1] == 0 || query.size(1) % sizes[1] != 0) return ctx.fail(Check::KernelShape, query, query.size(1));
  const int64_t out_sizes[4] = {query.size(0), query.size(1), query.size(2), values};
  if (!ctx.resize(out, out_sizes, 4) || !ctx.resize_like(final_state_out, initial_state) ||
      !check_tensor(ctx, out, 4) || !check_tensor(ctx, final_state_out, 4)) {
    return;
  }
  if (final_state_out.data != initial_state.data && final_state_out.nbytes() > 0)
    std::memmove(final_state_out.data, initial_state.data, final_state_out.nbytes());
  const int64_t repeats = query.size(1) / sizes[1], blocks = (values + kColumns - 1) / kColumns;
  ctx.parallel_for(sizes[0] * sizes[1] * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const int64_t head = index / blocks, first = index % blocks * kColumns, rows = head * sizes[2];
      Recurrence task;
      task.length = sizes[2];
      task.keys = sizes[3];
      task.values = values;
      task.repeats = repeats;
      task.decay_by_key = decay.rank == 4;
      task.query = query.ptr<float>() + rows * repeats * sizes[3];
      task.key = key.ptr<float>() + rows * sizes[3];
      task.value = value.ptr<float>() + rows * values;
      task.decay = decay.ptr<float>() + rows * (task.decay_by_key ? sizes[3] : 1);
      task.beta = beta.ptr<float>() + rows;
      task.state = final_state_out.ptr<float>() + head * sizes[3] * values;
      task.out = out.ptr<float>() + rows * repeats * values;
      run(task, first, values - first < kColumns ? values - first : kColumns);
    }
  });
}

}  // namespace etir
