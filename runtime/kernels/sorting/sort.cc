// sort, argsort and topk: keys and indices are sorted in the results themselves, so that no temporary memory is needed
// (but by argsort, whose result has no room for keys).
#include "kernels/sorting/sort.gen.h"
#include "kernels/util/order_key.h"

namespace etir {

using namespace lines;

namespace {

constexpr DtypeSet kSorted = kRealBool | kUnsignedInts;

/// Checks the arguments that sorts share and gives the results the shape of `self`, with `k` in the dim when it is not
/// negative. Returns the dim, or -1 with the failure recorded.
int start(KernelContext& ctx, const Tensor& self, int64_t dim_given, int64_t k, Tensor* values, Tensor& indices) {
  if (!takes(ctx, self, kSorted)) return -1;
  const int dim = dim_argument(ctx, dim_given, self.rank);
  if (dim < 0) return -1;
  if (indices.dtype != ScalarType::Long) {
    return ctx.fail(Check::KernelDtype, indices, number(indices.dtype)), -1;
  }
  int64_t shape[kMaxRank];
  for (int d = 0; d < self.rank; ++d) shape[d] = d == dim && k >= 0 ? k : self.sizes[d];
  if (values != nullptr) {
    if (values->dtype != self.dtype) {
      return ctx.fail(Check::KernelDtypeMismatch, *values, number(values->dtype)), -1;
    }
    if (!ctx.resize(*values, shape, self.rank) || !has_data(ctx, *values)) return -1;
  }
  if (!ctx.resize(indices, shape, self.rank) || !has_data(ctx, indices)) return -1;
  return dim;
}

/// Puts the elements that sorted indices name in the place of their keys.
template <typename U>
void fetch_values(const Pairs<U>& pairs, int64_t k, const char* line, int64_t step, int64_t n) {
  for (int64_t i = 0; i < k; ++i) {
    const int64_t index = pairs.index(i);
    // Indices were in memory all along: one that another tensor overwrote must not be followed.
    const bool good = static_cast<uint64_t>(index) < static_cast<uint64_t>(n);
    store(pairs.keys + i * pairs.key_step, load<U>(line + (good ? index : 0) * step));
  }
}

/// The k best of n elements, best first: a heap of the best so far, its root the worst of them.
template <typename U>
void best(const OrderKey<U>& key, const Pairs<U>& pairs, const char* line, int64_t step, int64_t n, int64_t k) {
  for (int64_t i = 0; i < k; ++i) pairs.set(i, key.at(line + i * step), i);
  if (k < n) {
    pairs.make_heap(0, k);
    for (int64_t i = k; i < n; ++i) {
      const U candidate = key.at(line + i * step);
      // Of equals the first is kept.
      if (candidate >= pairs.key(0)) continue;
      pairs.set(0, candidate, i);
      pairs.sift_down(0, k, 0);
    }
  }
  pairs.sort(k);
  fetch_values(pairs, k, line, step, n);
}

/// The `k` best along a dim, or all of them (k < 0).
void sort(KernelContext& ctx, const Tensor& self, int64_t dim_given, bool descending, int64_t k, Tensor& values,
          Tensor& indices) {
  const int dim = start(ctx, self, dim_given, k, &values, indices);
  if (dim < 0) return;
  const View from(self), values_view(values), indices_view(indices);
  const int64_t n = from.sizes[dim], kept = k < 0 || self.rank == 0 ? n : k;
  if (n == 0 || kept == 0) return;
  const View* const views[] = {&from, &values_view, &indices_view};
  const auto lines = loops_over_lines<3>(self, dim, views);
  dispatch_key(self.dtype, kSorted, [&](auto tag) {
    using U = typename decltype(tag)::type;
    const OrderKey<U> key(self.dtype, descending);
    for_each_line(ctx, lines, 16 * n, [&](char* const* data) {
      const Pairs<U> pairs{data[1], values_view.strides[dim], data[2], indices_view.strides[dim]};
      best(key, pairs, data[0], from.strides[dim], n, kept);
    });
  });
}

}  // namespace

void sort_values(KernelContext& ctx, const Tensor& self, int64_t dim, bool descending, Tensor& values,
                 Tensor& indices) {
  sort(ctx, self, dim, descending, -1, values, indices);
}

void sort_values_stable(KernelContext& ctx, const Tensor& self, std::optional<bool> /*stable*/, int64_t dim,
                        bool descending, Tensor& values, Tensor& indices) {
  sort(ctx, self, dim, descending, -1, values, indices);
}

void topk_values(KernelContext& ctx, const Tensor& self, int64_t k, int64_t dim, bool largest, bool /*sorted*/,
                 Tensor& values, Tensor& indices) {
  using arg = arguments::topk_values;
  if (!contains(kSorted & ~kBool, self.dtype)) return ctx.fail(Check::KernelDtype, self, number(self.dtype));
  const int axis = dim_argument(ctx, dim, self.rank);
  if (axis < 0) return;
  if (k < 0 || k > (self.rank > 0 ? self.sizes[axis] : 1)) return ctx.fail(Check::KernelArgument, arg::k, k);
  sort(ctx, self, axis, largest, k, values, indices);
}

// Temporary memory: a key (of the element's size) for every element of the dim.
void argsort_stable_out(KernelContext& ctx, const Tensor& self, bool /*stable*/, int64_t dim, bool descending,
                        Tensor& out) {
  const int axis = start(ctx, self, dim, -1, nullptr, out);
  if (axis < 0) return;
  const View from(self), to(out);
  const int64_t n = from.sizes[axis];
  const View* const views[] = {&from, &to};
  const auto lines = loops_over_lines<2>(self, axis, views);
  const int64_t bytes = static_cast<int64_t>(element_size(self.dtype));
  if (self.numel() == 0) return;
  char* keys = temp_for<char>(ctx, n * bytes);
  if (keys == nullptr) return;
  dispatch_key(self.dtype, kSorted, [&](auto tag) {
    using U = typename decltype(tag)::type;
    const OrderKey<U> key(self.dtype, descending);
    for_each_position(lines, 0, lines.numel(), [&](char* const* data) {
      const Pairs<U> pairs{keys, bytes, data[1], to.strides[axis]};
      for (int64_t i = 0; i < n; ++i) pairs.set(i, key.at(data[0] + i * from.strides[axis]), i);
      pairs.sort(n);
    });
  });
}

}  // namespace etir
