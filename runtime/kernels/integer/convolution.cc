// Convolutions of int8 images, as products of patches, which are never copied as a whole, and packed weights:
//
//   y = clamp(rint(float(sum (x + 128) w + bias) * factor) + zero_point, low, high)
//
// The depth of the product is taps times channels of a group, taps outermost. Weights are [groups, panels, quads, 16,
// 4] (tile.h), the bias has -(128 + input_zero_point) times the sum of a channel's weights in it; padding is
// input_zero_point.
#include "kernels/integer/convolution.gen.h"
#include "kernels/integer/patches.h"
#include "kernels/integer/requantize.h"

namespace etir {

using namespace integer;

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
    const auto store = [&](const Block& block) {
      const int64_t column = first + block.column;
      requantize(vnni, block, bias.ptr<int32_t>() + column, factors.ptr<float>() + column, output,
                 out.ptr<int8_t>() + block.row * columns + column, columns);
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
