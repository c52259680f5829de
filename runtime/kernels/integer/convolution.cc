// Convolutions of int8 images, as products of patches, which are never copied as a whole, and packed weights:
//
//   y = clamp(rint(float(sum (x + 128) w + bias) * factor) + zero_point, low, high)
//
// The depth of the product is taps times channels of a group, taps outermost. Weights are [groups, panels, quads, 16,
// 4] (tile.h), the bias has -(128 + input_zero_point) times the sum of a channel's weights in it; padding is
// input_zero_point.
#include "kernels/integer/convolution.gen.h"
#include "kernels/integer/image.h"
#include "kernels/integer/product.h"
#include "kernels/integer/requantize.h"

namespace etir {
namespace {

using namespace integer;

/// The length of the pieces that the channels of a tap are cut into: a divisor of them.
int64_t piece_of(int64_t channels) {
  for (int64_t parts = 1; parts < channels; ++parts) {
    if (channels % parts == 0 && channels / parts <= kMostPiece) return channels / parts;
  }
  return 1;
}

/// Patches of one group: rows are positions of the output.
struct PatchRows {
  const Window& window;
  const int8_t* input;  ///< the group's first channel
  int64_t channels;     ///< of the group
  int64_t length;       ///< of a piece
  int64_t per_tap;      ///< pieces
  const int8_t* padding;

