// Convolutions in one, two and three dims, plain and transposed, with groups, and those that add to a tensor.
//
// Depthwise ones and kernels of size one have code of their own (depthwise.h, the end of engine.h); all others are
// blocked matrix products over patches. Tensors may lie in any dense order; the result is written in the order that it
// has.
#include "kernels/convolution/convolution.gen.h"
#include "kernels/convolution/depthwise.h"
#include "kernels/convolution/engine.h"
#include "kernels/util/added.h"

namespace etir {
namespace {

bool check_dtype(KernelContext& ctx, const Tensor& tensor, ScalarType dtype) {
  if (tensor.dtype == dtype) return true;
  return ctx.fail(Check::KernelDtypeMismatch, tensor, static_cast<int64_t>(tensor.dtype)), false;
}

/// What is `added` (null: nothing) has the result's shape, and may be in its memory.
void convolution(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor* bias,
                 const Movement& given, Tensor& out, const Tensor* added = nullptr) {
  if (!contains(kReal & kSelectedDtypes, input.dtype)) {
    return ctx.fail(Check::KernelDtype, input, static_cast<int64_t>(input.dtype));
  }
  if (!check_dtype(ctx, weight, input.dtype) || !check_dtype(ctx, out, input.dtype)) return;
  Shape s;
  if (!read_shape(ctx, input, weight, given, &s)) return;
  if (bias != nullptr) {
    if (!contains(kReal & kSelectedDtypes, bias->dtype)) {
      return ctx.fail(Check::KernelDtype, *bias, static_cast<int64_t>(bias->dtype));
    }
    if (bias->rank != 1) return ctx.fail(Check::KernelRank, *bias, bias->rank);
    if (bias->sizes[0] != s.out_channels * s.groups) return ctx.fail(Check::KernelShape, *bias, bias->sizes[0]);
  }
  int64_t sizes[kMaxRank];
  const int rank = result_sizes(s, sizes);
  if (!ctx.resize(out, sizes, rank)) return;
  if (!has_data(ctx, input) || !has_data(ctx, weight) || !has_data(ctx, out)) return;
  if (bias != nullptr && !has_data(ctx, *bias)) return;
  if (added != nullptr && !check_added(ctx, *added, out)) return;
  if (out.numel() == 0) return;
  dispatch<kReal>(input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Strides w = strides_of(weight);
    // A transposed convolution's weight has the input channels outermost.
    const int64_t group_stride = w.outer * (s.transposed ? s.in_channels : s.out_channels);
    if (s.transposed) std::swap(w.outer, w.channel);
    const Strides in = strides_of(input), to = strides_of(out);
    if (added == nullptr &&
        convolve_depthwise(ctx, s, input.ptr<T>(), in, weight.ptr<T>(), w, group_stride, bias, out.ptr<T>(), to)) {
      return;
    }
    convolve(ctx, s, input.ptr<T>(), in, weight.ptr<T>(), w, group_stride, bias, out.ptr<T>(), to,
             added == nullptr ? nullptr : added->ptr<T>());
  });
}

}  // namespace

void convolution_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor* bias,
                     const IntList& stride, const IntList& padding, const IntList& dilation, bool transposed,
                     const IntList& output_padding, int64_t groups, Tensor& out) {
  convolution(ctx, input, weight, bias,
              {stride, padding, dilation, transposed, output_padding, groups, arguments::convolution_out::stride}, out);
}
void convolution_add_out(KernelContext& ctx, const Tensor& self, const Tensor& input, const Tensor& weight,
                         const Tensor* bias, const IntList& stride, const IntList& padding, const IntList& dilation,
                         int64_t groups, Tensor& out) {
  for (const Tensor* tensor : {&self, bias}) {
    if (tensor != nullptr && !check_dtype(ctx, *tensor, input.dtype)) return;
  }
  if (!contains(kFloats, input.dtype)) return ctx.fail(Check::KernelDtype, input, static_cast<int64_t>(input.dtype));
  convolution(ctx, input, weight, bias,
              {stride, padding, dilation, false, padding, groups, arguments::convolution_add_out::stride, 3}, out,
              &self);
}
/// The last four flags choose between implementations of torch's.
void internal_convolution_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor* bias,
                              const IntList& stride, const IntList& padding, const IntList& dilation, bool transposed,
                              const IntList& output_padding, int64_t groups, bool /*benchmark*/, bool /*deterministic*/,
                              bool /*cudnn_enabled*/, bool /*allow_tf32*/, Tensor& out) {
  convolution(ctx, input, weight, bias,
              {stride, padding, dilation, transposed, output_padding, groups, arguments::convolution_out::stride}, out);
}

}  // namespace etir
