// Copies that keep the shape: clone, alias, detach, lift. Layouts may differ.
#include "kernels/copy/view.h"

namespace etir {

void clone_out(KernelContext& ctx) { copy_same_shape(ctx, ctx.tensor(0), 0, ctx.tensor(2), 2); }

/// alias_copy, detach_copy, lift, lift_fresh_copy.
void alias_copy_out(KernelContext& ctx) { copy_same_shape(ctx, ctx.tensor(0), 0, ctx.tensor(1), 1); }

}  // namespace etir
