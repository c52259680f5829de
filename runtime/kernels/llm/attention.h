// Attention over a cache of keys and values, without temporary memory.
//
// Queries are taken a few at a time, with those of all heads that share a key head side by side, so that each key and
// value is read (and dequantized) once for all of them. Keys come in blocks; each block's weights rescale what was
// summed before (the online softmax). The keys of a single token are shared out in ranges, whose results are
// combined at the end (Flash-Decoding: https://pytorch.org/blog/flash-decoding). Everything is summed in float on the
// stack: about 10 KiB, and where the stack is large as much again for values of other types, and 50 for ranges. Many
// queries go through attention_panel.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/kernel.h"
#include "kernels/llm/attention_task.h"
#include "kernels/llm/dot.h"
#include "kernels/util/dispatch.h"
#include "kernels/util/gemm.h"
#include "kernels/util/half_blocks.h"
#include "kernels/util/vector_math.h"
#include "kernels/util/vectors.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace etir::llm {

constexpr int64_t kQueries = 4;
constexpr int64_t kKeys = 64;
constexpr int64_t kDims = 256;
constexpr int kScoreLanes = 8;      ///< scores of a query that are looked at side by side
constexpr int64_t kKeysAhead = 16;  ///< keys that are asked for ahead
static_assert(kKeys % kScoreLanes == 0);

inline int64_t lanes_of(int64_t count) { return (count + kScoreLanes - 1) / kScoreLanes * kScoreLanes; }
inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

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

/// Asks for `n` elements. kLocality: 3 for what is read next, 2 for what is read after that, which the first level of
/// the cache would lose.
template <int kLocality, typename T>
inline void prefetch(const T* from, int64_t n) {
#if defined(__GNUC__)
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < n; i += kLine) __builtin_prefetch(from + i, 0, kLocality);
#else
  (void)from, (void)n;
#endif
}

/// `n` elements as float: in place where they are, else in `buffer`. Scale and zero point are not applied.
template <typename T>
inline const float* as_float(const T* from, int64_t n, float* __restrict buffer) {
  if constexpr (std::is_same_v<T, float>) {
    (void)n, (void)buffer;
    return from;
  } else if constexpr (std::is_same_v<T, Half>) {
    floats_from_halves(buffer, from, n);
    return buffer;
  } else {
    for (int64_t i = 0; i < n; ++i) buffer[i] = convert<float>(from[i]);
    return buffer;
  }
}

