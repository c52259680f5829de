// Views of tensors, and the checks that every copying operator makes.
//
// Most operators of this family are a view that is then copied: they set up sizes and strides, copy_view does the rest.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"
#include "kernels/util/loops.h"
#include "kernels/util/strided_copy.h"

namespace etir {

/// Elements of a tensor: sizes, and strides in elements, which may be 0 or negative.
struct View {
  char* data;
  size_t element;
  int rank;
  int64_t sizes[kMaxRank + 2];
  int64_t strides[kMaxRank + 2];

  /// Moves the start by `count` elements.
  void shift(int64_t count) {
    if (data != nullptr) data += count * static_cast<int64_t>(element);
  }
  void add(int64_t size, int64_t stride) {
    sizes[rank] = size;
    strides[rank++] = stride;
  }
  void remove(int dim) {
    --rank;
    for (int d = dim; d < rank; ++d) {
      sizes[d] = sizes[d + 1];
      strides[d] = strides[d + 1];
    }
  }
  int64_t numel() const {
    int64_t count = 1;
    for (int d = 0; d < rank; ++d) count *= sizes[d];
    return count;
  }
};

inline View view_of(const Tensor& tensor) {
  View view;
  view.data = static_cast<char*>(tensor.data);
  view.element = element_size(tensor.dtype);
  view.rank = tensor.rank;
  for (int d = 0; d < tensor.rank; ++d) view.sizes[d] = tensor.sizes[d];
  tensor.strides(view.strides);
  return view;
}

/// Whether a tensor has the dtype of `like`, one that has a size.
inline bool check_dtype(KernelContext& ctx, const Tensor& like, const Tensor& tensor) {
  if (element_size(like.dtype) == 0) {
    ctx.fail(Check::KernelDtype, like, static_cast<int64_t>(like.dtype));
  } else if (like.dtype != tensor.dtype) {
    ctx.fail(Check::KernelDtypeMismatch, tensor, static_cast<int64_t>(tensor.dtype));
  }
  return !ctx.failed();
}

/// Whether a tensor of which elements are read and a result that is written have data, in different places.
[[gnu::noinline]] inline bool check_memory(KernelContext& ctx, const Tensor& in, const Tensor& out) {
  const size_t in_bytes = in.nbytes(), out_bytes = out.nbytes();
  if (out_bytes != 0 && out.data == nullptr) {
    ctx.fail(Check::KernelNoData, out);
    return false;
  }
  if (in_bytes == 0) return true;
  if (in.data == nullptr) {
    ctx.fail(Check::KernelNoData, in);
    return false;
  }
  const uintptr_t in_begin = reinterpret_cast<uintptr_t>(in.data), out_begin = reinterpret_cast<uintptr_t>(out.data);
  if (out_bytes != 0 && (in_begin < out_begin ? out_begin - in_begin < in_bytes : in_begin - out_begin < out_bytes)) {
    ctx.fail(Check::KernelOverlap, in);
    return false;
  }
  return true;
}

/// A dim argument, wrapped; -1 with the failure recorded when it is out of range.
inline int checked_dim(KernelContext& ctx, int64_t dim, int rank) {
  const int wrapped = wrap_dim(dim, rank);
  if (wrapped < 0) ctx.fail(Check::KernelDim, dim, rank);
  return wrapped;
}

/// Copies between views of one shape that are known to be in memory.
[[gnu::noinline]] inline void copy_elements(KernelContext& ctx, const View& from, const View& to) {
  CopyDims dims;
  for (int d = 0; d < to.rank; ++d) dims.add(to.sizes[d], from.strides[d], to.strides[d]);
  strided_copy(ctx, dims, from.data, to.data, to.element);
}

/// Whether two views of one shape and dtype are the same elements of memory.
inline bool same_memory(const View& a, const View& b) {
  if (a.data != b.data || a.data == nullptr) return false;
  for (int d = 0; d < a.rank; ++d) {
    if (a.sizes[d] != 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

/// Whether a view's elements lie one after the other, in the order of its dims.
inline bool is_contiguous(const View& view) {
  int64_t expected = 1;
  for (int d = view.rank - 1; d >= 0; --d) {
    if (view.sizes[d] != 1 && view.strides[d] != expected) return false;
    expected *= view.sizes[d];
  }
  return true;
}

/// Gives `out` the shape of a view of `self`, and its elements; it may be that part of `self` already.
[[gnu::noinline]] inline void copy_view(KernelContext& ctx, const View& view, const Tensor& self, Tensor& out) {
  if (!ctx.resize(out, view.sizes, view.rank)) return;
  if (same_memory(view, view_of(out)) || !check_memory(ctx, self, out)) return;
  copy_elements(ctx, view, view_of(out));
}

/// As torch's Tensor::copy_ for a result that starts as a copy of an argument: nothing to do if it is that argument.
inline bool copy_same_shape(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (!check_dtype(ctx, self, out) || !ctx.resize_like(out, self)) return false;
  if (self.data == out.data && self.data != nullptr && same_dim_order(self, out)) return true;
  if (!check_memory(ctx, self, out)) return false;
  copy_elements(ctx, view_of(self), view_of(out));
  return true;
}

}  // namespace etir
