// Quantization parameters from the range of a tensor, or of each of its rows. As torch's reference: in float, the range
// widened to hold zero.
#include <limits>

#include "kernels/quantized/affine.h"
#include "kernels/quantized/choose_qparams.gen.h"

namespace etir {
namespace {

using namespace quantized;

constexpr DtypeSet kInputs = dtype_bit(ScalarType::Float) | kHalfFloats;

struct Range {
  float low = std::numeric_limits<float>::infinity();
  float high = -std::numeric_limits<float>::infinity();
};

/// Smallest and largest of a run of elements; NaN when there is one.
template <typename T>
Range range_of(const T* from, int64_t n) {
  // Several at once, so that the loop has no chain of comparisons.
  constexpr int kLanes = 8;
  Range lanes[kLanes];
  bool nan = false;
  for (int64_t i = 0; i < n; ++i) {
    const float value = convert<float>(from[i]);
    Range& lane = lanes[i % kLanes];
    lane.low = value < lane.low ? value : lane.low;
    lane.high = value > lane.high ? value : lane.high;
    nan |= value != value;
  }
  Range result;
  for (const Range& lane : lanes) {
    result.low = lane.low < result.low ? lane.low : result.low;
    result.high = lane.high > result.high ? lane.high : result.high;
  }
  if (nan) result.low = result.high = std::numeric_limits<float>::quiet_NaN();
  return result;
}

/// `value` as an integer in [low, high]; NaN gives low.
int64_t saturate(float value, int64_t low, int64_t high) {
  if (!(value > static_cast<float>(low))) return low;
  if (value >= static_cast<float>(high)) return high;
  return static_cast<int64_t>(value);
}

bool check_results(KernelContext& ctx, const Tensor& scale, const Tensor& zero_point) {
  if (scale.dtype != ScalarType::Double) {
    ctx.fail(Check::KernelDtype, scale, static_cast<int64_t>(scale.dtype));
    return false;
  }
  if (zero_point.dtype != ScalarType::Long) {
    ctx.fail(Check::KernelDtype, zero_point, static_cast<int64_t>(zero_point.dtype));
    return false;
  }
  return true;
}

}  // namespace

void choose_qparams_tensor_out(KernelContext& ctx, const Tensor& input, int64_t quant_min, int64_t quant_max,
                               double eps, ScalarType /*dtype*/, Tensor& scale_out, Tensor& zero_point_out) {
  using arg = arguments::choose_qparams_tensor_out;
  const int64_t low = quant_min, high = quant_max;
  if (!check_results(ctx, scale_out, zero_point_out)) return;
  if (low < INT32_MIN || low >= high) return ctx.fail(Check::KernelArgument, arg::quant_min, low);
  if (high > INT32_MAX) return ctx.fail(Check::KernelArgument, arg::quant_max, high);
  const int64_t one = 1;
  if (input.numel() == 0) return ctx.fail(Check::KernelShape, input, 0);
  if (!ctx.resize(scale_out, &one, 1) || !ctx.resize(zero_point_out, &one, 1) || !has_data(ctx, input) ||
      !has_data(ctx, scale_out) || !has_data(ctx, zero_point_out)) {
    return;
  }
  Range range;
  if (!dispatch<kInputs>(
          input.dtype, [&](auto tag) { range = range_of(input.ptr<typename decltype(tag)::type>(), input.numel()); })) {
    return ctx.fail(Check::KernelDtype, input, static_cast<int64_t>(input.dtype));
  }
  range.low = range.low > 0 ? 0 : range.low;
  range.high = range.high < 0 ? 0 : range.high;
  const float least = static_cast<float>(eps);
  float step = (range.high - range.low) / static_cast<float>(high - low);
  step = step < least ? least : step;
  *scale_out.ptr<double>() = static_cast<double>(step);
  const float shift = std::nearbyint(range.low / step);
  // In double the difference of two numbers of 32 bits is exact.
  const double point = static_cast<double>(low) - static_cast<double>(shift);
  *zero_point_out.ptr<int64_t>() = !(point > static_cast<double>(low))  ? low
                                   : point >= static_cast<double>(high) ? high
                                                                        : static_cast<int64_t>(point);
}

void choose_qparams_per_token_asymmetric_out(KernelContext& ctx, const Tensor& input, ScalarType /*dtype*/,
                                             Tensor& scale_out, Tensor& zero_point_out) {
  Tensor& scales = scale_out;
  Tensor& zero_points = zero_point_out;
  if (!check_results(ctx, scales, zero_points)) return;
  if (input.rank == 0) return ctx.fail(Check::KernelRank, input, 0);
  if (!plain_order(input)) return ctx.fail(Check::KernelDimOrder, input);
  const Runs runs = runs_of_rows(input);
  int64_t sizes[kMaxRank];
  for (int d = 0; d < input.rank; ++d) sizes[d] = d + 1 < input.rank ? input.sizes[d] : 1;
  if (runs.inner == 0) return ctx.fail(Check::KernelShape, input, 0);
  if (!ctx.resize(scales, sizes, input.rank) || !ctx.resize(zero_points, sizes, input.rank) || !has_data(ctx, input) ||
      !has_data(ctx, scales) || !has_data(ctx, zero_points)) {
    return;
  }
  if (!plain_order(scales)) return ctx.fail(Check::KernelDimOrder, scale_out);
  if (!plain_order(zero_points)) return ctx.fail(Check::KernelDimOrder, zero_point_out);
  const bool known = dispatch<kInputs>(input.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.parallel_for(runs.channels, 4096 / runs.inner + 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        constexpr float kLow = -128, kHigh = 127;
        Range range = range_of(input.ptr<T>() + row * runs.inner, runs.inner);
        range.low = range.low > 0 ? 0 : range.low;
        range.high = range.high < 0 ? 0 : range.high;
        float step = (range.high - range.low) / (kHigh - kLow);
        step = step < std::numeric_limits<float>::epsilon() ? std::numeric_limits<float>::epsilon() : step;
        const float low = range.low / step, high = range.high / step;
        // The end of the range whose rounding error is larger is kept exact.
        float point = (kLow + low) + (kHigh + high) > 0 ? kLow - low : kHigh - high;
        point = !(point > kLow) ? kLow : point < kHigh ? point : kHigh;
        scales.ptr<double>()[row] = static_cast<double>(step);
        zero_points.ptr<int64_t>()[row] = saturate(std::nearbyint(point), -128, 127);
      }
    });
  });
  if (!known) ctx.fail(Check::KernelDtype, input, static_cast<int64_t>(input.dtype));
}

}  // namespace etir
