// quantize_per_tensor, quantize_per_channel, quantize_per_token.
//
// q = clamp(round(x / scale) + zero_point), rounding half to even. As in torch's reference the quotient is a product
// with the rounded reciprocal; per token the zero point is added before rounding. A NaN becomes quant_min.
#include "kernels/quantized/affine.h"
#include "kernels/quantized/quantize.gen.h"
#include "kernels/util/wide.h"

namespace etir {
namespace {

using namespace quantized;

constexpr DtypeSet kQuantizable = kFloats;
constexpr DtypeSet kOutputs = kStored;

/// Rounds to the nearest even integer floats of magnitude below 2^22.
inline float round_small(float value) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: sums have no bits left for a fraction
  return (value + kMagic) - kMagic;
}

struct Quantizer {
  double inverse;
  int64_t zero_point;
  int64_t low, high;
  bool zero_point_first;

  /// Bounds and offsets so small that float holds everything exactly.
  bool is_small() const {
    constexpr int64_t kLimit = 1 << 21;
    return low > -kLimit && high < kLimit && zero_point > -kLimit && zero_point < kLimit;
  }
  void small(const float* __restrict from, int32_t* __restrict to, int64_t n) const {
    const float by = static_cast<float>(inverse);
    const float before = zero_point_first ? static_cast<float>(zero_point) : 0.0f;
    const int32_t after = zero_point_first ? 0 : static_cast<int32_t>(zero_point);
    const float least = static_cast<float>(low - after), most = static_cast<float>(high - after);
    for (int64_t i = 0; i < n; ++i) {
      float value = from[i] * by + before;
      value = value > least ? value : least;
      value = value < most ? value : most;
      to[i] = static_cast<int32_t>(round_small(value)) + after;
    }
  }
#if ETIR_WIDE
  /// The same from memory to int8 numbers. max gives its second operand where one is NaN.
  ETIR_AVX512 void to_bytes(const float* from, int8_t* to, int64_t n) const {
    constexpr int64_t kLanes = 16;
    constexpr __mmask16 kAll = 0xffff;
    const __m512 by = _mm512_set1_ps(static_cast<float>(inverse));
    const __m512 least = _mm512_set1_ps(static_cast<float>(low - zero_point));
    const __m512 most = _mm512_set1_ps(static_cast<float>(high - zero_point));
    const __m512i after = _mm512_set1_epi32(static_cast<int32_t>(zero_point));
    for (int64_t i = 0; i < n; i += kLanes) {
      const __mmask16 some = n - i >= kLanes ? kAll : static_cast<__mmask16>((1u << (n - i)) - 1u);
      const __m512 value = _mm512_maskz_mul_ps(kAll, _mm512_maskz_loadu_ps(some, from + i), by);
      const __m512 limited = _mm512_maskz_min_ps(kAll, _mm512_maskz_max_ps(kAll, value, least), most);
      const __m512i whole =
          _mm512_maskz_cvt_roundps_epi32(kAll, limited, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      _mm512_mask_cvtepi32_storeu_epi8(to + i, some, _mm512_add_epi32(whole, after));
    }
  }
#endif
  void wide(const float* from, int32_t* to, int64_t n) const {
    const double offset = static_cast<double>(zero_point);
    const double least = static_cast<double>(low), most = static_cast<double>(high);
    for (int64_t i = 0; i < n; ++i) {
      const double product = static_cast<double>(from[i] * static_cast<float>(inverse));
      double value = zero_point_first ? std::nearbyint(product + offset) : std::nearbyint(product) + offset;
      value = value > least ? value : least;
      value = value < most ? value : most;
      to[i] = static_cast<int32_t>(value);
    }
  }
};

void load(const Tensor& tensor, int64_t at, int64_t n, float* to) {
  dispatch<kQuantizable>(tensor.dtype, [&](auto tag) {
    const auto* from = tensor.ptr<typename decltype(tag)::type>() + at;
    for (int64_t i = 0; i < n; ++i) to[i] = convert<float>(from[i]);
  });
}
void store(const int32_t* from, int64_t n, Tensor& tensor, int64_t at) {
  dispatch<kOutputs>(stored_as(tensor.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = tensor.ptr<T>() + at;
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(from[i]);
  });
}

/// Everything after the parameters are known. `range_position` is where quant_min is among the arguments.
void quantize(KernelContext& ctx, const Runs& runs, const Tensor& input, const Parameters& parameters,
              int64_t quant_min, int64_t quant_max, int range_position, ScalarType dtype, Tensor& out,
              bool zero_point_first) {
  if (dtype != out.dtype) {
    return ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  }
  if (!contains(kQuantizable & kSelectedDtypes, input.dtype)) {
    return ctx.fail(Check::KernelDtype, input, static_cast<int64_t>(input.dtype));
  }
  if (!contains(kOutputs & kSelectedDtypes, stored_as(out.dtype))) {
    return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  }
  Quantizer shared;
  shared.zero_point_first = zero_point_first;
  shared.low = quant_min;
  shared.high = quant_max;
  if (!check_range(ctx, quant_min, quant_max, range_position, out.dtype) ||
      !check_zero_points(ctx, arguments::quantize_per_tensor_out::zero_point, parameters, runs.channels) ||
      !ctx.resize_like(out, input) || !has_data(ctx, input) || !has_data(ctx, out)) {
    return;
  }
  if (!same_order(input, out)) return ctx.fail(Check::KernelDimOrder, out);
  if (input.numel() == 0) return;
#if ETIR_WIDE
  const bool to_bytes =
      input.dtype == ScalarType::Float && out.dtype == ScalarType::Char && !zero_point_first && has_avx512();
#endif
  // Long runs are cut so that threads share even a single one.
  constexpr int64_t kPiece = 4096;
  const int64_t pieces = (runs.inner + kPiece - 1) / kPiece;
  ctx.parallel_for(
      runs.rows() * pieces, runs.inner < kPiece ? kPiece / runs.inner : 1, [&](int64_t begin, int64_t end) {
        for (int64_t piece = begin; piece < end; ++piece) {
          const int64_t row = piece / pieces, channel = row % runs.channels, start = piece % pieces * kPiece;
          Quantizer quantizer = shared;
          quantizer.inverse = 1.0 / parameters.scale_at(channel);
          quantizer.zero_point = parameters.zero_point_at(channel);
          const bool small = quantizer.is_small();
          const int64_t last = min64(runs.inner, start + kPiece);
#if ETIR_WIDE
          if (to_bytes && small) {
            const int64_t at = row * runs.inner + start;
            quantizer.to_bytes(input.ptr<float>() + at, out.ptr<int8_t>() + at, last - start);
            continue;
          }
#endif
          for (int64_t i = start; i < last; i += kBlock) {
            float values[kBlock];
            int32_t results[kBlock];
            const int64_t count = min64(kBlock, last - i), at = row * runs.inner + i;
            load(input, at, count, values);
            if (small) {
              quantizer.small(values, results, count);
            } else {
              quantizer.wide(values, results, count);
            }
            store(results, count, out, at);
          }
        }
      });
}

}  // namespace

void quantize_per_tensor_out(KernelContext& ctx, const Tensor& input, double scale, int64_t zero_point,
                             int64_t quant_min, int64_t quant_max, ScalarType dtype, Tensor& out) {
  Parameters parameters;
  parameters.scale = scale;
  parameters.zero_point = zero_point;
  Runs runs;
  runs.inner = input.numel();
  quantize(ctx, runs, input, parameters, quant_min, quant_max, arguments::quantize_per_tensor_out::quant_min, dtype,
           out, false);
}

void quantize_per_tensor_tensor_out(KernelContext& ctx, const Tensor& input, const Tensor& scale,
                                    const Tensor& zero_point, int64_t quant_min, int64_t quant_max, ScalarType dtype,
                                    Tensor& out) {
  Parameters parameters;
  if (!read_parameters(ctx, scale, &zero_point, 1, &parameters)) return;
  Runs runs;
  runs.inner = input.numel();
  quantize(ctx, runs, input, parameters, quant_min, quant_max, arguments::quantize_per_tensor_tensor_out::quant_min,
           dtype, out, false);
}

void quantize_per_channel_out(KernelContext& ctx, const Tensor& input, const Tensor& scales, const Tensor& zero_points,
                              int64_t axis, int64_t quant_min, int64_t quant_max, ScalarType dtype, Tensor& out) {
  const int axis_value = wrap_dim(axis, input.rank);
  if (axis_value < 0 || input.rank == 0) return ctx.fail(Check::KernelDim, axis, input.rank);
  Parameters parameters;
  if (!read_parameters(ctx, scales, &zero_points, input.sizes[axis_value], &parameters)) return;
  quantize(ctx, runs_along(input, axis_value), input, parameters, quant_min, quant_max,
           arguments::quantize_per_channel_out::quant_min, dtype, out, false);
}

void quantize_per_token_out(KernelContext& ctx, const Tensor& input, const Tensor& scales, const Tensor& zero_points,
                            int64_t quant_min, int64_t quant_max, ScalarType dtype, Tensor& out) {
  const Runs runs = runs_of_rows(input);
  Parameters parameters;
  if (!plain_order(input)) return ctx.fail(Check::KernelDimOrder, input);
  if (!read_parameters(ctx, scales, &zero_points, runs.channels, &parameters)) return;
  quantize(ctx, runs, input, parameters, quant_min, quant_max, arguments::quantize_per_token_out::quant_min, dtype, out,
           true);
}

}  // namespace etir
