// Depthwise filters with AVX2: sixteen channels of two taps at a time, in 16 bits, whose sums stay in registers and end
// as int8 numbers. Filters of 3 x 3 with stride 1 go along a line of the image, so that each column of it is read once.
#pragma once

#include "kernels/integer/depthwise.h"
#include "kernels/integer/requantize.h"
#include "kernels/integer/tile_avx2.h"

#if ETIR_INT8_X86

namespace etir::integer::depthwise {

/// What sums of a block of channels begin with and are multiplied by, each 16 in the order of vectors of sums: 0 to 3,
/// 8 to 11, 4 to 7 and 12 to 15.
struct Scales {
  alignas(64) int32_t start[kChannels];
  alignas(64) float factors[kChannels];
  alignas(32) float least[8], most[8];
  alignas(32) int16_t zero_point[16];

  void take(int channels, const int32_t* bias, const uint32_t* zero_sums, const float* factor, const Output& out) {
    std::fill_n(least, 8, out.least());
    std::fill_n(most, 8, out.most());
    std::fill_n(zero_point, 16, static_cast<int16_t>(out.zero_point));
    for (int c = 0; c < channels; ++c) {
      const int place = c / 16 * 16 + (c & 3) + ((c & 8) >> 1) + ((c & 4) << 1);
      start[place] = static_cast<int32_t>(static_cast<uint32_t>(bias[c]) - zero_sums[c]);
      factors[place] = factor[c];
    }
  }
};

inline __m256i load_wide(const int8_t* from) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline __m256i load_pairs(const int16_t* from) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(from)); }

inline void interleave(Filters& filters) {
  for (int pair = 0; 2 * pair < filters.taps; ++pair) {
    const int8_t* w = filters.weight + 2 * pair * filters.row;
    for (int c = 0; c < filters.in_vectors; c += 16) {
      const __m256i w0 = load_wide(w + c);
      const __m256i w1 = 2 * pair + 1 < filters.taps ? load_wide(w + filters.row + c) : _mm256_setzero_si256();
      __m256i* to = reinterpret_cast<__m256i*>(filters.pairs + (pair * kChannels + c) * 2);
      _mm256_store_si256(to, _mm256_unpacklo_epi16(w0, w1));
      _mm256_store_si256(to + 1, _mm256_unpackhi_epi16(w0, w1));
    }
  }
}

/// Numbers of 32 bits, or pairs of 16, of 16 channels in two vectors: of channels 0 to 3 and 8 to 11, and of the
/// others.
struct Sums {
  __m256i low, high;
};

/// Adds two taps of 16 channels, whose weights are at w.
inline void add_pair(Sums& sums, const int8_t* first, const int8_t* second, const int16_t* w) {
  const __m256i x0 = load_wide(first), x1 = load_wide(second);
  integer::detail::add_in_place(sums.low, _mm256_madd_epi16(_mm256_unpacklo_epi16(x0, x1), load_pairs(w)));
  integer::detail::add_in_place(sums.high, _mm256_madd_epi16(_mm256_unpackhi_epi16(x0, x1), load_pairs(w + 16)));
}

inline Sums begin_sums(const Scales& scales, int c) {
  const __m256i* start = reinterpret_cast<const __m256i*>(scales.start + c);
  return {_mm256_load_si256(start), _mm256_load_si256(start + 1)};
}

inline void finish_sums(const Sums& sums, const Scales& scales, int c, int8_t* to) {
  const __m256 least = _mm256_load_ps(scales.least), most = _mm256_load_ps(scales.most);
  const __m256i low = requantize_eight(sums.low, _mm256_load_ps(scales.factors + c), least, most);
  const __m256i high = requantize_eight(sums.high, _mm256_load_ps(scales.factors + c + 8), least, most);
  const __m256i both = _mm256_add_epi16(_mm256_packs_epi32(low, high), load_pairs(scales.zero_point));
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}

/// Positions of a row of the output that lie side by side: how many, and numbers from one to the next, of the input and
/// of the output.
struct Run {
  int64_t count, from_step, to_step;
};

/// Writes the finished numbers of 16 or 32 channels from c on, position by position: their sums stay in registers.
/// `kFixed` is the number of pairs of taps, or 0. Not part of a loop over channels, since GCC would keep weights of the
/// next ones in memory.
template <int kFixed, bool kBoth>
[[gnu::noinline]] void finish_run(const int8_t* const* x, const Run& run, const Filters& filters, const Scales& scales,
                                  int c, int8_t* to) {
  const int pairs = kFixed > 0 ? kFixed : (filters.taps + 1) / 2;
  const int64_t from_step = run.from_step, to_step = run.to_step, end = c + run.count * from_step;
  const int16_t* const weights = filters.pairs + 2 * c;
  to += c;
  for (int64_t at = c; at < end; at += from_step, to += to_step) {
    Sums sums = begin_sums(scales, c), more = begin_sums(scales, kBoth ? c + 16 : c);
    const int16_t* w = weights;
    ETIR_UNROLL
    for (int pair = 0; pair < pairs; ++pair, w += 2 * kChannels) {
      const int8_t *first = x[2 * pair] + at, *second = x[2 * pair + 1] + at;
      add_pair(sums, first, second, w);
      if (kBoth) add_pair(more, first + 16, second + 16, w + 32);
    }
    finish_sums(sums, scales, c, to);
    if (kBoth) finish_sums(more, scales, c + 16, to + 16);
  }
}

