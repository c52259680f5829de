// Running sums, products and log-sums of exponentials along a dim.
//
// Elements are converted to the result's dtype first, as torch does, and gathered in int64 or double, whatever the
// dtype: floats come out at least as exact as torch's.
#include "kernels/util/complex_math.h"
#include "kernels/util/line_blocks.h"

namespace etir {

using namespace lines;

namespace {

/// A result that holds one number for every element: checks, and the dim, or -1 with the failure recorded.
int start(KernelContext& ctx, DtypeSet dtypes, int64_t dim_given, int out_argument) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(out_argument);
  if (!takes(ctx, 0, self, dtypes)) return -1;
  const int dim = dim_argument(ctx, dim_given, self.rank);
  if (dim < 0) return -1;
  if (!contains(dtypes, out.dtype)) return ctx.fail(Check::KernelDtype, out_argument, number(out.dtype)), -1;
  if (is_complex(self.dtype) && !is_complex(out.dtype)) {
    return ctx.fail(Check::KernelDtypeMismatch, out_argument, number(out.dtype)), -1;
  }
  if (!ctx.resize_like(out, self) || !has_data(ctx, out_argument, out)) return -1;
  return dim;
}

/// Runs `step(sum, value)` along every line, from `first`.
template <typename C, typename Step>
void scan(KernelContext& ctx, int dim, int out_argument, C first, const Step& step) {
  const Tensor& self = ctx.tensor(0);
  const Tensor& out = ctx.tensor(out_argument);
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
void cumulate(KernelContext& ctx, int first, const Step& step) {
  const Tensor& out = ctx.tensor(3);
  if (ctx.dtype_or(2, out.dtype) != out.dtype) {
    return ctx.fail(Check::KernelDtypeMismatch, 3, number(out.dtype));
  }
  const int dim = start(ctx, kRealBool | kFullComplex, ctx.integer(1), 3);
  if (dim < 0) return;
  if (is_complex(out.dtype)) {
    scan<ComplexDouble>(ctx, dim, 3, ComplexDouble(first), step);
  } else if (is_floating(out.dtype)) {
    scan<double>(ctx, dim, 3, first, step);
  } else {
    scan<int64_t>(ctx, dim, 3, first, step);
  }
}

}  // namespace

void cumsum_out(KernelContext& ctx) {
  cumulate(ctx, 0, [](auto sum, auto value) { return wrapping_add(sum, value); });
}

void cumprod_out(KernelContext& ctx) {
  cumulate(ctx, 1, [](auto product, auto value) { return wrapping_mul(product, value); });
}

void logcumsumexp_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  const Tensor& out = ctx.tensor(2);
  const int dim = start(ctx, kFloats | kFullComplex, ctx.integer(1), 2);
  if (dim < 0) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, 2, number(out.dtype));
  const double nothing = -std::numeric_limits<double>::infinity();
  if (is_complex(self.dtype)) {
    return scan<ComplexDouble>(ctx, dim, 2, ComplexDouble(nothing),
                               [](ComplexDouble sum, ComplexDouble value) { return complex_logaddexp(sum, value); });
  }
  scan<double>(ctx, dim, 2, nothing, [](double sum, double value) {
    if (std::isnan(sum) || std::isnan(value)) return std::numeric_limits<double>::quiet_NaN();
    const double low = sum < value ? sum : value, high = sum < value ? value : sum;
    // Two equal infinities: their difference would be a NaN.
    if (low == high && std::isinf(low)) return low;
    return high + std::log1p(std::exp(low - high));
  });
}

}  // namespace etir
