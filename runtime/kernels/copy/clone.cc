// Copies that keep shape and layout: clone, alias, detach, lift.
#include <cstring>

#include "kernels/kernel.h"
#include "kernels/util/dispatch.h"
#include "kernels/util/loops.h"

namespace etir {

void clone_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(2);
  if (self.dtype != out.dtype) return ctx.fail(Check::KernelDtypeMismatch, 2, static_cast<int64_t>(out.dtype));
  if (!ctx.resize_like(out, self)) return;
  if (same_dim_order(self, out)) {
    if (out.data != self.data) std::memmove(out.data, self.data, out.nbytes());
    return;
  }
  const Tensor* const operands[] = {&out, &self};
  const auto loops = make_loops<2>(operands);
  dispatch_size(element_size(out.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    loops.run([](char* const* data, const int64_t* steps, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        *reinterpret_cast<T*>(data[0] + i * steps[0]) = *reinterpret_cast<const T*>(data[1] + i * steps[1]);
      }
    });
  });
}

}  // namespace etir
