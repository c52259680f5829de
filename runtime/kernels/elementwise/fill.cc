// Tensors of one value, or of none in particular: full, fill, zeros, ones, empty, scalar_tensor.
#include <cmath>

#include "kernels/kernel.h"
#include "kernels/util/copy.h"

namespace etir {

namespace {

bool resize_to(KernelContext& ctx, Tensor& out, const IntList& list, int index) {
  int64_t sizes[kMaxRank];
  if (list.size() > static_cast<size_t>(kMaxRank)) {
    ctx.fail(Check::KernelRank, index, static_cast<int64_t>(list.size()));
    return false;
  }
  for (size_t d = 0; d < list.size(); ++d) {
    sizes[d] = list[d];
    if (sizes[d] < 0) {
      ctx.fail(Check::KernelArgument, index, sizes[d]);
      return false;
    }
  }
  return ctx.resize(out, sizes, static_cast<int>(list.size()));
}

void fill_with(KernelContext& ctx, int out, const Scalar& value, int value_index) {
  Element element;
  Tensor& result = ctx.tensor(out);
  if (number_to_element(ctx, value, value_index, result.dtype, &element)) fill_elements(ctx, result, out, element);
}
void fill_integer(KernelContext& ctx, int out, int64_t value) {
  Scalar number{Tag::Int, {0}};
  number.payload.integer = value;
  fill_with(ctx, out, number, out);
}

}  // namespace

void full_out(KernelContext& ctx) {
  if (resize_to(ctx, ctx.tensor(2), ctx.int_list(0), 0)) fill_with(ctx, 2, ctx.scalar(1), 1);
}
void zeros_out(KernelContext& ctx) {
  if (resize_to(ctx, ctx.tensor(1), ctx.int_list(0), 0)) fill_integer(ctx, 1, 0);
}
void ones_out(KernelContext& ctx) {
  if (resize_to(ctx, ctx.tensor(1), ctx.int_list(0), 0)) fill_integer(ctx, 1, 1);
}
/// The elements are left as they are.
void empty_out(KernelContext& ctx) { resize_to(ctx, ctx.tensor(2), ctx.int_list(0), 0); }

void full_like_out(KernelContext& ctx) {
  if (ctx.resize_like(ctx.tensor(3), ctx.tensor(0))) fill_with(ctx, 3, ctx.scalar(1), 1);
}
void zeros_like_out(KernelContext& ctx) {
  if (ctx.resize_like(ctx.tensor(2), ctx.tensor(0))) fill_integer(ctx, 2, 0);
}
void ones_like_out(KernelContext& ctx) {
  if (ctx.resize_like(ctx.tensor(2), ctx.tensor(0))) fill_integer(ctx, 2, 1);
}
void empty_like_out(KernelContext& ctx) { ctx.resize_like(ctx.tensor(2), ctx.tensor(0)); }

void new_full_out(KernelContext& ctx) {
  if (resize_to(ctx, ctx.tensor(3), ctx.int_list(1), 1)) fill_with(ctx, 3, ctx.scalar(2), 2);
}
void new_zeros_out(KernelContext& ctx) {
  if (resize_to(ctx, ctx.tensor(2), ctx.int_list(1), 1)) fill_integer(ctx, 2, 0);
}
void new_ones_out(KernelContext& ctx) {
  if (resize_to(ctx, ctx.tensor(2), ctx.int_list(1), 1)) fill_integer(ctx, 2, 1);
}
void new_empty_out(KernelContext& ctx) { resize_to(ctx, ctx.tensor(2), ctx.int_list(1), 1); }

void fill_scalar_out(KernelContext& ctx) {
  if (ctx.resize_like(ctx.tensor(2), ctx.tensor(0))) fill_with(ctx, 2, ctx.scalar(1), 1);
}
void fill_tensor_out(KernelContext& ctx) {
  const Tensor& value = ctx.tensor(1);
  if (value.rank != 0) return ctx.fail(Check::KernelRank, 1, value.rank);
  if (!ctx.resize_like(ctx.tensor(2), ctx.tensor(0))) return;
  copy_elements(ctx, ctx.tensor(2), 2, value, 1);
}

void scalar_tensor_out(KernelContext& ctx) {
  if (ctx.resize(ctx.tensor(1), nullptr, 0)) fill_with(ctx, 1, ctx.scalar(0), 0);
}

void empty_dim_order_out(KernelContext& ctx) {
  if (has_dim_order(ctx, ctx.tensor(2), 2, ctx.int_list(1))) empty_out(ctx);
}

}  // namespace etir
