// Second passes over what a reduction read: every element of a part, written to the same place of a like tensor.
#pragma once

#include "kernels/util/reduce.h"
#include "kernels/util/reduce_args.h"
#include "kernels/util/reduce_ops.h"
#include "kernels/util/vector_math.h"

namespace etir {

/// Calls `run(offset, n)` for every contiguous run of the part that starts at `offset`: `columns` elements of a row of
/// columns, or up to kRowBlock elements of a row.
template <typename Run>
void for_each_run(const ReducePlan& plan, int64_t offset, int64_t columns, const Run& run) {
  if (plan.reduced_count == 0) return;
  if (!plan.rows) {
    DimWalk walk(plan.reduced, plan.reduced_rank, 0);
    for (int64_t i = 0; i < plan.reduced_count; ++i, walk.next()) run(offset + walk.in, columns);
    return;
  }
  const int outer = plan.reduced_rank > 0 ? plan.reduced_rank - 1 : 0;
  const int64_t size = plan.reduced_rank > 0 ? plan.reduced[outer].size : 1;
  DimWalk walk(plan.reduced, outer, 0);
  for (int64_t i = plan.reduced_count / size; i > 0; --i, walk.next()) {
    for (int64_t j = 0; j < size; j += kRowBlock) {
      run(offset + walk.in + j, size - j < kRowBlock ? size - j : kRowBlock);
    }
  }
}

/// out = f(in) for one run; `f(x, j)` gets the column (0 in a row), and is inlined into a vectorizable loop.
template <bool kRows, typename T, typename F>
ETIR_FLATTEN inline void transform_run(const Source<T>& in, const Sink<T>& out, int64_t offset, int64_t n, const F& f) {
  T from_buffer[kRowBlock];
  T to_buffer[kRowBlock];
  const T* from = in.get(offset, n, from_buffer);
  T* to = out.place(offset, to_buffer);
  if (from == to) {
    // The result lies over the input.
    for (int64_t j = 0; j < n; ++j) to[j] = f(to[j], kRows ? 0 : j);
    return;
  }
  const T* __restrict p = from;
  T* __restrict q = to;
  for (int64_t j = 0; j < n; ++j) q[j] = f(p[j], kRows ? 0 : j);
  out.flush(offset, q, n);
}

/// out = f(in) for the whole part. The result lies as the input does.
template <typename T, typename F>
void transform_part(const ReducePlan& plan, const Source<T>& in, const Sink<T>& out, int64_t offset, int64_t columns,
                    const F& f) {
  if (plan.rows) {
    for_each_run(plan, offset, columns, [&](int64_t at, int64_t n) { transform_run<true>(in, out, at, n, f); });
  } else {
    for_each_run(plan, offset, columns, [&](int64_t at, int64_t n) { transform_run<false>(in, out, at, n, f); });
  }
}

/// Sums of f(a, b) and g(a, b) over the part of two tensors that lie alike, for each column.
template <typename T, typename F, typename G>
void sum_pairs(const ReducePlan& plan, const Source<T>& a, const Source<T>& b, int64_t offset, int64_t columns,
               T* first, T* second, const F& f, const G& g) {
  using Op = SumOp<T>;
  const Op op;
  T a_buffer[kRowBlock];
  T b_buffer[kRowBlock];
  if (plan.rows) {
    T terms[kRowBlock];
    detail::Tree<Op> first_total(op);
    detail::Tree<Op> second_total(op);
    for_each_run(plan, offset, columns, [&](int64_t at, int64_t n) {
      const T* __restrict x = a.get(at, n, a_buffer);
      const T* __restrict y = b.get(at, n, b_buffer);
      for (int64_t j = 0; j < n; ++j) terms[j] = f(x[j], y[j], 0);
      first_total.add(detail::fold_block(terms, n, op));
      for (int64_t j = 0; j < n; ++j) terms[j] = g(x[j], y[j], 0);
      second_total.add(detail::fold_block(terms, n, op));
    });
    first[0] = first_total.total();
    second[0] = second_total.total();
    return;
  }
  // Two levels of accumulators: as accurate as the sums of reduce.h up to some ten thousand rows.
  constexpr int kFlush = 64;
  T low[2][kColumnBlock];
  for (int64_t j = 0; j < columns; ++j) first[j] = second[j] = low[0][j] = low[1][j] = T(0);
  int done = 0;
  for_each_run(plan, offset, columns, [&](int64_t at, int64_t n) {
    const T* __restrict x = a.get(at, n, a_buffer);
    const T* __restrict y = b.get(at, n, b_buffer);
    for (int64_t j = 0; j < n; ++j) {
      low[0][j] += f(x[j], y[j], j);
      low[1][j] += g(x[j], y[j], j);
    }
    if (++done < kFlush) return;
    done = 0;
    detail::merge(op, first, low[0], n);
    detail::merge(op, second, low[1], n);
  });
  detail::merge(op, first, low[0], columns);
  detail::merge(op, second, low[1], columns);
}

/// The mean and the mean squared deviation of each column of the part, which has elements.
template <typename T>
void part_moments(const ReducePlan& plan, const Source<T>& in, int64_t offset, int64_t columns, T* means,
                  T* variances) {
  const T count = static_cast<T>(plan.reduced_count);
  reduce_part(plan, in, offset, columns, SumOp<T>(), means);
  for (int64_t j = 0; j < columns; ++j) means[j] /= count;
  SquaredDeviationOp<T> op;
  op.means = means;
  reduce_part(plan, in, offset, columns, op, variances);
  for (int64_t j = 0; j < columns; ++j) variances[j] /= count;
}

/// A tensor argument as the accumulator's type, one element at a time; absent ones are a constant.
template <typename T>
class Parameter {
 public:
  /// False, with the failure recorded, when it is no tensor of `count` elements that can be read.
  bool make(KernelContext& ctx, const Tensor* tensor, int64_t count, T if_absent) {
    if_absent_ = if_absent;
    if (tensor == nullptr) return true;
    if (tensor->numel() != count) return ctx.fail(Check::KernelShape, *tensor, tensor->numel()), false;
    if (!in_plain_order(*tensor)) return ctx.fail(Check::KernelDimOrder, *tensor), false;
    if (!has_data(ctx, *tensor)) return false;
    present_ = true;
    if (!make_source<T, kFloats>(*tensor, &source_)) {
      return ctx.fail(Check::KernelDtype, *tensor, static_cast<int64_t>(tensor->dtype)), false;
    }
    return true;
  }
  bool present() const { return present_; }
  T at(int64_t i) const {
    T buffer;
    return present_ ? *source_.get(i, 1, &buffer) : if_absent_;
  }
  /// `n` elements; `buffer` has room for them.
  const T* block(int64_t i, int64_t n, T* buffer) const {
    if (present_) return source_.get(i, n, buffer);
    for (int64_t j = 0; j < n; ++j) buffer[j] = if_absent_;
    return buffer;
  }

