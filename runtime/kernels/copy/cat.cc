// Concatenation: cat, stack, block_diag. Inputs of other dtypes are converted to that of the result.
#include "kernels/copy/cat.gen.h"
#include "kernels/copy/convert.h"

namespace etir {

/// Whether an item of the list may be put into the result.
static bool check_item(KernelContext& ctx, const Tensor& item, const Tensor& out) {
  if (!can_convert(item.dtype, out.dtype) || (item.dtype != out.dtype && !can_cast(item.dtype, out.dtype))) {
    ctx.fail(Check::KernelDtypeMismatch, item, static_cast<int64_t>(item.dtype));
    return false;
  }
  return check_memory(ctx, item, out);
}

/// Whether an item is already where the result has it: nothing to copy.
static bool is_there(const Tensor& item, const View& part, ScalarType dtype) {
  return item.dtype == dtype && same_memory(view_of(item), part);
}

/// torch takes tensors of shape [0] among tensors of other ranks, and skips them.
static bool is_skipped(const Tensor& tensor) { return tensor.rank == 1 && tensor.sizes[0] == 0; }

/// cat, concat, concatenate.
void cat_out(KernelContext& ctx, const TensorList& tensors, int64_t dim, Tensor& out) {
  using arg = arguments::cat_out;
  if (tensors.empty()) return ctx.fail(Check::KernelArgument, arg::tensors, 0);
  const Tensor* first = nullptr;
  for (size_t i = 0; i < tensors.size() && first == nullptr; ++i) {
    if (!is_skipped(tensors[i])) first = &tensors[i];
  }
  int64_t sizes[kMaxRank] = {0};
  if (first == nullptr) {
    ctx.resize(out, sizes, 1);
    return;
  }
  if (first->rank == 0) return ctx.fail(Check::KernelRank, arg::tensors, 0);
  const int axis = checked_dim(ctx, dim, first->rank);
  if (axis < 0) return;
  for (int d = 0; d < first->rank; ++d) sizes[d] = first->sizes[d];
  sizes[axis] = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& item = tensors[i];
    if (is_skipped(item)) continue;
    if (item.rank != first->rank) return ctx.fail(Check::KernelRank, arg::tensors, item.rank);
    for (int d = 0; d < item.rank; ++d) {
      if (d != axis && item.sizes[d] != first->sizes[d])
        return ctx.fail(Check::KernelShape, arg::tensors, item.sizes[d]);
    }
    sizes[axis] += item.sizes[axis];
  }
  if (!ctx.resize(out, sizes, first->rank)) return;
  const View to = view_of(out);
  int64_t start = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& item = tensors[i];
    const int64_t size = is_skipped(item) ? 0 : item.sizes[axis];
    if (size == 0 || !is_there(item, part_of_dim(to, axis, start, size), out.dtype)) {
      if (!check_item(ctx, item, out)) return;
    }
    start += size;
  }
  start = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& item = tensors[i];
    if (is_skipped(item)) continue;
    const View part = part_of_dim(to, axis, start, item.sizes[axis]);
    if (!is_there(item, part, out.dtype)) copy_converted(ctx, view_of(item), item.dtype, part, out.dtype);
    start += item.sizes[axis];
  }
}

void stack_out(KernelContext& ctx, const TensorList& tensors, int64_t dim, Tensor& out) {
  using arg = arguments::stack_out;
  if (tensors.empty()) return ctx.fail(Check::KernelArgument, arg::tensors, 0);
  const Tensor& first = tensors[0];
  const int axis = checked_dim(ctx, dim, first.rank + 1);
  if (axis < 0) return;
  int64_t sizes[kMaxRank + 1];
  for (int d = 0; d < first.rank; ++d) sizes[d < axis ? d : d + 1] = first.sizes[d];
  sizes[axis] = static_cast<int64_t>(tensors.size());
  if (!ctx.resize(out, sizes, first.rank + 1)) return;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!same_shape(tensors[i], first)) return ctx.fail(Check::KernelShape, arg::tensors, tensors[i].numel());
    View to = part_of_dim(view_of(out), axis, static_cast<int64_t>(i), 1);
    to.remove(axis);
    if (!is_there(tensors[i], to, out.dtype) && !check_item(ctx, tensors[i], out)) return;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    View to = part_of_dim(view_of(out), axis, static_cast<int64_t>(i), 1);
    to.remove(axis);
    if (!is_there(tensors[i], to, out.dtype)) copy_converted(ctx, view_of(tensors[i]), tensors[i].dtype, to, out.dtype);
  }
}

void block_diag_out(KernelContext& ctx, const TensorList& tensors, Tensor& out) {
  using arg = arguments::block_diag_out;
  int64_t sizes[2] = {0, 0};
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& item = tensors[i];
    if (item.rank > 2) return ctx.fail(Check::KernelRank, arg::tensors, item.rank);
    sizes[0] += item.rank == 2 ? item.sizes[0] : 1;
    sizes[1] += item.rank > 0 ? item.sizes[item.rank - 1] : 1;
  }
  if (tensors.empty()) sizes[0] = 1;
  if (!ctx.resize(out, sizes, 2)) return;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!check_item(ctx, tensors[i], out)) return;
  }
  const View to = view_of(out);
  if (out.numel() > 0) fill_zero(ctx, to);
  int64_t row = 0, column = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& item = tensors[i];
    View from = view_of(item);
    // A vector is one row, a number one element.
    while (from.rank < 2) {
      from.add(1, 1);
      for (int d = from.rank - 1; d > 0; --d) {
        from.sizes[d] = from.sizes[d - 1];
        from.strides[d] = from.strides[d - 1];
      }
      from.sizes[0] = from.strides[0] = 1;
    }
    const View rows = part_of_dim(to, 0, row, from.sizes[0]);
    copy_converted(ctx, from, item.dtype, part_of_dim(rows, 1, column, from.sizes[1]), out.dtype);
    row += from.sizes[0];
    column += from.sizes[1];
  }
}

}  // namespace etir
