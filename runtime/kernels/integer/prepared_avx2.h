// Products of many rows with AVX2: panels of weights are prepared once for all rows of a task, and sums are finished in
// registers.
//
// One instruction multiplies bytes and adds pairs of products in 16 bits, where it saturates (tile_avx2.h). A panel
// most of whose quads are exact is multiplied with that, and with what is left of it in 16 bits; its quads have an
// order, those that are exact first. Of a panel with many others all quads are multiplied in 16 bits: a loop of one
// kind is faster than two that the processor has to foresee the ends of. Weights in 16 bits are written to scratch
// memory, temp(); if there is not enough, products are those of tile_avx2.h. The same bits in all cases.
#pragma once

#include <atomic>

#include "kernels/integer/operands.h"
#include "kernels/integer/requantize.h"
#include "kernels/integer/tile_avx2.h"
#include "kernels/kernel.h"

#if ETIR_INT8_X86

namespace etir::integer {

namespace detail {

constexpr int kTileHeight = 6;    ///< rows of a tile
constexpr int kBlockRows = 24;    ///< rows that are copied at once, half of them if they are long
constexpr int kLongRow = 256;     ///< numbers
constexpr int kPart = 1024;       ///< numbers of the depth that are copied at once
constexpr int kBetween = 16;      ///< numbers between copied rows, so that they do not compete for places in the cache
constexpr int kPanelsAtOnce = 8;  ///< panels whose sums are kept, half of them if they are whole at once
constexpr int kLeastPrepared = 24;                       ///< rows that make it worth to prepare panels
constexpr int kMostPrepared = 64;                        ///< parts of panels that are prepared at once
constexpr int64_t kPreparedBytes = int64_t{256} * 1024;  ///< panels in 16 bits that stay in the cache
static_assert(kBlockRows % (2 * kTileHeight) == 0);
static_assert(kPart / kQuad <= kMostOrdered);

/// A panel of weights: `order` are the first numbers of its quads, of which the first `fitting` are multiplied as bytes
/// where they are, the others in 16 bits: `wide` has four vectors for each of them, two of 16 columns for each pair.
struct PreparedPanel {
  const int8_t* bytes;
  const int16_t* wide;
  const uint16_t* order;
  int fitting, count;
};

/// Writes a quad in 16 bits.
inline void widen_quad(const int8_t* w, int16_t* to) {
  const __m256i left = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
  const __m256i right = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + kPanelQuad / 2));
  __m256i* const at = reinterpret_cast<__m256i*>(to);
  _mm256_store_si256(at, widen<false>(left));
  _mm256_store_si256(at + 1, widen<false>(right));
  _mm256_store_si256(at + 2, widen<true>(left));
  _mm256_store_si256(at + 3, widen<true>(right));
}

/// Prepares a panel whose quads follow each other: `order` and `wide` have room for all of them. Bytes are multiplied
/// where at least three fifths of the quads fit: with fewer, 16 bits alone were as fast or faster.
inline PreparedPanel prepare_panel(const int8_t* w, int quads, uint16_t* order, int16_t* wide) {
  uint8_t numbers[kMostOrdered];
  int fitting = order_quads(w, quads, numbers);
  if (fitting * 5 < quads * 3) {
    fitting = 0;
    for (int q = 0; q < quads; ++q) numbers[q] = static_cast<uint8_t>(q);
  }
  for (int i = 0; i < quads; ++i) order[i] = static_cast<uint16_t>(numbers[i] * kQuad);
  for (int i = fitting; i < quads; ++i) widen_quad(w + numbers[i] * kPanelQuad, wide + (i - fitting) * kPanelQuad);
  return {w, wide, order, fitting, quads};
}

/// The limits of int8 numbers, as vectors.
struct Limits {
  __m256 most;
  __m256i zero_point, low, high;
  explicit Limits(const Output& output)
      : most(_mm256_set1_ps(output.most())),
        zero_point(_mm256_set1_epi16(static_cast<int16_t>(output.zero_point))),
        low(_mm256_set1_epi8(static_cast<char>(output.low))),
        high(_mm256_set1_epi8(static_cast<char>(output.high))) {}
};

