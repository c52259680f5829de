// The most frequent element of each line: mode.
#include "kernels/sorting/mode.gen.h"
#include "kernels/util/order_key.h"

namespace etir {

using namespace lines;

namespace {

/// Checks the arguments and gives both results the shape of `self` without the dim (or with 1 there). Returns the dim,
/// or -1 with the failure recorded.
int start(KernelContext& ctx, const Tensor& self, int64_t dim_given, bool keepdim, Tensor& values, Tensor& indices) {
  if (!takes(ctx, self, kRealBool)) return -1;
  const int dim = dim_argument(ctx, dim_given, self.rank);
  if (dim < 0) return -1;
  if (values.dtype != self.dtype) {
    return ctx.fail(Check::KernelDtypeMismatch, values, number(values.dtype)), -1;
  }
  if (indices.dtype != ScalarType::Long) {
    return ctx.fail(Check::KernelDtype, indices, number(indices.dtype)), -1;
  }
  int64_t shape[kMaxRank];
  int rank = 0;
  for (int d = 0; d < self.rank; ++d) {
    if (d != dim) {
      shape[rank++] = self.sizes[d];
    } else if (keepdim) {
      shape[rank++] = 1;
    }
  }
  if (!ctx.resize(values, shape, rank) || !has_data(ctx, values)) return -1;
  if (!ctx.resize(indices, shape, rank) || !has_data(ctx, indices)) return -1;
  return dim;
}

/// A view of a result that lost its dim, with that dim back.
View with_dim(const Tensor& result, int rank, int dim) {
  View view(result);
  if (result.rank == rank || rank == 0) return view;
  for (int d = rank - 1; d > dim; --d) {
    view.sizes[d] = view.sizes[d - 1];
    view.strides[d] = view.strides[d - 1];
  }
  view.sizes[dim] = 1;
  view.strides[dim] = 0;
  view.rank = rank;
  return view;
}

/// For every line, `pick(key, line, step, n)` says which element is the result.
template <typename Pick>
void pick_along(KernelContext& ctx, const Tensor& self, int dim, const Tensor& values, const Tensor& indices,
                const Pick& pick) {
  const View from(self);
  const View values_view = with_dim(values, self.rank, dim), indices_view = with_dim(indices, self.rank, dim);
  const View* const views[] = {&from, &values_view, &indices_view};
  const auto lines = loops_over_lines<3>(self, dim, views);
  const int64_t n = from.sizes[dim], step = from.strides[dim];
  if (lines.numel() == 0) return;
  if (n == 0) return ctx.fail(Check::KernelShape, self, 0);
  dispatch_key(self.dtype, kRealBool, [&](auto tag) {
    using U = typename decltype(tag)::type;
    const OrderKey<U> key(self.dtype, false);
    for_each_line(ctx, lines, 8 * n, [&](char* const* data) {
      const int64_t index = pick(key, data[0], step, n);
      store(data[1], load<U>(data[0] + index * step));
      store(data[2], index);
    });
  });
}

}  // namespace

// Temporary memory: a key (of the element's size) and 8 bytes for every element of the dim.
void mode_values(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& values, Tensor& indices) {
  const int axis = start(ctx, self, dim, keepdim, values, indices);
  if (axis < 0) return;
  if (values.numel() == 0) return;
  const int64_t size = self.rank > 0 ? self.sizes[axis] : 1;
  char* places = temp_for<char>(ctx, size * 8);
  if (places == nullptr) return;
  const int64_t bytes = static_cast<int64_t>(element_size(self.dtype));
  char* keys = temp_for<char>(ctx, size * bytes);
  if (keys == nullptr) return;
  // One line at a time: the lines share the memory.
  const ParallelFor parallel = ctx.parallel;
  ctx.parallel.run = nullptr;
  pick_along(ctx, self, axis, values, indices, [=](const auto& key, const char* line, int64_t step, int64_t n) {
    using U = std::decay_t<decltype(key(0))>;
    const Pairs<U> pairs{keys, bytes, places, 8};
    for (int64_t i = 0; i < n; ++i) pairs.set(i, key.at(line + i * step), i);
    pairs.sort(n);
    int64_t longest = 0, place = 0;
    for (int64_t i = 0; i < n;) {
      int64_t end = i + 1;
      // NaNs are equal to none.
      const bool nan = key.is_nan(load<U>(line + pairs.index(i) * step));
      while (!nan && end < n && pairs.key(end) == pairs.key(i)) ++end;
      if (end - i > longest) {
        longest = end - i;
        place = pairs.index(end - 1);
      }
      i = end;
    }
    return place;
  });
  ctx.parallel = parallel;
}

}  // namespace etir