 private:
  Source<T> source_;
  T if_absent_ = T(0);
  bool present_ = false;
};

/// The sink of a floating result; false, with the failure recorded, for other dtypes.
template <typename T>
bool float_sink(KernelContext& ctx, const Tensor& out, Sink<T>* sink) {
  if (make_sink<T, kFloats>(out, sink)) return true;
  ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  return false;
}
template <typename T>
bool float_source(KernelContext& ctx, const Tensor& tensor, Source<T>* source) {
  if (make_source<T, kFloats>(tensor, source)) return has_data(ctx, tensor);
  ctx.fail(Check::KernelDtype, tensor, static_cast<int64_t>(tensor.dtype));
  return false;
}
/// A result becomes a tensor like `other`, in shape and memory order.
inline bool resize_alike(KernelContext& ctx, Tensor& out, const Tensor& other) {
  if (!ctx.resize_like(out, other) || !has_data(ctx, out)) return false;
  if (same_layout(out, other)) return true;
  ctx.fail(Check::KernelDimOrder, out);
  return false;
}
/// A tensor must be like `other`, in shape and memory order.
inline bool require_alike(KernelContext& ctx, const Tensor& tensor, const Tensor& other) {
  if (!same_shape(tensor, other)) {
    ctx.fail(Check::KernelShape, tensor, tensor.rank > 0 ? tensor.sizes[0] : 1);
  } else if (!same_layout(tensor, other)) {
    ctx.fail(Check::KernelDimOrder, tensor);
  }
  return !ctx.failed();
}

/// Whether the sizes that group normalization is given are those of its input, and the groups divide the channels. The
/// four are arguments side by side, the first one at `position`.
inline bool check_group_sizes(KernelContext& ctx, const Tensor& input, int64_t samples, int64_t channels,
                              int64_t pixels, int64_t groups, int position) {
  if (input.rank < 2) return ctx.fail(Check::KernelRank, input, input.rank), false;
  int64_t expected = 1;
  for (int d = 2; d < input.rank; ++d) {
    if (__builtin_mul_overflow(expected, int64_t{input.sizes[d]}, &expected)) expected = -1;
  }
  if (samples != input.sizes[0]) return ctx.fail(Check::KernelArgument, position, samples), false;
  if (channels != input.sizes[1]) return ctx.fail(Check::KernelArgument, position + 1, channels), false;
  if (pixels != expected) return ctx.fail(Check::KernelArgument, position + 2, pixels), false;
  if (groups <= 0 || groups > INT32_MAX || channels % groups != 0) {
    return ctx.fail(Check::KernelArgument, position + 3, groups), false;
  }
  return true;
}

}  // namespace etir
