// Gradients of resizing: every element of the image collects, with their weights, the results that it was used for.
//
// Which results those are is found by bisection, because positions grow with the number of the result; so nothing is
// scattered, 16-bit gradients are summed in float, and elements are independent of each other.
#include "kernels/spatial/upsample.h"
#include "kernels/spatial/upsample_backward.gen.h"

namespace etir {
namespace {

using namespace spatial;

/// The first result of the axis whose last (or first, for kFirst) neighbor is not before `i`.
template <bool kFirst, typename A>
int64_t lower_bound(const Axis<A>& axis, int64_t i) {
  int64_t low = 0, high = axis.out;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    int64_t index[kMaxTaps];
    A weight[kMaxTaps];
    const int taps = axis.taps(middle, index, weight);
    if (index[kFirst ? 0 : taps - 1] < i) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <typename A>
A weight_in(const Axis<A>& axis, int64_t o, int64_t i) {
  int64_t index[kMaxTaps];
  A weight[kMaxTaps], sum(0);
  const int taps = axis.taps(o, index, weight);
  for (int t = 0; t < taps; ++t) sum += index[t] == i ? weight[t] : A(0);
  return sum;
}

template <typename T, typename A>
void run(KernelContext& ctx, const Axis<A>* axes, const Frame& grad, const Frame& out, const T* from, T* to) {
  ctx.parallel_for(out.numel(), 256, [&](int64_t begin, int64_t end) {
    for (int64_t element = begin; element < end; ++element) {
      int64_t at[5], first[3], last[3];
      unravel(element, out.size, 5, at);
      int64_t target = 0;
      for (int d = 0; d < 5; ++d) target += at[d] * out.stride[d];
      for (int d = 0; d < 3; ++d) {
        first[d] = lower_bound<false>(axes[d], at[kD + d]);
        last[d] = lower_bound<true>(axes[d], at[kD + d] + 1);
      }
      A sum(0);
      for (int64_t d = first[0]; d < last[0]; ++d) {
        const A depth = weight_in(axes[0], d, at[kD]);
        for (int64_t h = first[1]; h < last[1]; ++h) {
          const A height = depth * weight_in(axes[1], h, at[kH]);
          const T* row = from + grad.plane(at[kN], at[kC]) + d * grad.stride[kD] + h * grad.stride[kH];
          for (int64_t w = first[2]; w < last[2]; ++w) {
            sum += height * weight_in(axes[2], w, at[kW]) * convert<A>(row[w * grad.stride[kW]]);
          }
        }
      }
      to[target] = convert<T>(sum);
    }
  });
}

void upsample_backward(KernelContext& ctx, const Tensor& grad, const AskedSizes& asked, const IntList& shape,
                       bool align_corners, Tensor& out, Filter filter) {
  using arg = arguments::upsample_nearest2d_backward_grad_input;
  const int spatial = asked.spatial;
  if (!check_frame(ctx, grad, spatial, true) || !check_dtype(ctx, out, grad.dtype)) return;
  if (shape.size() != grad.rank)
    return ctx.fail(Check::KernelArgument, arg::input_size, static_cast<int64_t>(shape.size()));
  int64_t in_sizes[5];
  for (int d = 0; d < grad.rank; ++d) {
    in_sizes[d] = shape[d];
    if (in_sizes[d] < (d < 2 ? 0 : 1) || in_sizes[d] > INT32_MAX || (d < 2 && in_sizes[d] != grad.sizes[d])) {
      return ctx.fail(Check::KernelShape, arg::input_size, in_sizes[d]);
    }
  }
  UpsampleSizes sizes;
  if (!read_upsample(ctx, asked, in_sizes + 2, &sizes)) return;
  for (int d = 0; d < spatial; ++d) {
    if (sizes.sizes[d] != grad.sizes[2 + d]) return ctx.fail(Check::KernelShape, grad, grad.sizes[2 + d]);
  }
  if (!resize_spatial(ctx, out, grad, spatial, in_sizes + 2) || !has_data(ctx, out)) return;
  const bool known = dispatch<kFloats>(grad.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = accumulate_t<T>;
    if (out.numel() == 0) return;
    Axis<A> axes[3];
    make_axes(spatial, filter, sizes, in_sizes + 2, align_corners, axes);
    run(ctx, axes, frame_of(grad, spatial), frame_of(out, spatial), grad.ptr<T>(), out.ptr<T>());
  });
  if (!known) ctx.fail(Check::KernelDtype, grad, static_cast<int64_t>(grad.dtype));
}

}  // namespace

void upsample_nearest1d_backward_grad_input(KernelContext& ctx, const Tensor& grad_output, const IntList& output_size,
                                            const IntList& input_size, std::optional<double> scales,
                                            Tensor& grad_input) {
  upsample_backward(ctx, grad_output, {output_size, scales}, input_size, false, grad_input, Filter::Nearest);
}
void upsample_nearest2d_backward_grad_input(KernelContext& ctx, const Tensor& grad_output, const IntList& output_size,
                                            const IntList& input_size, std::optional<double> scales_h,
                                            std::optional<double> scales_w, Tensor& grad_input) {
  upsample_backward(ctx, grad_output, {output_size, scales_h, scales_w}, input_size, false, grad_input,
                    Filter::Nearest);
}
void upsample_nearest3d_backward_grad_input(KernelContext& ctx, const Tensor& grad_output, const IntList& output_size,
                                            const IntList& input_size, std::optional<double> scales_d,
                                            std::optional<double> scales_h, std::optional<double> scales_w,
                                            Tensor& grad_input) {
  upsample_backward(ctx, grad_output, {output_size, scales_d, scales_h, scales_w}, input_size, false, grad_input,
                    Filter::Nearest);
}
void upsample_nearest_exact1d_backward_grad_input(KernelContext& ctx, const Tensor& grad_output,
                                                  const IntList& output_size, const IntList& input_size,
                                                  std::optional<double> scales, Tensor& grad_input) {
  upsample_backward(ctx, grad_output, {output_size, scales}, input_size, false, grad_input, Filter::NearestExact);
}
void upsample_nearest_exact2d_backward_grad_input(KernelContext& ctx, const Tensor& grad_output,
                                                  const IntList& output_size, const IntList& input_size,
                                                  std::optional<double> scales_h, std::optional<double> scales_w,
                                                  Tensor& grad_input) {
  upsample_backward(ctx, grad_output, {output_size, scales_h, scales_w}, input_size, false, grad_input,
                    Filter::NearestExact);
}
void upsample_nearest_exact3d_backward_grad_input(KernelContext& ctx, const Tensor& grad_output,
                                                  const IntList& output_size, const IntList& input_size,
                                                  std::optional<double> scales_d, std::optional<double> scales_h,
                                                  std::optional<double> scales_w, Tensor& grad_input) {
  upsample_backward(ctx, grad_output, {output_size, scales_d, scales_h, scales_w}, input_size, false, grad_input,
                    Filter::NearestExact);
}
void upsample_linear1d_backward_grad_input(KernelContext& ctx, const Tensor& grad_output, const IntList& output_size,
                                           const IntList& input_size, bool align_corners, std::optional<double> scales,
                                           Tensor& grad_input) {
  upsample_backward(ctx, grad_output, {output_size, scales}, input_size, align_corners, grad_input, Filter::Linear);
}
void upsample_bilinear2d_backward_grad_input(KernelContext& ctx, const Tensor& grad_output, const IntList& output_size,
                                             const IntList& input_size, bool align_corners,
                                             std::optional<double> scales_h, std::optional<double> scales_w,
                                             Tensor& grad_input) {
  upsample_backward(ctx, grad_output, {output_size, scales_h, scales_w}, input_size, align_corners, grad_input,
                    Filter::Linear);
}
void upsample_trilinear3d_backward_grad_input(KernelContext& ctx, const Tensor& grad_output, const IntList& output_size,
                                              const IntList& input_size, bool align_corners,
                                              std::optional<double> scales_d, std::optional<double> scales_h,
                                              std::optional<double> scales_w, Tensor& grad_input) {
  upsample_backward(ctx, grad_output, {output_size, scales_d, scales_h, scales_w}, input_size, align_corners,
                    grad_input, Filter::Linear);
}
void upsample_bicubic2d_backward_grad_input(KernelContext& ctx, const Tensor& grad_output, const IntList& output_size,
                                            const IntList& input_size, bool align_corners,
                                            std::optional<double> scales_h, std::optional<double> scales_w,
                                            Tensor& grad_input) {
  upsample_backward(ctx, grad_output, {output_size, scales_h, scales_w}, input_size, align_corners, grad_input,
                    Filter::Cubic);
}

}  // namespace etir
