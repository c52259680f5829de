// demo::scaled_add.out for etir's runtime: self + factor * other, for floating point tensors of one shape.
#include "kernels/kernel.h"
#include "kernels/util/dispatch.h"
#include "scaled_add.gen.h"

namespace etir {

void demo_scaled_add(KernelContext& ctx, const Tensor& self, const Tensor& other, double factor, Tensor& out) {
  if (other.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, other, static_cast<int64_t>(other.dtype));
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  if (!same_shape(self, other)) return ctx.fail(Check::KernelShape, other, other.rank);
  if (!self.is_row_major() || !other.is_row_major() || !out.is_row_major()) {
    return ctx.fail(Check::KernelDimOrder, self);
  }
  if (!ctx.resize_like(out, self)) return;

  const bool known = dispatch<kFloats>(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Compute = accumulate_t<T>;
    const T* a = self.ptr<const T>();
    const T* b = other.ptr<const T>();
    T* result = out.ptr<T>();
    ctx.parallel_for(self.numel(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        result[i] = convert<T>(convert<Compute>(a[i]) + static_cast<Compute>(factor) * convert<Compute>(b[i]));
      }
    });
  });
  if (!known) ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
}

}  // namespace etir
