// Copies into another shape: view, expand, as_strided, and complex numbers as pairs.
#include "kernels/copy/as_strided.h"
#include "kernels/copy/reshape.h"
#include "kernels/copy/view_copy.gen.h"
#include "kernels/util/promote.h"

namespace etir {

/// view_copy, _unsafe_view: one size may be -1.
void view_copy_out(KernelContext& ctx, const Tensor& self, const IntList& size, Tensor& out) {
  using arg = arguments::view_copy_out;
  if (!check_dtype(ctx, self, out)) return;
  if (size.size() != out.rank) return ctx.fail(Check::KernelResizeRank, static_cast<int64_t>(size.size()), out.rank);
  int64_t sizes[kMaxRank];
  int64_t known = 1;
  int inferred = -1;
  for (int d = 0; d < out.rank; ++d) {
    sizes[d] = size[d];
    if (sizes[d] == -1 && inferred < 0) {
      inferred = d;
    } else if (sizes[d] < 0 || __builtin_mul_overflow(known, sizes[d], &known)) {
      return ctx.fail(Check::KernelArgument, arg::size, sizes[d]);
    }
  }
  const int64_t numel = self.numel();
  if (inferred >= 0) {
    if (known == 0 || numel % known != 0) return ctx.fail(Check::KernelArgument, arg::size, -1);
    sizes[inferred] = numel / known;
  } else if (known != numel) {
    return ctx.fail(Check::KernelShape, self, numel);
  }
  if (!ctx.resize(out, sizes, out.rank)) return;
  if (out.data == self.data && out.data != nullptr && self.is_row_major() && out.is_row_major()) return;
  if (check_memory(ctx, self, out)) copy_reshaped(ctx, view_of(self), view_of(out));
}

/// The last dim of a view, whose elements lie side by side in groups, as groups and their members.
static void split_last(View& view, int64_t group) {
  const int last = view.rank - 1;
  const int64_t stride = view.strides[last];
  view.sizes[last] /= group;
  view.strides[last] *= group;
  view.add(group, stride);
}

/// view_copy.dtype: the same bytes as another dtype; one of another width scales the last dim, as in a row-major
/// tensor.
void view_dtype_copy_out(KernelContext& ctx, const Tensor& self, ScalarType dtype, Tensor& out) {
  if (dtype != out.dtype) {
    return ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  }
  const auto from_size = static_cast<int64_t>(element_size(self.dtype));
  const auto to_size = static_cast<int64_t>(element_size(out.dtype));
  if (from_size == 0) return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  if (to_size == 0) return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  View from = view_of(self);
  if (from_size == to_size) return copy_view(ctx, from, self, out);
  if (self.rank == 0) return ctx.fail(Check::KernelRank, self, self.rank);
  const int last = self.rank - 1;
  int64_t sizes[kMaxRank];
  for (int d = 0; d <= last; ++d) sizes[d] = from.sizes[d];
  int64_t bytes = 0;
  if (__builtin_mul_overflow(from.sizes[last], from_size, &bytes) || bytes % to_size != 0) {
    return ctx.fail(Check::KernelShape, self, from.sizes[last]);
  }
  sizes[last] = bytes / to_size;
  if (!ctx.resize(out, sizes, self.rank) || !check_memory(ctx, self, out)) return;
  View to = view_of(out);
  // Both in elements of the narrower dtype: the wider one has several, side by side.
  const bool widens = to_size > from_size;
  View& wide = widens ? to : from;
  const int64_t group = widens ? to_size / from_size : from_size / to_size;
  wide.element = static_cast<size_t>(widens ? from_size : to_size);
  for (int d = 0; d < wide.rank; ++d) wide.strides[d] *= group;
  wide.add(group, 1);
  split_last(widens ? from : to, group);
  copy_elements(ctx, from, to);
}

void expand_copy_out(KernelContext& ctx, const Tensor& self, const IntList& size, bool /*implicit*/, Tensor& out) {
  using arg = arguments::expand_copy_out;
  if (!check_dtype(ctx, self, out)) return;
  const int rank = out.rank;
  if (size.size() != out.rank) return ctx.fail(Check::KernelResizeRank, static_cast<int64_t>(size.size()), rank);
  const int missing = rank - self.rank;
  if (missing < 0) return ctx.fail(Check::KernelRank, self, self.rank);
  const View from = view_of(self);
  View view = from;
  view.rank = rank;
  for (int d = 0; d < rank; ++d) {
    const int64_t own = d < missing ? 1 : from.sizes[d - missing];
    const int64_t wanted = size[d] == -1 && d >= missing ? own : size[d];
    if (wanted < 0 || (own != 1 && own != wanted)) return ctx.fail(Check::KernelArgument, arg::size, size[d]);
    view.sizes[d] = wanted;
    view.strides[d] = own == 1 ? 0 : from.strides[d - missing];
  }
  copy_view(ctx, view, self, out);
}

static void as_strided_copy(KernelContext& ctx, const Tensor& self, const IntList& size, const IntList& stride,
                            int64_t offset, Tensor& out) {
  View view = view_of(self);
  if (check_dtype(ctx, self, out) &&
      as_strided(ctx, view, self.numel(), size, stride, offset, arguments::as_strided_copy_out::size)) {
    copy_view(ctx, view, self, out);
  }
}

void as_strided_copy_out(KernelContext& ctx, const Tensor& self, const IntList& size, const IntList& stride,
                         std::optional<int64_t> storage_offset, Tensor& out) {
  as_strided_copy(ctx, self, size, stride, storage_offset.value_or(0), out);
}

void reshape_alias_copy_out(KernelContext& ctx, const Tensor& self, const IntList& size, const IntList& stride,
                            Tensor& out) {
  as_strided_copy(ctx, self, size, stride, 0, out);
}

void view_as_real_copy_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (!is_complex(self.dtype)) return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  if (out.dtype != part_of(self.dtype))
    return ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  View view = view_of(self);
  view.element /= 2;
  for (int d = 0; d < view.rank; ++d) view.strides[d] *= 2;
  view.add(2, 1);
  copy_view(ctx, view, self, out);
}

void view_as_complex_copy_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (!is_complex(out.dtype)) return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  if (self.dtype != part_of(out.dtype)) {
    return ctx.fail(Check::KernelDtypeMismatch, self, static_cast<int64_t>(self.dtype));
  }
  if (self.rank == 0) return ctx.fail(Check::KernelRank, self, self.rank);
  const View from = view_of(self);
  if (from.sizes[self.rank - 1] != 2) return ctx.fail(Check::KernelShape, self, from.sizes[self.rank - 1]);
  if (!ctx.resize(out, from.sizes, self.rank - 1) || !check_memory(ctx, self, out)) return;
  View to = view_of(out);
  to.element /= 2;
  for (int d = 0; d < to.rank; ++d) to.strides[d] *= 2;
  to.add(2, 1);
  copy_elements(ctx, from, to);
}

}  // namespace etir
