// Convolutions of int8 images, as products of patches, which are never copied as a whole, and packed weights:
//
//   y = clamp(rint(float(sum (x + 128) w + bias) * factor) + zero_point, low, high)
//
// The depth of the product is taps times channels of a group, taps outermost. Weights are [groups, panels, quads, 16,
// 4] (tile.h), the bias has -(128 + input_zero_point) times the sum of a channel's weights in it; padding is
// input_zero_point. int8_float_conv2d gives float(sum (x + 128) w + bias) * factor. Windows of 3 x 3 with AVX2 alone
// need fewer products (winograd_avx2.h).
#include "kernels/integer/convolution.gen.h"
#include "kernels/integer/patches.h"
#include "kernels/integer/results.h"
#include "kernels/integer/winograd_avx2.h"

namespace etir {
namespace {

using namespace integer;

/// The convolution of integers, whose results are int8 numbers, or float32 without an `output`. Both operators have
/// their arguments at the same positions.
void static_convolution(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const Tensor& factors, int64_t input_zero_point, const IntList& kernel, const IntList& stride,
                        const IntList& padding, const IntList& dilation, int64_t groups, const Output* output,
                        Tensor& out) {
  using arg = arguments::int8_conv2d_out;
  Window window;
  if (!check_constant(ctx, weight, ScalarType::Char, 5) || !check_constant(ctx, bias, ScalarType::Int, 1) ||
      !check_constant(ctx, factors, ScalarType::Float, 1) || !check_size(ctx, factors, 0, bias.sizes[0])) {
    return;
  }
  const int64_t columns = bias.sizes[0];
  if (input_zero_point < -128 || input_zero_point > 127) {
    return ctx.fail(Check::KernelArgument, arg::input_zero_point, input_zero_point);
  }
  if (groups < 1 || columns % groups != 0) return ctx.fail(Check::KernelArgument, arg::groups, groups);
  const ScalarType dtype = output != nullptr ? ScalarType::Char : ScalarType::Float;
  if (!read_window(ctx, input, kernel, stride, padding, dilation, arg::kernel, columns, out, &window, dtype)) return;
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
  const Results results = {bias.ptr<int32_t>(), factors.ptr<float>(), columns, output, out};
  int8_t zeros[kMostPiece];
  std::memset(zeros, static_cast<int>(input_zero_point), sizeof(zeros));
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t first = group * group_columns;
    Weights weights = {weight.ptr<int8_t>(), group_columns, depth};
    weights.data += group * weights.panels() * weights.panel_bytes();
    const int8_t* image = input.ptr<int8_t>() + group * channels;
    const StoreResults store{results, first};
    if (groups == 1 && window.is_plain()) {
      multiply(ctx, MatrixRows{image, window.positions(), channels}, weights, store);
      continue;
    }
#if ETIR_INT8_X86
    const int8_t padded = static_cast<int8_t>(input_zero_point);
    if (groups == 1 && !use_vnni() && multiply_winograd(ctx, window, image, padded, weights, store)) continue;
#endif
    const int64_t length = channels > 0 ? piece_of(channels) : 1;
    multiply(ctx, PatchRows{window, image, channels, length, channels / length, zeros}, weights, store);
  }
}

}  // namespace

void int8_conv2d_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& bias,
                     const Tensor& factors, int64_t input_zero_point, const IntList& kernel, const IntList& stride,
                     const IntList& padding, const IntList& dilation, int64_t groups, int64_t zero_point, int64_t low,
                     int64_t high, Tensor& out) {
  Output output;
  if (!read_output(ctx, zero_point, low, high, arguments::int8_conv2d_out::zero_point, &output)) return;
  static_convolution(ctx, input, weight, bias, factors, input_zero_point, kernel, stride, padding, dilation, groups,
                     &output, out);
}

void int8_float_conv2d_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& bias,
                           const Tensor& factors, int64_t input_zero_point, const IntList& kernel,
                           const IntList& stride, const IntList& padding, const IntList& dilation, int64_t groups,
                           Tensor& out) {
  static_convolution(ctx, input, weight, bias, factors, input_zero_point, kernel, stride, padding, dilation, groups,
                     nullptr, out);
}

}  // namespace etir