/// What the 16 columns of a panel become: sums in rows of `row` numbers, which begin with the bias, if there is one, in
/// the first part of the depth; or, if `to` is not null, int8 numbers in rows of `to_row`, of which `columns` are
/// written, with a bias of the row, if there is one.
struct PanelResults {
  int32_t* sums;
  int row;
  bool is_first;
  const int32_t* bias;
  const float* factors;
  int8_t* to;
  int64_t to_row;
  int columns;
  const Limits* limits;
  const uint32_t* row_bias;
};

/// The sums of two rows as int8 numbers: those of the first in the lower half. The limits come last, as bytes: what is
/// too large is cut before the conversion, and what is too low, or NaN, becomes the least integer by it.
inline __m256i finish_rows(const float* factors, const Limits& limits, __m256i a0, __m256i a1, __m256i b0, __m256i b1) {
  const __m256 factors0 = _mm256_loadu_ps(factors), factors1 = _mm256_loadu_ps(factors + 8);
  const auto eight = [&](__m256i sums, __m256 by) {
    return _mm256_cvtps_epi32(_mm256_min_ps(limits.most, _mm256_mul_ps(_mm256_cvtepi32_ps(sums), by)));
  };
  const __m256i a = _mm256_packs_epi32(eight(a0, factors0), eight(a1, factors1));
  const __m256i b = _mm256_packs_epi32(eight(b0, factors0), eight(b1, factors1));
  const __m256i bytes =
      _mm256_packs_epi16(_mm256_adds_epi16(a, limits.zero_point), _mm256_adds_epi16(b, limits.zero_point));
  const __m256i limited = _mm256_min_epi8(_mm256_max_epi8(bytes, limits.low), limits.high);
  return _mm256_permutevar8x32_epi32(limited, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

inline void store_finished(__m128i numbers, int columns, int8_t* to) {
  if (columns == kPanel) return _mm_storeu_si128(reinterpret_cast<__m128i*>(to), numbers);
  if (columns == kPanel / 2) return _mm_storel_epi64(reinterpret_cast<__m128i*>(to), numbers);
  alignas(16) int8_t all[kPanel];
  _mm_store_si128(reinterpret_cast<__m128i*>(all), numbers);
  std::memcpy(to, all, static_cast<size_t>(columns));
}

alignas(32) constexpr int16_t kOnes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/// Sums of two numbers side by side. All registers are taken by sums: ones stay in memory.
inline __m256i add_pairs(__m256i numbers) {
  __m256i sums;
  asm("vpmaddwd %2, %1, %0" : "=x"(sums) : "x"(numbers), "m"(*reinterpret_cast<const __m256i*>(kOnes)));
  return sums;
}

/// `tiles` tiles of `kRows` rows each, at most six, from row `first` on. Without `kBytes` all quads are multiplied in
/// 16 bits, in the order of the depth. Sums have names, since GCC keeps arrays of this size in memory, and what a
/// closure holds by reference.
template <int kRows, bool kBytes>
[[gnu::noinline]] void multiply_tiles(const TileRows& x, int first, int tiles, const PreparedPanel& panel,
                                      const PanelResults& results) {
  // Results may lie anywhere as far as the compiler knows, over all that is not a local variable, too.
  const size_t stride = static_cast<size_t>(x.stride);
  const int16_t* const wide = panel.wide;
  const int8_t* const bytes = panel.bytes;
  const uint16_t* const order = panel.order;
  const int fitting = panel.fitting, count = panel.count, row = results.row, columns = results.columns;
  const bool is_first = results.is_first;
  const int32_t* const bias = results.bias;
  const float* const factors = results.factors;
  const Limits* const limits = results.limits;
  const int64_t to_row = results.to_row;
  const uint32_t* row_bias = results.row_bias == nullptr ? nullptr : results.row_bias + first;
  int32_t* sums = results.sums + first * row;
  int8_t* to = results.to == nullptr ? nullptr : results.to + first * to_row;
  const uint8_t* x_bytes = x.bytes + first * x.stride;
  const int16_t* x_wide = x.wide + first * x.stride;
  for (int tile = 0; tile < tiles; ++tile) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i a0 = zero, a1 = zero, b0 = zero, b1 = zero, c0 = zero, c1 = zero, d0 = zero, d1 = zero, e0 = zero,
            e1 = zero, f0 = zero, f1 = zero;
    const auto load = [](const int32_t* from, __m256i& sum0, __m256i& sum1) {
      sum0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      sum1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 8));
    };
    if (!is_first) {
      load(sums, a0, a1);
      if (kRows > 1) load(sums + row, b0, b1);
      if (kRows > 2) load(sums + 2 * row, c0, c1);
      if (kRows > 3) load(sums + 3 * row, d0, d1);
      if (kRows > 4) load(sums + 4 * row, e0, e1);
      if (kRows > 5) load(sums + 5 * row, f0, f1);
    } else if (bias != nullptr) {
      load(bias, a0, a1);
      b0 = c0 = d0 = e0 = f0 = a0, b1 = c1 = d1 = e1 = f1 = a1;
    }
    const int16_t* w = wide;
    // Two of a row's numbers in 16 bits times two of 16 columns.
    const auto add_wide = [](const int16_t* from, __m256i left, __m256i right, __m256i& sum0, __m256i& sum1) {
      int two;
      std::memcpy(&two, from, sizeof(two));
      const __m256i numbers = _mm256_set1_epi32(two);
      add_in_place(sum0, _mm256_madd_epi16(numbers, left));
      add_in_place(sum1, _mm256_madd_epi16(numbers, right));
    };
    const auto add_pair = [&](const int16_t* from, const int16_t* fourth) {
      const __m256i left = _mm256_load_si256(reinterpret_cast<const __m256i*>(w));
      const __m256i right = _mm256_load_si256(reinterpret_cast<const __m256i*>(w + kPanel));
      w += 2 * kPanel;
      add_wide(from, left, right, a0, a1);
      if (kRows > 1) add_wide(from + stride, left, right, b0, b1);
      if (kRows > 2) add_wide(from + 2 * stride, left, right, c0, c1);
      if (kRows > 3) add_wide(fourth, left, right, d0, d1);
      if (kRows > 4) add_wide(fourth + stride, left, right, e0, e1);
      if (kRows > 5) add_wide(fourth + 2 * stride, left, right, f0, f1);
    };
    if (kBytes) {
      for (int i = 0; i < fitting; ++i) {
        const size_t k = order[i];
        const __m256i* const quad = reinterpret_cast<const __m256i*>(bytes + k * kPanel);
        const __m256i left = _mm256_loadu_si256(quad), right = _mm256_loadu_si256(quad + 1);
        const auto add = [&](const uint8_t* from, __m256i& sum0, __m256i& sum1) {
          int four;
          std::memcpy(&four, from, sizeof(four));
          const __m256i numbers = _mm256_set1_epi32(four);
          add_in_place(sum0, add_pairs(_mm256_maddubs_epi16(numbers, left)));
          add_in_place(sum1, add_pairs(_mm256_maddubs_epi16(numbers, right)));
        };
        const uint8_t* const from = x_bytes + k;
        add(from, a0, a1);
        if (kRows > 1) add(from + stride, b0, b1);
        if (kRows > 2) add(from + 2 * stride, c0, c1);
        const uint8_t* const fourth = from + 3 * stride;
        if (kRows > 3) add(fourth, d0, d1);
        if (kRows > 4) add(fourth + stride, e0, e1);
        if (kRows > 5) add(fourth + 2 * stride, f0, f1);
      }
      for (int i = fitting; i < count; ++i) {
        const int16_t* const from = x_wide + order[i];
        add_pair(from, from + 3 * stride);
        add_pair(from + 2, from + 3 * stride + 2);
      }
    } else {
      const int16_t *from = x_wide, *fourth = x_wide + 3 * stride;
      for (int i = 0; i < count; ++i, from += kQuad, fourth += kQuad) {
        add_pair(from, fourth);
        add_pair(from + 2, fourth + 2);
      }
    }
    x_bytes += kRows * stride, x_wide += kRows * stride;
    if (to != nullptr) {
      if (row_bias != nullptr) {
        const auto add = [&](int r, __m256i& sum0, __m256i& sum1) {
          const __m256i more = _mm256_set1_epi32(static_cast<int>(row_bias[r]));
          add_in_place(sum0, more), add_in_place(sum1, more);
        };
        add(0, a0, a1);
        if (kRows > 1) add(1, b0, b1);
        if (kRows > 2) add(2, c0, c1);
        if (kRows > 3) add(3, d0, d1);
        if (kRows > 4) add(4, e0, e1);
        if (kRows > 5) add(5, f0, f1);
        row_bias += kRows;
      }
      const __m256i ab = finish_rows(factors, *limits, a0, a1, b0, b1);
      store_finished(_mm256_castsi256_si128(ab), columns, to);
      if (kRows > 1) store_finished(_mm256_extracti128_si256(ab, 1), columns, to + to_row);
      if (kRows > 2) {
        const __m256i cd = finish_rows(factors, *limits, c0, c1, d0, d1);
        store_finished(_mm256_castsi256_si128(cd), columns, to + 2 * to_row);
        if (kRows > 3) store_finished(_mm256_extracti128_si256(cd, 1), columns, to + 3 * to_row);
      }
      if (kRows > 4) {
        const __m256i ef = finish_rows(factors, *limits, e0, e1, f0, f1);
        store_finished(_mm256_castsi256_si128(ef), columns, to + 4 * to_row);
        if (kRows > 5) store_finished(_mm256_extracti128_si256(ef, 1), columns, to + 5 * to_row);
      }
      to += kRows * to_row;
    } else {
      const auto store = [&](int r, __m256i sum0, __m256i sum1) {
        __m256i* const at = reinterpret_cast<__m256i*>(sums + r * row);
        _mm256_storeu_si256(at, sum0);
        _mm256_storeu_si256(at + 1, sum1);
      };
      store(0, a0, a1);
      if (kRows > 1) store(1, b0, b1);
      if (kRows > 2) store(2, c0, c1);
      if (kRows > 3) store(3, d0, d1);
      if (kRows > 4) store(4, e0, e1);
      if (kRows > 5) store(5, f0, f1);
    }
    sums += kRows * row;
  }
}

