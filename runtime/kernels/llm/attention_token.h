// Attention of one token over a cache of float32, float16 or bfloat16, with vectors of 512 bits: what grows in a
// decoder with the position.
//
// A token reads its keys and values once and does little with each number, so that memory decides. A task is a range of
// keys, as they lie in the cache, for all heads that lie side by side; while keys of a head are multiplied its values
// are asked for, and while values are, the keys of the next head. Ranges are combined at the end (Flash-Decoding:
// https://pytorch.org/blog/flash-decoding). How many there are does not depend on the threads, and so no bit does.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/llm/attention.h"
#include "kernels/llm/powers.h"
#include "kernels/llm/wide_rows.h"

#if ETIR_WIDE && !ETIR_SMALL_STACK
#define ETIR_ATTENTION_TOKEN 1
#else
#define ETIR_ATTENTION_TOKEN 0
#endif

namespace etir::llm {

#if ETIR_ATTENTION_TOKEN

namespace token {

constexpr int kMostQueries = 4;         ///< whose scores are computed at once
constexpr int64_t kBlock = kWideLanes;  ///< keys at a time; those and the next stay in the first level of the cache
constexpr int64_t kMostDim = 640;       ///< of a head: latents of 512 with 64 beside them, and some more
constexpr int64_t kRoom = 12 * 1024;    ///< floats for the results of all ranges: 48 KiB of the stack
constexpr int64_t kSideBySide = 1024;   ///< bytes of a position that a task reads, if there are so many
constexpr int64_t kTasks = 8;           ///< at most, for many keys
constexpr int64_t kFewKeys = 16;        ///< times the square of the number of ranges: keys that are worth them

/// The results of a query and a range of keys: sums of values by their weights, then the largest score and the total of
/// the weights relative to it.
constexpr int64_t result_size(int64_t dim) { return dim + kWideLanes; }

/// The sums of sixteen rows of sixteen numbers.
ETIR_AVX512 inline __m512 sums_of_rows(const float* rows) {
  // The forms without a mask begin, in some compilers, with a register of which they warn that it is not set.
  constexpr __mmask16 kAll = 0xffff;
  __m512 halves[8], fours[4], twos[2];
  ETIR_UNROLL
  for (int i = 0; i < 8; ++i) {
    const __m512 a = _mm512_load_ps(rows + i * kWideLanes), b = _mm512_load_ps(rows + (i + 8) * kWideLanes);
    halves[i] =
        _mm512_add_ps(_mm512_maskz_shuffle_f32x4(kAll, a, b, 0x44), _mm512_maskz_shuffle_f32x4(kAll, a, b, 0xee));
  }
  // Four numbers each of rows i, i + 8, i + 4 and i + 12.
  ETIR_UNROLL
  for (int i = 0; i < 4; ++i) {
    fours[i] = _mm512_add_ps(_mm512_maskz_shuffle_f32x4(kAll, halves[i], halves[i + 4], 0x88),
                             _mm512_maskz_shuffle_f32x4(kAll, halves[i], halves[i + 4], 0xdd));
  }
  ETIR_UNROLL
  for (int i = 0; i < 2; ++i) {
    twos[i] = _mm512_add_ps(_mm512_maskz_unpacklo_ps(kAll, fours[i], fours[i + 2]),
                            _mm512_maskz_unpackhi_ps(kAll, fours[i], fours[i + 2]));
  }
  const __m512 sums =
      _mm512_add_ps(_mm512_maskz_unpacklo_ps(kAll, twos[0], twos[1]), _mm512_maskz_unpackhi_ps(kAll, twos[0], twos[1]));
  return _mm512_maskz_shuffle_f32x4(kAll, sums, sums, 0xd8);
}

/// Asks for the line of the cache that vector `v` of a strip is in: of numbers of 16 bits two vectors are in one.
template <typename T>
ETIR_AVX512 inline void ask(const T* strip, int v = 0) {
  if (sizeof(T) == sizeof(float) || v % 2 == 0) __builtin_prefetch(strip + v * kWideLanes, 0, 3);
}

ETIR_AVX512 inline __m512 load(const float* from) { return _mm512_loadu_ps(from); }
ETIR_AVX512 inline __m512 load(const Half* from) {
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
ETIR_AVX512 inline __m512 load(const BFloat16* from) {
  const __m256i upper = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  const __m512i words = _mm512_maskz_cvtepu16_epi32(0xffff, upper);
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, words, 16));
}

/// What is in a register stays there: to be read again by each of several instructions it would take longer.
ETIR_AVX512 inline void keep(__m512& x) { asm("" : "+v"(x)); }

/// Products of kKeysAtOnce keys and kCount queries, `dim` numbers of them in strips of kVectors vectors.
template <int kCount, int kKeysAtOnce, int kVectors, typename T>
ETIR_AVX512 inline void multiply_keys(const float* query, const T* key, const T* next, int64_t step, int64_t dim,
                                      float (*rows)[kWideLanes * kWideLanes], int64_t at) {
  __m512 sums[kCount][kKeysAtOnce];
  ETIR_UNROLL
  for (int q = 0; q < kCount; ++q) {
    ETIR_UNROLL
    for (int k = 0; k < kKeysAtOnce; ++k) sums[q][k] = _mm512_setzero_ps();
  }
  for (int64_t d = 0; d < dim; d += kVectors * kWideLanes) {
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const int64_t from = d + v * kWideLanes;
      __m512 part[kKeysAtOnce];
      ETIR_UNROLL
      for (int k = 0; k < kKeysAtOnce; ++k) {
        ask(next + k * step + d, v);
        part[k] = load(key + k * step + from);
        keep(part[k]);
      }
      ETIR_UNROLL
      for (int q = 0; q < kCount; ++q) {
        __m512 of_query = _mm512_loadu_ps(query + q * dim + from);
        keep(of_query);
        ETIR_UNROLL
        for (int k = 0; k < kKeysAtOnce; ++k) sums[q][k] = _mm512_fmadd_ps(of_query, part[k], sums[q][k]);
      }
    }
  }
  ETIR_UNROLL
  for (int q = 0; q < kCount; ++q) {
    ETIR_UNROLL
    for (int k = 0; k < kKeysAtOnce; ++k) _mm512_store_ps(rows[q] + (at + k) * kWideLanes, sums[q][k]);
  }
}

