// Transposed convolutions of int8 images:
//
//   y = clamp(rint(float(sum (x + 128) w + bias) * factor) + zero_point, low, high)
//
// A number of the result reads the taps that hit the image between its strides, and which do depends on the remainder
// of its place by the stride alone. So the result is as many convolutions of stride 1 as the stride has places, the
// phases, with the taps of each in reverse order: nothing is multiplied that is not in the sum. Weights are
// [groups, quads, 16, 4], in which those of the phases, row by row of the stride, follow each other, each packed as a
// convolution's is (tile.h). The bias is [phases, channels], since -(128 + input_zero_point) times the sum of a
// channel's weights in the phase is in it; outside of the image is input_zero_point.
#include "kernels/integer/patches.h"
#include "kernels/integer/requantize.h"
#include "kernels/integer/transposed.gen.h"

namespace etir {
namespace {

using namespace integer;

constexpr int64_t kMostPhases = 256;  // of a stride and of a kernel in one dim

/// Phase `phase` of one dim as a convolution of stride 1: its taps, the places of the result that it writes, and where
/// its first tap of the first one is.
struct Phase {
  int64_t taps = 0, first = 0, places = 0, from = 0, dilation = 1;

  Phase(const Window& w, int d, int64_t phase) {
    const int64_t stride = w.stride[d];
    int64_t tap = 0, last = 0;
    for (int64_t k = 0; k < w.kernel[d]; ++k) {
      if (k * w.dilation[d] % stride != phase) continue;
      if (taps == 1) dilation = (k - tap) * w.dilation[d] / stride;
      if (taps == 0) tap = k;
      last = k;
      ++taps;
    }
    // Place `phase - padding + stride * m` reads m - (k * dilation - phase) / stride.
    const int64_t m = w.padding[d] > phase ? (w.padding[d] - phase + stride - 1) / stride : 0;
    first = phase - w.padding[d] + stride * m;
    places = first < w.out[d] ? (w.out[d] - 1 - first) / stride + 1 : 0;
    from = m - (last * w.dilation[d] - phase) / stride;
  }
};

/// What a position of a phase is in the result.
struct Places {
  const Window& window;  ///< of the transposed convolution
  const Window& phase;
  int64_t first[2];
  int64_t operator()(int64_t row) const {
    const Position position(phase, row);
    const int64_t y = first[0] + position.at[0] * window.stride[0];
    return (position.image * window.out[0] + y) * window.out[1] + first[1] + position.at[1] * window.stride[1];
  }
};

}  // namespace

void int8_conv_transpose2d_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& bias,
                               const Tensor& factors, int64_t input_zero_point, const IntList& kernel,
                               const IntList& stride, const IntList& padding, const IntList& dilation,
                               const IntList& output_padding, int64_t groups, int64_t zero_point, int64_t low,
                               int64_t high, Tensor& out) {
  using arg = arguments::int8_conv_transpose2d_out;
  Output output;
  Window window;
  if (!check_constant(ctx, weight, ScalarType::Char, 4) || !check_constant(ctx, bias, ScalarType::Int, 2) ||
      !check_constant(ctx, factors, ScalarType::Float, 1) || !check_size(ctx, factors, 0, bias.sizes[1]) ||
      !read_output(ctx, zero_point, low, high, arg::zero_point, &output)) {
    return;
  }
  const int64_t columns = bias.sizes[1];
  if (input_zero_point < -128 || input_zero_point > 127) {
    return ctx.fail(Check::KernelArgument, arg::input_zero_point, input_zero_point);
  }
  if (groups < 1 || columns % groups != 0) return ctx.fail(Check::KernelArgument, arg::groups, groups);
  if (!read_lists(ctx, input, kernel, stride, padding, dilation, arg::kernel, out, &window)) return;
  if (window.channels % groups != 0) return ctx.fail(Check::KernelShape, input, window.channels);
  for (int d = 0; d < 2; ++d) {
    if (window.kernel[d] > kMostPhases) return ctx.fail(Check::KernelArgument, arg::kernel, window.kernel[d]);
    if (window.stride[d] > kMostPhases) return ctx.fail(Check::KernelArgument, arg::stride, window.stride[d]);
  }
  if (output_padding.size() != 2) return ctx.fail(Check::KernelArgument, arg::output_padding, output_padding.size());
  for (int d = 0; d < 2; ++d) {
    const int64_t more = output_padding[d];
    if (more < 0 || more > (int64_t{1} << 20)) return ctx.fail(Check::KernelArgument, arg::output_padding, more);
    const int64_t span = window.dilation[d] * (window.kernel[d] - 1) + 1 - 2 * window.padding[d] + more;
    window.out[d] = std::max<int64_t>(0, (window.in[d] - 1) * window.stride[d] + span);
  }
  const int64_t channels = window.channels / groups, group_columns = columns / groups;
  if (window.taps() * channels > (int64_t{1} << 24)) return ctx.fail(Check::KernelShape, weight, window.taps());
  const int64_t phases = window.stride[0] * window.stride[1];
  if (!check_size(ctx, bias, 0, phases) || !check_size(ctx, weight, 0, groups) || !check_size(ctx, weight, 2, kPanel) ||
      !check_size(ctx, weight, 3, kQuad)) {
    return;
  }
  // Phases side by side have as many taps as the kernel, and each of them panels of whole fours.
  int64_t quads = 0;
  for (int64_t phase = 0; phase < phases; ++phase) {
    const Phase y(window, 0, phase / window.stride[1]), x(window, 1, phase % window.stride[1]);
    quads += panels_of(group_columns) * quads_of(y.taps * x.taps * channels);
  }
  if (!check_size(ctx, weight, 1, quads) || !resize_image(ctx, input, window, columns, out)) return;
  const bool vnni = use_vnni();
  int8_t zeros[kMostPiece];
  std::memset(zeros, static_cast<int>(input_zero_point), sizeof(zeros));
  const int64_t length = channels > 0 ? piece_of(channels) : 1;
  for (int64_t group = 0; group < groups; ++group) {
    const int8_t* packed = weight.ptr<int8_t>() + group * quads * kPanelQuad;
    for (int64_t phase = 0; phase < phases; ++phase) {
      const Phase y(window, 0, phase / window.stride[1]), x(window, 1, phase % window.stride[1]);
      Window part = {window.batch,     window.channels, {window.in[0], window.in[1]}, {y.places, x.places},
                     {y.taps, x.taps}, {1, 1},          {-y.from, -x.from},           {y.dilation, x.dilation}};
      const Weights weights = {packed, group_columns, part.taps() * channels};
      packed += weights.panels() * weights.panel_bytes();
      const Places places = {window, part, {y.first, x.first}};
      const int64_t first = group * group_columns;
      const int32_t* more = bias.ptr<int32_t>() + phase * columns + first;
      const auto store = [&](const Block& block) {
        const int64_t column = first + block.column;
        for (int r = 0; r < block.rows; ++r) {
          requantize(vnni, block.row_sums(r), more + block.column, factors.ptr<float>() + column, block.columns, output,
                     out.ptr<int8_t>() + places(block.row + r) * columns + column);
        }
      };
      if (weights.depth > 0) {
        const int8_t* image = input.ptr<int8_t>() + group * channels;
        multiply(ctx, PatchRows{part, image, channels, length, channels / length, zeros}, weights, store);
        continue;
      }
      // No tap hits the image there.
      const int32_t nothing[kPanel] = {};
      for (int64_t row = 0; row < part.positions(); ++row) {
        for (int64_t c = 0; c < group_columns; c += kPanel) {
          store(Block{row, c, 1, static_cast<int>(std::min<int64_t>(kPanel, group_columns - c)), nothing, kPanel});
        }
      }
    }
  }
}

}  // namespace etir
