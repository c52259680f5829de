// dequantize_per_tensor, dequantize_per_channel, dequantize_per_token: (q - zero_point) * scale, in float, in double
// for results of that type.
#include "kernels/quantized/affine.h"

namespace etir {
namespace {

using namespace quantized;

template <typename A>
void load(const Tensor& tensor, int64_t at, int64_t n, A offset, A scale, A* to) {
  dispatch<kStored>(stored_as(tensor.dtype), [&](auto tag) {
    const auto* from = tensor.ptr<typename decltype(tag)::type>() + at;
    for (int64_t i = 0; i < n; ++i) to[i] = (static_cast<A>(from[i]) - offset) * scale;
  });
}

template <typename A>
void run(const Tensor& input, Tensor& out, int64_t at, int64_t n, double scale, int64_t zero_point) {
  A values[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = min64(kBlock, n - i);
    load(input, at + i, count, static_cast<A>(zero_point), static_cast<A>(scale), values);
    dispatch<kFloats>(out.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* to = out.ptr<T>() + at + i;
      for (int64_t k = 0; k < count; ++k) to[k] = convert<T>(values[k]);
    });
  }
}

/// Everything after the parameters are known. Arguments: quant_min (not used), quant_max (not used), dtype of the
/// input, dtype of the result.
void dequantize(KernelContext& ctx, const Runs& runs, const Parameters& parameters, int zero_point_arg, int dtype_arg) {
  const Tensor& input = ctx.tensor(0);
  const int out_arg = dtype_arg + 2;
  Tensor& out = ctx.tensor(out_arg);
  if (ctx.integer(dtype_arg) != static_cast<int64_t>(input.dtype)) {
    return ctx.fail(Check::KernelDtypeMismatch, 0, static_cast<int64_t>(input.dtype));
  }
  if (ctx.dtype_or(dtype_arg + 1, out.dtype) != out.dtype) {
    return ctx.fail(Check::KernelDtypeMismatch, out_arg, static_cast<int64_t>(out.dtype));
  }
  if (!contains(kStored & kSelectedDtypes, stored_as(input.dtype))) {
    return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(input.dtype));
  }
  if (!contains(kFloats & kSelectedDtypes, out.dtype)) {
    return ctx.fail(Check::KernelDtype, out_arg, static_cast<int64_t>(out.dtype));
  }
  if (!check_zero_points(ctx, zero_point_arg, parameters, runs.channels) || !ctx.resize_like(out, input) ||
      !check_data(ctx, 0, input) || !check_data(ctx, out_arg, out)) {
    return;
  }
  if (!same_order(input, out)) return ctx.fail(Check::KernelDimOrder, out_arg);
  if (input.numel() == 0) return;
  constexpr int64_t kPiece = 4096;
  const int64_t pieces = (runs.inner + kPiece - 1) / kPiece;
  ctx.parallel_for(
      runs.rows() * pieces, runs.inner < kPiece ? kPiece / runs.inner : 1, [&](int64_t begin, int64_t end) {
        for (int64_t piece = begin; piece < end; ++piece) {
          const int64_t row = piece / pieces, channel = row % runs.channels, start = piece % pieces * kPiece;
          const int64_t count = min64(kPiece, runs.inner - start);
          const auto body = out.dtype == ScalarType::Double ? run<double> : run<float>;
          body(input, out, row * runs.inner + start, count, parameters.scale_at(channel),
               parameters.zero_point_at(channel));
        }
      });
}

}  // namespace

void dequantize_per_tensor_out(KernelContext& ctx) {
  Parameters parameters;
  parameters.scale = ctx.real(1);
  parameters.zero_point = ctx.integer(2);
  Runs runs;
  runs.inner = ctx.tensor(0).numel();
  dequantize(ctx, runs, parameters, 2, 5);
}

void dequantize_per_tensor_tensor_out(KernelContext& ctx) {
  Parameters parameters;
  if (!read_parameters(ctx, 1, 1, &parameters)) return;
  Runs runs;
  runs.inner = ctx.tensor(0).numel();
  dequantize(ctx, runs, parameters, 2, 5);
}

void dequantize_per_channel_out(KernelContext& ctx) {
  const Tensor& input = ctx.tensor(0);
  const int axis = wrap_dim(ctx.integer(3), input.rank);
  if (axis < 0 || input.rank == 0) return ctx.fail(Check::KernelDim, ctx.integer(3), input.rank);
  Parameters parameters;
  if (!read_parameters(ctx, 1, input.sizes[axis], &parameters)) return;
  dequantize(ctx, runs_along(input, axis), parameters, 2, 6);
}

void dequantize_per_token_out(KernelContext& ctx) {
  const Tensor& input = ctx.tensor(0);
  const Runs runs = runs_of_rows(input);
  Parameters parameters;
  if (!plain_order(input)) return ctx.fail(Check::KernelDimOrder, 0);
  if (!read_parameters(ctx, 1, runs.channels, &parameters)) return;
  dequantize(ctx, runs, parameters, 2, 5);
}

}  // namespace etir
