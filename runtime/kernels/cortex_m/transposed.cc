// Transposed convolutions of ExecuTorch's library for Cortex-M: images have their channels innermost.
#include "kernels/cortex_m/outputs.h"
#include "kernels/cortex_m/transposed.gen.h"

namespace etir {

using namespace cortex_m;
using integer::Position;
using integer::Window;

void cortex_m_quantized_transpose_conv2d_out(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                                             const Tensor* bias, const IntList& stride, const IntList& padding,
                                             const IntList& output_padding, const IntList& dilation,
                                             int64_t input_offset, int64_t output_offset,
                                             const Tensor& requantize_multipliers, const Tensor& requantize_shifts,
                                             int64_t activation_min, int64_t activation_max, const Tensor& scratch,
                                             const Tensor& output_scratch, Tensor& out) {
  using arg = arguments::cortex_m_quantized_transpose_conv2d_out;
  (void)scratch, (void)output_scratch;
  Outputs outputs;
  Window w;
  if (!check_constant(ctx, weight, ScalarType::Char, 4) || !check_offset(ctx, input_offset, arg::input_offset) ||
      !read_limits(ctx, output_offset, arg::output_offset, activation_min, arg::activation_min, activation_max,
                   arg::activation_max, &outputs.limits)) {
    return;
  }
  const int64_t columns = weight.sizes[0], channels = weight.sizes[3];
  if (!read_outputs(ctx, bias, requantize_multipliers, requantize_shifts, columns, &outputs)) return;
  for (int d = 0; d < 2; ++d) {
    const int64_t kernel = weight.sizes[1 + d];
    if (kernel < 1 || kernel > (1 << 20)) return ctx.fail(Check::KernelShape, weight, kernel);
    w.kernel[d] = kernel;
  }
  // The stride, the padding and the dilation are checked as those of a convolution whose kernel is the stride.
  const int64_t kernel[2] = {w.kernel[0], w.kernel[1]};
  if (!integer::read_lists(ctx, input, stride, stride, padding, stride, arg::stride - 1, out, &w)) return;
  if (dilation.size() != 2 || dilation[0] != 1 || dilation[1] != 1) {
    return ctx.fail(Check::KernelArgument, arg::dilation, dilation.size() > 0 ? dilation[0] : 0);
  }
  if (output_padding.size() != 2) return ctx.fail(Check::KernelArgument, arg::output_padding, output_padding.size());
  for (int d = 0; d < 2; ++d) {
    const int64_t more = output_padding[d];
    if (more < 0 || more >= w.stride[d]) return ctx.fail(Check::KernelArgument, arg::output_padding, more);
    w.kernel[d] = kernel[d], w.dilation[d] = 1;
    const int64_t places = (w.in[d] - 1) * w.stride[d] - 2 * w.padding[d] + kernel[d] + more;
    w.out[d] = w.in[d] < 1 || places < 0 ? 0 : places;
  }
  if (channels != w.channels) return ctx.fail(Check::KernelShape, weight, channels);
  if (!integer::resize_image(ctx, input, w, columns, out)) return;
  const int32_t offset = static_cast<int32_t>(input_offset);
  ctx.parallel_for(w.positions(), 65536 / (w.taps() * channels * columns + 1) + 1, [&](int64_t first, int64_t last) {
    Position position(w, first);
    for (int64_t row = first; row < last; ++row, position.next(w)) {
      for (int64_t c = 0; c < columns; ++c) {
        const int8_t* filter = weight.ptr<int8_t>() + c * w.taps() * channels;
        int64_t sum = 0;
        for (int64_t ky = 0; ky < kernel[0]; ++ky) {
          // The number of the input whose tap ky writes here, if there is one.
          const int64_t y = position.at[0] + w.padding[0] - ky;
          if (y < 0 || y % w.stride[0] != 0 || y / w.stride[0] >= w.in[0]) continue;
          for (int64_t kx = 0; kx < kernel[1]; ++kx) {
            const int64_t x = position.at[1] + w.padding[1] - kx;
            if (x < 0 || x % w.stride[1] != 0 || x / w.stride[1] >= w.in[1]) continue;
            const int64_t pixel = (position.image * w.in[0] + y / w.stride[0]) * w.in[1] + x / w.stride[1];
            const int8_t* from = input.ptr<int8_t>() + pixel * channels;
            sum += dot(from, offset, filter + (ky * kernel[1] + kx) * channels, channels);
          }
        }
        out.ptr<int8_t>()[row * columns + c] = outputs(c, sum);
      }
    }
  });
}

}  // namespace etir
