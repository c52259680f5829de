// Copies that may convert: _to_copy, copy, copy_ and the operators on dim orders and devices.
#include <cmath>

#include "kernels/copy/to_copy.gen.h"
#include "kernels/kernel.h"
#include "kernels/util/copy.h"
#include "kernels/util/strided_copy.h"

namespace etir {

namespace {

void copy_to(KernelContext& ctx, const Tensor& from, Tensor& out) {
  if (!ctx.resize_like(out, from)) return;
  const size_t element = element_size(from.dtype);
  if (from.dtype != out.dtype || element == 0 || same_dim_order(from, out) || from.data == out.data) {
    return copy_elements(ctx, out, from);
  }
  if (!has_data(ctx, out) || !has_data(ctx, from)) return;
  int64_t from_strides[kMaxRank], to_strides[kMaxRank];
  from.strides(from_strides), out.strides(to_strides);
  CopyDims dims;
  for (int d = 0; d < from.rank; ++d) dims.add(from.sizes[d], from_strides[d], to_strides[d]);
  strided_copy(ctx, dims, from.data, out.data, element);
}

bool check_same_dtype(KernelContext& ctx, const Tensor& from, const Tensor& out) {
  if (out.dtype == from.dtype) return true;
  ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  return false;
}

}  // namespace

void to_copy_out(KernelContext& ctx, const Tensor& self, bool /*non_blocking*/,
                 std::optional<int64_t> /*memory_format*/, Tensor& out) {
  copy_to(ctx, self, out);
}
void to_dim_order_copy_out(KernelContext& ctx, const Tensor& self, bool /*non_blocking*/,
                           std::optional<IntList> dim_order, Tensor& out) {
  if (has_dim_order(ctx, out, dim_order.value_or(IntList()))) copy_to(ctx, self, out);
}
void clone_dim_order_out(KernelContext& ctx, const Tensor& self, bool /*non_blocking*/,
                         std::optional<IntList> dim_order, Tensor& out) {
  if (check_same_dtype(ctx, self, out) && has_dim_order(ctx, out, dim_order.value_or(IntList())))
    copy_to(ctx, self, out);
}
/// Also llama::fallback. There is one memory: a copy between devices is a copy.
void device_copy_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (check_same_dtype(ctx, self, out)) copy_to(ctx, self, out);
}
void copy_out(KernelContext& ctx, const Tensor& self, const Tensor& src, bool /*non_blocking*/, Tensor& out) {
  if (ctx.resize_like(out, self)) copy_elements(ctx, out, src);
}
void copy_in_place(KernelContext& ctx, Tensor& self, const Tensor& src, bool /*non_blocking*/) {
  copy_elements(ctx, self, src);
}

}  // namespace etir