/// Scores of keys [0, count), at most kBlock, `step` numbers apart, for kCount queries; -inf from there to the end of
/// whole vectors. Rows of `next`, as far apart, are asked for.
template <int kCount, int kVectors, typename T>
ETIR_AVX512 inline void score_keys(const float* query, const T* key, const T* next, int64_t step, int64_t count,
                                   int64_t dim, float scale, float (*scores)[kBlock]) {
  alignas(64) float rows[kCount][kWideLanes * kWideLanes];
  const __m512 never = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  for (int64_t first = 0; first < count; first += kWideLanes) {
    const int64_t some = min64(kWideLanes, count - first);
    int64_t j = 0;
    for (; j + 2 <= some; j += 2, key += 2 * step, next += 2 * step) {
      multiply_keys<kCount, 2, kVectors>(query, key, next, step, dim, rows, j);
    }
    for (; j < some; ++j, key += step, next += step) {
      multiply_keys<kCount, 1, kVectors>(query, key, next, step, dim, rows, j);
    }
    const auto seen = static_cast<__mmask16>((1u << some) - 1);
    ETIR_UNROLL
    for (int q = 0; q < kCount; ++q) {
      const __m512 sums = _mm512_mul_ps(sums_of_rows(rows[q]), _mm512_set1_ps(scale));
      _mm512_store_ps(scores[q] + first, _mm512_mask_mov_ps(never, seen, sums));
    }
  }
}

