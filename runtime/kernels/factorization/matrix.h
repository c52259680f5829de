// Batches of matrices: what the factorizations share. They are computed in double scratch memory, whatever the dtype.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <initializer_list>

#include "kernels/kernel.h"
#include "kernels/util/dispatch.h"

namespace etir {

/// A tensor as `count` matrices of `rows` times `cols` in row-major order.
struct Matrices {
  int64_t rows = 0, cols = 0, count = 0;
  int64_t size() const { return rows * cols; }
  int64_t shorter() const { return rows < cols ? rows : cols; }
};

/// An argument as matrices of one of `dtypes`; false, with the failure recorded, when it is none.
inline bool matrices(KernelContext& ctx, const Tensor& tensor, Matrices* found, DtypeSet dtypes = kFullFloats) {
  if (!contains(dtypes, tensor.dtype)) {
    ctx.fail(Check::KernelDtype, tensor, static_cast<int64_t>(tensor.dtype));
  } else if (tensor.rank < 2) {
    ctx.fail(Check::KernelRank, tensor, tensor.rank);
  } else if (!tensor.is_row_major()) {
    ctx.fail(Check::KernelDimOrder, tensor);
  } else if (tensor.data == nullptr && tensor.numel() > 0) {
    ctx.fail(Check::KernelNoData, tensor);
  }
  if (ctx.failed()) return false;
  found->rows = tensor.sizes[tensor.rank - 2];
  found->cols = tensor.sizes[tensor.rank - 1];
  found->count = 1;
  for (int d = 0; d + 2 < tensor.rank; ++d) found->count *= tensor.sizes[d];
  return true;
}

inline bool square(KernelContext& ctx, const Tensor& tensor, Matrices* found, DtypeSet dtypes = kFullFloats) {
  if (!matrices(ctx, tensor, found, dtypes)) return false;
  if (found->rows != found->cols) ctx.fail(Check::KernelShape, tensor, found->cols);
  return !ctx.failed();
}

/// Gives a result the batch of `like` and the dims of `tail`, checks dtype and layout.
inline bool prepare(KernelContext& ctx, Tensor& out, const Tensor& like, std::initializer_list<int64_t> tail,
                    ScalarType dtype) {
  if (out.dtype != dtype) {
    ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
    return false;
  }
  int64_t sizes[kMaxRank] = {};
  int rank = 0;
  for (; rank < like.rank - 2; ++rank) sizes[rank] = like.sizes[rank];
  for (const int64_t size : tail) sizes[rank++] = size;
  if (!ctx.resize(out, sizes, rank)) return false;
  if (!out.is_row_major()) {
    ctx.fail(Check::KernelDimOrder, out);
  } else if (out.data == nullptr && out.numel() > 0) {
    ctx.fail(Check::KernelNoData, out);
  }
  return !ctx.failed();
}

/// Gives a result the rows and columns of `b`, its dtype, and the batch to which those of `a` and `b` broadcast.
inline bool prepare_broadcast(KernelContext& ctx, Tensor& out, const Tensor& a, const Tensor& b) {
  if (out.dtype != b.dtype) {
    ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
    return false;
  }
  int64_t sizes[kMaxRank];
  const int rank = a.rank > b.rank ? a.rank : b.rank;
  for (int d = 0; d < rank - 2; ++d) {
    const int own = d - (rank - a.rank), its = d - (rank - b.rank);
    const int64_t x = own < 0 ? 1 : a.sizes[own], y = its < 0 ? 1 : b.sizes[its];
    if (x != y && x != 1 && y != 1) {
      ctx.fail(Check::KernelShape, b, y);
      return false;
    }
    sizes[d] = x == 1 ? y : x;
  }
  sizes[rank - 2] = b.sizes[b.rank - 2];
  sizes[rank - 1] = b.sizes[b.rank - 1];
  if (!ctx.resize(out, sizes, rank)) return false;
  if (!out.is_row_major()) {
    ctx.fail(Check::KernelDimOrder, out);
  } else if (out.data == nullptr && out.numel() > 0) {
    ctx.fail(Check::KernelNoData, out);
  }
  return !ctx.failed();
}

/// Which matrix of `tensor` goes with matrix `index` of a result whose batch has the sizes of `out`.
inline int64_t batch_of(const Tensor& tensor, const Tensor& out, int64_t index) {
  int64_t found = 0, stride = 1;
  for (int d = out.rank - 3; d >= 0; --d) {
    const int64_t position = index % out.sizes[d];
    index /= out.sizes[d];
    const int own = d - (out.rank - tensor.rank);
    if (own < 0) continue;
    if (tensor.sizes[own] != 1) found += position * stride;
    stride *= tensor.sizes[own];
  }
  return found;
}

/// A result that holds nothing, because it was not asked for.
inline bool prepare_empty(KernelContext& ctx, Tensor& out) {
  const int64_t none = 0;
  return ctx.resize(out, &none, 1);
}

/// Elements [at, at + n) of a tensor of floats or doubles, to and from double.
inline void load(const Tensor& from, int64_t at, int64_t n, double* to) {
  if (from.dtype == ScalarType::Float) {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<double>(from.ptr<const float>()[at + i]);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from.ptr<const double>()[at + i];
  }
}
inline void store(Tensor& to, int64_t at, int64_t n, const double* from) {
  if (to.dtype == ScalarType::Float) {
    for (int64_t i = 0; i < n; ++i) to.ptr<float>()[at + i] = static_cast<float>(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) to.ptr<double>()[at + i] = from[i];
  }
}

inline double conjugate(double x) { return x; }
inline std::complex<double> conjugate(const std::complex<double>& x) { return std::conj(x); }
/// The size of a number as far as comparisons need it.
inline double magnitude(double x) { return std::fabs(x); }
inline double magnitude(const std::complex<double>& x) { return std::fabs(x.real()) + std::fabs(x.imag()); }

inline void set_identity(double* to, int64_t n) {
  for (int64_t i = 0; i < n * n; ++i) to[i] = i % (n + 1) == 0 ? 1 : 0;
}
inline void swap_values(double& a, double& b) {
  const double kept = a;
  a = b;
  b = kept;
}

}  // namespace etir
