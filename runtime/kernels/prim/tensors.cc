// Primitive operators on tensors: their sizes, their only element, views of them, and rows of a growing result.
#include <cstring>

#include "core/count.h"
#include "kernels/kernel.h"
#include "kernels/prim/tensors.gen.h"
#include "kernels/util/loops.h"

namespace etir {

void prim_sym_size(KernelContext& ctx, const Tensor& self, ScalarArgument dim, ScalarResult result) {
  const int64_t given = ctx.integer(dim);
  const int axis = self.rank > 0 ? wrap_dim(given, self.rank) : -1;
  if (axis < 0) return ctx.fail(Check::KernelDim, given, self.rank);
  ctx.set(result, self.size(axis));
}

void prim_sym_numel(KernelContext& ctx, const Tensor& self, ScalarResult result) { ctx.set(result, self.numel()); }

void prim_local_scalar_dense(KernelContext& ctx, const Tensor& self, ScalarResult result) {
  if (self.numel() < 1) return ctx.fail(Check::KernelShape, self, 0);
  if (self.data == nullptr) return ctx.fail(Check::KernelNoData, self);
  const bool boolean = self.dtype == ScalarType::Bool;
  const bool real = is_floating(self.dtype);
  if (!boolean && !real && !is_integral(self.dtype, false)) {
    return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  }
  const Tag tag = boolean ? Tag::Bool : real ? Tag::Double : Tag::Int;
  if (ctx.tag(result) != tag)
    return ctx.fail(Check::PrimResult, static_cast<int64_t>(tag), static_cast<int64_t>(ctx.tag(result)));
  switch (self.dtype) {
    case ScalarType::Bool:
      return ctx.set(result, *self.ptr<uint8_t>() != 0);
    case ScalarType::Half:
      return ctx.set(result, static_cast<double>(static_cast<float>(*self.ptr<Half>())));
    case ScalarType::BFloat16:
      return ctx.set(result, static_cast<double>(static_cast<float>(*self.ptr<BFloat16>())));
    case ScalarType::Float:
      return ctx.set(result, static_cast<double>(*self.ptr<float>()));
    case ScalarType::Double:
      return ctx.set(result, static_cast<double>(*self.ptr<double>()));
    default: {
      // Integers of all widths are little-endian.
      int64_t number = 0;
      const size_t size = element_size(self.dtype);
      std::memcpy(&number, self.data, size);
      const int rest = static_cast<int>(64 - 8 * size);
      const bool has_sign =
          self.dtype == ScalarType::Char || self.dtype == ScalarType::Short || self.dtype == ScalarType::Int;
      return ctx.set(result, has_sign ? static_cast<int64_t>(static_cast<uint64_t>(number) << rest) >> rest : number);
    }
  }
}

// Makes `out` a view of `self` with another shape: nothing is copied. One size may be -1.
void prim_et_view(KernelContext& ctx, const Tensor& self, const IntList& size, Tensor& out) {
  using arg = arguments::prim_et_view;
  if (self.dtype != out.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  if (size.size() > static_cast<size_t>(kMaxRank))
    return ctx.fail(Check::KernelRank, arg::size, static_cast<int64_t>(size.size()));
  const int rank = static_cast<int>(size.size());
  const uint64_t numel = static_cast<uint64_t>(self.numel());
  int64_t sizes[kMaxRank];
  uint64_t product = 1;
  int inferred = -1;
  for (int d = 0; d < rank; ++d) {
    sizes[d] = size[d];
    if (sizes[d] == -1 && inferred < 0) {
      inferred = d;
    } else if (sizes[d] < 0 || sizes[d] > INT32_MAX || !multiply_count(product, static_cast<uint32_t>(sizes[d]))) {
      return ctx.fail(Check::KernelArgument, arg::size, sizes[d]);
    }
  }
  if (inferred >= 0) {
    if (product == 0 || numel % product != 0)
      return ctx.fail(Check::KernelShape, arg::size, static_cast<int64_t>(product));
    sizes[inferred] = static_cast<int64_t>(numel / product);
    product = numel;
  }
  if (product != numel) return ctx.fail(Check::KernelShape, arg::size, static_cast<int64_t>(product));
  if (self.data == nullptr && numel > 0) return ctx.fail(Check::KernelNoData, self);
  // A constant is a value of its own; only what views another tensor, or has no data yet, can be made a view.
  if ((out.flags & (Tensor::kFlagConstant | Tensor::kFlagView)) == Tensor::kFlagConstant) {
    return ctx.fail(Check::KernelArgument, out, 0);
  }
  if (&out == &self) {
    ctx.resize(out, sizes, rank);
    return;
  }
  const Tensor before = out;
  out.data = self.data;
  out.flags = static_cast<uint8_t>(Tensor::kFlagView | (self.flags & Tensor::kFlagConstant));
  if (out.dynamism != Dynamism::Static) {
    out.capacity = self.dynamism != Dynamism::Static ? self.capacity
                   : numel > UINT32_MAX              ? UINT32_MAX
                                                     : static_cast<uint32_t>(numel);
  }
  if (!ctx.resize(out, sizes, rank)) out = before;
}

// Appends `from` as row `index` of `to`, which has that many rows.
void prim_et_copy_index(KernelContext& ctx, Tensor& copy_to, const Tensor& copy_from, ScalarArgument index) {
  Tensor& to = copy_to;
  const Tensor& from = copy_from;
  const int64_t row = ctx.integer(index);
  if (to.dtype != from.dtype) return ctx.fail(Check::KernelDtypeMismatch, copy_from, static_cast<int64_t>(from.dtype));
  if (to.rank != from.rank + 1) return ctx.fail(Check::KernelRank, copy_to, to.rank);
  if (row < 0 || row >= INT32_MAX) return ctx.fail(Check::KernelIndex, row, INT32_MAX);
  if (!to.is_row_major() || !from.is_row_major()) return ctx.fail(Check::KernelDimOrder, to.is_row_major() ? from : to);
  int64_t sizes[kMaxRank];
  sizes[0] = row + 1;
  // The first row says what the others have to be like: of a result of dynamic shape, whose sizes are an upper bound
  // before, or those of the last call.
  const bool is_open = to.dynamism != Dynamism::Static && row == 0;
  for (int d = 0; d < from.rank; ++d) {
    sizes[d + 1] = from.sizes[d];
    if (!is_open && to.sizes[d + 1] != from.sizes[d]) return ctx.fail(Check::KernelShape, copy_from, from.sizes[d]);
  }
  // Rows come in order: those before this one are there, and have its size.
  if (!is_open && row > to.sizes[0]) return ctx.fail(Check::KernelIndex, row, to.sizes[0]);
  const size_t nbytes = from.nbytes();
  // A result of fixed shape has all its rows from the start.
  const bool has_row = to.dynamism == Dynamism::Static && row < to.sizes[0];
  const void* before = to.data;
  if (!has_row && !ctx.resize(to, sizes, to.rank)) return;
  if (nbytes == 0) return;
  // An allocator that had to take another block leaves the rows so far in the old one.
  if (to.data != before && to.data != nullptr && before != nullptr) {
    std::memcpy(to.data, before, static_cast<size_t>(row) * nbytes);
  }
  if (from.data == nullptr || to.data == nullptr)
    return ctx.fail(Check::KernelNoData, from.data == nullptr ? from : to);
  std::memmove(to.ptr<uint8_t>() + static_cast<size_t>(row) * nbytes, from.data, nbytes);
}

}  // namespace etir
