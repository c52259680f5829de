// The largest number of each window of an int8 image; padding is never the largest.
#include <type_traits>

#include "kernels/integer/image.h"
#include "kernels/integer/pool.gen.h"
#include "kernels/util/vectors.h"

namespace etir {

using namespace integer;

namespace {

/// Taps of a window that are in the image, [begin, end) in each dim, and how far apart they are.
struct Taps {
  int64_t begin[2], end[2], step[2];
};

/// The first and the last tap of a dim that are in the image, from position `at` of the output on.
void find_taps(const Window& w, int d, int64_t at, Taps* taps) {
  const int64_t first = at * w.stride[d] - w.padding[d], step = w.dilation[d];
  taps->begin[d] = 0, taps->end[d] = w.kernel[d];
  if (first >= 0 && first + (w.kernel[d] - 1) * step < w.in[d]) return;
  const int64_t begin = first >= 0 ? 0 : (step - 1 - first) / step;
  const int64_t end = first >= w.in[d] ? 0 : (w.in[d] - first + step - 1) / step;
  taps->begin[d] = std::min(begin, w.kernel[d]);
  taps->end[d] = std::max(taps->begin[d], std::min(end, w.kernel[d]));
}

/// The largest numbers of a window for `count` channels. `place` is where the first tap is, or would be.
void max_numbers(const int8_t* image, int64_t place, const Taps& taps, int64_t count, int8_t* to) {
  int64_t c = 0;
#if ETIR_VECTOR_BYTES > 0
  typedef int8_t Numbers __attribute__((vector_size(ETIR_VECTOR_BYTES)));
  constexpr int64_t kLanes = ETIR_VECTOR_BYTES;
  const auto block = [&](auto vectors, int64_t channel) {
    constexpr int kVectors = decltype(vectors)::value;
    Numbers most[kVectors];
    for (int v = 0; v < kVectors; ++v) most[v] = Numbers{} + INT8_MIN;
    for (int64_t y = taps.begin[0]; y < taps.end[0]; ++y) {
      int64_t at = place + y * taps.step[0] + taps.begin[1] * taps.step[1] + channel;
      for (int64_t x = taps.begin[1]; x < taps.end[1]; ++x, at += taps.step[1]) {
        ETIR_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          Numbers numbers;
          std::memcpy(&numbers, image + at + v * kLanes, sizeof(numbers));
          most[v] = numbers > most[v] ? numbers : most[v];
        }
      }
    }
    std::memcpy(to + channel, most, sizeof(most));
  };
  for (; c + 4 * kLanes <= count; c += 4 * kLanes) block(std::integral_constant<int, 4>(), c);
  for (; c + 2 * kLanes <= count; c += 2 * kLanes) block(std::integral_constant<int, 2>(), c);
  for (; c + kLanes <= count; c += kLanes) block(std::integral_constant<int, 1>(), c);
#endif
  for (; c < count; ++c) {
    int8_t most = INT8_MIN;
    for (int64_t y = taps.begin[0]; y < taps.end[0]; ++y) {
      for (int64_t x = taps.begin[1]; x < taps.end[1]; ++x) {
        most = std::max(most, image[place + y * taps.step[0] + x * taps.step[1] + c]);
      }
    }
    to[c] = most;
  }
}

}  // namespace

void int8_max_pool2d_out(KernelContext& ctx, const Tensor& input, const IntList& kernel, const IntList& stride,
                         const IntList& padding, const IntList& dilation, Tensor& out) {
  using arg = arguments::int8_max_pool2d_out;
  if (input.rank != 4) return ctx.fail(Check::KernelRank, input, input.rank);
  Window window;
  const int64_t channels = input.sizes[1];
  if (!read_window(ctx, input, kernel, stride, padding, dilation, arg::kernel, channels, out, &window)) return;
  const int64_t rows = window.batch * window.out[0];
  const int64_t work = std::max<int64_t>(1, window.out[1] * window.taps() * channels);
  ctx.parallel_for(rows, 65536 / work + 1, [&](int64_t begin, int64_t end) {
    Taps taps;
    taps.step[0] = window.dilation[0] * window.in[1] * channels, taps.step[1] = window.dilation[1] * channels;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t image = row / window.out[0], line = row - image * window.out[0];
      const int64_t y = image * window.in[0] + line * window.stride[0] - window.padding[0];
      find_taps(window, 0, line, &taps);
      for (int64_t column = 0; column < window.out[1]; ++column) {
        find_taps(window, 1, column, &taps);
        const int64_t place = y * window.in[1] + column * window.stride[1] - window.padding[1];
        max_numbers(input.ptr<int8_t>(), place * channels, taps, channels,
                    out.ptr<int8_t>() + (row * window.out[1] + column) * channels);
      }
    }
  });
}

}  // namespace etir