  int64_t rows() const { return window.positions(); }
  int64_t piece() const { return length; }
  int64_t pieces() const { return window.taps() * per_tap; }
  void locate(int64_t row, int some, int64_t first, int64_t last, Piece* pieces) const {
    int64_t line[kMostRows], y0[kMostRows], x0[kMostRows];
    Position position(window, row);
    for (int r = 0; r < some; ++r, position.next(window)) {
      line[r] = position.image * window.in[0];
      y0[r] = position.at[0] * window.stride[0] - window.padding[0];
      x0[r] = position.at[1] * window.stride[1] - window.padding[1];
    }
    int64_t tap = first / per_tap, channel = (first - tap * per_tap) * length;
    int64_t tap_y = tap / window.kernel[1], tap_x = tap - tap_y * window.kernel[1];
    for (int64_t index = first; index < last; ++index, ++pieces) {
      const int64_t dy = tap_y * window.dilation[0], dx = tap_x * window.dilation[1];
      for (int r = 0; r < some; ++r) {
        const int64_t y = y0[r] + dy, x = x0[r] + dx;
        const bool inside = y >= 0 && y < window.in[0] && x >= 0 && x < window.in[1];
        pieces->rows[r] = inside ? input + ((line[r] + y) * window.in[1] + x) * window.channels + channel : padding;
      }
      channel += length;
      if (channel < channels) continue;
      channel = 0;
      if (++tap_x == window.kernel[1]) tap_x = 0, ++tap_y;
    }
  }
  /// Taps of a line of the kernel lie side by side where they are not dilated and the group has all channels.
  template <typename T>
  void copy(int64_t row, int some, int64_t k, int64_t count, T* to, int to_row) const {
    const bool joined = window.dilation[1] == 1 && channels == window.channels;
    const int64_t taps = joined ? window.kernel[1] : 1, run = taps * channels;
    const int64_t index = k / run, skipped = k - index * run;
    const int64_t line = joined ? index : index / window.kernel[1];
    const int64_t tap = joined ? 0 : index - line * window.kernel[1];
    Position position(window, row);
    for (int r = 0; r < some; ++r, to += to_row, position.next(window)) {
      const int64_t x0 = position.at[1] * window.stride[1] - window.padding[1];
      int64_t y = position.at[0] * window.stride[0] - window.padding[0] + line * window.dilation[0], tap_x = tap;
      int64_t first = skipped;
      for (int64_t done = 0; done < count; first = 0) {
        const int64_t size = std::min(count - done, run - first), x = x0 + tap_x * window.dilation[1];
        copy_run(position.image, y, x, taps, first, size, to + done);
        done += size;
        if (joined || ++tap_x == window.kernel[1]) tap_x = 0, y += window.dilation[0];
      }
    }
  }
  /// Numbers [first, first + size) of a run of `taps` pixels from (y, x) on.
  template <typename T>
  void copy_run(int64_t image, int64_t y, int64_t x, int64_t taps, int64_t first, int64_t size, T* to) const {
    if (y >= 0 && y < window.in[0] && x >= 0 && x + taps <= window.in[1]) {
      const int64_t pixel = (image * window.in[0] + y) * window.in[1] + x;
      return integer::detail::copy_numbers(input + pixel * window.channels + first, size, to);
    }
    // Numbers [begin, end) of the run are in the image.
    int64_t begin = 0, end = 0;
    if (y >= 0 && y < window.in[0]) {
      begin = std::min(std::max<int64_t>(0, -x), taps) * channels;
      end = std::max(begin, std::min(window.in[1] - x, taps) * channels);
    }
    const int64_t stop = first + size;
    const int64_t from = std::min(std::max(first, begin), stop), until = std::max(from, std::min(stop, end));
    pad(to, from - first);
    if (from < until) {
      const int64_t pixel = (image * window.in[0] + y) * window.in[1] + x;
      integer::detail::copy_numbers(input + pixel * window.channels + from, until - from, to + from - first);
    }
    pad(to + until - first, stop - until);
  }
  template <typename T>
  void pad(T* to, int64_t count) const {
    const T value = static_cast<T>(sizeof(T) == 1 ? *padding : *padding + 128);
    for (int64_t i = 0; i < count; ++i) to[i] = value;
  }
};

}  // namespace

void int8_conv2d_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& bias,
                     const Tensor& factors, int64_t input_zero_point, const IntList& kernel, const IntList& stride,
                     const IntList& padding, const IntList& dilation, int64_t groups, int64_t zero_point, int64_t low,
                     int64_t high, Tensor& out) {
  using arg = arguments::int8_conv2d_out;
  Output output;
  Window window;
  if (!check_constant(ctx, weight, ScalarType::Char, 5) || !check_constant(ctx, bias, ScalarType::Int, 1) ||
      !check_constant(ctx, factors, ScalarType::Float, 1) || !check_size(ctx, factors, 0, bias.sizes[0]) ||
      !read_output(ctx, zero_point, low, high, arg::zero_point, &output)) {
    return;
  }
  const int64_t columns = bias.sizes[0];
  if (input_zero_point < -128 || input_zero_point > 127) {
    return ctx.fail(Check::KernelArgument, arg::input_zero_point, input_zero_point);
  }
  if (groups < 1 || columns % groups != 0) return ctx.fail(Check::KernelArgument, arg::groups, groups);
  if (!read_window(ctx, input, kernel, stride, padding, dilation, arg::kernel, columns, out, &window)) return;
  if (window.channels % groups != 0) return ctx.fail(Check::KernelShape, input, window.channels);
  const int64_t channels = window.channels / groups, group_columns = columns / groups;
  if (window.taps() > (int64_t{1} << 20) || window.taps() * channels > (int64_t{1} << 24)) {
    return ctx.fail(Check::KernelShape, weight, window.taps());
  }
  const int64_t depth = window.taps() * channels;
  if (!check_size(ctx, weight, 0, groups) || !check_size(ctx, weight, 1, panels_of(group_columns)) ||
      !check_size(ctx, weight, 2, quads_of(depth)) || !check_size(ctx, weight, 3, kPanel) ||
      !check_size(ctx, weight, 4, kQuad)) {
    return;
  }
  const bool vnni = use_vnni();
  int8_t zeros[kMostPiece];
  std::memset(zeros, static_cast<int>(input_zero_point), sizeof(zeros));
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t first = group * group_columns;
    Weights weights = {weight.ptr<int8_t>(), group_columns, depth};
    weights.data += group * weights.panels() * weights.panel_bytes();
    const int8_t* image = input.ptr<int8_t>() + group * channels;
    const auto store = [&](int64_t row, int64_t column, int count, const int32_t* sums) {
      requantize(vnni, sums, bias.ptr<int32_t>() + first + column, factors.ptr<float>() + first + column, count, output,
                 out.ptr<int8_t>() + row * columns + first + column);
    };
    if (groups == 1 && window.is_plain()) {
      multiply(ctx, MatrixRows{image, window.positions(), channels}, weights, store);
      continue;
    }
    const int64_t length = channels > 0 ? piece_of(channels) : 1;
    multiply(ctx, PatchRows{window, image, channels, length, channels / length, zeros}, weights, store);
  }
}

}  // namespace etir
