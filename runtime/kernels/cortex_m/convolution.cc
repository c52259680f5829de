// Convolutions and pools of ExecuTorch's library for Cortex-M: images have their channels innermost.
#include <cmath>

#include "kernels/cortex_m/convolution.gen.h"
#include "kernels/cortex_m/outputs.h"
#include "kernels/integer/depthwise_mve.h"

namespace etir {
namespace {

using namespace cortex_m;
using integer::Position;
using integer::read_window;
using integer::Window;

constexpr int kBlock = 64;          ///< channels whose sums are kept at once
constexpr int64_t kFits = 1 << 15;  ///< products, each at most 256 * 128, whose sum has 31 bits

/// Calls `body(y, x, tap, count)` for the taps of a position that are in the image: `count` of them, side by side in
/// it, as many as there are in a row.
template <typename Body>
void for_runs(const Window& w, const Position& position, const Body& body) {
  const int64_t y0 = position.at[0] * w.stride[0] - w.padding[0], x0 = position.at[1] * w.stride[1] - w.padding[1];
  const int64_t step = w.dilation[1];
  const int64_t begin = x0 >= 0 ? 0 : (step - 1 - x0) / step;
  const int64_t end = std::min(w.kernel[1], x0 >= w.in[1] ? 0 : (w.in[1] - 1 - x0) / step + 1);
  if (begin >= end) return;
  for (int64_t ky = 0; ky < w.kernel[0]; ++ky) {
    const int64_t y = y0 + ky * w.dilation[0];
    if (y >= 0 && y < w.in[0]) body(y, x0 + begin * step, ky * w.kernel[1] + begin, end - begin);
  }
}

/// Calls `body(y, x, tap)` for the taps of a position that are in the image.
template <typename Body>
void for_taps(const Window& w, const Position& position, const Body& body) {
  const int64_t y0 = position.at[0] * w.stride[0] - w.padding[0], x0 = position.at[1] * w.stride[1] - w.padding[1];
  for (int64_t ky = 0; ky < w.kernel[0]; ++ky) {
    const int64_t y = y0 + ky * w.dilation[0];
    if (y < 0 || y >= w.in[0]) continue;
    for (int64_t kx = 0; kx < w.kernel[1]; ++kx) {
      const int64_t x = x0 + kx * w.dilation[1];
      if (x >= 0 && x < w.in[1]) body(y, x, ky * w.kernel[1] + kx);
    }
  }
}

/// The window of a convolution, whose kernel is that of a filter, and the result's shape.
bool read_convolution(KernelContext& ctx, const Tensor& input, const Tensor& weight, const IntList& stride,
                      const IntList& padding, const IntList& dilation, int position, int64_t columns, Tensor& out,
                      Window* w) {
  for (int d = 1; d <= 2; ++d) {
    if (weight.sizes[d] < 1 || weight.sizes[d] > (1 << 20)) {
      return ctx.fail(Check::KernelShape, weight, weight.sizes[d]), false;
    }
  }
  // Stride, padding and dilation stand side by side; read with the stride as a kernel first.
  if (!integer::read_lists(ctx, input, stride, stride, padding, dilation, position - 1, out, w)) return false;
  for (int d = 0; d < 2; ++d) w->kernel[d] = weight.sizes[1 + d];
  return integer::resize_windows(ctx, input, columns, out, w);
}

}  // namespace

void cortex_m_quantized_conv2d_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor* bias,
                                   const IntList& stride, const IntList& padding, const IntList& dilation,
                                   int64_t input_offset, int64_t output_offset, const Tensor& requantize_multipliers,
                                   const Tensor& requantize_shifts, int64_t activation_min, int64_t activation_max,
                                   const Tensor& scratch, Tensor& out) {
  using arg = arguments::cortex_m_quantized_conv2d_out;
  (void)scratch;
  Outputs outputs;
  Window w;
  if (!check_constant(ctx, weight, ScalarType::Char, 4) || !check_offset(ctx, input_offset, arg::input_offset) ||
      !read_limits(ctx, output_offset, arg::output_offset, activation_min, arg::activation_min, activation_max,
                   arg::activation_max, &outputs.limits)) {
    return;
  }
  const int64_t columns = weight.sizes[0], channels = weight.sizes[3];
  if (!read_outputs(ctx, bias, requantize_multipliers, requantize_shifts, columns, &outputs) ||
      !read_convolution(ctx, input, weight, stride, padding, dilation, arg::stride, columns, out, &w)) {
    return;
  }
  if (channels < 1 || w.channels % channels != 0) return ctx.fail(Check::KernelShape, weight, channels);
  const int64_t groups = w.channels / channels;
  if (groups < 1 || columns % groups != 0) return ctx.fail(Check::KernelShape, weight, columns);
  const int64_t group_columns = columns / groups, taps = w.taps();
  const int32_t offset = static_cast<int32_t>(input_offset);
  // Numbers of a row of taps lie side by side.
  const bool joined = groups == 1 && w.dilation[1] == 1, fits = taps * channels <= kFits;
  ctx.parallel_for(w.positions(), 65536 / (taps * channels * columns + 1) + 1, [&](int64_t first, int64_t last) {
    int32_t sums[kBlock];
    Position position(w, first);
    for (int64_t row = first; row < last; ++row, position.next(w)) {
      for (int64_t c = 0; c < columns; ++c) {
        const int8_t* filter = weight.ptr<int8_t>() + c * taps * channels;
        int64_t sum = 0;
        for_runs(w, position, [&](int64_t y, int64_t x, int64_t tap, int64_t count) {
          const int64_t pixel = (position.image * w.in[0] + y) * w.in[1] + x;
          const int8_t* from = input.ptr<int8_t>() + pixel * w.channels + c / group_columns * channels;
          const int8_t* weights = filter + tap * channels;
          if (joined) {
            sum += dot(from, offset, weights, count * channels);
            return;
          }
          for (; count > 0; --count, from += w.dilation[1] * w.channels, weights += channels) {
            sum += dot(from, offset, weights, channels);
          }
        });
        if (!fits) {
          out.ptr<int8_t>()[row * columns + c] = outputs(c, sum);
          continue;
        }
        sums[c % kBlock] = static_cast<int32_t>(sum);
        if (c % kBlock + 1 < kBlock && c + 1 < columns) continue;
        const int64_t first_column = c / kBlock * kBlock;
        store_sums(outputs, first_column, sums, c + 1 - first_column, out.ptr<int8_t>() + row * columns + first_column);
      }
    }
  });
}

