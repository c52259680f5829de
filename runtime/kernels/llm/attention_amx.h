// Attention of many queries with AMX: the method of attention_panel.h, with float numbers in three parts of bfloat16,
// in two where keys and values are float16, or in one where they are bfloat16 (attention_bf16.h).
//
// The queries of all heads that share a key head go together, some positions at a time, so that keys and values are
// split once for all of them. Scores are keys times queries, a register of sixteen keys and sixteen queries: keys are
// rows where they lie, and maximum, exponential and sum of a query go along a lane. Weights, in parts again, are the
// right operand of the second product, whose left one are the values, transposed. So results are columns, which a lane
// of factors rescales, until they are written. They are rescaled only where a score comes up that is much larger than
// what weights are relative to.
//
// What is not fit for the parts, infinity or NaN or numbers that are far too large or too small, is left to the panels,
// for all queries that would have been computed together with it.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/llm/attention_bf16.h"
#include "kernels/llm/attention_lanes.h"
#include "kernels/llm/attention_panel.h"

// Buffers are on the stack, and some C libraries give threads little of that.
#if ETIR_TILES && defined(__GLIBC__) && ETIR_VECTOR_BYTES > 0 && !ETIR_SMALL_STACK
#define ETIR_ATTENTION_AMX 1
#else
#define ETIR_ATTENTION_AMX 0
#endif

namespace etir::llm {

#if ETIR_ATTENTION_AMX

/// Queries at some positions of some heads that share a key head: position by position.
struct QueryRows {
  int64_t batch, key_head;
  int64_t head, heads;  ///< first one, and how many
  int64_t position, positions;

  int count() const { return static_cast<int>(positions * heads); }
  int64_t position_of(int64_t row) const { return position + row / heads; }
  int64_t head_of(int64_t row) const { return head + row % heads; }
};

/// Numbers are sums of kParts of bfloat16.
template <int kParts>
class TileAttention {
 public:
  static constexpr int kTurns = Parts<kParts>::kTurns, kPartsSize = Parts<kParts>::kPartsSize;
  static constexpr int kPartsBytes = Parts<kParts>::kPartsBytes;
  static constexpr int kMostStrips = 6, kMostRows = kMostStrips * kStrip;
  static constexpr int64_t kFloat = sizeof(float);
  static constexpr bool kInPlace = kParts == 1;  ///< keys are multiplied where they lie
  static constexpr int kBytes = 256 * 1024;      ///< of all buffers
  /// Vectors as float, at a time: those of a block, or queries and results alone.
  static constexpr int64_t kConverted = kInPlace ? kTileRows : kKeyBlock;

  /// Rows that there is room for.
  static int most_rows(int64_t dim) {
    const int64_t steps = steps_of(dim);
    const int64_t once = 8 * kTileSums * kFloat + steps * (4 * kPartsBytes + kConverted * kTileDepth * kFloat);
    const int64_t strip = (steps + 1) * (2 * kPartsBytes + 4 * kTileSums * kFloat);
    return static_cast<int>(min64((kBytes - once) / strip * kStrip, kMostRows));
  }

  TileAttention(const Attention& given, const QueryRows& given_rows) : task(given), rows(given_rows) {}

  /// False: the numbers are not fit for it. What has been written then is to be written again.
  ETIR_PARTS bool run() {
    const int strips = (rows.count() + kStrip - 1) / kStrip;
    place(strips);
    for (int r = 0; r < strips * kStrip; ++r) {
      const int64_t last = task.start + rows.position_of(min64(r, rows.count() - 1)) + 1;
      limits[r] = static_cast<int32_t>(task.causal ? min64(task.keys, last) : task.keys);
      shift[r] = -std::numeric_limits<float>::max();
      total[r] = 0;
    }
    if (!pack_queries(strips * kStrip)) return false;
    const int64_t end = limits[rows.count() - 1];
    const TileRegisters registers;
    KeyRows packing;
    pack_keys(0, end, &packing);
    packing.finish();
    int first = 0;  // strip that sees keys of the block, as those after it do
    for (int64_t at = 0; at < end; at += kKeyBlock) {
      if (!fits(packing) || !pack_values(at, end)) return false;
      while (limits[first * kStrip + kStrip - 1] <= at) ++first;
      weigh(first, strips, at);
      if (kInPlace && !reasonable) return false;
      if (at + kKeyBlock < end) pack_keys(at + kKeyBlock, end, &packing);
      add_values(first, strips, at == 0, packing);
    }
    finish();
    return true;
  }

