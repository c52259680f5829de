// Counting numbers: bincount and histc.
#include "kernels/sorting/histogram.gen.h"
#include "kernels/util/line_blocks.h"

namespace etir {

using namespace lines;

void bincount_out(KernelContext& ctx, const Tensor& self, const Tensor* weights, int64_t minlength, Tensor& out) {
  using arg = arguments::bincount_out;
  const int64_t least = minlength;
  if (!takes(ctx, self, kInts)) return;
  if (self.rank != 1) return ctx.fail(Check::KernelRank, self, self.rank);
  if (least < 0) return ctx.fail(Check::KernelArgument, arg::minlength, least);
  if (weights != nullptr) {
    if (!takes(ctx, *weights, kRealBool)) return;
    if (weights->rank != 1 || weights->sizes[0] != self.sizes[0]) {
      return ctx.fail(Check::KernelShape, *weights, weights->numel());
    }
  }
  // Weights of float are summed in float by torch, all others in double.
  const ScalarType wanted = weights == nullptr                    ? ScalarType::Long
                            : weights->dtype == ScalarType::Float ? ScalarType::Float
                                                                  : ScalarType::Double;
  if (out.dtype != wanted) return ctx.fail(Check::KernelDtype, out, number(out.dtype));
  const int64_t n = self.sizes[0], step = static_cast<int64_t>(element_size(self.dtype));
  int64_t bins = least;
  const char* data = self.ptr<const char>();
  for (int64_t i = 0; i < n; ++i) {
    int64_t value;
    load_block(self.dtype, data + i * step, step, 1, &value);
    if (value < 0 || value == INT64_MAX) return ctx.fail(Check::KernelIndex, value, INT64_MAX);
    if (value >= bins) bins = value + 1;
  }
  if (!ctx.resize(out, &bins, 1) || !has_data(ctx, out)) return;
  if (bins > 0) std::memset(out.data, 0, out.nbytes());
  IndexGuard guard;
  for (int64_t i = 0; i < n; ++i) {
    int64_t value;
    load_block(self.dtype, data + i * step, step, 1, &value);
    if (!guard.check(value, bins)) continue;
    if (weights == nullptr) {
      ++out.ptr<int64_t>()[value];
      continue;
    }
    double weight;
    const int64_t weight_step = static_cast<int64_t>(element_size(weights->dtype));
    load_block(weights->dtype, weights->ptr<const char>() + i * weight_step, 0, 1, &weight);
    if (out.dtype == ScalarType::Float) {
      out.ptr<float>()[value] += static_cast<float>(weight);
    } else {
      out.ptr<double>()[value] += weight;
    }
  }
  guard.report(ctx);
}

void histc_out(KernelContext& ctx, const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max,
               Tensor& out) {
  using arg = arguments::histc_out;
  double low = min.to<double>(), high = max.to<double>();
  if (!takes(ctx, self, kFloats)) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  if (bins <= 0) return ctx.fail(Check::KernelArgument, arg::bins, bins);
  if (low > high) return ctx.fail(Check::KernelArgument, arg::max);
  if (!ctx.resize(out, &bins, 1) || !has_data(ctx, out)) return;
  const int64_t n = self.numel(), step = static_cast<int64_t>(element_size(self.dtype));
  const char* data = self.ptr<const char>();
  if (low == high && n > 0) {
    // The range is that of the elements.
    load_block(self.dtype, data, step, 1, &low);
    high = low;
    for (int64_t i = 1; i < n; ++i) {
      double value;
      load_block(self.dtype, data + i * step, step, 1, &value);
      if (value < low || std::isnan(value)) low = value;
      if (value > high || std::isnan(value)) high = value;
    }
  }
  if (low == high) {
    low -= 1;
    high += 1;
  }
  if (!std::isfinite(low) || !std::isfinite(high)) return ctx.fail(Check::KernelArgument, arg::min);
  std::memset(out.data, 0, out.nbytes());
  const int64_t out_step = static_cast<int64_t>(element_size(out.dtype));
  for (int64_t i = 0; i < n; ++i) {
    double value;
    load_block(self.dtype, data + i * step, step, 1, &value);
    if (!(value >= low && value <= high)) continue;
    const double place = (value - low) / (high - low) * static_cast<double>(bins);
    int64_t bin = place >= 0 && place < static_cast<double>(bins) ? static_cast<int64_t>(place) : bins - 1;
    if (bin >= bins) bin = bins - 1;
    double count;
    load_block(out.dtype, out.ptr<char>() + bin * out_step, 0, 1, &count);
    count += 1;
    store_block(out.dtype, out.ptr<char>() + bin * out_step, 0, 1, &count);
  }
}

}  // namespace etir
