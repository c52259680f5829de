// Attention of many queries of one head over a cache: two matrix products with the online softmax between them.
//
// Queries are the columns of a panel as wide as a few vector registers, [dim][queries], packed once. A block of keys,
// rows as they lie in the cache, times the panel gives scores [keys][queries]: maximum, exponential and sum of a query
// go along a lane, without a horizontal step. The weights times the block's values, again rows as they lie, add to the
// result, which is rescaled where a larger score came up (Dao, FlashAttention-2, arXiv:2307.08691). Nothing is
// transposed, and of the cache only the keys up to the last query's position are read.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/llm/attention.h"
#include "kernels/llm/wide_rows.h"
#include "kernels/util/gemm.h"
#include "kernels/util/vector_math.h"

namespace etir::llm {

#if ETIR_VECTOR_BYTES > 0 && !ETIR_SMALL_STACK

/// Elements of a vector that panels are for: latents of 512 with 64 beside them, and some more.
constexpr int64_t kMostPanelDim = 640;

/// Queries [first, first + count) of one head. kWidth: the most elements of a vector; kDirect: queries and results are
/// float; kInPlace: keys and values are, too; kWide: vectors of registers have 512 bits.
template <int kVectors, int kWidth, bool kDirect, bool kInPlace, bool kWide>
struct PanelAttention {
  static constexpr int kLanes = kWide ? 16 : Vector<float>::kLanes, kPanel = kVectors * kLanes;
  static constexpr int kBlock = kInPlace ? 64 : kDirect ? 32 : 16;  ///< keys at a time
  static constexpr int64_t kUsual = kWidth < 256 ? kWidth : 256;    ///< of wider ones, a block has fewer to convert
  static constexpr int kPartial = kWidth > kUsual ? kBlock* kPanel : 1;
  static constexpr float kNever = -std::numeric_limits<float>::infinity();

  const Attention& task;
  int64_t batch, head, first;
  int count;
  alignas(64) float queries[kWidth * kPanel];
  alignas(64) float scores[kBlock * kPanel];
  alignas(64) float partial[kPartial];
  alignas(64) float largest[kPanel], total[kPanel], rescale[kPanel];
  float converted[kInPlace ? 1 : kBlock * kUsual];
  float sums[kDirect ? 1 : kPanel * kWidth];

  PanelAttention(const Attention& given, int64_t in_batch, int64_t of_head, int64_t from, int64_t queries_left)
      : task(given),
        batch(in_batch),
        head(of_head),
        first(from),
        count(static_cast<int>(min64(queries_left, kPanel))) {}

  /// Keys at a time.
  static int64_t block_of(int64_t dim) { return kInPlace || dim <= kUsual ? kBlock : kBlock * kUsual / dim; }

  int64_t limit(int query) const { return task.causal ? min64(task.keys, task.start + first + query + 1) : task.keys; }

  void run() {
    pack();
    for (int q = 0; q < kPanel; ++q) largest[q] = kNever, total[q] = 0;
    const int64_t key_head = head / (task.query.heads / task.key.heads);
    const int64_t end = limit(count - 1);
    float* to = sums;
    int64_t to_row = task.value.dim;
    if constexpr (kDirect) {
      to = task.out->ptr<float>() + task.query.number(batch, first, head) * task.value.dim;
      to_row = task.query.position_step * task.value.dim;
    }
    const int64_t block = block_of(max64(task.key.dim, task.value.dim));
    for (int64_t at = 0; at < end; at += block) {
      const int keys = static_cast<int>(min64(block, end - at));
      int64_t row = 0;
      const float* key = rows_of(task.key, at, keys, key_head, &row);
      multiply_scores(key, row, keys);
      weigh_block(at, keys);
      if (at > 0) rescale_sums(to, to_row);
      const float* value = rows_of(task.value, at, keys, key_head, &row);
      multiply_values(value, row, keys, to, to_row, at > 0);
    }
    finish(to, to_row);
  }

  void multiply_scores(const float* key, int64_t row, int keys) {
    const int dim = static_cast<int>(task.query.dim);
    if (kWidth <= kUsual || dim <= kUsual) return multiply_scores(key, row, keys, 0, dim, scores);
    // A sum of so many numbers, one after another, would lose more than those of other kernels.
    constexpr int kSome = 64;
    for (int d = 0; d < dim; d += kSome) {
      multiply_scores(key, row, keys, d, std::min(kSome, dim - d), d == 0 ? scores : partial);
      for (int i = 0; d > 0 && i < keys * kPanel; ++i) scores[i] += partial[i];
    }
  }

