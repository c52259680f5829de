// What attention is given, and what is made of scores besides their softmax.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/kernel.h"
#include "kernels/util/dispatch.h"
#include "kernels/util/half_blocks.h"
#include "kernels/util/vector_math.h"

namespace etir::llm {

constexpr DtypeSet kAttentionTypes =
    dtype_set(ScalarType::Float, ScalarType::Half, ScalarType::BFloat16, ScalarType::Char);

/// Vectors of one size, for each batch, position and head; of 8 bits with a scale and zero point each, or floating.
struct Vectors {
  const Tensor* tensor;
  const Tensor* scales;                          ///< Float, or null
  const Tensor* zero_points;                     ///< Char, or null
  int64_t batch_step, position_step, head_step;  ///< steps in vectors
  int64_t positions, heads, dim;

  int64_t number(int64_t batch, int64_t position, int64_t head) const {
    return batch * batch_step + position * position_step + head * head_step;
  }
  /// Elements [first, first + n) of a vector as float: in place where they are, else in `buffer`.
  const float* load(int64_t number, int64_t first, int64_t n, float* buffer) const {
    const int64_t at = number * dim + first;
    if (tensor->dtype == ScalarType::Float) return tensor->ptr<float>() + at;
    if (tensor->dtype == ScalarType::Half) return floats_from_halves(buffer, tensor->ptr<Half>() + at, n), buffer;
    dispatch<kAttentionTypes>(tensor->dtype, [&](auto tag) {
      const auto* from = tensor->ptr<typename decltype(tag)::type>() + at;
      for (int64_t i = 0; i < n; ++i) buffer[i] = convert<float>(from[i]);
    });
    if (scales != nullptr) {
      const float scale = scales->ptr<float>()[number];
      const float zero = zero_points != nullptr ? static_cast<float>(zero_points->ptr<int8_t>()[number]) : 0.0f;
      for (int64_t i = 0; i < n; ++i) buffer[i] = (buffer[i] - zero) * scale;
    }
    return buffer;
  }
};

struct Attention {
  Vectors query, key, value;
  const Tensor* mask;  ///< [queries, keys], added; or null
  Tensor* out;         ///< laid out as the query
  int64_t batches;
  int64_t start;  ///< position of the first query among the keys
  int64_t keys;   ///< keys in use
  bool causal;
  float scale;
  float softcap = 0;              ///< scores become softcap * tanh(score / softcap), unless it is 0
  const Tensor* sinks = nullptr;  ///< [query heads], Float: one more score of each softmax, without a value; or null
};

/// What a softcap makes of `count` scores.
inline void cap_scores(float* scores, int64_t count, float softcap) {
  for (int64_t i = 0; i < count; ++i) scores[i] = softcap * vtanh(scores[i] / softcap);
}

/// The weight of a head's sink, relative to `shift` as the others are; without sinks, and where no key is seen, 0.
inline float sink_weight(const Attention& task, int64_t head, float shift) {
  if (task.sinks == nullptr || shift == -std::numeric_limits<float>::infinity()) return 0;
  return vexp(task.sinks->ptr<float>()[head] - shift);
}

}  // namespace etir::llm