/// `rows` rows of a panel: loops of all tiles are equally long.
template <bool kBytes>
void multiply_rows(const TileRows& x, int rows, const PreparedPanel& panel, const PanelResults& results) {
  const int tiles = rows / kTileHeight, first = tiles * kTileHeight;
  if (tiles > 0) multiply_tiles<kTileHeight, kBytes>(x, 0, tiles, panel, results);
  switch (rows - first) {
    case 0:
      return;
    case 1:
      return multiply_tiles<1, kBytes>(x, first, 1, panel, results);
    case 2:
      return multiply_tiles<2, kBytes>(x, first, 1, panel, results);
    case 3:
      return multiply_tiles<3, kBytes>(x, first, 1, panel, results);
    case 4:
      return multiply_tiles<4, kBytes>(x, first, 1, panel, results);
    default:
      return multiply_tiles<5, kBytes>(x, first, 1, panel, results);
  }
}

/// Copied numbers in 16 bits, up to a multiple of 16 of them.
inline void widen_copy(const uint8_t* from, int64_t numbers, int16_t* to) {
  for (int64_t i = 0; i < numbers; i += 16) {
    const __m128i sixteen = _mm_load_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + i), _mm256_cvtepu8_epi16(sixteen));
  }
}

/// The same of numbers that lie in memory: x + 128.
inline void widen_numbers(const int8_t* from, int64_t numbers, int16_t* to) {
  const __m256i shift = _mm256_set1_epi16(128);
  const auto widen_sixteen = [&](const int8_t* some, int16_t* at) {
    const __m256i sixteen = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(some)));
    _mm256_store_si256(reinterpret_cast<__m256i*>(at), _mm256_add_epi16(sixteen, shift));
  };
  int64_t i = 0;
  for (; i + 16 <= numbers; i += 16) widen_sixteen(from + i, to + i);
  if (i == numbers) return;
  alignas(16) int8_t rest[16] = {};
  std::memcpy(rest, from + i, static_cast<size_t>(numbers - i));
  widen_sixteen(rest, to + i);
}