/// Writes the finished numbers of all channels that vectors take.
template <int kFixed>
inline void finish_vectors(const int8_t* const* x, const Run& run, const Filters& filters, const Scales& scales,
                           int8_t* to) {
  int c = 0;
  for (; c + 32 <= filters.in_vectors; c += 32) finish_run<kFixed, true>(x, run, filters, scales, c, to);
  if (c < filters.in_vectors) finish_run<kFixed, false>(x, run, filters, scales, c, to);
}

/// sums[c] += sum of x[t][c] * w[t][c] over the taps, for the channels that vectors take.
inline void add_vectors(const int8_t* const* x, const Filters& filters, int32_t* sums) {
  for (int c = 0; c < filters.in_vectors; c += 16) {
    Sums more = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int pair = 0; 2 * pair < filters.taps; ++pair) {
      add_pair(more, x[2 * pair] + c, x[2 * pair + 1] + c, filters.pairs + 2 * (pair * kChannels + c));
    }
    __m256i* to = reinterpret_cast<__m256i*>(sums + c);
    const __m256i low = _mm256_permute2x128_si256(more.low, more.high, 0x20);
    const __m256i high = _mm256_permute2x128_si256(more.low, more.high, 0x31);
    _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), low));
    _mm256_storeu_si256(to + 1, _mm256_add_epi32(_mm256_loadu_si256(to + 1), high));
  }
}

/// Filters of 3 x 3 for 16 channels as lines of the image go by: of each column of the filter its first two taps, then
/// the first two of the last line, then none and the last one.
struct LineFilters {
  static constexpr int kPairsOfTaps = 5;
  alignas(64) int16_t pairs[kPairsOfTaps][32];

  void take(const int8_t* weight, int64_t row) {
    constexpr int kNone = -1;
    constexpr int kTapsOf[kPairsOfTaps][2] = {{0, 3}, {1, 4}, {2, 5}, {6, 7}, {kNone, 8}};
    for (int pair = 0; pair < kPairsOfTaps; ++pair) {
      const auto wide = [&](int tap) { return tap == kNone ? _mm256_setzero_si256() : load_wide(weight + tap * row); };
      const __m256i first = wide(kTapsOf[pair][0]), second = wide(kTapsOf[pair][1]);
      __m256i* const to = reinterpret_cast<__m256i*>(pairs[pair]);
      _mm256_store_si256(to, _mm256_unpacklo_epi16(first, second));
      _mm256_store_si256(to + 1, _mm256_unpackhi_epi16(first, second));
    }
  }
};

/// Three lines of the image that a line of the output is made of, from 16 channels on: those outside of the image have
/// the same pixel everywhere, `padding`, and steps of 0. There are `columns` columns, and pixels beside them are
/// padding.
struct ImageLines {
  const int8_t* lines[3];
  int64_t steps[3];
  int64_t columns;
  const int8_t* padding;
};

/// Numbers of two pixels side by side, or one above the other, two of a channel together.
inline Sums interleaved(__m256i first, __m256i second) {
  return {_mm256_unpacklo_epi16(first, second), _mm256_unpackhi_epi16(first, second)};
}

inline void add_interleaved(Sums& sums, const Sums& numbers, const int16_t* w) {
  integer::detail::add_in_place(sums.low, _mm256_madd_epi16(numbers.low, load_pairs(w)));
  integer::detail::add_in_place(sums.high, _mm256_madd_epi16(numbers.high, load_pairs(w + 16)));
}

/// Writes 16 channels, from `c` of the block on, of the `count` columns of a line of the output, of which the first
/// begins at column `from` of the image: a filter of 3 x 3, and stride 1. A column of the image is read and interleaved
/// once for the three columns of the output that need it.
[[gnu::noinline]] inline void finish_line(const ImageLines& image, const LineFilters& filters, const Scales& scales,
                                          int c, int64_t from, int64_t count, int8_t* to, int64_t to_step) {
  const int64_t columns = image.columns, step0 = image.steps[0], step1 = image.steps[1], step2 = image.steps[2];
  const int8_t *const line0 = image.lines[0], *const line1 = image.lines[1], *const line2 = image.lines[2];
  const __m256i outside = load_wide(image.padding);
  const int16_t(*const w)[32] = filters.pairs;
  Sums upper = interleaved(outside, outside), upper_next = upper;
  __m256i lower = outside;
  const auto read = [&](int64_t column, Sums& above, __m256i& below) {
    if (column < 0 || column >= columns) {
      above = interleaved(outside, outside), below = outside;
    } else {
      above = interleaved(load_wide(line0 + column * step0), load_wide(line1 + column * step1));
      below = load_wide(line2 + column * step2);
    }
  };
  __m256i lower_next = outside;
  read(from, upper, lower);
  read(from + 1, upper_next, lower_next);
  Sums lower_pair = interleaved(lower, lower_next);
  for (int64_t column = from + 2, end = from + 2 + count; column < end; ++column, to += to_step) {
    Sums upper_last = upper;
    __m256i lower_last = lower;
    read(column, upper_last, lower_last);
    const Sums lower_last_pair = interleaved(lower_next, lower_last);
    Sums sums = begin_sums(scales, c);
    add_interleaved(sums, upper, w[0]);
    add_interleaved(sums, upper_next, w[1]);
    add_interleaved(sums, upper_last, w[2]);
    add_interleaved(sums, lower_pair, w[3]);
    add_interleaved(sums, lower_last_pair, w[4]);
    finish_sums(sums, scales, c, to);
    upper = upper_next, upper_next = upper_last, lower_pair = lower_last_pair, lower_next = lower_last;
  }
}

}  // namespace etir::integer::depthwise

#endif
