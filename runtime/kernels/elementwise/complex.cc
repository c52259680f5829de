// Complex numbers from two real ones: complex and polar.
#include <cmath>

#include "kernels/elementwise/complex.gen.h"
#include "kernels/elementwise/operators.h"

namespace etir {

namespace {

template <DtypeSet kSet, typename F>
void from_pair(KernelContext& ctx, const Tensor& a, const Tensor& b, Tensor& out, const F& f) {
  if (b.dtype != a.dtype) return ctx.fail(Check::KernelDtypeMismatch, b, static_cast<int64_t>(b.dtype));
  if (out.dtype != complex_of(a.dtype)) {
    return ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  }
  const bool done = dispatch_compute<kSet>(a.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    elementwise<std::complex<T>, T, T>(ctx, out, {&a, &b}, out.dtype, f);
  });
  if (!done) ctx.fail(Check::KernelDtype, a, static_cast<int64_t>(a.dtype));
}

}  // namespace

void complex_out(KernelContext& ctx, const Tensor& real, const Tensor& imag, Tensor& out) {
  from_pair<kFullFloats | dtype_bit(ScalarType::Half)>(
      ctx, real, imag, out, [](auto re, auto im) { return std::complex<decltype(re)>(re, im); });
}
void polar_out(KernelContext& ctx, const Tensor& abs, const Tensor& angle, Tensor& out) {
  from_pair<kFullFloats>(ctx, abs, angle, out, [](auto size, auto phase) {
    return std::complex<decltype(size)>(size * std::cos(phase), size * std::sin(phase));
  });
}

}  // namespace etir