/// Panels of a product whose sums become int8 numbers: the last one may have fewer columns than its terms.
class Terms {
 public:
  Terms(const Requantized* all, const Weights& weights)
      : all_(all), columns_(weights.columns), limits_(all == nullptr ? Output{} : all->output) {
    if (all == nullptr) return;
    const int64_t first = (weights.panels() - 1) * kPanel;
    for (int c = 0; c < kPanel; ++c) {
      const bool inside = first + c < columns_;
      bias_[c] = inside ? all->bias[first + c] : 0;
      factors_[c] = inside ? all->factors[first + c] : 0.0f;
    }
  }
  /// What a panel becomes from `row` on; numbers are written if it is the last part of the depth.
  PanelResults operator()(int64_t row, int64_t panel, int32_t* sums, int sums_row, bool is_first, bool is_last) const {
    if (all_ == nullptr) return {sums, sums_row, is_first, nullptr, nullptr, nullptr, 0, kPanel, &limits_, nullptr};
    const int64_t column = panel * kPanel;
    const int columns = static_cast<int>(std::min<int64_t>(kPanel, columns_ - column));
    const bool whole = columns == kPanel;
    return {sums,
            sums_row,
            is_first,
            whole ? all_->bias + column : bias_,
            whole ? all_->factors + column : factors_,
            is_last ? all_->to + row * all_->to_row + column : nullptr,
            all_->to_row,
            columns,
            &limits_,
            all_->row_bias == nullptr ? nullptr : all_->row_bias + row};
  }

