// Copies that keep the shape: clone, alias, detach, lift. Layouts may differ.
#include "kernels/copy/clone.gen.h"
#include "kernels/copy/view.h"

namespace etir {

void clone_out(KernelContext& ctx, const Tensor& self, std::optional<int64_t> /*memory_format*/, Tensor& out) {
  copy_same_shape(ctx, self, out);
}

/// alias_copy, detach_copy, lift, lift_fresh_copy.
void alias_copy_out(KernelContext& ctx, const Tensor& self, Tensor& out) { copy_same_shape(ctx, self, out); }

}  // namespace etir