#if defined(__AVX2__) && defined(__FMA__)
inline __m256 load_eight(const float* from) { return _mm256_loadu_ps(from); }
inline __m256 load_eight(const BFloat16* from) {
  const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
}
#if defined(__F16C__)
inline __m256 load_eight(const Half* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
template <typename T>
constexpr bool kLoadsEight = !std::is_same_v<T, int8_t>;
#else
template <typename T>
constexpr bool kLoadsEight = !std::is_same_v<T, int8_t> && !std::is_same_v<T, Half>;
#endif

/// Scores of `count` keys, `step` numbers apart and their values `value_step`, for kCount queries of `n` numbers, a
/// multiple of 16: a key is read once for all of them. Sums are those of dot(), in its order.
template <int kCount, typename T>
inline void score_keys(const float* const* queries, const T* key, const T* value, int64_t step, int64_t value_step,
                       int64_t count, int64_t n, float (*scores)[kKeys]) {
  for (int64_t j = 0; j < count; ++j, key += step, value += value_step) {
    prefetch<3>(key + kKeysAhead * step, n);
    prefetch<2>(value, n);
    __m256 sums[kCount][2];
    ETIR_UNROLL
    for (int q = 0; q < kCount; ++q) sums[q][0] = sums[q][1] = _mm256_setzero_ps();
    for (int64_t i = 0; i < n; i += 16) {
      ETIR_UNROLL
      for (int v = 0; v < 2; ++v) {
        const __m256 part = load_eight(key + i + 8 * v);
        ETIR_UNROLL
        for (int q = 0; q < kCount; ++q) {
          sums[q][v] = _mm256_fmadd_ps(_mm256_loadu_ps(queries[q] + i + 8 * v), part, sums[q][v]);
        }
      }
    }
    __m128 fours[4];
    ETIR_UNROLL
    for (int q = 0; q < 4; ++q) {
      const int from = q < kCount ? q : 0;
      const __m256 sum = _mm256_add_ps(sums[from][0], sums[from][1]);
      fours[q] = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
    }
    float all[4];
    _mm_storeu_ps(all, _mm_hadd_ps(_mm_hadd_ps(fours[0], fours[1]), _mm_hadd_ps(fours[2], fours[3])));
    ETIR_UNROLL
    for (int q = 0; q < kCount; ++q) scores[q][j] = all[q];
  }
}

/// The same for 1 to kQueries queries.
template <typename T>
inline void score_keys(int64_t queries_count, const float* const* queries, const T* key, const T* value, int64_t step,
                       int64_t value_step, int64_t count, int64_t n, float (*scores)[kKeys]) {
  static_assert(kQueries == 4);
  switch (queries_count) {
    case 1:
      return score_keys<1>(queries, key, value, step, value_step, count, n, scores);
    case 2:
      return score_keys<2>(queries, key, value, step, value_step, count, n, scores);
    case 3:
      return score_keys<3>(queries, key, value, step, value_step, count, n, scores);
    default:
      return score_keys<4>(queries, key, value, step, value_step, count, n, scores);
  }
}
#endif

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
    const float* queries[kQueries] = {};
    for (int64_t q = 0; q < block.count; ++q) {
      queries[q] =
          task.query.load(task.query.number(block.batch, block.position[q], block.head[q]), d, n, query_buffer[q]);
      for (int64_t i = 0; quantized && i < n; ++i) query_sums[q] += queries[q][i];
    }
    const int64_t step = key.position_step * key.dim, value_step = task.value.position_step * task.value.dim;
    const T* row = key.tensor->ptr<T>() + first_key * key.dim + d;
    // Values are needed when the scores are known.
    const T* value =
        task.value.tensor->ptr<T>() + task.value.number(block.batch, first, block.key_head) * task.value.dim + d;
#if defined(__AVX2__) && defined(__FMA__)
    if constexpr (kLoadsEight<T>) {
      if (n == task.query.dim && n % 16 == 0) {
        score_keys(block.count, queries, row, value, step, value_step, count, n, scores);
        continue;
      }
    }
#endif
    // One key after the other: rows that are read side by side are slower where they come from memory. A head's rows
    // are pieces with those of other heads between them, which no processor fetches ahead by itself.
    for (int64_t j = 0; j < count; ++j, row += step, value += value_step) {
      prefetch<3>(row + kKeysAhead * step, n);
      prefetch<2>(value, n);
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
    if (task.softcap != 0) cap_scores(scores[q], seen, task.softcap);
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

/// What the keys and values of a range came to, for a block of queries.
struct Partial {
  float largest[kQueries], total[kQueries];  ///< largest score; sum of the weights relative to it
  float sums[kQueries][kDims];               ///< of values, by these weights
};

/// Keys and values [begin, end), of type T: elements [dim_first, dim_first + n) of the values.
template <typename T>
inline void accumulate(const Attention& task, const QueryBlock& block, int64_t begin, int64_t end, int64_t dim_first,
                       int64_t n, Partial* to) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  float scores[kQueries][kKeys];
  for (int64_t q = 0; q < block.count; ++q) {
    to->largest[q] = kNever;
    to->total[q] = 0;
    for (int64_t i = 0; i < n; ++i) to->sums[q][i] = 0;
  }
  for (int64_t first = begin; first < end; first += kKeys) {
    const int64_t count = min64(kKeys, end - first);
    score<T>(task, block, first, count, scores);
    for (int64_t q = 0; q < block.count; ++q) {
      const float most = largest_score(scores[q], count, to->largest[q]);
      // Before the first key that is seen everything is zero.
      const float rescale = to->largest[q] == kNever ? 0.0f : vexp(to->largest[q] - most);
      const float shift = most == kNever ? 0.0f : most;
      to->total[q] = to->total[q] * rescale + weigh(scores[q], count, shift);
      to->largest[q] = most;
      if (rescale != 1.0f) {
        for (int64_t i = 0; i < n; ++i) to->sums[q][i] *= rescale;
      }
    }
    add_values<T>(task, block, first, count, dim_first, n, scores, to->sums);
  }
}

/// Adds the ranges after the first to it, in order.
inline void merge(Partial* parts, int64_t count, int64_t queries, int64_t n) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (int64_t q = 0; q < queries; ++q) {
    float most = kNever;
    for (int64_t p = 0; p < count; ++p) most = parts[p].largest[q] > most ? parts[p].largest[q] : most;
    for (int64_t p = 0; p < count; ++p) {
      const float by = parts[p].largest[q] == kNever ? 0.0f : vexp(parts[p].largest[q] - most);
      parts->total[q] = (p == 0 ? 0.0f : parts->total[q]) + parts[p].total[q] * by;
      for (int64_t i = 0; i < n; ++i) {
        parts->sums[q][i] = (p == 0 ? 0.0f : parts->sums[q][i]) + parts[p].sums[q][i] * by;
      }
    }
    parts->largest[q] = most;
  }
}