 private:
  const Attention& task;
  const QueryRows rows;
  int steps = 0;  ///< of the depth of scores; twice as many registers has a column of the result
  uint16_t *queries = nullptr, *keys = nullptr, *values = nullptr, *weights = nullptr;
  float *scores = nullptr, *sums = nullptr, *products = nullptr, *converted = nullptr;
  int32_t limits[kMostRows];  ///< keys that a query may see
  float shift[kMostRows];     ///< what weights are relative to
  float total[kMostRows];     ///< of the weights
  float factor[kMostRows];    ///< of the sums before the block
  WeightSteps<kParts> weighing[kMostStrips];
  float query_most = 0;    ///< largest magnitude of the queries, with the scale
  bool reasonable = true;  ///< no score is so large that its exponent would lose much
  const uint16_t* key_rows = nullptr;
  int64_t key_bytes = 0;  ///< from one of them to the next
  alignas(64) uint8_t memory[kBytes];

  static int64_t steps_of(int64_t dim) { return (dim + kTileDepth - 1) / kTileDepth; }

  template <typename T>
  static T* take(uint8_t** from, int64_t count) {
    T* const taken = reinterpret_cast<T*>(*from);
    *from += count * static_cast<int64_t>(sizeof(T));
    return taken;
  }

  void place(int strips) {
    steps = static_cast<int>(steps_of(task.query.dim));
    uint8_t* at = memory;
    queries = take<uint16_t>(&at, int64_t{strips} * 2 * steps * kPartsSize);
    sums = take<float>(&at, int64_t{strips} * 4 * steps * kTileSums);
    keys = take<uint16_t>(&at, int64_t{2} * steps * kPartsSize);
    values = take<uint16_t>(&at, int64_t{2} * steps * kPartsSize);
    weights = take<uint16_t>(&at, int64_t{strips} * 2 * kPartsSize);
    scores = take<float>(&at, int64_t{strips} * 4 * kTileSums);
    products = take<float>(&at, 8 * kTileSums);
    converted = take<float>(&at, kConverted * steps * kTileDepth);
  }

  /// Numbers that are fit have a magnitude up to 2^55, and the largest value of a block is not below 2^-80: parts that
  /// count as zero, though they are not, are far below what is rounded off.
  static constexpr float kMost = 0x1p55f, kLeast = 0x1p-80f;
  /// Scores of fit numbers have a magnitude up to 2^28: what is rounded off an exponent is not large.
  static constexpr float kMostScore = 0x1p28f;

  ETIR_PARTS static __m512i larger_bits(__m512i most, __m512 x) {
    const __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
    return _mm512_maskz_max_epu32(0xffff, most, magnitude);
  }

  /// The largest magnitude; NaN is larger than all others.
  ETIR_PARTS static float largest(__m512i each) {
    alignas(64) uint32_t bits[kTileRows];
    _mm512_store_si512(bits, each);
    return etir::detail::bit_cast<float>(*std::max_element(bits, bits + kTileRows));
  }