/// The sixteen numbers in each other's places, half of them, then a quarter, and so on.
template <int kDistance>
ETIR_AVX512 inline __m512 turned(__m512 x) {
  constexpr __mmask16 kAll = 0xffff;
  if constexpr (kDistance == 8) return _mm512_maskz_shuffle_f32x4(kAll, x, x, 0x4e);
  if constexpr (kDistance == 4) return _mm512_maskz_shuffle_f32x4(kAll, x, x, 0xb1);
  if constexpr (kDistance == 2) return _mm512_maskz_permute_ps(kAll, x, 0x4e);
  return _mm512_maskz_permute_ps(kAll, x, 0xb1);
}
ETIR_AVX512 inline __m512 larger(__m512 a, __m512 b) { return _mm512_maskz_max_ps(0xffff, a, b); }
ETIR_AVX512 inline __m512 largest_of(__m512 x) {
  x = larger(x, turned<8>(x));
  x = larger(x, turned<4>(x));
  x = larger(x, turned<2>(x));
  return larger(x, turned<1>(x));
}
ETIR_AVX512 inline __m512 sum_of(__m512 x) {
  x = _mm512_add_ps(x, turned<8>(x));
  x = _mm512_add_ps(x, turned<4>(x));
  x = _mm512_add_ps(x, turned<2>(x));
  return _mm512_add_ps(x, turned<1>(x));
}

/// What two is raised to for exp(score - shift): the difference first, which is exact where it matters.
ETIR_AVX512 inline __m512 exponent(__m512 score, __m512 shift) {
  return _mm512_mul_ps(_mm512_sub_ps(score, shift), _mm512_set1_ps(etir::detail::kLog2E));
}

/// Scores of `count` keys become weights relative to the largest score so far, of kCount queries. The largest score of
/// each and its total are at `tails`, `size` apart; `rescale` is what earlier results are to be multiplied by.
template <int kCount>
ETIR_AVX512 inline void weigh(float (*scores)[kBlock], int64_t count, float* tails, int64_t size, float* rescale) {
  const __m512 never = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  __m512 most[kCount], shift[kCount], total[kCount];
  __mmask16 all[kCount];
  ETIR_UNROLL
  for (int q = 0; q < kCount; ++q) most[q] = _mm512_set1_ps(tails[q * size]);
  for (int64_t j = 0; j < count; j += kWideLanes) {
    // The second operand is what comes out where one is NaN.
    ETIR_UNROLL
    for (int q = 0; q < kCount; ++q) most[q] = larger(_mm512_load_ps(scores[q] + j), most[q]);
  }
  ETIR_UNROLL
  for (int q = 0; q < kCount; ++q) {
    most[q] = largest_of(most[q]);
    const __mmask16 some = _mm512_cmp_ps_mask(most[q], never, _CMP_NEQ_UQ);
    shift[q] = _mm512_maskz_mov_ps(some, most[q]);
    total[q] = _mm512_setzero_ps();
    all[q] = 0xffff;
  }
  for (int64_t j = 0; j < count; j += kWideLanes) {
    __m512 x[kCount];
    ETIR_UNROLL
    for (int q = 0; q < kCount; ++q) {
      x[q] = exponent(_mm512_load_ps(scores[q] + j), shift[q]);
    }
    powers_of_two(all, x);
    ETIR_UNROLL
    for (int q = 0; q < kCount; ++q) {
      _mm512_store_ps(scores[q] + j, x[q]);
      total[q] = _mm512_add_ps(total[q], x[q]);
    }
  }
  __m512 before[kCount];
  ETIR_UNROLL
  for (int q = 0; q < kCount; ++q) {
    before[q] = exponent(_mm512_set1_ps(tails[q * size]), shift[q]);
  }
  powers_of_two(all, before);
  ETIR_UNROLL
  for (int q = 0; q < kCount; ++q) {
    float* const tail = tails + q * size;
    rescale[q] = _mm512_cvtss_f32(before[q]);
    tail[1] = tail[1] * rescale[q] + _mm512_cvtss_f32(sum_of(total[q]));
    tail[0] = _mm512_cvtss_f32(most[q]);
  }
}

