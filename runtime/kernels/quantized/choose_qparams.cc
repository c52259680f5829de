// Quantization parameters from the range of a tensor, or of each of its rows. As torch's reference: in float, the range
// widened to hold zero.
#include <limits>

#include "kernels/quantized/affine.h"

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

bool check_results(KernelContext& ctx, int arg, const Tensor& scale, const Tensor& zero_point) {
  if (scale.dtype != ScalarType::Double) {
    ctx.fail(Check::KernelDtype, arg, static_cast<int64_t>(scale.dtype));
    return false;
  }
  if (zero_point.dtype != ScalarType::Long) {
    ctx.fail(Check::KernelDtype, arg + 1, static_cast<int64_t>(zero_point.dtype));
    return false;
  }
  return true;
}

}  // namespace

void choose_qparams_tensor_out(KernelContext& ctx) {
  const Tensor& input = ctx.tensor(0);
  const int64_t low = ctx.integer(1), high = ctx.integer(2);
  Tensor& scale = ctx.tensor(5);
  Tensor& zero_point = ctx.tensor(6);
  if (!check_results(ctx, 5, scale, zero_point)) return;
  if (low < INT32_MIN || low >= high) return ctx.fail(Check::KernelArgument, 1, low);
  if (high > INT32_MAX) return ctx.fail(Check::KernelArgument, 2, high);
  const int64_t one = 1;
  if (input.numel() == 0) return ctx.fail(Check::KernelShape, 0, 0);
  if (!ctx.resize(scale, &one, 1) || !ctx.resize(zero_point, &one, 1) || !check_data(ctx, 0, input) ||
      !check_data(ctx, 5, scale) || !check_data(ctx, 6, zero_point)) {
    return;
  }
  Range range;
  if (!dispatch<kInputs>(
          input.dtype, [&](auto tag) { range = range_of(input.ptr<typename decltype(tag)::type>(), input.numel()); })) {
    return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(input.dtype));
  }
  range.low = range.low > 0 ? 0 : range.low;
  range.high = range.high < 0 ? 0 : range.high;
  const float least = static_cast<float>(ctx.real(3));
  float step = (range.high - range.low) / static_cast<float>(high - low);
  step = step < least ? least : step;
  *scale.ptr<double>() = static_cast<double>(step);
  const float shift = std::nearbyint(range.low / step);
  // In double the difference of two numbers of 32 bits is exact.
  const double point = static_cast<double>(low) - static_cast<double>(shift);
  *zero_point.ptr<int64_t>() = !(point > static_cast<double>(low))  ? low
                               : point >= static_cast<double>(high) ? high
                                                                    : static_cast<int64_t>(point);
}

void choose_qparams_per_token_asymmetric_out(KernelContext& ctx) {
  const Tensor& input = ctx.tensor(0);
  Tensor& scales = ctx.tensor(2);
  Tensor& zero_points = ctx.tensor(3);
  if (!check_results(ctx, 2, scales, zero_points)) return;
  if (input.rank == 0) return ctx.fail(Check::KernelRank, 0, 0);
  if (!plain_order(input)) return ctx.fail(Check::KernelDimOrder, 0);
  const Runs runs = runs_of_rows(input);
  int64_t sizes[kMaxRank];
  for (int d = 0; d < input.rank; ++d) sizes[d] = d + 1 < input.rank ? input.sizes[d] : 1;
  if (runs.inner == 0) return ctx.fail(Check::KernelShape, 0, 0);
  if (!ctx.resize(scales, sizes, input.rank) || !ctx.resize(zero_points, sizes, input.rank) ||
      !check_data(ctx, 0, input) || !check_data(ctx, 2, scales) || !check_data(ctx, 3, zero_points)) {
    return;
  }
  if (!plain_order(scales)) return ctx.fail(Check::KernelDimOrder, 2);
  if (!plain_order(zero_points)) return ctx.fail(Check::KernelDimOrder, 3);
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
  if (!known) ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(input.dtype));
}

}  // namespace etir
