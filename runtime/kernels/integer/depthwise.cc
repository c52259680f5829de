// Convolutions of int8 images in which each channel has a filter of its own:
//
//   y = clamp(rint(float(sum (x - input_zero_point) w + bias) * factor) + zero_point, low, high)
//
// Weights are [taps, channels]. Rows of the image go by for one block of channels after the other, so that the sums of
// a block stay in registers and its filters in the cache.
#include "kernels/integer/depthwise.gen.h"
#include "kernels/integer/image.h"

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
#endif

/// sums[c] += sum of x[t][c] * w[t][c] over the taps, for the channels of a block. x has an even number of places.
void add_taps(const int8_t* const* x, const Filters& filters, int32_t* sums) {
  int c = 0;
#if ETIR_INT8_X86
  const int pairs = (filters.taps + 1) / 2;
  for (; c < filters.in_vectors; c += 16) {
    // The sums of channels 0 to 3 and 8 to 11, and of the others.
    __m256i low = _mm256_setzero_si256(), high = low;
    for (int pair = 0; pair < pairs; ++pair) {
      const __m256i x0 = load_wide(x[2 * pair] + c), x1 = load_wide(x[2 * pair + 1] + c);
      const int16_t* w = filters.pairs + (pair * kChannels + c) * 2;
      low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(x0, x1), load_pairs(w)));
      high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(x0, x1), load_pairs(w + 16)));
    }
    const __m256i parts[2] = {_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31)};
    for (int v = 0; v < 2; ++v) {
      __m256i* to = reinterpret_cast<__m256i*>(sums + c + 8 * v);
      _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), parts[v]));
    }
  }
#endif
  for (int t = 0; t < filters.taps; ++t) {
    const int8_t* w = filters.weight + t * filters.row;
    for (int k = c; k < filters.channels; ++k) {
      sums[k] = static_cast<int32_t>(static_cast<uint32_t>(sums[k]) + static_cast<uint32_t>(x[t][k] * w[k]));
    }
  }
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
      if (taps <= kTaps) take(0);
      for (int64_t row = begin; row < end; ++row) {
        const int8_t* image =
            input.ptr<int8_t>() + row / window.out[0] * window.in[0] * window.in[1] * channels + first;
        const int64_t y0 = row % window.out[0] * window.stride[0] - window.padding[0];
        const Line line = {window, image, zeros, channels, y0, known};
        for (int64_t column = 0; column < window.out[1]; ++column) {
          const int64_t x0 = column * window.stride[1] - window.padding[1];
          int32_t sums[kChannels];
          for (int c = 0; c < filters.channels; ++c) sums[c] = static_cast<int32_t>(0u - zero_sums[c]);
          const int8_t* places[kTaps + 1];
          for (int64_t from = 0; from < taps; from += kTaps) {
            if (taps > kTaps) take(from);
            line.locate(x0, from, filters.taps, places);
            add_taps(places, filters, sums);
          }
          requantize(vnni, sums, bias.ptr<int32_t>() + first, factors.ptr<float>() + first, filters.channels, output,
                     out.ptr<int8_t>() + (row * window.out[1] + column) * channels + first);
        }
      }
    }
  });
}

}  // namespace etir