 private:
  const Requantized* all_;
  int64_t columns_;
  Limits limits_;
  int32_t bias_[kPanel] = {};
  float factors_[kPanel] = {};
};

/// Rows [begin, end) times panels [first, last), which are prepared in `memory`.
template <typename Rows, typename Store>
void multiply_prepared(const Rows& source, const Weights& weights, int64_t begin, int64_t end, int64_t first,
                       int64_t last, char* memory, const Requantized* requantized, const Store& store) {
  const int parts = static_cast<int>((weights.depth + kPart - 1) / kPart);
  PreparedPanel prepared[kMostPrepared];
  int16_t* wide_weights = reinterpret_cast<int16_t*>(memory);
  uint16_t* order = reinterpret_cast<uint16_t*>(wide_weights + (last - first) * weights.quads() * kPanelQuad);
  bool all_bytes = true, some_bytes = false;
  for (int64_t p = first; p < last; ++p) {
    for (int part = 0; part < parts; ++part) {
      const int64_t quad = int64_t{part} * (kPart / kQuad);
      const int quads = static_cast<int>(std::min<int64_t>(kPart / kQuad, weights.quads() - quad));
      const int8_t* const w = weights.data + p * weights.panel_bytes() + quad * kPanelQuad;
      const PreparedPanel panel = prepare_panel(w, quads, order, wide_weights);
      prepared[(p - first) * parts + part] = panel;
      all_bytes = all_bytes && panel.fitting == panel.count;
      some_bytes = some_bytes || panel.fitting > 0;
      order += quads, wide_weights += quads * kPanelQuad;
    }
  }
  const Terms terms(requantized, weights);
  const int whole = static_cast<int>((std::min<int64_t>(kPart, weights.depth) + 15) / 16 * 16);
  const int stride = whole + kBetween, block = whole > kLongRow ? kBlockRows / 2 : kBlockRows;
  constexpr int kNumbers = std::max(kBlockRows * (kLongRow + kBetween), kBlockRows / 2 * (kPart + kBetween));
  constexpr int kRow = kPanelsAtOnce * kPanel;
  alignas(64) uint8_t copy[kNumbers];
  alignas(64) int16_t wide[kNumbers];
  alignas(64) int32_t sums[kBlockRows * kRow];
  const int64_t at_once = parts > 1 ? kPanelsAtOnce : kPanelsAtOnce / 2;
  for (int64_t i = begin; i < end; i += block) {
    const int rows = static_cast<int>(std::min<int64_t>(block, end - i));
    for (int64_t j = first; j < last; j += at_once) {
      const int64_t stop = std::min(last, j + at_once);
      for (int part = 0; part < parts; ++part) {
        if (parts > 1 || j == first) {
          const int64_t k = int64_t{part} * kPart, count = std::min<int64_t>(kPart, weights.depth - k);
          if (some_bytes || !source.widen(i, rows, k, count, wide, stride)) {
            copy_rows<kQuad>(source, i, rows, k, count, copy, stride);
            if (!all_bytes) {
              for (int r = 0; r < rows; ++r) widen_copy(copy + r * stride, count, wide + r * stride);
            }
          }
        }
        for (int64_t p = j; p < stop; ++p) {
          const PreparedPanel& panel = prepared[(p - first) * parts + part];
          const PanelResults results = terms(i, p, sums + (p - j) * kPanel, kRow, part == 0, part == parts - 1);
          const TileRows x = {copy, wide, stride};
          panel.fitting > 0 ? multiply_rows<true>(x, rows, panel, results)
                            : multiply_rows<false>(x, rows, panel, results);
        }
      }
      if (requantized != nullptr) continue;
      const int64_t columns = std::min(stop * kPanel, weights.columns) - j * kPanel;
      store(Block{i, j * kPanel, rows, static_cast<int>(columns), sums, kRow});
    }
  }
}

}  // namespace detail

