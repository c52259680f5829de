// Running extremes along a dim: cummax and cummin.
#include "kernels/scan/extremes.gen.h"
#include "kernels/util/order_key.h"

namespace etir {

using namespace lines;

namespace {

/// Checks the arguments and gives both results the shape of `self`. Returns the dim, or -1 with the failure recorded.
int start(KernelContext& ctx, const Tensor& self, int64_t dim_given, Tensor& values, Tensor& indices) {
  if (!takes(ctx, self, kRealBool)) return -1;
  const int dim = dim_argument(ctx, dim_given, self.rank);
  if (dim < 0) return -1;
  if (values.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, values, number(values.dtype)), -1;
  if (indices.dtype != ScalarType::Long) return ctx.fail(Check::KernelDtype, indices, number(indices.dtype)), -1;
  if (!ctx.resize_like(values, self) || !has_data(ctx, values)) return -1;
  if (!ctx.resize_like(indices, self) || !has_data(ctx, indices)) return -1;
  return dim;
}

void running_extreme(KernelContext& ctx, const Tensor& self, int64_t dim_given, Tensor& values, Tensor& indices,
                     bool min) {
  const int dim = start(ctx, self, dim_given, values, indices);
  if (dim < 0) return;
  const View from(self), values_view(values), indices_view(indices);
  const View* const views[] = {&from, &values_view, &indices_view};
  const auto lines = loops_over_lines<3>(self, dim, views);
  const int64_t n = from.sizes[dim], step = from.strides[dim];
  dispatch_key(self.dtype, kRealBool, [&](auto tag) {
    using U = typename decltype(tag)::type;
    const OrderKey<U> key(self.dtype, min);
    for_each_line(ctx, lines, n, [&](char* const* data) {
      U best_key = 0, best = 0;
      int64_t place = 0;
      for (int64_t i = 0; i < n; ++i) {
        const U bits = load<U>(data[0] + i * step);
        // NaNs win in both directions, the last of equals wins.
        const U candidate = key.is_nan(bits) ? static_cast<U>(~U{0}) : key(bits);
        if (i == 0 || candidate >= best_key) {
          best_key = candidate;
          best = bits;
          place = i;
        }
        store(data[1] + i * values_view.strides[dim], best);
        store(data[2] + i * indices_view.strides[dim], place);
      }
    });
  });
}

}  // namespace

void cummax_out(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& values, Tensor& indices) {
  running_extreme(ctx, self, dim, values, indices, false);
}
void cummin_out(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& values, Tensor& indices) {
  running_extreme(ctx, self, dim, values, indices, true);
}

}  // namespace etir
