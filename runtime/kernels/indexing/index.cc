// Advanced indexing: index and index_put.
#include <cstring>

#include "kernels/indexing/index.gen.h"
#include "kernels/indexing/index_walk.h"

namespace etir {

using namespace lines;

void index_tensor_out(KernelContext& ctx, const Tensor& self, const TensorList& indices, Tensor& out) {
  using arg = arguments::index_tensor_out;
  if (!has_data(ctx, self)) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  IndexPlan plan;
  if (!plan_indices(ctx, plan, self, indices, arg::indices)) return;
  if (!ctx.resize(out, plan.sizes, plan.rank) || !has_data(ctx, out)) return;
  read_indexed(ctx, plan, self, out, arg::out);
}

/// Puts rows into a dim that has none but dims of size 1 before it, the form in which a cache is written: the same as
/// the walk, without its preparations. False, with nothing done, for other forms and for indices out of range.
static bool put_rows(KernelContext& ctx, const TensorList& indices, const Tensor& values, Tensor& out) {
  const int dim = static_cast<int>(indices.size()) - 1;
  if (dim < 0 || dim >= out.rank || values.rank != out.rank) return false;
  const Tensor* const index = indices.get(static_cast<size_t>(dim));
  if (index == nullptr || index->dtype != ScalarType::Long || index->rank != 1 || index->data == nullptr) return false;
  const int64_t count = index->sizes[0], size = out.sizes[dim];
  int64_t row = static_cast<int64_t>(element_size(out.dtype));
  for (int d = 0; d < out.rank; ++d) {
    if (d < dim && (out.sizes[d] != 1 || indices.get(static_cast<size_t>(d)) != nullptr)) return false;
    if (values.sizes[d] != (d == dim ? count : out.sizes[d])) return false;
    if (d > dim) row *= out.sizes[d];
  }
  if (!out.is_row_major() || !values.is_row_major() || !index->is_row_major()) return false;
  const int64_t* const at = index->ptr<int64_t>();
  const uint8_t* const from = values.ptr<uint8_t>();
  uint8_t* const to = out.ptr<uint8_t>();
  bool apart = from + count * row <= to || to + size * row <= from;  // what threads write is nothing that others take
  for (int64_t i = 0; i < count; ++i) {
    if (at[i] < 0 || at[i] >= size) return false;
    apart = apart && (i == 0 || at[i] > at[i - 1]);
  }
  if (values.numel() == 0) return true;
  const auto copy = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memmove(to + at[i] * row, from + i * row, static_cast<size_t>(row));
    }
  };
  apart ? ctx.parallel_for(count, 1 + 32768 / (row + 1), copy) : copy(0, count);
  return true;
}

/// Puts `values` into `out`, which holds the elements of self already.
static void put(KernelContext& ctx, const TensorList& indices, const Tensor& values, bool accumulate, Tensor& out,
                int out_position) {
  if (!takes_same(ctx, values, out) || !has_data(ctx, out)) return;
  if (!accumulate && put_rows(ctx, indices, values, out)) return;
  IndexPlan plan;
  if (!plan_indices(ctx, plan, out, indices, arguments::index_put_out::indices)) return;
  if (!broadcasts_to_result(plan, values)) return ctx.fail(Check::KernelShape, values, values.numel());
  if (accumulate) {
    combine_indexed<kRealBool | kComplex>(ctx, plan, out, values, out_position,
                                          [](auto a, auto b) { return wrapping_add(a, b); });
  } else {
    write_indexed(ctx, plan, out, values, out_position);
  }
}

void index_put_out(KernelContext& ctx, const Tensor& self, const TensorList& indices, const Tensor& values,
                   bool accumulate, Tensor& out) {
  if (!has_data(ctx, self)) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  if (copy_to_out(ctx, self, out)) put(ctx, indices, values, accumulate, out, arguments::index_put_out::out);
}

void index_put_inplace(KernelContext& ctx, Tensor& self, const TensorList& indices, const Tensor& values,
                       bool accumulate) {
  put(ctx, indices, values, accumulate, self, arguments::index_put_inplace::self);
}

}  // namespace etir