  /// Queries as right operands, with the scale. A query is a column; those that there are not are zeros.
  ETIR_PARTS bool pack_queries(int padded) {
    const __m512 scale = _mm512_set1_ps(task.scale);
    __m512i most = _mm512_setzero_si512();
    alignas(64) uint16_t parts[kPartsSize];
    for (int tile = 0; tile < padded / kTileRows; ++tile) {
      const float* from[kTileRows];
      for (int r = 0; r < kTileRows; ++r) {
        const int row = tile * kTileRows + r;
        from[r] = nullptr;
        if (row >= rows.count()) continue;
        const int64_t number = task.query.number(rows.batch, rows.position_of(row), rows.head_of(row));
        from[r] = task.query.load(number, 0, task.query.dim, converted + r * task.query.dim);
      }
      for (int s = 0; s < steps; ++s) {
        for (int r = 0; r < kTileRows; ++r) {
          const __m512 first = _mm512_mul_ps(sixteen(from[r], s * kTileDepth), scale);
          const __m512 second = _mm512_mul_ps(sixteen(from[r], s * kTileDepth + kTileRows), scale);
          most = larger_bits(larger_bits(most, first), second);
          if constexpr (kInPlace) {
            round_in_order(first, second, parts + r * kTileDepth);
          } else {
            split<kParts, true>(first, second, parts + r * kTileDepth);
          }
        }
        // Two numbers that follow each other are one of the columns.
        uint16_t* const to = queries + (int64_t{tile} * steps + s) * kPartsSize;
        for (int p = 0; p < kParts; ++p) {
          Square square;
          ETIR_UNROLL
          for (int r = 0; r < kTileRows; ++r) square.row[r] = _mm512_load_ps(parts + p * kPartSize + r * kTileDepth);
          square = transposed(square);
          ETIR_UNROLL
          for (int r = 0; r < kTileRows; ++r) _mm512_store_ps(to + p * kPartSize + r * kTileDepth, square.row[r]);
        }
      }
    }
    query_most = largest(most);
    return query_most <= kMost;
  }

  /// Sixteen numbers of a row from `d` on: zeros beyond its end, and where there is none.
  ETIR_PARTS __m512 sixteen(const float* row, int64_t d) const {
    return row != nullptr && d < task.query.dim ? _mm512_loadu_ps(row + d) : _mm512_setzero_ps();
  }

  /// Where the keys or values of a block from `at` on lie as float rows, null from `end` on.
  void find_rows(const Vectors& vectors, int64_t at, int64_t end, const float** found) {
    for (int r = 0; r < kKeyBlock; ++r) {
      found[r] = nullptr;
      if (at + r >= end) continue;
      const int64_t number = vectors.number(rows.batch, at + r, rows.key_head);
      found[r] = vectors.load(number, 0, vectors.dim, converted + r * vectors.dim);
    }
  }

  /// Keys as left operands, a key in each turn, which is a row.
  struct KeyRows {
    const TileAttention* attention = nullptr;
    const float* from[kKeyBlock];
    int done = kKeyBlock;
    __m512i most;

    ETIR_PARTS void operator()() {
      if (done == kKeyBlock) return;
      const int steps = attention->steps;
      for (int s = 0; s < steps; ++s) {
        const __m512 first = attention->sixteen(from[done], s * kTileDepth);
        const __m512 second = attention->sixteen(from[done], s * kTileDepth + kTileRows);
        most = larger_bits(larger_bits(most, first), second);
        uint16_t* const to = attention->keys + (int64_t{done / kTileRows} * steps + s) * kPartsSize;
        split<kParts, false>(first, second, to + done % kTileRows * kTileDepth);
      }
      ++done;
    }
    ETIR_PARTS void finish() {
      while (done < kKeyBlock) (*this)();
    }
  };

  ETIR_PARTS void pack_keys(int64_t at, int64_t end, KeyRows* packing) {
    if constexpr (kInPlace) return;
    packing->attention = this;
    packing->done = 0;
    packing->most = _mm512_setzero_si512();
    find_rows(task.key, at, end, packing->from);
  }

  ETIR_PARTS bool fits(const KeyRows& packed) const {
    if constexpr (kInPlace) return true;
    const float key_most = largest(packed.most);
    return key_most <= kMost && query_most * key_most * static_cast<float>(task.query.dim) <= kMostScore;
  }

  /// Vectors of a block from `at` on where they lie, null from `end` on.
  void find_in_place(const Vectors& vectors, int64_t at, int64_t end, const uint16_t* (&found)[kKeyBlock]) const {
    const auto* const from = reinterpret_cast<const uint16_t*>(vectors.tensor->ptr<BFloat16>());
    for (int r = 0; r < kKeyBlock; ++r) {
      found[r] = at + r < end ? from + vectors.number(rows.batch, at + r, rows.key_head) * vectors.dim : nullptr;
    }
  }

