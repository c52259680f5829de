// dequantize_per_tensor, dequantize_per_channel, dequantize_per_token: (q - zero_point) * scale, in float, in double
// for results of that type.
#include "kernels/quantized/affine.h"
#include "kernels/quantized/dequantize.gen.h"

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
void dequantize(KernelContext& ctx, const Tensor& input, const Runs& runs, const Parameters& parameters,
                ScalarType dtype, std::optional<ScalarType> out_dtype, Tensor& out) {
  if (dtype != input.dtype) {
    return ctx.fail(Check::KernelDtypeMismatch, input, static_cast<int64_t>(input.dtype));
  }
  if (out_dtype.value_or(out.dtype) != out.dtype) {
    return ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  }
  if (!contains(kStored & kSelectedDtypes, stored_as(input.dtype))) {
    return ctx.fail(Check::KernelDtype, input, static_cast<int64_t>(input.dtype));
  }
  if (!contains(kFloats & kSelectedDtypes, out.dtype)) {
    return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  }
  if (!check_zero_points(ctx, arguments::dequantize_per_tensor_out::zero_point, parameters, runs.channels) ||
      !ctx.resize_like(out, input) || !has_data(ctx, input) || !has_data(ctx, out)) {
    return;
  }
  if (!same_order(input, out)) return ctx.fail(Check::KernelDimOrder, out);
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

void dequantize_per_tensor_out(KernelContext& ctx, const Tensor& input, double scale, int64_t zero_point,
                               int64_t /*quant_min*/, int64_t /*quant_max*/, ScalarType dtype,
                               std::optional<ScalarType> out_dtype, Tensor& out) {
  Parameters parameters;
  parameters.scale = scale;
  parameters.zero_point = zero_point;
  Runs runs;
  runs.inner = input.numel();
  dequantize(ctx, input, runs, parameters, dtype, out_dtype, out);
}

void dequantize_per_tensor_tensor_out(KernelContext& ctx, const Tensor& input, const Tensor& scale,
                                      const Tensor& zero_point, int64_t /*quant_min*/, int64_t /*quant_max*/,
                                      ScalarType dtype, std::optional<ScalarType> out_dtype, Tensor& out) {
  Parameters parameters;
  if (!read_parameters(ctx, scale, &zero_point, 1, &parameters)) return;
  Runs runs;
  runs.inner = input.numel();
  dequantize(ctx, input, runs, parameters, dtype, out_dtype, out);
}

void dequantize_per_channel_out(KernelContext& ctx, const Tensor& input, const Tensor& scales,
                                const Tensor* zero_points, int64_t axis, int64_t /*quant_min*/, int64_t /*quant_max*/,
                                ScalarType dtype, std::optional<ScalarType> out_dtype, Tensor& out) {
  const int axis_value = wrap_dim(axis, input.rank);
  if (axis_value < 0 || input.rank == 0) return ctx.fail(Check::KernelDim, axis, input.rank);
  Parameters parameters;
  if (!read_parameters(ctx, scales, zero_points, input.sizes[axis_value], &parameters)) return;
  dequantize(ctx, input, runs_along(input, axis_value), parameters, dtype, out_dtype, out);
}

void dequantize_per_token_out(KernelContext& ctx, const Tensor& input, const Tensor& scales, const Tensor& zero_points,
                              int64_t /*quant_min*/, int64_t /*quant_max*/, ScalarType dtype, ScalarType output_dtype,
                              Tensor& out) {
  const Runs runs = runs_of_rows(input);
  Parameters parameters;
  if (!plain_order(input)) return ctx.fail(Check::KernelDimOrder, input);
  if (!read_parameters(ctx, scales, &zero_points, runs.channels, &parameters)) return;
  dequantize(ctx, input, runs, parameters, dtype, output_dtype, out);
}

}  // namespace etir
