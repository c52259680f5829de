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

constexpr int kChannels = 64;  ///< channels of a block
constexpr int kTaps = 64;      ///< taps whose places are looked up at once

/// sums[c] += (x[t][c] - zero) * w[t][c] for `channels` channels, at most a block; rows of w are `w_row` apart.
void add_taps(const int8_t* const* x, int taps, const int8_t* w, int64_t w_row, int channels, int zero, int32_t* sums) {
  int c = 0;
#if ETIR_INT8_X86
  const __m256i zeros = _mm256_set1_epi16(static_cast<int16_t>(zero));
  const auto load = [](const int8_t* from) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  };
  for (; c + 16 <= channels; c += 16) {
    // Two taps at a time; of 16 channels the sums are those of 0 to 3 and 8 to 11, and of the others.
    __m256i low = _mm256_setzero_si256(), high = low;
    for (int t = 0; t < taps; t += 2) {
      const bool both = t + 1 < taps;
      const __m256i x0 = _mm256_sub_epi16(load(x[t] + c), zeros), w0 = load(w + t * w_row + c);
      const __m256i x1 = both ? _mm256_sub_epi16(load(x[t + 1] + c), zeros) : _mm256_setzero_si256();
      const __m256i w1 = both ? load(w + (t + 1) * w_row + c) : _mm256_setzero_si256();
      low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(x0, x1), _mm256_unpacklo_epi16(w0, w1)));
      high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(x0, x1), _mm256_unpackhi_epi16(w0, w1)));
    }
    const __m256i parts[2] = {_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31)};
    for (int v = 0; v < 2; ++v) {
      __m256i* to = reinterpret_cast<__m256i*>(sums + c + 8 * v);
      _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), parts[v]));
    }
  }
#endif
  for (int t = 0; t < taps; ++t) {
    for (int k = c; k < channels; ++k) {
      const int32_t product = (x[t][k] - zero) * w[t * w_row + k];
      sums[k] = static_cast<int32_t>(static_cast<uint32_t>(sums[k]) + static_cast<uint32_t>(product));
    }
  }
}

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
  const int zero = static_cast<int>(input_zero_point);
  const int64_t rows = window.batch * window.out[0];
  const int64_t work = std::max<int64_t>(1, window.out[1] * window.taps() * channels);
  ctx.parallel_for(rows, 65536 / work + 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t y0 = row % window.out[0] * window.stride[0] - window.padding[0];
      const int64_t image = row / window.out[0];
      for (int64_t first = 0; first < channels; first += kChannels) {
        const int count = static_cast<int>(std::min<int64_t>(kChannels, channels - first));
        for (int64_t column = 0; column < window.out[1]; ++column) {
          const int64_t x0 = column * window.stride[1] - window.padding[1];
          int32_t sums[kChannels] = {};
          const int8_t* places[kTaps];
          // Filters that the places have: those of taps one after the other.
          int found = 0;
          int64_t begin_tap = 0;
          const auto flush = [&]() {
            const int8_t* filters = weight.ptr<int8_t>() + begin_tap * channels + first;
            add_taps(places, found, filters, channels, count, zero, sums);
            found = 0;
          };
          for (int64_t ty = 0; ty < window.kernel[0]; ++ty) {
            const int64_t y = y0 + ty * window.dilation[0];
            if (y < 0 || y >= window.in[0]) continue;
            const int8_t* line = input.ptr<int8_t>() + (image * window.in[0] + y) * window.in[1] * channels + first;
            for (int64_t tx = 0; tx < window.kernel[1]; ++tx) {
              const int64_t x = x0 + tx * window.dilation[1];
              if (x < 0 || x >= window.in[1]) continue;
              const int64_t tap = ty * window.kernel[1] + tx;
              if (found == kTaps || (found > 0 && tap != begin_tap + found)) flush();
              if (found == 0) begin_tap = tap;
              places[found++] = line + x * channels;
            }
          }
          if (found > 0) flush();
          const int64_t at = row * window.out[1] + column;
          requantize(vnni, sums, bias.ptr<int32_t>() + first, factors.ptr<float>() + first, count, output,
                     out.ptr<int8_t>() + at * channels + first);
        }
      }
    }
  });
}

}  // namespace etir
