// Distances between the rows of matrices: _cdist_forward (all pairs of two) and _pdist_forward (all pairs of one).
#include "kernels/reduction/distance.gen.h"
#include "kernels/reduction/norm_ops.h"
#include "kernels/util/reduce_args.h"

namespace etir {
namespace {

/// The p-norm of the difference of two rows of n elements.
template <typename T, typename Op, typename Finish>
T row_distance(const Source<T>& a, int64_t a_at, const Source<T>& b, int64_t b_at, int64_t n, const Op& op,
               const Finish& finish) {
  T a_buffer[kRowBlock], b_buffer[kRowBlock], difference[kRowBlock];
  std::conditional_t<Op::kRounds, detail::Tree<Op>, detail::Flat<Op>> total(op);
  for (int64_t i = 0; i < n; i += kRowBlock) {
    const int64_t count = n - i < kRowBlock ? n - i : kRowBlock;
    const T* __restrict x = a.get(a_at + i, count, a_buffer);
    const T* __restrict y = b.get(b_at + i, count, b_buffer);
    for (int64_t j = 0; j < count; ++j) difference[j] = x[j] - y[j];
    total.add(detail::fold_block(difference, count, op));
  }
  return finish(total.total());
}

/// Checks what both operators ask of their tensors: floats of one dtype, contiguous, and p >= 0.
bool check_operands(KernelContext& ctx, const Tensor& first, const Tensor& second, double p, int p_position,
                    const Tensor& out) {
  const ScalarType dtype = first.dtype;
  if (!is_floating(dtype)) return ctx.fail(Check::KernelDtype, first, static_cast<int64_t>(dtype)), false;
  for (const Tensor* tensor : {&first, &second, &out}) {
    if (tensor->dtype != dtype) {
      return ctx.fail(Check::KernelDtypeMismatch, *tensor, static_cast<int64_t>(tensor->dtype)), false;
    }
    if (!in_plain_order(*tensor)) return ctx.fail(Check::KernelDimOrder, *tensor), false;
  }
  if (!(p >= 0)) return ctx.fail(Check::KernelArgument, p_position, -1), false;
  return has_data(ctx, first) && has_data(ctx, second);
}

template <typename T>
void cdist_as(KernelContext& ctx, const Tensor& x1, const Tensor& x2, double p, const Tensor& out) {
  const int batch_rank = out.rank - 2;
  const int64_t rows = out.sizes[batch_rank];
  const int64_t columns = out.sizes[batch_rank + 1];
  const int64_t length = x1.sizes[x1.rank - 1];
  Source<T> a, b;
  Sink<T> sink;
  if (!make_source<T, kFloats>(x1, &a) || !make_source<T, kFloats>(x2, &b) || !make_sink<T, kFloats>(out, &sink)) {
    return ctx.fail(Check::KernelDtype, x1, static_cast<int64_t>(x1.dtype));
  }
  if (out.numel() == 0) return;
  // Batches, broadcast: strides in whole matrices.
  ReducePlan::Dim batches[kMaxRank];
  int64_t x1_stride = 1, x2_stride = 1;
  for (int d = batch_rank - 1; d >= 0; --d) {
    const int d1 = d - (out.rank - x1.rank);
    const int d2 = d - (out.rank - x2.rank);
    const int64_t size1 = d1 < 0 ? 1 : x1.sizes[d1];
    const int64_t size2 = d2 < 0 ? 1 : x2.sizes[d2];
    batches[d] = {out.sizes[d], size1 == 1 ? 0 : x1_stride, size2 == 1 ? 0 : x2_stride};
    x1_stride *= size1;
    x2_stride *= size2;
  }
  with_norm<T>(p, [&](const auto& op, const auto& finish) {
    const int64_t lines = out.numel() / columns;
    ctx.parallel_for(lines, 32768 / (columns * length + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        const DimWalk batch(batches, batch_rank, line / rows);
        const int64_t from = (batch.in * rows + line % rows) * length;
        for (int64_t j = 0; j < columns; ++j) {
          const T distance = row_distance(a, from, b, (batch.out * columns + j) * length, length, op, finish);
          sink.put(line * columns + j, 1, &distance, 1);
        }
      }
    });
  });
}

template <typename T>
void pdist_as(KernelContext& ctx, const Tensor& self, double p, const Tensor& out) {
  const int64_t rows = self.sizes[0];
  const int64_t length = self.sizes[1];
  Source<T> in;
  Sink<T> sink;
  if (!make_source<T, kFloats>(self, &in) || !make_sink<T, kFloats>(out, &sink)) {
    return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  }
  with_norm<T>(p, [&](const auto& op, const auto& finish) {
    int64_t next = 0;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = i + 1; j < rows; ++j) {
        const T distance = row_distance(in, i * length, in, j * length, length, op, finish);
        sink.put(next++, 1, &distance, 1);
      }
    }
  });
}

}  // namespace

/// x1 [..., P, M] and x2 [..., R, M] give [..., P, R]. The compute mode is a hint that has no effect.
void cdist_forward_out(KernelContext& ctx, const Tensor& x1, const Tensor& x2, double p,
                       std::optional<int64_t> /*compute_mode*/, Tensor& out) {
  if (!check_operands(ctx, x1, x2, p, arguments::cdist_forward_out::p, out)) return;
  for (const Tensor* tensor : {&x1, &x2}) {
    if (tensor->rank < 2) return ctx.fail(Check::KernelRank, *tensor, tensor->rank);
  }
  if (x1.sizes[x1.rank - 1] != x2.sizes[x2.rank - 1]) return ctx.fail(Check::KernelShape, x2, x2.sizes[x2.rank - 1]);
  const int rank = x1.rank > x2.rank ? x1.rank : x2.rank;
  int64_t sizes[kMaxRank];
  for (int d = 0; d < rank - 2; ++d) {
    const int d1 = d - (rank - x1.rank);
    const int d2 = d - (rank - x2.rank);
    const int64_t size1 = d1 < 0 ? 1 : x1.sizes[d1];
    const int64_t size2 = d2 < 0 ? 1 : x2.sizes[d2];
    if (size1 != size2 && size1 != 1 && size2 != 1) return ctx.fail(Check::KernelShape, x2, size2);
    sizes[d] = size1 == 1 ? size2 : size1;
  }
  sizes[rank - 2] = x1.sizes[x1.rank - 2];
  sizes[rank - 1] = x2.sizes[x2.rank - 2];
  if (!ctx.resize(out, sizes, rank) || !has_data(ctx, out)) return;
  if (x1.dtype == ScalarType::Double) return cdist_as<double>(ctx, x1, x2, p, out);
  cdist_as<float>(ctx, x1, x2, p, out);
}

/// self [N, M] gives the N * (N - 1) / 2 distances of its rows, in the order (0, 1), (0, 2), ... (1, 2), ...
void pdist_forward_out(KernelContext& ctx, const Tensor& self, double p, Tensor& out) {
  if (!check_operands(ctx, self, self, p, arguments::pdist_forward_out::p, out)) return;
  if (self.rank != 2) return ctx.fail(Check::KernelRank, self, self.rank);
  const int64_t rows = self.sizes[0];
  const int64_t pairs = rows * (rows - 1) / 2;
  if (!ctx.resize(out, &pairs, 1) || !has_data(ctx, out)) return;
  if (self.dtype == ScalarType::Double) return pdist_as<double>(ctx, self, p, out);
  pdist_as<float>(ctx, self, p, out);
}

}  // namespace etir
