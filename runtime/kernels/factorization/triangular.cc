// LU and Cholesky factorizations, and solutions of triangular systems.
//
// Sources: Golub and Van Loan, Matrix Computations, algorithms 3.4.1 (LU with row exchanges), 4.2.2 and 3.1.2. A zero
// pivot is no failure: its number goes to `info`, as LAPACK counts, and the caller decides.
#include <cmath>

#include "kernels/factorization/matrix.h"
#include "kernels/factorization/triangular.gen.h"
#include "kernels/util/loops.h"

namespace etir {

namespace {

/// PA = LU in place; `pivots` counts rows from 1. Returns the first zero pivot, from 1, or 0.
int32_t factor_lu(double* a, int64_t rows, int64_t cols, bool exchange, int32_t* pivots) {
  int32_t zero = 0;
  const int64_t steps = rows < cols ? rows : cols;
  for (int64_t k = 0; k < steps; ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; exchange && i < rows; ++i) {
      if (std::fabs(a[i * cols + k]) > std::fabs(a[best * cols + k])) best = i;
    }
    pivots[k] = static_cast<int32_t>(best + 1);
    for (int64_t j = 0; best != k && j < cols; ++j) swap_values(a[k * cols + j], a[best * cols + j]);
    const double pivot = a[k * cols + k];
    if (pivot == 0) {
      if (zero == 0) zero = static_cast<int32_t>(k + 1);
      continue;
    }
    for (int64_t i = k + 1; i < rows; ++i) {
      const double factor = a[i * cols + k] /= pivot;
      for (int64_t j = k + 1; j < cols; ++j) a[i * cols + j] -= factor * a[k * cols + j];
    }
  }
  return zero;
}

/// A = L L^T in the lower triangle, the upper one zero. Returns the first minor that is not positive, from 1, or 0.
int32_t factor_cholesky(double* a, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    double diagonal = a[j * n + j];
    for (int64_t k = 0; k < j; ++k) diagonal -= a[j * n + k] * a[j * n + k];
    if (!(diagonal > 0)) return static_cast<int32_t>(j + 1);
    a[j * n + j] = diagonal = std::sqrt(diagonal);
    for (int64_t i = j + 1; i < n; ++i) {
      double sum = a[i * n + j];
      for (int64_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = sum / diagonal;
    }
  }
  return 0;
}

/// Solves a triangular system in place; element (i, j) of the matrix is a[i * row + j * col], of x is x[i * step].
void solve(const double* a, int64_t n, int64_t row, int64_t col, bool upper, bool unit, double* x, int64_t step) {
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = upper ? n - 1 - k : k;
    double sum = x[i * step];
    for (int64_t j = upper ? i + 1 : 0; j < (upper ? n : i); ++j) sum -= a[i * row + j * col] * x[j * step];
    x[i * step] = unit ? sum : sum / a[i * row + i * col];
  }
}

}  // namespace

/// linalg_lu_factor_ex(A, pivot, check_errors; LU, pivots, info). Temp: one matrix of doubles and its pivots.
void linalg_lu_factor_ex_out(KernelContext& ctx, const Tensor& A, bool pivot, bool /*check_errors*/, Tensor& LU,
                             Tensor& pivots, Tensor& info) {
  Matrices a;
  if (!matrices(ctx, A, &a)) return;
  if (!prepare(ctx, LU, A, {a.rows, a.cols}, A.dtype) || !prepare(ctx, pivots, A, {a.shorter()}, ScalarType::Int) ||
      !prepare(ctx, info, A, {}, ScalarType::Int)) {
    return;
  }
  double* work = ctx.temp_array<double>(a.size());
  if (work == nullptr) return;
  for (int64_t m = 0; m < a.count; ++m) {
    load(A, m * a.size(), a.size(), work);
    int32_t* order = pivots.ptr<int32_t>() + m * a.shorter();
    info.ptr<int32_t>()[m] = factor_lu(work, a.rows, a.cols, pivot, order);
    store(LU, m * a.size(), a.size(), work);
  }
}