/// Results [dim_first, dim_first + n) of a block.
inline void finish(const Attention& task, const QueryBlock& block, int64_t dim_first, int64_t n, const Partial& from) {
  for (int64_t q = 0; q < block.count; ++q) {
    const float total = from.total[q] + sink_weight(task, block.head[q], from.largest[q]);
    const float by = total != 0.0f ? 1.0f / total : 0.0f;
    const int64_t at = task.query.number(block.batch, block.position[q], block.head[q]) * task.value.dim + dim_first;
    dispatch<kAttentionTypes>(task.out->dtype, [&](auto tag) {
      using To = typename decltype(tag)::type;
      if constexpr (!std::is_integral_v<To>) {
        To* to = task.out->ptr<To>() + at;
        for (int64_t i = 0; i < n; ++i) to[i] = convert<To>(from.sums[q][i] * by);
      }
    });
  }
}

/// The `index`th block of queries; `blocks` share a key head.
inline QueryBlock block_at(const Attention& task, int64_t index, int64_t blocks) {
  const int64_t repeats = task.query.heads / task.key.heads;
  QueryBlock block;
  block.batch = index / blocks / task.key.heads;
  block.key_head = index / blocks % task.key.heads;
  const int64_t first = index % blocks * kQueries;
  block.count = min64(kQueries, task.query.positions * repeats - first);
  for (int64_t q = 0; q < block.count; ++q) {
    block.position[q] = (first + q) / repeats;
    block.head[q] = block.key_head * repeats + (first + q) % repeats;
    block.limit[q] = task.causal ? min64(task.keys, task.start + block.position[q] + 1) : task.keys;
  }
  return block;
}

inline int64_t most_keys(const QueryBlock& block) {
  int64_t most = 0;
  for (int64_t q = 0; q < block.count; ++q) most = max64(most, block.limit[q]);
  return most;
}

#if !ETIR_SMALL_STACK
constexpr int64_t kMostParts = 12;  ///< 50 KiB of the stack

/// Into how many ranges keys are split: a token has few blocks of queries, and threads should get equal shares of its
/// keys. It does not depend on how many threads there are, and so the bits of the result do not.
inline int64_t parts_of(const Attention& task, int64_t blocks) {
  constexpr int64_t kLeast = 48;  ///< keys of a range
  if (task.query.positions != 1 || task.value.dim > kDims) return 1;
  int64_t parts = 1;
  while (parts < 4 && 2 * parts * blocks <= kMostParts && task.keys >= 2 * parts * kLeast) parts *= 2;
  return parts;
}

/// Attention with the keys of each block of queries in ranges of their own.
inline void run_in_parts(KernelContext& ctx, const Attention& task, int64_t blocks, int64_t all, int64_t parts) {
  Partial partials[kMostParts];
  ctx.parallel_for(all * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const QueryBlock block = block_at(task, index / parts, blocks);
      const int64_t keys = most_keys(block), length = lanes_of((keys + parts - 1) / parts);
      const int64_t first = min64(keys, index % parts * length);
      dispatch<kAttentionTypes>(task.key.tensor->dtype, [&](auto tag) {
        accumulate<typename decltype(tag)::type>(task, block, first, min64(keys, first + length), 0, task.value.dim,
                                                 &partials[index]);
      });
    }
  });
  for (int64_t index = 0; index < all; ++index) {
    const QueryBlock block = block_at(task, index, blocks);
    merge(partials + index * parts, parts, block.count, task.value.dim);
    finish(task, block, 0, task.value.dim, partials[index * parts]);
  }
}
#endif

/// Everything has been checked: shapes go together, ranges lie inside the tensors.
inline void run_attention(KernelContext& ctx, const Attention& task) {
  const int64_t rows = task.query.positions * (task.query.heads / task.key.heads);  // queries that share a key head
  const int64_t blocks = (rows + kQueries - 1) / kQueries, all = task.batches * task.key.heads * blocks;
#if !ETIR_SMALL_STACK
  const int64_t parts = parts_of(task, all);
  if (parts > 1) return run_in_parts(ctx, task, blocks, all, parts);
#endif
  ctx.parallel_for(all, 1, [&](int64_t begin, int64_t end) {
    Partial partial;
    for (int64_t index = begin; index < end; ++index) {
      const QueryBlock block = block_at(task, index, blocks);
      dispatch<kAttentionTypes>(task.key.tensor->dtype, [&](auto tag) {
        for (int64_t d = 0; d < task.value.dim; d += kDims) {
          const int64_t n = min64(kDims, task.value.dim - d);
          accumulate<typename decltype(tag)::type>(task, block, 0, most_keys(block), d, n, &partial);
          finish(task, block, d, n, partial);
        }
      });
    }
  });
}

}  // namespace etir::llm