  /// Products of elements [first, first + depth) of keys and queries.
  void multiply_scores(const float* key, int64_t row, int keys, int first, int depth, float* to) {
    const float* const of_queries = queries + int64_t{first} * kPanel;
#if ETIR_WIDE
    if constexpr (kWide) {
      return multiply_rows_wide<(kVectors > 1 ? 8 : 16), kVectors>(key + first, row, 1, of_queries, kPanel, depth, keys,
                                                                   to, kPanel, false);
    }
#endif
    multiply_rows<(kVectors > 1 ? 4 : 8), kVectors, false>(key + first, row, 1, of_queries, kPanel, depth, keys, to,
                                                           kPanel, false);
  }

  void multiply_values(const float* value, int64_t row, int keys, float* to, int64_t to_row, bool adds) {
    const int64_t dim = task.value.dim;
    int64_t d = 0;
#if ETIR_WIDE
    if constexpr (kWide) {
      for (; d + 4 * kLanes <= dim; d += 4 * kLanes) {
        multiply_rows_wide<6, 4>(scores, 1, kPanel, value + d, row, keys, count, to + d, to_row, adds);
      }
      for (; d < dim; d += kLanes) {
        multiply_rows_wide<12, 1>(scores, 1, kPanel, value + d, row, keys, count, to + d, to_row, adds);
      }
      return;
    }
#endif
    for (; d + 2 * kLanes <= dim; d += 2 * kLanes) {
      multiply_rows<6, 2, true>(scores, 1, kPanel, value + d, row, keys, count, to + d, to_row, adds);
    }
    for (; d < dim; d += kLanes) {
      multiply_rows<6, 1, true>(scores, 1, kPanel, value + d, row, keys, count, to + d, to_row, adds);
    }
  }

  void weigh_block(int64_t at, int keys) {
#if ETIR_WIDE
    if constexpr (kWide) return weigh_wide(at, keys);
#endif
    weigh(at, keys);
  }
#if ETIR_WIDE
  [[gnu::flatten]] ETIR_AVX512 void weigh_wide(int64_t at, int keys) { weigh(at, keys); }
#endif

  /// Queries as columns, with the scale.
  void pack() {
    const int64_t dim = task.query.dim;
    [[maybe_unused]] float buffer[kDirect ? 1 : kWidth];
    for (int q = 0; q < kPanel; ++q) {
      if (q >= count) {
        for (int64_t d = 0; d < dim; ++d) queries[d * kPanel + q] = 0;
        continue;
      }
      const int64_t number = task.query.number(batch, first + q, head);
      const float* from;
      if constexpr (kDirect) {
        from = task.query.tensor->template ptr<float>() + number * dim;
      } else {
        from = task.query.load(number, 0, dim, buffer);
      }
      for (int64_t d = 0; d < dim; ++d) queries[d * kPanel + q] = from[d] * task.scale;
    }
  }

  /// Keys or values [at, at + keys) as float rows.
  const float* rows_of(const Vectors& vectors, int64_t at, int keys, int64_t key_head, int64_t* row) {
    if constexpr (kInPlace) {
      *row = vectors.position_step * vectors.dim;
      return vectors.tensor->template ptr<float>() + vectors.number(batch, at, key_head) * vectors.dim;
    } else {
      *row = vectors.dim;
      for (int j = 0; j < keys; ++j) {
        vectors.load(vectors.number(batch, at + j, key_head), 0, vectors.dim, converted + j * vectors.dim);
      }
      return converted;
    }
  }

  /// Scores become weights, relative to the largest score so far.
  void weigh(int64_t at, int keys) {
    if (task.softcap != 0) cap_scores(scores, int64_t{keys} * kPanel, task.softcap);
    if (at + keys > limit(0)) {
      for (int q = 0; q < count; ++q) {
        for (int64_t j = max64(limit(q) - at, 0); j < keys; ++j) scores[j * kPanel + q] = kNever;
      }
    }
    alignas(64) float most[kPanel], sum[kPanel];
    for (int q = 0; q < kPanel; ++q) most[q] = largest[q], sum[q] = 0;
    for (int j = 0; j < keys; ++j) {
      const float* row = scores + j * kPanel;
      for (int q = 0; q < kPanel; ++q) most[q] = row[q] > most[q] ? row[q] : most[q];
    }
    for (int q = 0; q < kPanel; ++q) {
      rescale[q] = vexp(largest[q] == kNever ? kNever : largest[q] - most[q]);
      largest[q] = most[q];
      most[q] = most[q] == kNever ? 0.0f : most[q];
    }
    for (int j = 0; j < keys; ++j) {
      float* row = scores + j * kPanel;
      for (int q = 0; q < kPanel; ++q) {
        row[q] = vexp(row[q] - most[q]);
        sum[q] += row[q];
      }
    }
    for (int q = 0; q < kPanel; ++q) total[q] = total[q] * rescale[q] + sum[q];
  }

