// Attention over a cache of keys and values, in one pass and without temporary memory.
//
// Queries are taken a few at a time, with those of all heads that share a key head side by side, so that each key and
// value is read (and dequantized) once for all of them. Keys come in blocks; each block's weights rescale what was
// summed before (the online softmax). Everything is summed in float on the stack: about 10 KiB, and where the stack is
// large as much again for values of other types. Many queries go through attention_panel.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/kernel.h"
#include "kernels/llm/dot.h"
#include "kernels/util/dispatch.h"
#include "kernels/util/gemm.h"
#include "kernels/util/vector_math.h"

namespace etir::llm {

constexpr DtypeSet kAttentionTypes =
    dtype_set(ScalarType::Float, ScalarType::Half, ScalarType::BFloat16, ScalarType::Char);

constexpr int64_t kQueries = 4;
constexpr int64_t kKeys = 64;
constexpr int64_t kDims = 256;
constexpr int kScoreLanes = 8;  ///< scores of a query that are looked at side by side
static_assert(kKeys % kScoreLanes == 0);

inline int64_t lanes_of(int64_t count) { return (count + kScoreLanes - 1) / kScoreLanes * kScoreLanes; }
inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

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

#if ETIR_VECTOR_BYTES > 0 && !ETIR_SMALL_STACK
/// Rows of the left matrix, kRows at a time, then what is left of them.
template <int kRows, int kVectors, bool kByColumns>
inline void multiply_rows(const float* a, int64_t a_row, int64_t a_col, const float* b, int64_t b_row, int depth,
                          int rows, float* to, int64_t to_row, bool adds) {
  for (; rows >= kRows; rows -= kRows) {
    detail::gemm_tile<float, kRows, kVectors, kByColumns>({a, a_row, a_col, nullptr}, b, b_row, depth,
                                                          {adds ? to : nullptr, to_row, to, to_row});
    a += kRows * a_row;
    to += kRows * to_row;
  }
  if constexpr (kRows > 1) {
    if (rows > 0) {
      multiply_rows<(kRows > 4 ? 4 : kRows - 1), kVectors, kByColumns>(a, a_row, a_col, b, b_row, depth, rows, to,
                                                                       to_row, adds);
    }
  }
}

#endif

struct Attention {
  Vectors query, key, value;
  const Tensor* mask;  ///< [queries, keys], added; or null
  Tensor* out;         ///< laid out as the query
  int64_t batches;
  int64_t start;  ///< position of the first query among the keys
  int64_t keys;   ///< keys in use
  bool causal;
  float scale;
};

inline float mask_at(const Tensor& mask, int64_t at) {
  float value = 0;
  dispatch<kFloats>(mask.dtype,
                    [&](auto tag) { value = convert<float>(mask.ptr<typename decltype(tag)::type>()[at]); });
  return value;
}

/// The queries of one block: all share a key head.
struct QueryBlock {
  int64_t batch, key_head, count;
  int64_t position[kQueries], head[kQueries], limit[kQueries];  ///< limit: keys that the query may see
};

/// `n` elements as float: in place where they are, else in `buffer`. Scale and zero point are not applied.
template <typename T>
inline const float* as_float(const T* from, int64_t n, float* __restrict buffer) {
  if constexpr (std::is_same_v<T, float>) {
    (void)n, (void)buffer;
    return from;
  } else {
    for (int64_t i = 0; i < n; ++i) buffer[i] = convert<float>(from[i]);
    return buffer;
  }
}

/// Scores of keys [first, first + count) for all queries of the block: scaled, masked, -inf where not to be seen and
/// from there to the end of the lanes. Keys are of type T; what their scale and zero point do is done to the sums.
template <typename T>
inline void score(const Attention& task, const QueryBlock& block, int64_t first, int64_t count,
                  float (*scores)[kKeys]) {
  float query_buffer[kQueries][kDims], key_buffer[kDims], query_sums[kQueries] = {};
  const Vectors& key = task.key;
  const int64_t first_key = key.number(block.batch, first, block.key_head);
  const bool quantized = key.scales != nullptr;
  for (int64_t d = 0; d < task.query.dim; d += kDims) {
    const int64_t n = min64(kDims, task.query.dim - d);
    const float* queries[kQueries];
    for (int64_t q = 0; q < block.count; ++q) {
      queries[q] =
          task.query.load(task.query.number(block.batch, block.position[q], block.head[q]), d, n, query_buffer[q]);
      for (int64_t i = 0; quantized && i < n; ++i) query_sums[q] += queries[q][i];
    }
    const T* row = key.tensor->ptr<T>() + first_key * key.dim + d;
    // One key after the other: rows that are read side by side are slower where they come from memory.
    for (int64_t j = 0; j < count; ++j, row += key.position_step * key.dim) {
      const float* at = as_float(row, n, key_buffer);
      for (int64_t q = 0; q < block.count; ++q) {
        const float product = dot(queries[q], at, n);
        scores[q][j] = d == 0 ? product : scores[q][j] + product;
      }
    }
  }
  if (quantized) {
    for (int64_t j = 0; j < count; ++j) {
      const int64_t number = first_key + j * key.position_step;
      const float scale = key.scales->ptr<float>()[number];
      const float zero = static_cast<float>(key.zero_points->ptr<int8_t>()[number]);
      for (int64_t q = 0; q < block.count; ++q) scores[q][j] = (scores[q][j] - zero * query_sums[q]) * scale;
    }
  }
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (int64_t q = 0; q < block.count; ++q) {
    const int64_t seen = max64(0, min64(count, block.limit[q] - first));
    for (int64_t j = 0; j < seen; ++j) scores[q][j] *= task.scale;
    for (int64_t j = 0; task.mask != nullptr && j < seen; ++j) {
      scores[q][j] += mask_at(*task.mask, block.position[q] * task.keys + first + j);
    }
    for (int64_t j = seen; j < lanes_of(count); ++j) scores[q][j] = kNever;
  }
}

/// The largest of `largest` and the scores of `count` keys, filled up to whole lanes.
inline float largest_score(const float* scores, int64_t count, float largest) {
  float most[kScoreLanes];
  for (int k = 0; k < kScoreLanes; ++k) most[k] = largest;
  for (int64_t j = 0; j < count; j += kScoreLanes) {
    for (int k = 0; k < kScoreLanes; ++k) most[k] = scores[j + k] > most[k] ? scores[j + k] : most[k];
  }
  for (int k = 0; k < kScoreLanes; ++k) largest = most[k] > largest ? most[k] : largest;
  return largest;
}

/// Scores become weights, relative to `shift`; their sum.
inline float weigh(float* scores, int64_t count, float shift) {
  float sums[kScoreLanes] = {};
  for (int64_t j = 0; j < count; j += kScoreLanes) {
    for (int k = 0; k < kScoreLanes; ++k) {
      scores[j + k] = vexp(scores[j + k] - shift);
      sums[k] += scores[j + k];
    }
  }
  float sum = 0;
  for (int k = 0; k < kScoreLanes; ++k) sum += sums[k];
  return sum;
}

#if ETIR_VECTOR_BYTES > 0 && !ETIR_SMALL_STACK
constexpr int kValueVectors = 4;

/// Weights times the scale of their value; offsets are what the zero points take from every sum.
inline void fold_scales(const Vectors& value, int64_t first_value, int64_t queries, int64_t count,
                        float (*weights)[kKeys], float* offsets) {
  for (int64_t j = 0; j < count; ++j) {
    const int64_t number = first_value + j * value.position_step;
    const float scale = value.scales->ptr<float>()[number];
    const float zero = static_cast<float>(value.zero_points->ptr<int8_t>()[number]);
    for (int64_t q = 0; q < queries; ++q) {
      weights[q][j] *= scale;
      offsets[q] += weights[q][j] * zero;
    }
  }
}
#endif

/// sums[q][:n] += weights[q][j] * value j [dim_first : dim_first + n], for all queries and keys of a block.
template <typename T>
inline void add_values(const Attention& task, const QueryBlock& block, int64_t first, int64_t count, int64_t dim_first,
                       int64_t n, float (*weights)[kKeys], float (*sums)[kDims]) {
  const Vectors& value = task.value;
  const int64_t first_value = value.number(block.batch, first, block.key_head);
  const int64_t step = value.position_step * value.dim;
  const T* row = value.tensor->ptr<T>() + first_value * value.dim + dim_first;
#if ETIR_VECTOR_BYTES > 0 && !ETIR_SMALL_STACK
  // With a mask, values that are not seen may be anything: they are left out below.
  if (task.mask == nullptr && n >= kValueVectors * Vector<float>::kLanes) {
    constexpr int64_t kStrip = kValueVectors * Vector<float>::kLanes;
    int64_t done = 0;
    float strip[std::is_same_v<T, float> ? 1 : kKeys * kStrip], offsets[kQueries] = {};
    if (value.scales != nullptr) fold_scales(value, first_value, block.count, count, weights, offsets);
    for (; done + kStrip <= n; done += kStrip) {
      const float* from;
      int64_t from_step = kStrip;
      if constexpr (std::is_same_v<T, float>) {
        from = row + done;
        from_step = step;
      } else {
        for (int64_t j = 0; j < count; ++j) as_float(row + done + j * step, kStrip, strip + j * kStrip);
        from = strip;
      }
      multiply_rows<kQueries, kValueVectors, false>(weights[0], kKeys, 1, from, from_step, static_cast<int>(count),
                                                    static_cast<int>(block.count), sums[0] + done, kDims, true);
      for (int64_t q = 0; value.scales != nullptr && q < block.count; ++q) {
        for (int64_t i = 0; i < kStrip; ++i) sums[q][done + i] -= offsets[q];
      }
    }
    if (done == n) return;
    for (int64_t q = 0; q < block.count; ++q) {
      for (int64_t i = done; i < n; ++i) {
        float sum = -offsets[q];
        for (int64_t j = 0; j < count; ++j) sum += weights[q][j] * convert<float>(row[j * step + i]);
        sums[q][i] += sum;
      }
    }
    return;
  }
#endif
  float value_buffer[kDims];
  for (int64_t j = 0; j < count; ++j, row += step) {
    const float* at = as_float(row, n, value_buffer);
    float scale = 1, zero = 0;
    if (value.scales != nullptr) {
      scale = value.scales->ptr<float>()[first_value + j * value.position_step];
      zero = static_cast<float>(value.zero_points->ptr<int8_t>()[first_value + j * value.position_step]);
    }
    for (int64_t q = 0; q < block.count; ++q) {
      // Keys that are not seen count nothing, whatever their values are.
      if (weights[q][j] == 0.0f) continue;
      const float weight = weights[q][j] * scale, offset = weight * zero;
      float* __restrict to = sums[q];
      for (int64_t i = 0; i < n; ++i) to[i] += weight * at[i] - offset;
    }
  }
}

/// Results [dim_first, dim_first + n) of a block; keys and values are of type T.
template <typename T>
inline void attend(const Attention& task, const QueryBlock& block, int64_t dim_first, int64_t n) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  float sums[kQueries][kDims], scores[kQueries][kKeys];
  float largest[kQueries], total[kQueries];
  int64_t limit = 0;
  for (int64_t q = 0; q < block.count; ++q) {
    largest[q] = kNever;
    total[q] = 0;
    limit = max64(limit, block.limit[q]);
    for (int64_t i = 0; i < n; ++i) sums[q][i] = 0;
  }
  for (int64_t first = 0; first < limit; first += kKeys) {
    const int64_t count = min64(kKeys, limit - first);
    score<T>(task, block, first, count, scores);
    for (int64_t q = 0; q < block.count; ++q) {
      const float most = largest_score(scores[q], count, largest[q]);
      // Before the first key that is seen everything is zero.
      const float rescale = largest[q] == kNever ? 0.0f : vexp(largest[q] - most);
      const float shift = most == kNever ? 0.0f : most;
      total[q] = total[q] * rescale + weigh(scores[q], count, shift);
      largest[q] = most;
      if (rescale != 1.0f) {
        for (int64_t i = 0; i < n; ++i) sums[q][i] *= rescale;
      }
    }
    add_values<T>(task, block, first, count, dim_first, n, scores, sums);
  }
  for (int64_t q = 0; q < block.count; ++q) {
    const float by = total[q] != 0.0f ? 1.0f / total[q] : 0.0f;
    const int64_t at = task.query.number(block.batch, block.position[q], block.head[q]) * task.value.dim + dim_first;
    dispatch<kAttentionTypes>(task.out->dtype, [&](auto tag) {
      using To = typename decltype(tag)::type;
      if constexpr (!std::is_integral_v<To>) {
        To* to = task.out->ptr<To>() + at;
        for (int64_t i = 0; i < n; ++i) to[i] = convert<To>(sums[q][i] * by);
      }
    });
  }
}

/// Everything has been checked: shapes go together, ranges lie inside the tensors.
inline void run_attention(KernelContext& ctx, const Attention& task) {
  const int64_t repeats = task.query.heads / task.key.heads;
  const int64_t rows = task.query.positions * repeats;  // queries that share a key head, position by position
  const int64_t blocks = (rows + kQueries - 1) / kQueries;
  ctx.parallel_for(task.batches * task.key.heads * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      QueryBlock block;
      block.batch = index / blocks / task.key.heads;
      block.key_head = index / blocks % task.key.heads;
      const int64_t first = index % blocks * kQueries;
      block.count = min64(kQueries, rows - first);
      for (int64_t q = 0; q < block.count; ++q) {
        block.position[q] = (first + q) / repeats;
        block.head[q] = block.key_head * repeats + (first + q) % repeats;
        block.limit[q] = task.causal ? min64(task.keys, task.start + block.position[q] + 1) : task.keys;
      }
      dispatch<kAttentionTypes>(task.key.tensor->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (int64_t d = 0; d < task.value.dim; d += kDims) {
          attend<T>(task, block, d, min64(kDims, task.value.dim - d));
        }
      });
    }
  });
}

}  // namespace etir::llm
