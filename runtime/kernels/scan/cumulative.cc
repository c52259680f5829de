// Running sums, products and log-sums of exponentials along a dim.
//
// Elements are converted to the result's dtype first, as torch does, and gathered in int64 or double, whatever the
// dtype: floats come out at least as exact as torch's.
#include "kernels/scan/cumulative.gen.h"
#include "kernels/util/complex_math.h"
#include "kernels/util/line_blocks.h"

namespace etir {

using namespace lines;

namespace {

/// A result that holds one number for every element: checks, and the dim, or -1 with the failure recorded.
int start(KernelContext& ctx, DtypeSet dtypes, const Tensor& self, int64_t dim_given, Tensor& out) {
  if (!takes(ctx, self, dtypes)) return -1;
  const int dim = dim_argument(ctx, dim_given, self.rank);
  if (dim < 0) return -1;
  if (!contains(dtypes, out.dtype)) return ctx.fail(Check::KernelDtype, out, number(out.dtype)), -1;
  if (is_complex(self.dtype) && !is_complex(out.dtype)) {
    return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype)), -1;
  }
  if (!ctx.resize_like(out, self) || !has_data(ctx, out)) return -1;
  return dim;
}

/// Runs `step(sum, value)` along every line, from `first`.
template <typename C, typename Step>
void scan(KernelContext& ctx, const Tensor& self, int dim, const Tensor& out, C first, const Step& step) {
  const View from(self), to(out);
  const View* const views[] = {&from, &to};
  const auto lines = loops_over_lines<2>(self, dim, views);
  const int64_t n = from.sizes[dim], from_step = from.strides[dim], to_step = to.strides[dim];
  const bool converts = out.dtype != self.dtype;
  const bool to_bool = out.dtype == ScalarType::Bool;
  const int64_t bytes = static_cast<int64_t>(element_size(out.dtype));
  for_each_line(ctx, lines, n, [&](char* const* data) {
    C block[kBlockSize];
    C sum = first;
    for (int64_t begin = 0; begin < n; begin += kBlockSize) {
      const int64_t m = n - begin < kBlockSize ? n - begin : kBlockSize;
      load_block(self.dtype, data[0] + begin * from_step, from_step, m, block);
      if (to_bool && is_floating(self.dtype)) {
        // Halves count as set, although int64 drops them.
        double reals[kBlockSize];
        load_block(self.dtype, data[0] + begin * from_step, from_step, m, reals);
        for (int64_t i = 0; i < m; ++i) block[i] = C(reals[i] != 0);
      }
      if (converts) {
        alignas(16) char converted[kBlockSize * sizeof(ComplexDouble)];
        store_block(out.dtype, converted, bytes, m, block);
        load_block(out.dtype, converted, bytes, m, block);
      }
      for (int64_t i = 0; i < m; ++i) block[i] = sum = step(sum, block[i]);
      store_block(out.dtype, data[1] + begin * to_step, to_step, m, block);
    }
  });
}

/// cumsum and cumprod, whose `dtype` argument must be the result's.
template <typename Step>
void cumulate(KernelContext& ctx, const Tensor& self, int64_t dim, std::optional<ScalarType> dtype, Tensor& out,
              int first, const Step& step) {
  if (dtype.value_or(out.dtype) != out.dtype) {
    return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  }
  const int axis = start(ctx, kRealBool | kFullComplex, self, dim, out);
  if (axis < 0) return;
  if (is_complex(out.dtype)) {
    scan<ComplexDouble>(ctx, self, axis, out, ComplexDouble(first), step);
  } else if (is_floating(out.dtype)) {
    scan<double>(ctx, self, axis, out, first, step);
  } else {
    scan<int64_t>(ctx, self, axis, out, first, step);
  }
}

}  // namespace

void cumsum_out(KernelContext& ctx, const Tensor& self, int64_t dim, std::optional<ScalarType> dtype, Tensor& out) {
  cumulate(ctx, self, dim, dtype, out, 0, [](auto sum, auto value) { return wrapping_add(sum, value); });
}

void cumprod_out(KernelContext& ctx, const Tensor& self, int64_t dim, std::optional<ScalarType> dtype, Tensor& out) {
  cumulate(ctx, self, dim, dtype, out, 1, [](auto product, auto value) { return wrapping_mul(product, value); });
}

void logcumsumexp_out(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  const int axis = start(ctx, kFloats | kFullComplex, self, dim, out);
  if (axis < 0) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  const double nothing = -std::numeric_limits<double>::infinity();
  if (is_complex(self.dtype)) {
    return scan<ComplexDouble>(ctx, self, axis, out, ComplexDouble(nothing),
                               [](ComplexDouble sum, ComplexDouble value) { return complex_logaddexp(sum, value); });
  }
  scan<double>(ctx, self, axis, out, nothing, [](double sum, double value) {
    if (std::isnan(sum) || std::isnan(value)) return std::numeric_limits<double>::quiet_NaN();
    const double low = sum < value ? sum : value, high = sum < value ? value : sum;
    // Two equal infinities: their difference would be a NaN.
    if (low == high && std::isinf(low)) return low;
    return high + std::log1p(std::exp(low - high));
  });
}

}  // namespace etir