/// Some vectors of the sums of kCount queries: sums * rescale + weights * values. Rows of `next` are asked for.
template <int kCount, int kVectors, typename T>
ETIR_AVX512 inline void add_values(const float (*weights)[kBlock], const T* value, const T* next, int64_t step,
                                   int64_t count, const float* rescale, float* to, int64_t to_step) {
  __m512 sums[kCount][kVectors];
  ETIR_UNROLL
  for (int q = 0; q < kCount; ++q) {
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      sums[q][v] = _mm512_mul_ps(_mm512_loadu_ps(to + q * to_step + v * kWideLanes), _mm512_set1_ps(rescale[q]));
    }
  }
  for (int64_t j = 0; j < count; ++j, value += step, next += step) {
    __m512 row[kVectors];
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      ask(next, v);
      row[v] = load(value + v * kWideLanes);
      keep(row[v]);
    }
    ETIR_UNROLL
    for (int q = 0; q < kCount; ++q) {
      const __m512 weight = _mm512_set1_ps(weights[q][j]);
      ETIR_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[q][v] = _mm512_fmadd_ps(weight, row[v], sums[q][v]);
    }
  }
  ETIR_UNROLL
  for (int q = 0; q < kCount; ++q) {
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(to + q * to_step + v * kWideLanes, sums[q][v]);
  }
}

/// Some queries of a head, and keys and values that are `step` numbers apart.
template <typename T>
struct Block {
  const float* query;
  const T *key, *value;
  const T *next_key, *next_value;  ///< what is needed after them
  int64_t step, count, dim;
  float scale, softcap;
};

template <int kCount, typename T>
ETIR_AVX512 inline void attend(const Block<T>& block, float* results) {
  alignas(64) float scores[kCount][kBlock];
  float rescale[kCount];
  const auto score = block.dim % (4 * kWideLanes) == 0 ? score_keys<kCount, 4, T> : score_keys<kCount, 1, T>;
  score(block.query, block.key, block.next_key, block.step, block.count, block.dim, block.scale, scores);
  // Here, as among the products above a call would take registers from them.
  for (int q = 0; block.softcap != 0 && q < kCount; ++q) cap_scores_wide(scores[q], block.count, block.softcap);
  const int64_t size = result_size(block.dim);
  weigh<kCount>(scores, block.count, results + block.dim, size, rescale);
  int64_t d = 0;
  for (; d + 4 * kWideLanes <= block.dim; d += 4 * kWideLanes) {
    add_values<kCount, 4>(scores, block.value + d, block.next_value + d, block.step, block.count, rescale, results + d,
                          size);
  }
  for (; d < block.dim; d += kWideLanes) {
    add_values<kCount, 1>(scores, block.value + d, block.next_value + d, block.step, block.count, rescale, results + d,
                          size);
  }
}

template <typename T>
ETIR_AVX512 inline void attend(int64_t queries, const Block<T>& block, float* results) {
  static_assert(kMostQueries == 4);
  switch (queries) {
    case 1:
      return attend<1>(block, results);
    case 2:
      return attend<2>(block, results);
    case 3:
      return attend<3>(block, results);
    default:
      return attend<4>(block, results);
  }
}

/// Some of the queries that share a key head.
struct Queries {
  int64_t first, last;
};

