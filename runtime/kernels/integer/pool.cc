// The largest number of each window of an int8 image; padding is never the largest.
#include "kernels/integer/image.h"
#include "kernels/integer/pool.gen.h"

namespace etir {

using namespace integer;

namespace {

void max_run(const int8_t* __restrict from, int64_t count, int8_t* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] > to[i] ? from[i] : to[i];
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
    for (int64_t row = begin; row < end; ++row) {
      const int64_t y0 = row % window.out[0] * window.stride[0] - window.padding[0];
      const int64_t image = row / window.out[0];
      for (int64_t column = 0; column < window.out[1]; ++column) {
        const int64_t x0 = column * window.stride[1] - window.padding[1];
        int8_t* to = out.ptr<int8_t>() + (row * window.out[1] + column) * channels;
        std::memset(to, -128, static_cast<size_t>(channels));
        for (int64_t ty = 0; ty < window.kernel[0]; ++ty) {
          const int64_t y = y0 + ty * window.dilation[0];
          if (y < 0 || y >= window.in[0]) continue;
          for (int64_t tx = 0; tx < window.kernel[1]; ++tx) {
            const int64_t x = x0 + tx * window.dilation[1];
            if (x < 0 || x >= window.in[1]) continue;
            const int8_t* from = input.ptr<int8_t>() + ((image * window.in[0] + y) * window.in[1] + x) * channels;
            max_run(from, channels, to);
          }
        }
      }
    }
  });
}

}  // namespace etir
