// Convolutions of int8 images in which each channel has a filter of its own:
//
//   y = clamp(rint(float(sum (x - input_zero_point) w + bias) * factor) + zero_point, low, high)
//
// Weights are [taps, channels]. Rows of the image go by for one block of channels after the other, so that the sums of
// a block stay in registers and its filters in the cache.
#include "kernels/integer/depthwise.gen.h"
#include "kernels/integer/depthwise_avx2.h"
#include "kernels/integer/depthwise_mve.h"
#include "kernels/integer/depthwise_vnni.h"
#include "kernels/integer/image.h"

namespace etir {
namespace {

using namespace integer;
using namespace integer::depthwise;

/// sums[c] += sum of x[t][c] * w[t][c] over the taps, for the channels [first, filters.channels).
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

#if ETIR_INT8_X86
/// Writes 16 channels, from `c` of the block on, of rows [begin, end) of the output: a filter of 3 x 3 and stride 1.
/// `image` and `to` are at the first of these channels.
void finish_lines(const Window& window, const int8_t* image, const int8_t* padding, const Filters& filters,
                  const Scales& scales, int c, int64_t begin, int64_t end, int8_t* to) {
  LineFilters line_filters;
  line_filters.take(filters.weight + c, filters.row);
  const int64_t pixel = window.channels, line = window.in[1] * pixel;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t y0 = row % window.out[0] - window.padding[0];
    const int8_t* const from = image + row / window.out[0] * window.in[0] * line;
    ImageLines lines = {{padding, padding, padding}, {0, 0, 0}, window.in[1], padding};
    for (int i = 0; i < 3; ++i) {
      if (y0 + i >= 0 && y0 + i < window.in[0]) lines.lines[i] = from + (y0 + i) * line, lines.steps[i] = pixel;
    }
    finish_line(lines, line_filters, scales, c, -window.padding[1], window.out[1], to + row * window.out[1] * pixel,
                pixel);
  }
}
#endif

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
  const int64_t rows = window.batch * window.out[0], taps = window.taps();
  [[maybe_unused]] bool by_lines = taps == 9 && window.kernel[0] == 3;
  for (int d = 0; d < 2; ++d) by_lines = by_lines && window.stride[d] == 1 && window.dilation[d] == 1;
  const bool vnni = use_vnni();
  const uint32_t zero = static_cast<uint32_t>(input_zero_point);
  int8_t zeros[kChannels];
  std::memset(zeros, static_cast<int>(input_zero_point), sizeof(zeros));
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
      // Those that are, and do not go by position by position.
      const int in_lines = by_lines ? finished : 0;
      for (int c = 0; c < in_lines; c += kRun) {
        finish_lines(window, input.ptr<int8_t>() + first + c, zeros, filters, scales, c, begin, end,
                     out.ptr<int8_t>() + first + c);
      }
      if (in_lines == filters.channels) continue;
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
          if (finished > in_lines) {
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
