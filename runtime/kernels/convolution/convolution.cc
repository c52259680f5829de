// Convolutions in one, two and three dims, plain and transposed, with groups.
//
// Depthwise ones and kernels of size one have code of their own (depthwise.h, the end of engine.h); all others are
// blocked matrix products over patches. Tensors may lie in any dense order; the result is written in the order that it
// has.
#include "kernels/convolution/depthwise.h"
#include "kernels/convolution/engine.h"

namespace etir {
namespace {

bool check_data(KernelContext& ctx, int i) {
  const Tensor& tensor = ctx.tensor(i);
  if (tensor.data == nullptr && tensor.numel() > 0) return ctx.fail(Check::KernelNoData, i), false;
  return true;
}

/// Whether the tensor at `i` is of the dtype of the input.
bool check_dtype(KernelContext& ctx, int i, ScalarType dtype) {
  if (ctx.tensor(i).dtype == dtype) return true;
  return ctx.fail(Check::KernelDtypeMismatch, i, static_cast<int64_t>(ctx.tensor(i).dtype)), false;
}

/// A convolution with the arguments of aten::convolution from 0 on and its result at `out_at`.
void convolution(KernelContext& ctx, int out_at) {
  const Tensor &input = ctx.tensor(0), &weight = ctx.tensor(1);
  const Tensor* bias = ctx.optional_tensor(2);
  Tensor& out = ctx.tensor(out_at);
  if (!contains(kReal & kSelectedDtypes, input.dtype)) {
    return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(input.dtype));
  }
  if (!check_dtype(ctx, 1, input.dtype) || !check_dtype(ctx, out_at, input.dtype)) return;
  Shape s;
  if (!read_shape(ctx, 0, 1, 3, &s)) return;
  if (bias != nullptr) {
    if (!contains(kReal & kSelectedDtypes, bias->dtype)) {
      return ctx.fail(Check::KernelDtype, 2, static_cast<int64_t>(bias->dtype));
    }
    if (bias->rank != 1) return ctx.fail(Check::KernelRank, 2, bias->rank);
    if (bias->sizes[0] != s.out_channels * s.groups) return ctx.fail(Check::KernelShape, 2, bias->sizes[0]);
  }
  int64_t sizes[kMaxRank];
  const int rank = result_sizes(s, sizes);
  if (!ctx.resize(out, sizes, rank)) return;
  for (const int i : {0, 1, out_at}) {
    if (!check_data(ctx, i)) return;
  }
  if (bias != nullptr && !check_data(ctx, 2)) return;
  if (out.numel() == 0) return;
  dispatch<kReal>(input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Strides w = strides_of(weight);
    // A transposed convolution's weight has the input channels outermost.
    const int64_t group_stride = w.outer * (s.transposed ? s.in_channels : s.out_channels);
    if (s.transposed) std::swap(w.outer, w.channel);
    const Strides in = strides_of(input), to = strides_of(out);
    if (convolve_depthwise(ctx, s, input.ptr<T>(), in, weight.ptr<T>(), w, group_stride, bias, out.ptr<T>(), to)) {
      return;
    }
    convolve(ctx, s, input.ptr<T>(), in, weight.ptr<T>(), w, group_stride, bias, out.ptr<T>(), to);
  });
}

}  // namespace

void convolution_out(KernelContext& ctx) { convolution(ctx, 9); }
/// The last four flags choose between implementations of torch's.
void internal_convolution_out(KernelContext& ctx) { convolution(ctx, 13); }

}  // namespace etir