/// The product, if it has enough rows and there is memory; see multiply() for `source` and `store`.
template <typename Rows, typename Store>
bool multiply_prepared(KernelContext& ctx, const Rows& source, const Weights& weights, const Store& store) {
  const int64_t rows = source.rows(), panels = weights.panels(), quads = weights.quads();
  const int64_t panel_bytes = quads * kPanelQuad * int64_t{sizeof(int16_t)};
  if (rows < detail::kLeastPrepared || weights.depth <= 0 || panel_bytes > detail::kPreparedBytes) return false;
  // A part of the depth is 32 KB of a panel: a group has no more parts than are prepared at once.
  const int64_t most = std::min<int64_t>(detail::kMostPrepared, detail::kPreparedBytes / panel_bytes);
  const int64_t groups = (panels + most - 1) / most, group = (panels + groups - 1) / groups;
  const int64_t workers = ctx.parallel.run == nullptr ? 1 : std::max(1, ctx.parallel.threads);
  const int64_t strips =
      workers == 1 ? 1
                   : std::max<int64_t>(1, std::min(rows / detail::kLeastPrepared, (4 * workers + groups - 1) / groups));
  constexpr int64_t kUnit = detail::kBlockRows / 2;
  const int64_t strip = ((rows + strips - 1) / strips + kUnit - 1) / kUnit * kUnit;
  constexpr size_t kAlignment = 64;
  const int64_t bytes = (group * (panel_bytes + quads * int64_t{sizeof(uint16_t)}) + 63) / 64 * 64;
  Arena& arena = ctx.temp_memory();
  const size_t used = arena.used;
  if (arena.size - arena.used < static_cast<size_t>(workers * bytes) + kAlignment) return false;
  char* const memory = static_cast<char*>(ctx.temp(static_cast<size_t>(workers * bytes), kAlignment));
  if (memory == nullptr) return false;
  Requantized requantized = {};
  const Requantized* const finished = read_requantized(store, &requantized, 0) ? &requantized : nullptr;
  // A worker takes the next task as long as there is one: memory is for each worker, not for each task.
  std::atomic<int64_t> next{0};
  ctx.parallel_for(workers, 1, [&](int64_t first, int64_t last) {
    for (int64_t worker = first; worker < last; ++worker) {
      for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < groups * strips;) {
        const int64_t begin = task % strips * strip, end = std::min(rows, begin + strip);
        const int64_t panel = task / strips * group;
        if (begin >= end) continue;
        detail::multiply_prepared(source, weights, begin, end, panel, std::min(panels, panel + group),
                                  memory + worker * bytes, finished, store);
      }
    }
  });
  arena.used = used;  // a kernel may have many products
  return true;
}

}  // namespace etir::integer

#endif
