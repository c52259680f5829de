// What convolutions and pools on int8 images share: arguments and positions. Images are [batch, channels, height,
// width] with the channels innermost.
#pragma once

#include "kernels/integer/requantize.h"

namespace etir::integer {

/// Arguments of a convolution in two dims, checked.
struct Window {
  int64_t batch, channels, in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
  int64_t taps() const { return kernel[0] * kernel[1]; }
  int64_t positions() const { return batch * out[0] * out[1]; }
  /// Whether a position of the output reads the position of the input with the same number alone.
  bool is_plain() const {
    return taps() == 1 && stride[0] == 1 && stride[1] == 1 && padding[0] == 0 && padding[1] == 0;
  }
};

/// Whether the channels of an image are innermost, then its width; records the failure. Dims of size 1 do not count.
inline bool check_image(KernelContext& ctx, const Tensor& image) {
  if (image.rank != 4) return ctx.fail(Check::KernelRank, image, image.rank), false;
  if (image.numel() == 0) return true;
  int64_t strides[kMaxRank], expected = 1;
  image.strides(strides);
  for (const int d : {1, 3, 2, 0}) {
    if (image.sizes[d] > 1 && strides[d] != expected) return ctx.fail(Check::KernelDimOrder, image), false;
    expected *= image.sizes[d] > 0 ? image.sizes[d] : 1;
  }
  return true;
}

/// Reads kernel, stride, padding and dilation, arguments side by side from `position` on, checks them and that the
/// input is an image of int8 and the result of `dtype`.
inline bool read_lists(KernelContext& ctx, const Tensor& input, const IntList& kernel, const IntList& stride,
                       const IntList& padding, const IntList& dilation, int position, const Tensor& out, Window* w,
                       ScalarType dtype = ScalarType::Char) {
  if (!check_dtype(ctx, input, ScalarType::Char) || !check_dtype(ctx, out, dtype) || !check_image(ctx, input)) {
    return false;
  }
  w->batch = input.sizes[0], w->channels = input.sizes[1];
  const IntList* const lists[] = {&kernel, &stride, &padding, &dilation};
  int64_t* const values[] = {w->kernel, w->stride, w->padding, w->dilation};
  // What is larger than this reads padding alone, and could overflow.
  constexpr int64_t kMost = 1 << 20;
  for (int i = 0; i < 4; ++i) {
    const int64_t least = i == 2 ? 0 : 1;
    if (lists[i]->size() != 2) return ctx.fail(Check::KernelArgument, position + i, lists[i]->size()), false;
    for (int d = 0; d < 2; ++d) {
      const int64_t value = (*lists[i])[d];
      if (value < least || value > kMost) return ctx.fail(Check::KernelArgument, position + i, value), false;
      values[i][d] = value;
    }
  }
  for (int d = 0; d < 2; ++d) w->in[d] = input.sizes[2 + d];
  return true;
}

/// Gives the result of `channels` channels its shape, w.out, and checks that all of it is there.
inline bool resize_image(KernelContext& ctx, const Tensor& input, const Window& w, int64_t channels, Tensor& out) {
  const int64_t sizes[4] = {w.batch, channels, w.out[0], w.out[1]};
  return ctx.resize(out, sizes, 4) && check_image(ctx, out) && has_data(ctx, input) && has_data(ctx, out);
}

/// Gives the result of `channels` channels its shape: that of the windows that fit into the image.
inline bool resize_windows(KernelContext& ctx, const Tensor& input, int64_t channels, Tensor& out, Window* w) {
  for (int d = 0; d < 2; ++d) {
    const int64_t span = w->in[d] + 2 * w->padding[d] - w->dilation[d] * (w->kernel[d] - 1) - 1;
    w->out[d] = span < 0 ? 0 : span / w->stride[d] + 1;
  }
  return resize_image(ctx, input, *w, channels, out);
}

/// Reads the arguments of a convolution or a pool, and gives the result of `out_channels` channels its shape.
inline bool read_window(KernelContext& ctx, const Tensor& input, const IntList& kernel, const IntList& stride,
                        const IntList& padding, const IntList& dilation, int position, int64_t out_channels,
                        Tensor& out, Window* w, ScalarType dtype = ScalarType::Char) {
  if (!read_lists(ctx, input, kernel, stride, padding, dilation, position, out, w, dtype)) return false;
  return resize_windows(ctx, input, out_channels, out, w);
}

/// Where position number `row` of the output is.
struct Position {
  int64_t image, at[2];
  Position(const Window& w, int64_t row)
      : image(row / (w.out[0] * w.out[1])), at{row / w.out[1] % w.out[0], row % w.out[1]} {}
  void next(const Window& w) {
    if (++at[1] < w.out[1]) return;
    at[1] = 0;
    if (++at[0] < w.out[0]) return;
    at[0] = 0, ++image;
  }
};

}  // namespace etir::integer
