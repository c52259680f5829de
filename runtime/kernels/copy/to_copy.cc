// Copies that may convert: _to_copy, copy, copy_ and the operators on dim orders and devices.
#include <cmath>

#include "kernels/kernel.h"
#include "kernels/util/copy.h"

namespace etir {

namespace {

void copy_to(KernelContext& ctx, int from, int out) {
  if (ctx.resize_like(ctx.tensor(out), ctx.tensor(from))) {
    copy_elements(ctx, ctx.tensor(out), out, ctx.tensor(from), from);
  }
}

bool check_same_dtype(KernelContext& ctx, int from, int out) {
  const ScalarType dtype = ctx.tensor(out).dtype;
  if (dtype == ctx.tensor(from).dtype) return true;
  ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(dtype));
  return false;
}

}  // namespace

void to_copy_out(KernelContext& ctx) { copy_to(ctx, 0, 3); }
void to_dim_order_copy_out(KernelContext& ctx) {
  if (has_dim_order(ctx, ctx.tensor(3), 3, ctx.int_list(2))) copy_to(ctx, 0, 3);
}
void clone_dim_order_out(KernelContext& ctx) {
  if (check_same_dtype(ctx, 0, 3) && has_dim_order(ctx, ctx.tensor(3), 3, ctx.int_list(2))) copy_to(ctx, 0, 3);
}
/// Also llama::fallback. There is one memory: a copy between devices is a copy.
void device_copy_out(KernelContext& ctx) {
  if (check_same_dtype(ctx, 0, 1)) copy_to(ctx, 0, 1);
}
void copy_out(KernelContext& ctx) {
  if (ctx.resize_like(ctx.tensor(3), ctx.tensor(0))) copy_elements(ctx, ctx.tensor(3), 3, ctx.tensor(1), 1);
}
void copy_in_place(KernelContext& ctx) { copy_elements(ctx, ctx.tensor(0), 0, ctx.tensor(1), 1); }

}  // namespace etir
