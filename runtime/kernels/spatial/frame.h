// Images seen as five dims: batch, channels, depth, height, width.
//
// Operators on one, two and three spatial dims, with or without a batch dim, in any dense dim order, all come down to
// one frame of sizes and strides, so that each is written once.
#pragma once

#include "kernels/kernel.h"
#include "kernels/util/checks.h"

namespace etir::spatial {

/// Inner loops work on blocks of at most this many elements, whose state fits the first-level cache and the stack.
constexpr int64_t kLanes = 64;

enum : int { kN = 0, kC = 1, kD = 2, kH = 3, kW = 4 };

struct Frame {
  int64_t size[5];    ///< absent dims have size 1
  int64_t stride[5];  ///< strides in elements; absent dims have stride 0

  int64_t numel() const { return size[0] * size[1] * size[2] * size[3] * size[4]; }
  /// Offset of a channel's first element.
  int64_t plane(int64_t n, int64_t c) const { return n * stride[kN] + c * stride[kC]; }
  int64_t points() const { return size[kD] * size[kH] * size[kW]; }
};

/// Sizes and strides of a tensor with `spatial` spatial dims, as far as ranks go.
inline Frame frame_of(const Tensor& tensor, int spatial) {
  Frame frame;
  int64_t strides[kMaxRank];
  tensor.strides(strides);
  for (int d = 0; d < 5; ++d) {
    frame.size[d] = 1;
    frame.stride[d] = 0;
  }
  const bool batched = tensor.rank == spatial + 2;
  for (int d = 0; d < tensor.rank; ++d) {
    // The last `spatial` dims go to the end of the frame, what is before them to the front.
    const int from_end = tensor.rank - d;
    const int to = from_end <= spatial ? 5 - from_end : batched ? d : kC;
    frame.size[to] = tensor.sizes[d];
    frame.stride[to] = strides[d];
  }
  return frame;
}

/// Checks that a tensor has `spatial` spatial dims, channels and perhaps a batch dim, and has data. False: failed.
inline bool check_frame(KernelContext& ctx, const Tensor& tensor, int spatial, bool batch_needed = false) {
  if (tensor.rank != spatial + 2 && (batch_needed || tensor.rank != spatial + 1)) {
    ctx.fail(Check::KernelRank, tensor, tensor.rank);
    return false;
  }
  return has_data(ctx, tensor);
}

inline bool check_dtype(KernelContext& ctx, const Tensor& tensor, ScalarType wanted) {
  if (tensor.dtype == wanted) return true;
  ctx.fail(Check::KernelDtypeMismatch, tensor, static_cast<int64_t>(tensor.dtype));
  return false;
}

/// Gives `out` the shape of `like` (a tensor with `spatial` spatial dims) with other sizes at the end.
inline bool resize_spatial(KernelContext& ctx, Tensor& out, const Tensor& like, int spatial, const int64_t* sizes) {
  int64_t shape[kMaxRank];
  for (int d = 0; d < like.rank; ++d) shape[d] = like.sizes[d];
  for (int d = 0; d < spatial; ++d) shape[like.rank - spatial + d] = sizes[d];
  return ctx.resize(out, shape, like.rank);
}

/// Whether inner loops should run over channels rather than along rows.
inline bool channels_inside(const Frame& in, const Frame& out) {
  return in.stride[kC] == 1 && out.stride[kC] == 1 && in.size[kC] > 1 &&
         (in.size[kC] >= 8 || in.size[kC] >= out.size[kW]);
}

/// Splits a row number into coordinates, the last dim fastest.
inline void unravel(int64_t row, const int64_t* sizes, int count, int64_t* index) {
  for (int d = count - 1; d >= 0; --d) {
    index[d] = row % sizes[d];
    row /= sizes[d];
  }
}

/// An index that the compiler may not vectorize over: single loads are faster than AVX2's gathers.
inline int64_t single(int64_t index) {
#if defined(__GNUC__) && defined(__AVX2__)
  __asm__("" : "+r"(index));
#endif
  return index;
}

/// floor(a / b) for b > 0.
inline int64_t floor_div(int64_t a, int64_t b) {
  if (b == 1) return a;
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}
/// ceil(a / b) for b > 0.
inline int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace etir::spatial