  void rescale_sums(float* to, int64_t to_row) const {
    for (int q = 0; q < count; ++q) {
      if (rescale[q] == 1.0f) continue;
      float* row = to + q * to_row;
      for (int64_t d = 0; d < task.value.dim; ++d) row[d] *= rescale[q];
    }
  }

  void finish(const float* from, int64_t from_row) const {
    for (int q = 0; q < count; ++q) {
      const float all = total[q] + sink_weight(task, head, largest[q]);
      const float by = all != 0.0f ? 1.0f / all : 0.0f;
      const int64_t at = task.query.number(batch, first + q, head) * task.value.dim;
      dispatch<kAttentionTypes>(task.out->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        if constexpr (!std::is_integral_v<T>) {
          T* to = task.out->ptr<T>() + at;
          for (int64_t d = 0; d < task.value.dim; ++d) to[d] = convert<T>(from[q * from_row + d] * by);
        }
      });
    }
  }
};

template <int kVectors, int kWidth, bool kDirect, bool kInPlace, bool kWide>
void run_panels(const Attention& task, int64_t batch, int64_t head, int64_t first, int64_t count) {
  using Panel = PanelAttention<kVectors, kWidth, kDirect, kInPlace, kWide>;
  for (int64_t done = 0; done < count; done += Panel::kPanel) {
    Panel panel(task, batch, head, first + done, count - done);
    panel.run();
  }
}

inline bool has_wide_panels() {
#if ETIR_WIDE
  return has_avx512();
#else
  return false;
#endif
}

/// Queries [first, first + count) of one head; queries and results are float.
template <bool kInPlace>
inline void run_float_panels(const Attention& task, int64_t batch, int64_t head, int64_t first, int64_t count) {
  const int64_t dim = max64(task.query.dim, task.value.dim);
#if ETIR_WIDE
  if (dim <= 128 && task.value.dim % kWideLanes == 0 && has_wide_panels()) {
    // The last queries of a task take a panel that is as wide as they need.
    const int64_t rest = count % (3 * kWideLanes), whole = rest > 2 * kWideLanes ? count : count - rest;
    run_panels<3, 128, true, kInPlace, true>(task, batch, head, first, whole);
    first += whole, count -= whole;
    if (count > kWideLanes) return run_panels<2, 128, true, kInPlace, true>(task, batch, head, first, count);
    return run_panels<1, 128, true, kInPlace, true>(task, batch, head, first, count);
  }
#endif
  if (dim > 128) return run_panels<1, kMostPanelDim, true, kInPlace, false>(task, batch, head, first, count);
  run_panels<3, 128, true, kInPlace, false>(task, batch, head, first, count);
}

/// Queries [first, first + count) of one head.
inline void run_panels(const Attention& task, int64_t batch, int64_t head, int64_t first, int64_t count) {
  if (task.query.tensor->dtype != ScalarType::Float) {
    return run_panels<1, kMostPanelDim, false, false, false>(task, batch, head, first, count);
  }
  const bool in_place = task.key.tensor->dtype == ScalarType::Float;
  return (in_place ? run_float_panels<true> : run_float_panels<false>)(task, batch, head, first, count);
}

/// Whether queries are many, and of the form that panels are for.
inline bool takes_panels(const Attention& task) {
  constexpr int64_t kFew = 5;
  const int64_t dim = max64(task.query.dim, task.value.dim);
  return task.mask == nullptr && task.query.positions >= kFew && dim <= kMostPanelDim &&
         task.value.dim % Vector<float>::kLanes == 0;
}

/// Attention of many queries; false where they are not for panels.
inline bool run_panels(KernelContext& ctx, const Attention& task) {
  if (!takes_panels(task)) return false;
  const int64_t some = 3 * (has_wide_panels() ? 16 : Vector<float>::kLanes);  // queries of a task: of the widest panel
  const int64_t blocks = (task.query.positions + some - 1) / some;
  ctx.parallel_for(task.batches * task.query.heads * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const int64_t first = index % blocks * some;
      run_panels(task, index / blocks / task.query.heads, index / blocks % task.query.heads, first,
                 min64(some, task.query.positions - first));
    }
  });
  return true;
}

#else

inline bool run_panels(KernelContext&, const Attention&) { return false; }

#endif

}  // namespace etir::llm