  /// Finds the keys of a block; of a block that ends early a copy, with zeros for those that there are not.
  void place_keys(int64_t at, int64_t end) {
    const uint16_t* from[kKeyBlock];
    find_in_place(task.key, at, end, from);
    key_rows = from[0], key_bytes = task.key.position_step * task.key.dim * int64_t{sizeof(uint16_t)};
    if (from[kKeyBlock - 1] != nullptr && task.key.dim % kTileDepth == 0) return;
    const int64_t padded = int64_t{steps} * kTileDepth;
    std::memset(keys, 0, static_cast<size_t>(kKeyBlock * padded) * sizeof(uint16_t));
    for (int r = 0; r < kKeyBlock && from[r] != nullptr; ++r) {
      std::memcpy(keys + r * padded, from[r], static_cast<size_t>(task.key.dim) * sizeof(uint16_t));
    }
    key_rows = keys, key_bytes = padded * int64_t{sizeof(uint16_t)};
  }

  /// Values as left operands: what they have in one place is a row.
  ETIR_PARTS bool pack_values(int64_t at, int64_t end) {
    if constexpr (kInPlace) {
      place_keys(at, end);
      const uint16_t* from[kKeyBlock];
      find_in_place(task.value, at, end, from);
      const __m512i pairs = turn_over(from, task.value.dim, int64_t{steps} * kTileDepth, values);
      const __m512i upper = _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
      return values_fit(larger_bits(upper, _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, pairs, 16))));
    }
    __m512i most = _mm512_setzero_si512();
    const float* from[kKeyBlock];
    find_rows(task.value, at, end, from);
    alignas(64) float half[kTileSums];
    for (int64_t d = 0; d < int64_t{steps} * kTileDepth; d += kTileRows) {
      Square square;
      for (int h = 0; h < 2; ++h) {
        ETIR_UNROLL
        for (int r = 0; r < kTileRows; ++r) {
          square.row[r] = sixteen(from[h * kTileRows + r], d);
          most = larger_bits(most, square.row[r]);
        }
        square = transposed(square);
        if (h == 1) break;
        ETIR_UNROLL
        for (int r = 0; r < kTileRows; ++r) _mm512_store_ps(half + r * kTileRows, square.row[r]);
      }
      uint16_t* const to = values + d / kTileRows * kPartsSize;
      ETIR_UNROLL
      for (int r = 0; r < kTileRows; ++r) {
        split<kParts, true>(_mm512_load_ps(half + r * kTileRows), square.row[r], to + r * kTileDepth);
      }
    }
    return values_fit(most);
  }

  ETIR_PARTS static bool values_fit(__m512i most) {
    const float value_most = largest(most);
    return value_most == 0 || (value_most >= kLeast && value_most <= kMost);
  }

  /// Scores of the keys of the block and the queries of all strips from one on become weights: those of a strip while
  /// the next one's scores are computed, as far as that takes as long. Those of the first strip are finished. Values
  /// come after that: keys and values together would not stay in the first level of the cache.
  ETIR_PARTS void weigh(int first, int strips, int64_t at) {
    constexpr int kLater = 4;  // steps
    Nothing nothing;
    multiply_scores(first, nothing);
    for (int s = first; s < strips; ++s) {
      begin(s, at);
      WeightSteps<kParts>& steps_of_strip = weighing[s];
      if (s + 1 < strips) {
        steps_of_strip.share(steps_of_strip.left() - (s == first ? 0 : kLater), kTurns * steps);
        multiply_scores(s + 1, steps_of_strip);
      }
    }
    finish_weights(first);
  }

  ETIR_PARTS void finish_weights(int strip) {
    weighing[strip].finish();
    for (int t = 0; t < 2; ++t) {
      float* const to = total + strip * kStrip + t * kTileRows;
      const __m512 by = _mm512_loadu_ps(factor + strip * kStrip + t * kTileRows);
      const __m512 sum = _mm512_add_ps(weighing[strip].sum[t][0], weighing[strip].sum[t][1]);
      _mm512_storeu_ps(to, _mm512_fmadd_ps(_mm512_loadu_ps(to), by, sum));
    }
  }

  /// What goes on while weights and values are multiplied: the sums of the product before are added up, the next
  /// strip's weights are finished, and the next block's keys are packed.
  struct Meanwhile {
    BlockSums sums;
    WeightSteps<kParts>* weights;
    KeyRows& keys;

    ETIR_PARTS void operator()() {
      sums();
      if (weights != nullptr) (*weights)();
      keys();
    }
  };

  ETIR_PARTS void add_values(int first, int strips, bool begins, KeyRows& packing) {
    Meanwhile meanwhile = {{}, nullptr, packing};
    const int64_t column = int64_t{2} * steps * kTileSums;
    int turn = 0;
    for (int s = first; s < strips; ++s) {
      meanwhile.weights = s + 1 < strips ? &weighing[s + 1] : nullptr;
      if (s + 1 < strips) weighing[s + 1].share(weighing[s + 1].left(), kTurns * steps);
      for (int step = 0; step < steps; ++step) {
        float* const product = products + turn * 4 * kTileSums;
        turn = 1 - turn;
        multiply_values(s, step, product, meanwhile);
        meanwhile.sums.finish();
        float* const to = sums + (int64_t{s} * 4 * steps + 2 * step) * kTileSums;
        meanwhile.sums = BlockSums(product, to, to + column, begins ? nullptr : factor + s * kStrip);
      }
      if (s + 1 < strips) finish_weights(s + 1);
    }
    meanwhile.sums.finish();
    packing.finish();
  }

  template <typename Between>
  ETIR_PARTS void multiply_scores(int strip, Between& between) {
    const int64_t size = int64_t{steps} * kPartsSize;
    const uint16_t* const query = queries + 2 * strip * size;
    PartsProduct product = {keys, keys + size, query, query + size, steps};
    if constexpr (kInPlace) {
      product.upper = key_rows, product.lower = key_rows + kTileRows * key_bytes / int64_t{sizeof(uint16_t)};
      product.row_bytes = key_bytes;
    }
    multiply_parts<kParts>(product, scores_of(strip), kTileSums, 2 * kTileSums, between);
  }

  /// The block's part of the results of a strip, in the places of a step of the depth: for each sixteen queries two
  /// registers.
  template <typename Between>
  ETIR_PARTS void multiply_values(int strip, int step, float* to, Between& between) {
    const uint16_t *const weight = weights_of(strip), *const value = values + int64_t{2} * step * kPartsSize;
    const PartsProduct product = {value, value + kPartsSize, weight, weight + kPartsSize, 1};
    multiply_parts<kParts>(product, to, kTileSums, 2 * kTileSums, between);
  }

  float* scores_of(int strip) { return scores + int64_t{strip} * 4 * kTileSums; }
  uint16_t* weights_of(int strip) { return weights + int64_t{strip} * 2 * kPartsSize; }

  /// Finds what the weights of a strip will be relative to, and by what the sums so far are to be multiplied for that.
  ETIR_PARTS void begin(int strip, int64_t at) {
    if (task.softcap != 0) cap_scores_wide(scores_of(strip), 4 * kTileSums, task.softcap);
    WeightSteps<kParts> weigh;
    weigh.scores = scores_of(strip);
    weigh.to = weights_of(strip);
    weigh.masked = limits[strip * kStrip] < at + kKeyBlock;
    for (int t = 0; t < 2; ++t) {
      const int row = strip * kStrip + t * kTileRows;
      const float* const score = weigh.scores + t * 2 * kTileSums;
      const __m512i limit = _mm512_sub_epi32(_mm512_loadu_si512(limits + row), _mm512_set1_epi32(static_cast<int>(at)));
      const __m512 before = _mm512_loadu_ps(shift + row);
      __m512 most[2] = {before, before};
      ETIR_UNROLL
      for (int j = 0; j < kKeyBlock; ++j) {
        const __mmask16 seen = _mm512_cmpgt_epi32_mask(limit, _mm512_set1_epi32(j));
        most[j % 2] = _mm512_mask_max_ps(most[j % 2], seen, most[j % 2], _mm512_load_ps(score + j * kTileRows));
      }
      // Weights are at most e^4: nothing is rescaled for less.
      const __m512 highest = _mm512_maskz_max_ps(0xffff, most[0], most[1]);
      const __mmask16 rises = _mm512_cmp_ps_mask(highest, _mm512_add_ps(before, _mm512_set1_ps(4.0f)), _CMP_GT_OQ);
      const __m512 log2e = _mm512_set1_ps(etir::detail::kLog2E);
      const __m512 now = _mm512_mask_mov_ps(before, rises, highest);
      _mm512_storeu_ps(shift + row, now);
      if constexpr (kInPlace) {
        const __m512i size = _mm512_and_si512(_mm512_castps_si512(now), _mm512_set1_epi32(0x7fffffff));
        const __m512i most_bits = _mm512_castps_si512(_mm512_set1_ps(kMostScore));
        // What no key has been seen for is at the end of the range still.
        const __mmask16 changed =
            _mm512_cmp_ps_mask(now, _mm512_set1_ps(-std::numeric_limits<float>::max()), _CMP_NEQ_UQ);
        reasonable = reasonable && _mm512_mask_cmp_epu32_mask(changed, size, most_bits, _MM_CMPINT_NLE) == 0;
      }
      const __mmask16 all[1] = {0xffff};
      __m512 by[1] = {_mm512_mul_ps(_mm512_sub_ps(before, now), log2e)};
      powers_of_two(all, by);
      _mm512_storeu_ps(factor + row, by[0]);
      weigh.limit[t] = limit;
      weigh.offset[t] = _mm512_mul_ps(now, log2e);
      weigh.sum[t][0] = weigh.sum[t][1] = _mm512_setzero_ps();
    }
    weighing[strip] = weigh;
  }

  /// Writes the results.
  ETIR_PARTS void finish() {
    const int64_t dim = task.query.dim, column = int64_t{2} * steps * kTileSums;
    for (int row = 0; task.sinks != nullptr && row < rows.count(); ++row) {
      total[row] += sink_weight(task, rows.head_of(row), shift[row]);
    }
    for (int row = 0; row < rows.count(); row += kTileRows) {
      const __m512 by = _mm512_div_ps(_mm512_set1_ps(1.0f), _mm512_loadu_ps(total + row));
      for (int64_t d = 0; d < dim; d += kTileRows) {
        const float* const from = sums + row / kTileRows * column + d * kTileRows;
        Square square;
        ETIR_UNROLL
        for (int i = 0; i < kTileRows; ++i) {
          square.row[i] = _mm512_mul_ps(_mm512_load_ps(from + i * kTileRows), by);
        }
        square = transposed(square);
        ETIR_UNROLL
        for (int i = 0; i < kTileRows; ++i) _mm512_store_ps(converted + i * dim + d, square.row[i]);
      }
      for (int64_t i = 0; i < min64(kTileRows, rows.count() - row); ++i) write(row + i, converted + i * dim);
    }
  }

  void write(int64_t row, const float* from) const {
    const int64_t dim = task.query.dim;
    const int64_t at = task.query.number(rows.batch, rows.position_of(row), rows.head_of(row)) * dim;
    dispatch<kAttentionTypes>(task.out->dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (!std::is_integral_v<T>) {
        T* to = task.out->ptr<T>() + at;
        for (int64_t i = 0; i < dim; ++i) to[i] = convert<T>(from[i]);
      }
    });
  }
};

/// Apart from what else a task does, since it has buffers on the stack.
template <int kParts>
[[gnu::noinline]] bool attend(const Attention& task, const QueryRows& rows) {
  TileAttention<kParts> attention(task, rows);
  return attention.run();
}

#endif

}  // namespace etir::llm
