// Copies that keep the order of elements, but not the shape.
#pragma once

#include "kernels/copy/view.h"

namespace etir {

/// Merges neighboring dims of a view that has elements: row-major tensors become one dim.
inline void merge_dims(View& view) {
  int kept = 0;
  for (int d = 0; d < view.rank; ++d) {
    if (view.sizes[d] == 1) continue;
    if (kept > 0 && view.strides[kept - 1] == view.strides[d] * view.sizes[d]) {
      view.sizes[kept - 1] *= view.sizes[d];
    } else {
      view.sizes[kept++] = view.sizes[d];
    }
    view.strides[kept - 1] = view.strides[d];
  }
  view.rank = kept;
}

namespace detail {

/// A position in a view, as elements are counted in row-major order.
struct LogicalPosition {
  const View& view;
  char* at;
  int64_t index[kMaxRank + 2];

  LogicalPosition(const View& v, int64_t start) : view(v), at(v.data) {
    for (int d = v.rank - 1; d >= 0; --d) {
      index[d] = start % v.sizes[d];
      start /= v.sizes[d];
      at += index[d] * step(d);
    }
  }
  int64_t step(int d) const { return view.strides[d] * static_cast<int64_t>(view.element); }
  /// Elements left in the innermost dim, and how far apart they are.
  int64_t left() const { return view.rank == 0 ? 1 : view.sizes[view.rank - 1] - index[view.rank - 1]; }
  int64_t stride() const { return view.rank == 0 ? 0 : view.strides[view.rank - 1]; }
  void advance(int64_t count) {
    if (view.rank == 0) return;
    int d = view.rank - 1;
    at += count * step(d);
    index[d] += count;
    for (; d > 0 && index[d] == view.sizes[d]; --d) {
      at += step(d - 1) - view.sizes[d] * step(d);
      index[d] = 0;
      ++index[d - 1];
    }
  }
};

}  // namespace detail

/// Copies `count` elements, counted in row-major order, between views of any two shapes; views of other than row-major
/// tensors may have to go line by line.
[[gnu::noinline]] inline void copy_in_order(KernelContext& ctx, View from, int64_t from_start, View to,
                                            int64_t to_start, int64_t count) {
  if (count <= 0) return;
  merge_dims(from);
  merge_dims(to);
  detail::LogicalPosition source(from, from_start), target(to, to_start);
  while (count > 0) {
    int64_t n = source.left() < target.left() ? source.left() : target.left();
    if (n > count) n = count;
    CopyDims dims;
    dims.add(n, source.stride(), target.stride());
    strided_copy(ctx, dims, source.at, target.at, to.element);
    source.advance(n);
    target.advance(n);
    count -= n;
  }
}

/// Copies all elements of a view into one of another shape with as many elements, in row-major order. Where the dims of
/// both shapes have a common refinement, as nearly always, that is one copy.
[[gnu::noinline]] inline void copy_reshaped(KernelContext& ctx, const View& from, const View& to) {
  const int64_t count = to.numel();
  if (count == 0) return;
  CopyDims dims;
  int i = from.rank - 1, j = to.rank - 1;
  int64_t from_left = 1, to_left = 1, from_stride = 0, to_stride = 0;
  for (;;) {
    while (from_left == 1 && i >= 0) {
      from_left = from.sizes[i];
      from_stride = from.strides[i--];
    }
    while (to_left == 1 && j >= 0) {
      to_left = to.sizes[j];
      to_stride = to.strides[j--];
    }
    if (from_left == 1 && to_left == 1) break;
    const int64_t n = from_left < to_left ? from_left : to_left;
    if (n == 1 || from_left % n != 0 || to_left % n != 0) return copy_in_order(ctx, from, 0, to, 0, count);
    dims.add(n, from_stride, to_stride);
    from_left /= n;
    to_left /= n;
    from_stride *= n;
    to_stride *= n;
  }
  strided_copy(ctx, dims, from.data, to.data, to.element);
}

}  // namespace etir