/// lu_unpack(LU, pivots, unpack_data, unpack_pivots; P, L, U).
void lu_unpack_out(KernelContext& ctx, const Tensor& LU_data, const Tensor& LU_pivots, bool unpack_data,
                   bool unpack_pivots, Tensor& P, Tensor& L, Tensor& U) {
  Matrices a;
  if (!matrices(ctx, LU_data, &a)) return;
  const Tensor &self = LU_data, &pivots = LU_pivots;
  const bool data = unpack_data, permutation = unpack_pivots;
  const int64_t k = a.shorter();
  if (pivots.dtype != ScalarType::Int)
    return ctx.fail(Check::KernelDtype, LU_pivots, static_cast<int64_t>(pivots.dtype));
  if (pivots.numel() != a.count * k) return ctx.fail(Check::KernelShape, LU_pivots, pivots.numel());
  if (!pivots.is_row_major()) return ctx.fail(Check::KernelDimOrder, LU_pivots);
  if (permutation ? !prepare(ctx, P, self, {a.rows, a.rows}, self.dtype) : !prepare_empty(ctx, P)) return;
  if (data ? !prepare(ctx, L, self, {a.rows, k}, self.dtype) || !prepare(ctx, U, self, {k, a.cols}, self.dtype)
           : !prepare_empty(ctx, L) || !prepare_empty(ctx, U)) {
    return;
  }
  if (pivots.data == nullptr && pivots.numel() > 0) return ctx.fail(Check::KernelNoData, LU_pivots);
  int64_t* order = ctx.temp_array<int64_t>(a.rows);
  if (order == nullptr) return;
  dispatch<kFullFloats>(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t m = 0; m < a.count; ++m) {
      const T* lu = self.ptr<const T>() + m * a.size();
      for (int64_t i = 0; data && i < a.rows; ++i) {
        T* row = L.ptr<T>() + (m * a.rows + i) * k;
        for (int64_t j = 0; j < k; ++j) row[j] = j < i ? lu[i * a.cols + j] : T(i == j ? 1 : 0);
      }
      for (int64_t i = 0; data && i < k; ++i) {
        T* row = U.ptr<T>() + (m * k + i) * a.cols;
        for (int64_t j = 0; j < a.cols; ++j) row[j] = j < i ? T(0) : lu[i * a.cols + j];
      }
      if (!permutation) continue;
      const int32_t* from = pivots.ptr<const int32_t>() + m * k;
      for (int64_t i = 0; i < a.rows; ++i) order[i] = i;
      for (int64_t i = 0; i < k; ++i) {
        const int64_t other = static_cast<int64_t>(from[i]) - 1;
        if (other < 0 || other >= a.rows) return ctx.fail(Check::KernelIndex, other, a.rows);
        const int64_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
      }
      T* p = P.ptr<T>() + m * a.rows * a.rows;
      for (int64_t i = 0; i < a.rows * a.rows; ++i) p[i] = T(0);
      for (int64_t i = 0; i < a.rows; ++i) p[order[i] * a.rows + i] = T(1);
    }
  });
}

/// linalg_cholesky_ex(self, upper, check_errors; L, info). Temp: one matrix of doubles.
void linalg_cholesky_ex_out(KernelContext& ctx, const Tensor& self, bool upper, bool /*check_errors*/, Tensor& L,
                            Tensor& info) {
  Matrices a;
  if (!square(ctx, self, &a)) return;
  if (!prepare(ctx, L, self, {a.rows, a.cols}, self.dtype) || !prepare(ctx, info, self, {}, ScalarType::Int)) return;
  double* work = ctx.temp_array<double>(a.size());
  if (work == nullptr) return;
  const int64_t n = a.rows;
  for (int64_t m = 0; m < a.count; ++m) {
    load(self, m * a.size(), a.size(), work);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) {
        if (upper) work[j * n + i] = work[i * n + j];
        work[i * n + j] = 0;
      }
    }
    info.ptr<int32_t>()[m] = factor_cholesky(work, n);
    for (int64_t i = 0; upper && i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) swap_values(work[i * n + j], work[j * n + i]);
    }
    store(L, m * a.size(), a.size(), work);
  }
}

/// linalg_solve_triangular(self, B, upper, left, unitriangular; out). Temp: one matrix of each operand, as doubles.
void linalg_solve_triangular_out(KernelContext& ctx, const Tensor& self, const Tensor& B, bool upper, bool left,
                                 bool unitriangular, Tensor& out) {
  Matrices a, b;
  if (!square(ctx, self, &a) || !matrices(ctx, B, &b)) return;
  const Tensor& other = B;
  const bool unit = unitriangular;
  if (B.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, B, static_cast<int64_t>(B.dtype));
  if ((left ? b.rows : b.cols) != a.rows) return ctx.fail(Check::KernelShape, B, left ? b.rows : b.cols);
  if (!prepare_broadcast(ctx, out, self, B)) return;
  const int64_t total = out.numel();
  if (total == 0) return;
  double* matrix = ctx.temp_array<double>(a.size());
  double* right = ctx.temp_array<double>(b.size());
  if (matrix == nullptr || right == nullptr) return;
  const int64_t n = a.rows;
  for (int64_t m = 0; m < total / b.size(); ++m) {
    load(self, batch_of(self, out, m) * a.size(), a.size(), matrix);
    load(other, batch_of(other, out, m) * b.size(), b.size(), right);
    if (left) {
      for (int64_t c = 0; c < b.cols; ++c) solve(matrix, n, n, 1, upper, unit, right + c, b.cols);
    } else {
      for (int64_t r = 0; r < b.rows; ++r) solve(matrix, n, 1, n, !upper, unit, right + r * b.cols, 1);
    }
    store(out, m * b.size(), b.size(), right);
  }
}

}  // namespace etir
