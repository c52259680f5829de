// Checks that the operators on key and value caches share, and the update of a cache.
#pragma once

#include <cstring>

#include "kernels/kernel.h"

namespace etir::llm {

/// Checks rank, row-major order and data of an argument. False: failed.
inline bool check_tensor(KernelContext& ctx, const Tensor& tensor, int rank) {
  if (rank >= 0 && tensor.rank != rank) {
    ctx.fail(Check::KernelRank, tensor, tensor.rank);
    return false;
  }
  int64_t strides[kMaxRank], expected = 1;
  tensor.strides(strides);
  for (int d = tensor.rank - 1; d >= 0; --d) {
    if (tensor.sizes[d] > 1 && strides[d] != expected) {
      ctx.fail(Check::KernelDimOrder, tensor);
      return false;
    }
    expected *= tensor.sizes[d] > 0 ? tensor.sizes[d] : 1;
  }
  if (tensor.data == nullptr && tensor.numel() > 0) {
    ctx.fail(Check::KernelNoData, tensor);
    return false;
  }
  return true;
}

inline bool check_dtype(KernelContext& ctx, const Tensor& tensor, ScalarType wanted) {
  if (tensor.dtype == wanted) return true;
  ctx.fail(Check::KernelDtypeMismatch, tensor, static_cast<int64_t>(tensor.dtype));
  return false;
}

inline bool check_size(KernelContext& ctx, const Tensor& tensor, int dim, int64_t wanted) {
  if (tensor.sizes[dim] == wanted) return true;
  ctx.fail(Check::KernelShape, tensor, tensor.sizes[dim]);
  return false;
}

/// Checks that `value` [batch, n, heads, dim] can be written into `cache` [batch, length, heads, dim].
inline bool check_update(KernelContext& ctx, const Tensor& value, const Tensor& cache) {
  if (!check_tensor(ctx, value, 4) || !check_tensor(ctx, cache, 4)) return false;
  if (!check_dtype(ctx, value, cache.dtype)) return false;
  for (const int dim : {0, 2, 3}) {
    if (!check_size(ctx, value, dim, cache.sizes[dim])) return false;
  }
  return true;
}

/// Checks that `count` positions from `start` on lie in [0, length).
inline bool check_positions(KernelContext& ctx, int64_t start, int64_t count, int64_t length) {
  if (start < 0 || start > length || count > length - start) {
    ctx.fail(Check::KernelIndex, start, length);
    return false;
  }
  return true;
}

/// Writes `value` into `cache` from position `start` on; both have been checked.
inline void write_cache(const Tensor& value, const Tensor& cache, int64_t start) {
  const size_t row = static_cast<size_t>(value.size(2) * value.size(3)) * element_size(value.dtype);
  const size_t bytes = row * static_cast<size_t>(value.size(1));
  if (bytes == 0) return;
  for (int64_t batch = 0; batch < value.size(0); ++batch) {
    std::memmove(cache.ptr<uint8_t>() + static_cast<size_t>(batch * cache.size(1) + start) * row,
                 value.ptr<uint8_t>() + static_cast<size_t>(batch) * bytes, bytes);
  }
}

}  // namespace etir::llm
