// Complex numbers from two real ones: complex and polar.
#include <cmath>

#include "kernels/elementwise/operators.h"

namespace etir {

namespace {

template <DtypeSet kSet, typename F>
void from_pair(KernelContext& ctx, const F& f) {
  const AnyOperand a(ctx, 0), b(ctx, 1);
  Tensor& out = ctx.tensor(2);
  if (b.dtype() != a.dtype()) return ctx.fail(Check::KernelDtypeMismatch, 1, static_cast<int64_t>(b.dtype()));
  if (out.dtype != complex_of(a.dtype())) {
    return ctx.fail(Check::KernelDtypeMismatch, 2, static_cast<int64_t>(out.dtype));
  }
  const bool done = dispatch_compute<kSet>(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    elementwise<std::complex<T>, T, T>(ctx, out, 2, {a.operand(), b.operand()}, out.dtype, f);
  });
  if (!done) ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(a.dtype()));
}

}  // namespace

void complex_out(KernelContext& ctx) {
  from_pair<kFullFloats | dtype_bit(ScalarType::Half)>(
      ctx, [](auto real, auto imaginary) { return std::complex<decltype(real)>(real, imaginary); });
}
void polar_out(KernelContext& ctx) {
  from_pair<kFullFloats>(ctx, [](auto size, auto angle) {
    return std::complex<decltype(size)>(size * std::cos(angle), size * std::sin(angle));
  });
}

}  // namespace etir
