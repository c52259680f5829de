// Convolutions of int8 images in which each channel has a filter of its own:
//
//   y = clamp(rint(float(sum (x - input_zero_point) w + bias) * factor) + zero_point, low, high)
//
// Weights are [taps, channels]. Rows of the image go by for one block of channels after the other, so that the sums of
// a block stay in registers and its filters in the cache.
#include "kernels/integer/depthwise.gen.h"
#include "kernels/integer/depthwise_mve.h"
#include "kernels/integer/depthwise_vnni.h"
#include "kernels/integer/image.h"
#include "kernels/integer/tile_avx2.h"

namespace etir {
namespace {

using namespace integer;

constexpr int kChannels = 64;                         ///< channels of a block
constexpr int kTaps = ETIR_SMALL_STACK ? 25 : 64;     ///< taps that are multiplied at once
constexpr int kPairs = (kTaps + 1) / 2;               ///< of taps
constexpr int kRun = ETIR_INT8_X86 ? 16 : kChannels;  ///< channels that are multiplied side by side

/// Filters of a block of channels: of two taps in 16 bits, in the order in which vectors interleave them.
struct Filters {
  alignas(64) int16_t pairs[ETIR_INT8_X86 ? kPairs * kChannels * 2 : 1];
  const int8_t* weight = nullptr;  ///< [taps, channels], from the first tap and channel on
  int64_t row = 0;                 ///< channels of all blocks
  int taps = 0;
  int channels = 0;    ///< of the block
  int in_vectors = 0;  ///< channels that vectors take
};

#if ETIR_INT8_X86
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

void interleave(Filters& filters) {
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

/// Sums of 16 channels in two vectors: of channels 0 to 3 and 8 to 11, and of the others.
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
void add_vectors(const int8_t* const* x, const Filters& filters, int32_t* sums) {
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
#endif

/// The same for the channels [first, filters.channels).
void add_taps(const int8_t* const* x, const Filters& filters, int first, int32_t* sums) {
#if ETIR_MVE
  (void)first;  // 0: there are no channels before
  add_taps_mve<false>(x, 0, filters.weight, filters.row, filters.taps, filters.channels, sums);
#else
  for (int t = 0; t < filters.taps; ++t) {
    const int8_t* w = filters.weight + t * filters.row;
    for (int c = first; c < filters.channels; ++c) {
      sums[c] = static_cast<int32_t>(static_cast<uint32_t>(sums[c]) + static_cast<uint32_t>(x[t][c] * w[c]));
    }
  }
#endif
}

/// What a row of the output is made of.
struct Line {
  const Window& window;
  const int8_t* image;    ///< the block's first channel
  const int8_t* padding;  ///< a block of input_zero_point
  int64_t channels, y0;
  const int64_t* offsets;  ///< of the taps from the first one, in numbers; null: there are more taps than that

  /// Where taps [first, first + count) of the window at column x0 are.
  void locate(int64_t x0, int64_t first, int count, const int8_t** places) const {
    const int64_t y1 = y0 + (window.kernel[0] - 1) * window.dilation[0];
    const int64_t x1 = x0 + (window.kernel[1] - 1) * window.dilation[1];
    if (offsets != nullptr && y0 >= 0 && y1 < window.in[0] && x0 >= 0 && x1 < window.in[1]) {
      const int8_t* from = image + (y0 * window.in[1] + x0) * channels;
      for (int t = 0; t <= count; ++t) places[t] = from + offsets[t];
      return;
    }
    int64_t ty = first / window.kernel[1], tx = first - ty * window.kernel[1];
    for (int t = 0; t < count; ++t) {
      const int64_t y = y0 + ty * window.dilation[0], x = x0 + tx * window.dilation[1];
      const bool inside = y >= 0 && y < window.in[0] && x >= 0 && x < window.in[1];
      places[t] = inside ? image + (y * window.in[1] + x) * channels : padding;
      if (++tx == window.kernel[1]) tx = 0, ++ty;
    }
    if (count > 0) places[count] = places[count - 1];
  }
};

}  // namespace

void int8_depthwise_conv2d_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& bias,
                               const Tensor& factors, int64_t input_zero_point, const IntList& kernel,
                               const IntList& stride, const IntList& padding, const IntList& dilation,
                               int64_t zero_point, int64_t low, int64_t high, Tensor& out) {
  using arg = arguments::int8_depthwise_conv2d_out;
  Output output;
  Window window;
  if (!check_constant(ctx, weight, ScalarType::Char, 2) || !check_constant(ctx, bias, ScalarType::Int, 1) ||
      !check_constant(ctx, factors, ScalarType::Float, 1) || !check_size(ctx, factors, 0, bias.sizes[0]) ||
      !read_output(ctx, zero_point, low, high, arg::zero_point, &output)) {
    return;
  }
  const int64_t channels = bias.sizes[0];
  if (input_zero_point < -128 || input_zero_point > 127) {
    return ctx.fail(Check::KernelArgument, arg::input_zero_point, input_zero_point);
  }
  if (!read_window(ctx, input, kernel, stride, padding, dilation, arg::kernel, channels, out, &window) ||
      !check_size(ctx, input, 1, channels) || !check_size(ctx, weight, 0, window.taps()) ||
      !check_size(ctx, weight, 1, channels)) {
    return;
  }
  // Columns [middle, middle_end) of the output read no column outside of the image.
  const int64_t step = window.stride[1], last_column = (window.kernel[1] - 1) * window.dilation[1];
  const int64_t middle = std::min((window.padding[1] + step - 1) / step, window.out[1]);
  const int64_t room = window.in[1] - 1 - last_column + window.padding[1];
  const int64_t middle_end = room < 0 ? 0 : std::min(room / step + 1, window.out[1]);
  // Of a row that reads no other either: how many columns from one on are done at once.
  [[maybe_unused]] const auto run_of = [&](int64_t column, int64_t y0) {
    const bool inside = y0 >= 0 && y0 + (window.kernel[0] - 1) * window.dilation[0] < window.in[0];
    return inside && column == middle ? std::max<int64_t>(1, middle_end - middle) : 1;
  };
  const bool vnni = use_vnni();
  const uint32_t zero = static_cast<uint32_t>(input_zero_point);
  int8_t zeros[kChannels];
  std::memset(zeros, static_cast<int>(input_zero_point), sizeof(zeros));
  const int64_t rows = window.batch * window.out[0], taps = window.taps();
  int64_t offsets[kTaps + 1];
  for (int64_t t = 0; t < std::min<int64_t>(taps, kTaps); ++t) {
    const int64_t y = t / window.kernel[1] * window.dilation[0], x = t % window.kernel[1] * window.dilation[1];
    offsets[t] = (y * window.in[1] + x) * channels;
    offsets[t + 1] = offsets[t];
  }
  const int64_t* const known = taps <= kTaps ? offsets : nullptr;
  const int64_t work = std::max<int64_t>(1, window.out[1] * taps * channels);
  ctx.parallel_for(rows, 65536 / work + 1, [&](int64_t begin, int64_t end) {
#if ETIR_INT8_X86 && ETIR_INT8_VNNI
    if (vnni && taps <= kTaps && taps > 0) {
      static_assert(kChannels == kChannelsVnni);
      FiltersVnni<kTaps> filters;
      const int count = static_cast<int>(taps);
      for (int64_t first = 0; first < channels; first += kChannels) {
        const int some = static_cast<int>(std::min<int64_t>(kChannels, channels - first));
        filters.take(weight.ptr<int8_t>() + first, channels, count, some, input_zero_point, bias.ptr<int32_t>() + first,
                     factors.ptr<float>() + first, output);
        for (int64_t row = begin; row < end; ++row) {
          const int64_t image = row / window.out[0] * window.in[0] * window.in[1] * channels + first;
          const int64_t y0 = row % window.out[0] * window.stride[0] - window.padding[0];
          const Line line = {window, input.ptr<int8_t>() + image, zeros, channels, y0, known};
          int8_t* to = out.ptr<int8_t>() + row * window.out[1] * channels + first;
          for (int64_t column = 0, some_columns; column < window.out[1]; column += some_columns) {
            some_columns = run_of(column, y0);
            const int8_t* places[FiltersVnni<kTaps>::kPlaces + 1];
            line.locate(column * window.stride[1] - window.padding[1], 0, count, places);
            for (int t = count; t % kQuad != 0; ++t) places[t] = places[count - 1];
            filters(places, window.stride[1] * channels, some_columns, to + column * channels, channels);
          }
        }
      }
      return;
    }
#endif
    for (int64_t first = 0; first < channels; first += kChannels) {
      Filters filters;
      filters.row = channels;
      filters.channels = static_cast<int>(std::min<int64_t>(kChannels, channels - first));
      filters.in_vectors = filters.channels / kRun * kRun;
      // The zero point of the input times the sum of a filter.
      uint32_t zero_sums[kChannels] = {};
      for (int64_t t = 0; t < taps; ++t) {
        const int8_t* w = weight.ptr<int8_t>() + t * channels + first;
        for (int c = 0; c < filters.channels; ++c) zero_sums[c] += zero * static_cast<uint32_t>(w[c]);
      }
      const auto take = [&](int64_t from) {
        filters.weight = weight.ptr<int8_t>() + from * channels + first;
        filters.taps = static_cast<int>(std::min<int64_t>(kTaps, taps - from));
#if ETIR_INT8_X86
        interleave(filters);
#endif
      };
      // Channels whose sums never are in memory.
      int finished = 0;
      if (taps <= kTaps) take(0);
#if ETIR_INT8_X86
      Scales scales;
      if (taps <= kTaps) {
        finished = filters.in_vectors;
        scales.take(finished, bias.ptr<int32_t>() + first, zero_sums, factors.ptr<float>() + first, output);
      }
#endif
      for (int64_t row = begin; row < end; ++row) {
        const int8_t* image =
            input.ptr<int8_t>() + row / window.out[0] * window.in[0] * window.in[1] * channels + first;
        const int64_t y0 = row % window.out[0] * window.stride[0] - window.padding[0];
        const Line line = {window, image, zeros, channels, y0, known};
        for (int64_t column = 0, some_columns = 1; column < window.out[1]; column += some_columns) {
          const int64_t x0 = column * step - window.padding[1];
          int8_t* to = out.ptr<int8_t>() + (row * window.out[1] + column) * channels + first;
          const int8_t* places[kTaps + 1];
#if ETIR_INT8_X86
          if (finished > 0) {
            // Positions one by one if there are channels that vectors do not take.
            some_columns = finished == filters.channels ? run_of(column, y0) : 1;
            const Run run = {some_columns, step * channels, channels};
            line.locate(x0, 0, filters.taps, places);
            // Of 3x3, unrolled.
            if (taps == 9) {
              finish_vectors<5>(places, run, filters, scales, to);
            } else {
              finish_vectors<0>(places, run, filters, scales, to);
            }
            if (finished == filters.channels) continue;
          }
#endif
          int32_t sums[kChannels];
          for (int c = finished; c < filters.channels; ++c) sums[c] = static_cast<int32_t>(0u - zero_sums[c]);
          for (int64_t from = 0; from < taps; from += kTaps) {
            if (taps > kTaps) take(from);
            line.locate(x0, from, filters.taps, places);
            int begun = finished;
#if ETIR_INT8_X86
            if (finished == 0) add_vectors(places, filters, sums), begun = filters.in_vectors;
#endif
            add_taps(places, filters, begun, sums);
          }
          requantize(vnni, sums + finished, bias.ptr<int32_t>() + first + finished,
                     factors.ptr<float>() + first + finished, filters.channels - finished, output, to + finished);
        }
      }
    }
  });
}

}  // namespace etir