void cortex_m_quantized_depthwise_conv2d_out(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                                             const Tensor* bias, const IntList& stride, const IntList& padding,
                                             const IntList& dilation, int64_t depth_multiplier, int64_t input_offset,
                                             int64_t output_offset, const Tensor& requantize_multipliers,
                                             const Tensor& requantize_shifts, int64_t activation_min,
                                             int64_t activation_max, const Tensor& scratch, Tensor& out) {
  using arg = arguments::cortex_m_quantized_depthwise_conv2d_out;
  (void)scratch;
  Outputs outputs;
  Window w;
  if (!check_constant(ctx, weight, ScalarType::Char, 4) || !check_size(ctx, weight, 0, 1) ||
      !check_offset(ctx, input_offset, arg::input_offset) ||
      !read_limits(ctx, output_offset, arg::output_offset, activation_min, arg::activation_min, activation_max,
                   arg::activation_max, &outputs.limits)) {
    return;
  }
  const int64_t columns = weight.sizes[3];
  if (!read_outputs(ctx, bias, requantize_multipliers, requantize_shifts, columns, &outputs) ||
      !read_convolution(ctx, input, weight, stride, padding, dilation, arg::stride, columns, out, &w)) {
    return;
  }
  if (depth_multiplier < 1 || columns % depth_multiplier != 0 || columns / depth_multiplier != w.channels) {
    return ctx.fail(Check::KernelArgument, arg::depth_multiplier, depth_multiplier);
  }
  const int32_t offset = static_cast<int32_t>(input_offset);
  ctx.parallel_for(w.positions(), 65536 / (w.taps() * columns + 1) + 1, [&](int64_t first, int64_t last) {
    Position position(w, first);
    for (int64_t row = first; row < last; ++row, position.next(w)) {
      for (int64_t begin = 0; begin < columns; begin += kBlock) {
        const int64_t count = std::min<int64_t>(kBlock, columns - begin);
#if ETIR_MVE
        if (depth_multiplier == 1 && w.taps() <= kFits) {
          constexpr int kRun = 16;
          int32_t sums[kBlock] = {};
          for_runs(w, position, [&](int64_t y, int64_t x, int64_t tap, int64_t some) {
            const int64_t pixel = (position.image * w.in[0] + y) * w.in[1] + x;
            const int8_t* from = input.ptr<int8_t>() + pixel * columns + begin;
            const int8_t* places[kRun];
            for (int64_t done = 0; done < some; done += kRun) {
              const int now = static_cast<int>(std::min<int64_t>(kRun, some - done));
              for (int t = 0; t < now; ++t, from += w.dilation[1] * columns) places[t] = from;
              integer::add_taps_mve<true>(places, static_cast<int16_t>(offset),
                                          weight.ptr<int8_t>() + (tap + done) * columns + begin, columns, now,
                                          static_cast<int>(count), sums);
            }
          });
          store_sums(outputs, begin, sums, count, out.ptr<int8_t>() + row * columns + begin);
          continue;
        }
#endif
        int64_t sums[kBlock] = {};
        for_taps(w, position, [&](int64_t y, int64_t x, int64_t tap) {
          const int64_t pixel = (position.image * w.in[0] + y) * w.in[1] + x;
          const int8_t* from = input.ptr<int8_t>() + pixel * w.channels;
          const int8_t* filter = weight.ptr<int8_t>() + tap * columns + begin;
          for (int64_t c = 0; c < count; ++c) sums[c] += (from[(begin + c) / depth_multiplier] + offset) * filter[c];
        });
        int8_t* to = out.ptr<int8_t>() + row * columns + begin;
        for (int64_t c = 0; c < count; ++c) to[c] = outputs(begin + c, sums[c]);
      }
    }
  });
}