/// Keys [begin, end) of key heads [head, head + heads), and the results of their queries, of each head the same ones.
/// What is needed first has been asked for if `asked`, and what comes after the last key is asked for if `more`.
template <typename T>
ETIR_AVX512 inline void attend_range(const Attention& task, int64_t batch, int64_t head, int64_t heads, Queries queries,
                                     int64_t begin, int64_t end, bool asked, bool more, float* results) {
  const int64_t dim = task.query.dim, repeats = task.query.heads / task.key.heads, size = result_size(dim);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t q = h * repeats + queries.first; q < h * repeats + queries.last; ++q) {
      std::fill(results + q * size, results + q * size + dim, 0.0f);
      results[q * size + dim] = -std::numeric_limits<float>::infinity();
      results[q * size + dim + 1] = 0;
    }
  }
  if (begin >= end) return;
  const T* const keys = task.key.tensor->ptr<T>() + task.key.number(batch, 0, head) * dim;
  const T* const values = task.value.tensor->ptr<T>() + task.value.number(batch, 0, head) * dim;
  const int64_t blocks = (end - begin + kBlock - 1) / kBlock, length = (end - begin + blocks - 1) / blocks;
  const int64_t step = task.key.position_step * dim, head_step = task.key.head_step * dim;
  if (!asked) {
    for (const T* first : {keys + begin * step, values + begin * step}) {
      for (int64_t j = 0; j < min64(length, end - begin); ++j) {
        for (int64_t d = 0; d < dim; d += kWideLanes) ask(first + j * step + d);
      }
    }
  }
  for (int64_t at = begin; at < end; at += length) {
    for (int64_t h = 0; h < heads; ++h) {
      int64_t next = at * step + (h + 1) * head_step;
      if (h + 1 == heads) next = at + length < end || more ? min64(at + length, end) * step : at * step;
      Block<T> block;
      block.key = keys + at * step + h * head_step, block.value = values + at * step + h * head_step;
      block.next_key = keys + next, block.next_value = values + next;
      block.step = step, block.count = min64(length, end - at), block.dim = dim;
      block.scale = task.scale, block.softcap = task.softcap;
      for (int64_t q = queries.first; q < queries.last; q += kMostQueries) {
        const int64_t number = task.query.number(batch, 0, (head + h) * repeats + q);
        block.query = task.query.tensor->ptr<float>() + number * dim;
        attend(min64(kMostQueries, queries.last - q), block, results + (h * repeats + q) * size);
      }
    }
  }
}

/// Combines the results of `ranges` ranges, `step` numbers apart, in order: those of `count` queries, at most sixteen,
/// from head `head` on. Results are `dim` numbers each, one after the other.
ETIR_AVX512 inline void combine(const Attention& task, int64_t head, const float* results, int64_t ranges, int64_t step,
                                int64_t count, float* to) {
  const int64_t dim = task.value.dim;
  const int64_t size = result_size(dim);
  const __m512 never = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  const __mmask16 all[1] = {0xffff};
  alignas(64) float largest[kTasks][kWideLanes], totals[kTasks][kWideLanes], by[kTasks][kWideLanes];
  for (int64_t r = 0; r < ranges; ++r) {
    for (int64_t q = 0; q < kWideLanes; ++q) {
      // Other threads wrote half of them.
      const float* const of_query = results + r * step + min64(q, count - 1) * size;
      for (int64_t d = 0; d < dim; d += kWideLanes) ask(of_query + d);
      largest[r][q] = of_query[dim], totals[r][q] = of_query[dim + 1];
    }
  }
  __m512 most = never, total = _mm512_setzero_ps();
  for (int64_t r = 0; r < ranges; ++r) most = larger(_mm512_load_ps(largest[r]), most);
  const __m512 shift = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(most, never, _CMP_NEQ_UQ), most);
  for (int64_t r = 0; r < ranges; ++r) {
    __m512 factor[1] = {exponent(_mm512_load_ps(largest[r]), shift)};
    powers_of_two(all, factor);
    total = _mm512_fmadd_ps(_mm512_load_ps(totals[r]), factor[0], total);
    _mm512_store_ps(by[r], factor[0]);
  }
  alignas(64) float whole[kWideLanes];
  if (task.sinks != nullptr) {
    alignas(64) float shifts[kWideLanes];
    _mm512_store_ps(shifts, most);
    _mm512_store_ps(whole, total);
    for (int64_t q = 0; q < count; ++q) whole[q] += sink_weight(task, (head + q) % task.query.heads, shifts[q]);
    total = _mm512_load_ps(whole);
  }
  const __mmask16 some = _mm512_cmp_ps_mask(total, _mm512_setzero_ps(), _CMP_NEQ_UQ);
  _mm512_store_ps(whole, _mm512_maskz_div_ps(some, _mm512_set1_ps(1.0f), total));
  for (int64_t q = 0; q < count; ++q) {
    for (int64_t d = 0; d < dim; d += kWideLanes) {
      __m512 sum = _mm512_setzero_ps();
      for (int64_t r = 0; r < ranges; ++r) {
        sum = _mm512_fmadd_ps(_mm512_loadu_ps(results + r * step + q * size + d), _mm512_set1_ps(by[r][q]), sum);
      }
      _mm512_storeu_ps(to + q * dim + d, _mm512_mul_ps(sum, _mm512_set1_ps(whole[q])));
    }
  }
}

}  // namespace token

