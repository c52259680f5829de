// Where the largest or smallest value is: argmax, argmin, and max and min along a dim.
//
// The first NaN wins, then the first of equal values. Along a contiguous dim the value is found first, by the
// vectorized reduction, and then searched for; along other dims columns of values and indices are kept side by side.
#include "kernels/reduction/arg_extremes.gen.h"
#include "kernels/util/reduce.h"
#include "kernels/util/reduce_args.h"
#include "kernels/util/reduce_ops.h"

namespace etir {
namespace {

/// Index of the first of n elements that equals `value` (or is NaN if that is), or n.
template <typename T>
int64_t find_value(const T* p, int64_t n, T value) {
  constexpr int kStep = 32;
  const bool nan = value != value;
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    int hits = 0;
    for (int k = 0; k < kStep; ++k) hits += (p[i + k] == value) | (nan & (p[i + k] != p[i + k]));
    if (hits != 0) break;
  }
  while (i < n && !(p[i] == value || (nan && p[i] != p[i]))) ++i;
  return i;
}

/// Position of `value` among `n` elements from `offset` on.
template <typename T>
int64_t find_in_run(const Source<T>& in, int64_t offset, int64_t n, T value) {
  T buffer[kRowBlock];
  for (int64_t i = 0; i < n; i += kRowBlock) {
    const int64_t count = n - i < kRowBlock ? n - i : kRowBlock;
    const int64_t found = find_value(in.get(offset + i, count, buffer), count, value);
    if (found < count) return i + found;
  }
  return n;
}

/// Row-major index of `value` in a tensor of whatever dim order.
template <typename T>
int64_t find_in_tensor(const Tensor& self, const Source<T>& in, T value) {
  if (self.is_row_major()) return find_in_run(in, 0, self.numel(), value);
  int64_t strides[kMaxRank];
  self.strides(strides);
  ReducePlan::Dim dims[kMaxRank];
  for (int d = 0; d < self.rank; ++d) dims[d] = {self.sizes[d], strides[d], 0};
  DimWalk walk(dims, self.rank, 0);
  const int64_t numel = self.numel();
  int64_t i = 0;
  for (; i < numel; ++i, walk.next()) {
    if (find_in_run(in, walk.in, 1, value) == 0) break;
  }
  return i;
}

/// Values and indices of `n` columns of `rows` rows.
template <typename T, bool kMax>
void arg_columns(const Source<T>& in, int64_t offset, int64_t stride, int64_t rows, int64_t n, T* values,
                 int64_t* indices) {
  T buffer[kColumnBlock];
  int32_t best[kColumnBlock];
  const T* first = in.get(offset, n, buffer);
  for (int64_t j = 0; j < n; ++j) {
    values[j] = first[j];
    best[j] = 0;
  }
  for (int64_t row = 1; row < rows; ++row) {
    const T* __restrict p = in.get(offset + row * stride, n, buffer);
    const int32_t index = static_cast<int32_t>(row);
    for (int64_t j = 0; j < n; ++j) {
      const T x = p[j];
      const T y = values[j];
      const bool better = (kMax ? x > y : x < y) | ((x != x) & (y == y));
      values[j] = better ? x : y;
      best[j] = better ? index : best[j];
    }
  }
  for (int64_t j = 0; j < n; ++j) indices[j] = best[j];
}

/// Reduces one dim, or all of them when `flat`. `values` may be null.
template <typename T, bool kMax>
bool arg_extreme_as(KernelContext& ctx, const Tensor& self, uint32_t mask, bool flat, const Tensor* values,
                    const Tensor& indices) {
  Source<T> source;
  Sink<T> value_sink;
  Sink<int64_t> index_sink;
  if (!make_source<T, kRealBool>(self, &source)) return false;
  if (values != nullptr && !make_sink<T, kRealBool>(*values, &value_sink)) return false;
  if (!make_sink<int64_t, dtype_bit(ScalarType::Long)>(indices, &index_sink)) return false;
  // Both results have one shape, but maybe two layouts: the values are placed by a plan of their own.
  const ReducePlan plan = make_reduce_plan(self, mask, indices);
  const ExtremeOp<T, kMax> op;
  const bool one_layout = values == nullptr || same_layout(*values, indices);
  for (int pass = 0; pass < (one_layout ? 1 : 2); ++pass) {
    const ReducePlan& used = pass == 0 ? plan : make_reduce_plan(self, mask, *values);
    for_each_part(ctx, used, [&](int64_t from, int64_t to, int64_t stride, int64_t n) {
      T value[kColumnBlock];
      int64_t index[kColumnBlock];
      if (used.rows) {
        value[0] = reduce_row(used, source, from, op);
        index[0] =
            flat ? find_in_tensor(self, source, value[0]) : find_in_run(source, from, used.reduced_count, value[0]);
      } else {
        const int64_t step = used.reduced_rank > 0 ? used.reduced[0].in : 0;
        arg_columns<T, kMax>(source, from, step, used.reduced_count, n, value, index);
      }
      if (pass == 0) index_sink.put(to, stride, index, n);
      if (values != nullptr && (one_layout || pass == 1)) value_sink.put(to, stride, value, n);
    });
  }
  return true;
}

template <bool kMax>
void arg_extreme(KernelContext& ctx, const Tensor& self, uint32_t mask, bool flat, const Tensor* values,
                 const Tensor& indices) {
  const bool done =
      self.dtype == ScalarType::Double ? arg_extreme_as<double, kMax>(ctx, self, mask, flat, values, indices)
      : is_integral(self.dtype, true)  ? arg_extreme_as<int64_t, kMax>(ctx, self, mask, flat, values, indices)
                                       : arg_extreme_as<float, kMax>(ctx, self, mask, flat, values, indices);
  if (!done) ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
}

/// There is no extreme of nothing.
bool require_elements(KernelContext& ctx, const Tensor& self, uint32_t mask) {
  for (int d = 0; d < self.rank; ++d) {
    if (((mask >> d) & 1u) && self.sizes[d] == 0) {
      ctx.fail(Check::KernelShape, self, 0);
      return false;
    }
  }
  return true;
}

bool require_dtype(KernelContext& ctx, const Tensor& tensor, ScalarType dtype) {
  if (tensor.dtype == dtype) return true;
  ctx.fail(Check::KernelDtypeMismatch, tensor, static_cast<int64_t>(tensor.dtype));
  return false;
}

template <bool kMax>
void arg_out(KernelContext& ctx, const Tensor& self, std::optional<int64_t> dim, bool keepdim, Tensor& out) {
  uint32_t mask = all_dims(self);
  if (dim.has_value() && !one_dim(ctx, *dim, self, &mask)) return;
  if (!contains(kReal, self.dtype)) return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  if (!require_dtype(ctx, out, ScalarType::Long) || !require_elements(ctx, self, mask) || !has_data(ctx, self)) return;
  if (!resize_reduced(ctx, out, self, mask, keepdim)) return;
  arg_extreme<kMax>(ctx, self, mask, !dim.has_value(), nullptr, out);
}
template <bool kMax>
void along_dim(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& values, Tensor& indices) {
  uint32_t mask;
  if (!one_dim(ctx, dim, self, &mask)) return;
  if (!require_dtype(ctx, values, self.dtype) || !require_dtype(ctx, indices, ScalarType::Long)) return;
  if (!require_elements(ctx, self, mask) || !has_data(ctx, self)) return;
  if (!resize_reduced(ctx, values, self, mask, keepdim)) return;
  if (!resize_reduced(ctx, indices, self, mask, keepdim)) return;
  arg_extreme<kMax>(ctx, self, mask, false, &values, indices);
}

}  // namespace

void argmax_out(KernelContext& ctx, const Tensor& self, std::optional<int64_t> dim, bool keepdim, Tensor& out) {
  arg_out<true>(ctx, self, dim, keepdim, out);
}
void argmin_out(KernelContext& ctx, const Tensor& self, std::optional<int64_t> dim, bool keepdim, Tensor& out) {
  arg_out<false>(ctx, self, dim, keepdim, out);
}
void max_dim_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& max, Tensor& max_values) {
  along_dim<true>(ctx, self, dim, keepdim, max, max_values);
}
void min_dim_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& min, Tensor& min_indices) {
  along_dim<false>(ctx, self, dim, keepdim, min, min_indices);
}

}  // namespace etir
