// Running extremes along a dim: cummax and cummin.
#include "kernels/util/order_key.h"

namespace etir {

using namespace lines;

namespace {

/// Checks the arguments and gives both results the shape of `self`. Returns the dim, or -1 with the failure recorded.
int start(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  Tensor& values = ctx.tensor(2);
  Tensor& indices = ctx.tensor(3);
  if (!takes(ctx, 0, self, kRealBool)) return -1;
  const int dim = dim_argument(ctx, ctx.integer(1), self.rank);
  if (dim < 0) return -1;
  if (values.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, 2, number(values.dtype)), -1;
  if (indices.dtype != ScalarType::Long) return ctx.fail(Check::KernelDtype, 3, number(indices.dtype)), -1;
  if (!ctx.resize_like(values, self) || !has_data(ctx, 2, values)) return -1;
  if (!ctx.resize_like(indices, self) || !has_data(ctx, 3, indices)) return -1;
  return dim;
}

void running_extreme(KernelContext& ctx, bool min) {
  const int dim = start(ctx);
  if (dim < 0) return;
  const Tensor& self = ctx.tensor(0);
  const View from(self), values(ctx.tensor(2)), indices(ctx.tensor(3));
  const View* const views[] = {&from, &values, &indices};
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
        store(data[1] + i * values.strides[dim], best);
        store(data[2] + i * indices.strides[dim], place);
      }
    });
  });
}

}  // namespace

void cummax_out(KernelContext& ctx) { running_extreme(ctx, false); }
void cummin_out(KernelContext& ctx) { running_extreme(ctx, true); }

}  // namespace etir