/// Attention of one token; false where it is not of the form that this is for.
inline bool run_token(KernelContext& ctx, const Attention& task) {
  using namespace token;
  const int64_t dim = task.query.dim, heads = task.query.heads, all = task.batches * heads;
  constexpr DtypeSet kCaches = dtype_set(ScalarType::Float, ScalarType::Half, ScalarType::BFloat16);
  const ScalarType cache = task.key.tensor->dtype;
  if (task.query.positions != 1 || dim != task.value.dim || task.mask != nullptr ||
      task.query.tensor->dtype != ScalarType::Float || !contains(kCaches, cache) || dim % kWideLanes != 0 ||
      dim > kMostDim || all * result_size(dim) > kRoom || !has_avx512()) {
    return false;
  }
  const int64_t repeats = heads / task.key.heads, bytes = dim * static_cast<int64_t>(element_size(cache));
  const int64_t beside = task.key.head_step == 1 ? min64(task.key.heads, max64(1, kSideBySide / bytes)) : 1;
  const int64_t groups = (task.key.heads + beside - 1) / beside, others = task.batches * groups;
  const int64_t most = min64(kRoom / (all * result_size(dim)), kTasks / others);
  int64_t ranges = 1;
  while (2 * ranges <= most && kFewKeys * 4 * ranges * ranges <= task.keys) ranges *= 2;
  const int64_t length = (task.keys + ranges - 1) / ranges, step = all * result_size(dim);
  // Where there is no room for ranges, threads take queries: many share a key head then, or vectors are wide.
  const int64_t fours = (repeats + kMostQueries - 1) / kMostQueries;
  const int64_t pieces = most > 1 ? 1 : min64(fours, max64(1, kTasks / others));
  alignas(64) float results[kRoom];
  ctx.parallel_for(others * pieces * ranges, 1, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const int64_t range = index % ranges, piece = index / ranges % pieces, other = index / ranges / pieces;
      const int64_t batch = other / groups, head = other % groups * beside;
      const Queries queries = {fours * piece / pieces * kMostQueries,
                               min64(repeats, fours * (piece + 1) / pieces * kMostQueries)};
      const int64_t at = min64(task.keys, range * length);
      float* const to = results + range * step + (batch * heads + head * repeats) * result_size(dim);
      const auto attend_keys = cache == ScalarType::Float  ? attend_range<float>
                               : cache == ScalarType::Half ? attend_range<Half>
                                                           : attend_range<BFloat16>;
      attend_keys(task, batch, head, min64(beside, task.key.heads - head), queries, at, min64(task.keys, at + length),
                  index > begin && range > 0, index + 1 < end && range + 1 < ranges, to);
    }
  });
  // A token's heads follow each other, and so do batches.
  for (int64_t q = 0; q < all; q += kWideLanes) {
    combine(task, q, results + q * result_size(dim), ranges, step, min64(kWideLanes, all - q),
            task.out->ptr<float>() + q * dim);
  }
  return true;
}

#else

inline bool run_token(KernelContext&, const Attention&) { return false; }

#endif

}  // namespace etir::llm
