// Tensors of one value, or of none in particular: full, fill, zeros, ones, empty, scalar_tensor.
#include <cmath>

#include "kernels/elementwise/fill.gen.h"
#include "kernels/kernel.h"
#include "kernels/util/copy.h"

namespace etir {

namespace {

bool resize_to(KernelContext& ctx, Tensor& out, const IntList& list, int position) {
  int64_t sizes[kMaxRank];
  if (list.size() > static_cast<size_t>(kMaxRank)) {
    ctx.fail(Check::KernelRank, position, static_cast<int64_t>(list.size()));
    return false;
  }
  for (size_t d = 0; d < list.size(); ++d) {
    sizes[d] = list[d];
    if (sizes[d] < 0) {
      ctx.fail(Check::KernelArgument, position, sizes[d]);
      return false;
    }
  }
  return ctx.resize(out, sizes, static_cast<int>(list.size()));
}

/// `position` is the argument to name when the value does not fit.
void fill_with(KernelContext& ctx, Tensor& out, const Scalar& value, int position) {
  Element element;
  if (number_to_element(ctx, value, position, out.dtype, &element)) fill_elements(ctx, out, element);
}
void fill_integer(KernelContext& ctx, Tensor& out, int64_t value, int position) {
  Scalar number{Tag::Int, {0}};
  number.payload.integer = value;
  fill_with(ctx, out, number, position);
}

}  // namespace

void full_out(KernelContext& ctx, const IntList& size, const Scalar& fill_value, Tensor& out) {
  if (resize_to(ctx, out, size, arguments::full_out::size))
    fill_with(ctx, out, fill_value, arguments::full_out::fill_value);
}
void zeros_out(KernelContext& ctx, const IntList& size, Tensor& out) {
  if (resize_to(ctx, out, size, arguments::zeros_out::size)) fill_integer(ctx, out, 0, arguments::zeros_out::out);
}
void ones_out(KernelContext& ctx, const IntList& size, Tensor& out) {
  if (resize_to(ctx, out, size, arguments::ones_out::size)) fill_integer(ctx, out, 1, arguments::ones_out::out);
}
/// The elements are left as they are.
void empty_out(KernelContext& ctx, const IntList& size, std::optional<int64_t> /*memory_format*/, Tensor& out) {
  resize_to(ctx, out, size, arguments::empty_out::size);
}

void full_like_out(KernelContext& ctx, const Tensor& self, const Scalar& fill_value,
                   std::optional<int64_t> /*memory_format*/, Tensor& out) {
  if (ctx.resize_like(out, self)) fill_with(ctx, out, fill_value, arguments::full_like_out::fill_value);
}
void zeros_like_out(KernelContext& ctx, const Tensor& self, std::optional<int64_t> /*memory_format*/, Tensor& out) {
  if (ctx.resize_like(out, self)) fill_integer(ctx, out, 0, arguments::zeros_like_out::out);
}
void ones_like_out(KernelContext& ctx, const Tensor& self, std::optional<int64_t> /*memory_format*/, Tensor& out) {
  if (ctx.resize_like(out, self)) fill_integer(ctx, out, 1, arguments::ones_like_out::out);
}
void empty_like_out(KernelContext& ctx, const Tensor& self, std::optional<int64_t> /*memory_format*/, Tensor& out) {
  ctx.resize_like(out, self);
}

void new_full_out(KernelContext& ctx, const Tensor& /*self*/, const IntList& size, const Scalar& fill_value,
                  Tensor& out) {
  if (resize_to(ctx, out, size, arguments::new_full_out::size))
    fill_with(ctx, out, fill_value, arguments::new_full_out::fill_value);
}
void new_zeros_out(KernelContext& ctx, const Tensor& /*self*/, const IntList& size, Tensor& out) {
  if (resize_to(ctx, out, size, arguments::new_zeros_out::size))
    fill_integer(ctx, out, 0, arguments::new_zeros_out::out);
}
void new_ones_out(KernelContext& ctx, const Tensor& /*self*/, const IntList& size, Tensor& out) {
  if (resize_to(ctx, out, size, arguments::new_ones_out::size)) fill_integer(ctx, out, 1, arguments::new_ones_out::out);
}
void new_empty_out(KernelContext& ctx, const Tensor& /*self*/, const IntList& size, Tensor& out) {
  resize_to(ctx, out, size, arguments::new_empty_out::size);
}

void fill_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& value, Tensor& out) {
  if (ctx.resize_like(out, self)) fill_with(ctx, out, value, arguments::fill_scalar_out::value);
}
void fill_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& value, Tensor& out) {
  if (value.rank != 0) return ctx.fail(Check::KernelRank, value, value.rank);
  if (!ctx.resize_like(out, self)) return;
  copy_elements(ctx, out, value);
}

void scalar_tensor_out(KernelContext& ctx, const Scalar& s, Tensor& out) {
  if (ctx.resize(out, nullptr, 0)) fill_with(ctx, out, s, arguments::scalar_tensor_out::s);
}

void empty_dim_order_out(KernelContext& ctx, const IntList& size, std::optional<IntList> dim_order, Tensor& out) {
  if (has_dim_order(ctx, out, dim_order.value_or(IntList())))
    resize_to(ctx, out, size, arguments::empty_dim_order_out::size);
}

}  // namespace etir