void cortex_m_quantized_max_pool2d_out(KernelContext& ctx, const Tensor& input, const IntList& kernel_size,
                                       const IntList& stride, const IntList& padding, const IntList& dilation,
                                       bool ceil_mode, int64_t input_zero_point, int64_t output_zero_point,
                                       int64_t activation_min, int64_t activation_max, Tensor& out) {
  using arg = arguments::cortex_m_quantized_max_pool2d_out;
  Limits limits;
  Window w;
  if (ceil_mode) return ctx.fail(Check::KernelArgument, arg::ceil_mode, 1);
  if (input_zero_point != output_zero_point) {
    return ctx.fail(Check::KernelArgument, arg::output_zero_point, output_zero_point);
  }
  if (!read_limits(ctx, 0, arg::output_zero_point, activation_min, arg::activation_min, activation_max,
                   arg::activation_max, &limits) ||
      !check_image(ctx, input) ||
      !read_window(ctx, input, kernel_size, stride, padding, dilation, arg::kernel_size, input.sizes[1], out, &w)) {
    return;
  }
  ctx.parallel_for(w.positions(), 65536 / (w.taps() * w.channels + 1) + 1, [&](int64_t first, int64_t last) {
    Position position(w, first);
    for (int64_t row = first; row < last; ++row, position.next(w)) {
      int8_t* to = out.ptr<int8_t>() + row * w.channels;
      for (int64_t c = 0; c < w.channels; ++c) to[c] = -128;
      for_taps(w, position, [&](int64_t y, int64_t x, int64_t) {
        const int8_t* from = input.ptr<int8_t>() + ((position.image * w.in[0] + y) * w.in[1] + x) * w.channels;
        for (int64_t c = 0; c < w.channels; ++c) to[c] = from[c] > to[c] ? from[c] : to[c];
      });
      for (int64_t c = 0; c < w.channels; ++c) to[c] = limits(to[c]);
    }
  });
}

void cortex_m_quantized_avg_pool2d_out(KernelContext& ctx, const Tensor& input, const IntList& kernel_size,
                                       const IntList& stride, const IntList& padding, bool ceil_mode,
                                       int64_t zero_point, int64_t multiplier, int64_t shift, const Tensor& scratch,
                                       Tensor& out) {
  using arg = arguments::cortex_m_quantized_avg_pool2d_out;
  (void)scratch, (void)multiplier, (void)shift;  // of one scale on both sides, nothing is left
  Window w;
  if (ceil_mode) return ctx.fail(Check::KernelArgument, arg::ceil_mode, 1);
  if (!check_offset(ctx, zero_point, arg::zero_point) ||
      !integer::read_lists(ctx, input, kernel_size, stride, padding, stride, arg::kernel_size, out, &w)) {
    return;
  }
  w.dilation[0] = w.dilation[1] = 1;
  if (!integer::resize_windows(ctx, input, w.channels, out, &w)) return;
  const Limits limits = {static_cast<int32_t>(zero_point), -128, 127};
  ctx.parallel_for(w.positions(), 65536 / (w.taps() * w.channels + 1) + 1, [&](int64_t first, int64_t last) {
    Position position(w, first);
    for (int64_t row = first; row < last; ++row, position.next(w)) {
      for (int64_t begin = 0; begin < w.channels; begin += kBlock) {
        const int64_t channels = std::min<int64_t>(kBlock, w.channels - begin);
        int64_t sums[kBlock] = {}, count = 0;
        for_taps(w, position, [&](int64_t y, int64_t x, int64_t) {
          const int64_t pixel = (position.image * w.in[0] + y) * w.in[1] + x;
          const int8_t* from = input.ptr<int8_t>() + pixel * w.channels + begin;
          for (int64_t c = 0; c < channels; ++c) sums[c] += from[c] - zero_point;
          ++count;
        });
        int8_t* to = out.ptr<int8_t>() + row * w.channels + begin;
        for (int64_t c = 0; c < channels; ++c) {
          const float mean = count == 0 ? 0.0f : static_cast<float>(sums[c]) / static_cast<float>(count);
          to[c] = limits(static_cast<int32_t>(std::nearbyint(mean)));
        }
      }
    }
  });
}

}  // namespace etir
