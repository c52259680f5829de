// QR by Householder reflections, eigenvalues of symmetric matrices and singular values by Jacobi rotations.
//
// Sources: Golub and Van Loan, Matrix Computations, 5.1 and 5.2 (reflections in LAPACK's form: a unit first component,
// and the factor tau), 8.5 (cyclic Jacobi) and 8.6.3 (one-sided Jacobi, which finds small singular values exactly).
#include <cmath>

#include "kernels/factorization/matrix.h"
#include "kernels/factorization/orthogonal.gen.h"

namespace etir {

namespace {

constexpr int kSweeps = 60;

/// A = QR in place: R above, the reflections' vectors below the diagonal.
void factor_qr(double* a, int64_t rows, int64_t cols, double* tau) {
  for (int64_t k = 0; k < (rows < cols ? rows : cols); ++k) {
    double below = 0;
    for (int64_t i = k + 1; i < rows; ++i) below = std::hypot(below, a[i * cols + k]);
    tau[k] = 0;
    if (below == 0) continue;
    const double alpha = a[k * cols + k];
    const double beta = -std::copysign(std::hypot(alpha, below), alpha);
    tau[k] = (beta - alpha) / beta;
    for (int64_t i = k + 1; i < rows; ++i) a[i * cols + k] /= alpha - beta;
    a[k * cols + k] = beta;
    for (int64_t j = k + 1; j < cols; ++j) {
      double sum = a[k * cols + j];
      for (int64_t i = k + 1; i < rows; ++i) sum += a[i * cols + k] * a[i * cols + j];
      sum *= tau[k];
      a[k * cols + j] -= sum;
      for (int64_t i = k + 1; i < rows; ++i) a[i * cols + j] -= sum * a[i * cols + k];
    }
  }
}

/// The first `cols` columns of the product of reflections, whose vectors are below the diagonal of `a`.
void multiply_reflections(const double* a, int64_t rows, int64_t cols, const double* tau, int64_t count, double* q) {
  for (int64_t i = 0; i < rows * cols; ++i) q[i] = i / cols == i % cols ? 1 : 0;
  for (int64_t k = count - 1; k >= 0; --k) {
    for (int64_t j = 0; j < cols; ++j) {
      double sum = q[k * cols + j];
      for (int64_t i = k + 1; i < rows; ++i) sum += a[i * cols + k] * q[i * cols + j];
      sum *= tau[k];
      q[k * cols + j] -= sum;
      for (int64_t i = k + 1; i < rows; ++i) q[i * cols + j] -= sum * a[i * cols + k];
    }
  }
}

/// The rotation that makes (p, q) of a symmetric matrix zero: its cosine and sine.
void rotation(double pp, double pq, double qq, double* c, double* s) {
  const double theta = (qq - pp) / (2 * pq);
  const double t = std::copysign(1 / (std::fabs(theta) + std::hypot(1.0, theta)), theta);
  *c = 1 / std::sqrt(1 + t * t);
  *s = t * *c;
}

/// The diagonal of `a` becomes its eigenvalues, the columns of `v` the eigenvectors.
void diagonalise(double* a, double* v, int64_t n) {
  set_identity(v, n);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool rotated = false;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        const double value = a[p * n + q];
        if (!(std::fabs(value) > 1e-300) ||
            std::fabs(value) <= 1e-17 * (std::fabs(a[p * n + p]) + std::fabs(a[q * n + q]))) {
          continue;
        }
        rotated = true;
        double c, s;
        rotation(a[p * n + p], value, a[q * n + q], &c, &s);
        for (int64_t k = 0; k < n; ++k) {
          const double x = a[k * n + p], y = a[k * n + q];
          a[k * n + p] = c * x - s * y;
          a[k * n + q] = s * x + c * y;
        }
        for (int64_t k = 0; k < n; ++k) {
          const double x = a[p * n + k], y = a[q * n + k];
          a[p * n + k] = c * x - s * y;
          a[q * n + k] = s * x + c * y;
          const double u = v[k * n + p], w = v[k * n + q];
          v[k * n + p] = c * u - s * w;
          v[k * n + q] = s * u + c * w;
        }
      }
    }
    if (!rotated) return;
  }
}

/// Exchanges columns i and j of a matrix with `cols` columns.
void swap_columns(double* a, int64_t rows, int64_t cols, int64_t i, int64_t j) {
  for (int64_t k = 0; k < rows; ++k) swap_values(a[k * cols + i], a[k * cols + j]);
}

/// Makes column `c` of `u` a unit vector that is orthogonal to the columns before it.
void complete(double* u, int64_t rows, int64_t cols, int64_t c) {
  for (int64_t start = 0; start < rows; ++start) {
    for (int64_t i = 0; i < rows; ++i) u[i * cols + c] = i == (start + c) % rows ? 1 : 0;
    double norm = 1;
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t j = 0; j < c; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < rows; ++i) sum += u[i * cols + j] * u[i * cols + c];
        for (int64_t i = 0; i < rows; ++i) u[i * cols + c] -= sum * u[i * cols + j];
      }
      norm = 0;
      for (int64_t i = 0; i < rows; ++i) norm = std::hypot(norm, u[i * cols + c]);
      if (norm < 0.1 / static_cast<double>(rows)) break;
      for (int64_t i = 0; i < rows; ++i) u[i * cols + c] /= norm;
    }
    if (norm >= 0.1 / static_cast<double>(rows)) return;
  }
}

/// One-sided Jacobi for rows >= cols: the columns of `u` [rows, width] become U, `v` [cols, cols] V, sorted.
void singular_values(double* u, int64_t rows, int64_t cols, int64_t width, double* v, double* s) {
  set_identity(v, cols);
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < kSweeps; ++sweep) {
    rotated = false;
    for (int64_t p = 0; p < cols; ++p) {
      for (int64_t q = p + 1; q < cols; ++q) {
        double pp = 0, pq = 0, qq = 0;
        for (int64_t i = 0; i < rows; ++i) {
          const double x = u[i * width + p], y = u[i * width + q];
          pp += x * x;
          pq += x * y;
          qq += y * y;
        }
        if (!(std::fabs(pq) > 1e-300) || std::fabs(pq) <= 1e-16 * std::sqrt(pp * qq)) continue;
        rotated = true;
        double c, t;
        rotation(pp, pq, qq, &c, &t);
        for (int64_t i = 0; i < rows + cols; ++i) {
          double* row = i < rows ? u + i * width : v + (i - rows) * cols;
          const double x = row[p], y = row[q];
          row[p] = c * x - t * y;
          row[q] = t * x + c * y;
        }
      }
    }
  }
  for (int64_t c = 0; c < cols; ++c) {
    s[c] = 0;
    for (int64_t i = 0; i < rows; ++i) s[c] = std::hypot(s[c], u[i * width + c]);
  }
  for (int64_t c = 0; c < cols; ++c) {
    int64_t best = c;
    for (int64_t k = c + 1; k < cols; ++k) best = s[k] > s[best] ? k : best;
    if (best != c) {
      swap_values(s[c], s[best]);
      swap_columns(u, rows, width, c, best);
      swap_columns(v, cols, cols, c, best);
    }
  }
  for (int64_t c = 0; c < width; ++c) {
    if (c < cols && s[c] > 1e-15 * s[0] && s[c] > 0) {
      for (int64_t i = 0; i < rows; ++i) u[i * width + c] /= s[c];
    } else if (c >= cols || !std::isnan(s[c])) {
      complete(u, rows, width, c);
    }
  }
}

}  // namespace

/// geqrf(self; a, tau). Temp: one matrix of doubles and its factors.
void geqrf_out(KernelContext& ctx, const Tensor& self, Tensor& a, Tensor& tau) {
  Matrices shape;
  if (!matrices(ctx, self, &shape)) return;
  if (!prepare(ctx, a, self, {shape.rows, shape.cols}, self.dtype) ||
      !prepare(ctx, tau, self, {shape.shorter()}, self.dtype))
    return;
  double* work = ctx.temp_array<double>(shape.size());
  double* factors = ctx.temp_array<double>(shape.shorter());
  if (work == nullptr || factors == nullptr) return;
  for (int64_t m = 0; m < shape.count; ++m) {
    load(self, m * shape.size(), shape.size(), work);
    factor_qr(work, shape.rows, shape.cols, factors);
    store(a, m * shape.size(), shape.size(), work);
    store(tau, m * shape.shorter(), shape.shorter(), factors);
  }
}

/// linalg_householder_product(input, tau; out). Temp: two matrices of doubles and the factors.
void linalg_householder_product_out(KernelContext& ctx, const Tensor& input, const Tensor& tau, Tensor& out) {
  Matrices a;
  if (!matrices(ctx, input, &a)) return;
  const Tensor& self = input;
  if (tau.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, tau, static_cast<int64_t>(tau.dtype));
  if (tau.rank != self.rank - 1) return ctx.fail(Check::KernelRank, tau, tau.rank);
  if (!tau.is_row_major()) return ctx.fail(Check::KernelDimOrder, tau);
  const int64_t count = tau.sizes[tau.rank - 1];
  if (a.cols > a.rows || count > a.cols || tau.numel() != a.count * count)
    return ctx.fail(Check::KernelShape, tau, count);
  if (!prepare(ctx, out, self, {a.rows, a.cols}, self.dtype)) return;
  if (tau.data == nullptr && tau.numel() > 0) return ctx.fail(Check::KernelNoData, tau);
  double* work = ctx.temp_array<double>(a.size());
  double* q = ctx.temp_array<double>(a.size());
  double* factors = ctx.temp_array<double>(count);
  if (work == nullptr || q == nullptr || factors == nullptr) return;
  for (int64_t m = 0; m < a.count; ++m) {
    load(self, m * a.size(), a.size(), work);
    load(tau, m * count, count, factors);
    multiply_reflections(work, a.rows, a.cols, factors, count, q);
    store(out, m * a.size(), a.size(), q);
  }
}

/// _linalg_eigh(A, UPLO, compute_v; eigenvalues, eigenvectors). Temp: two matrices and a row of doubles.
void linalg_eigh_out(KernelContext& ctx, const Tensor& A, StringView UPLO, bool compute_v, Tensor& eigenvalues,
                     Tensor& eigenvectors) {
  Matrices a;
  if (!square(ctx, A, &a)) return;
  const StringView side = UPLO;
  const bool vectors = compute_v, upper = side.size == 1 && (side.data[0] == 'U' || side.data[0] == 'u');
  const int64_t n = a.rows;
  if (!prepare(ctx, eigenvalues, A, {n}, A.dtype)) return;
  if (vectors ? !prepare(ctx, eigenvectors, A, {n, n}, A.dtype) : !prepare_empty(ctx, eigenvectors)) return;
  double* work = ctx.temp_array<double>(n * n);
  double* v = ctx.temp_array<double>(n * n);
  double* values = ctx.temp_array<double>(n);
  if (work == nullptr || v == nullptr || values == nullptr) return;
  for (int64_t m = 0; m < a.count; ++m) {
    load(A, m * n * n, n * n, work);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) {
        (upper ? work[j * n + i] : work[i * n + j]) = upper ? work[i * n + j] : work[j * n + i];
      }
    }
    diagonalise(work, v, n);
    for (int64_t i = 0; i < n; ++i) values[i] = work[i * n + i];
    for (int64_t i = 0; i < n; ++i) {
      int64_t best = i;
      for (int64_t k = i + 1; k < n; ++k) best = values[k] < values[best] ? k : best;
      if (best == i) continue;
      swap_values(values[i], values[best]);
      swap_columns(v, n, n, i, best);
    }
    store(eigenvalues, m * n, n, values);
    if (vectors) store(eigenvectors, m * n * n, n * n, v);
  }
}

/// _linalg_svd(A, full_matrices, compute_uv, driver; U, S, Vh). Temp: A, U and V as doubles.
void linalg_svd_out(KernelContext& ctx, const Tensor& A, bool full_matrices, bool compute_uv,
                    std::optional<StringView> /*driver*/, Tensor& U, Tensor& S, Tensor& Vh) {
  Matrices a;
  if (!matrices(ctx, A, &a)) return;
  const bool full = full_matrices, vectors = compute_uv;
  const bool wide = a.cols > a.rows;  // then the transpose is factored, and U and V change places
  const int64_t rows = wide ? a.cols : a.rows, k = a.shorter(), width = full && vectors ? rows : k;
  const int64_t left = wide ? k : width, right = wide ? width : k;
  if (!prepare(ctx, S, A, {k}, A.dtype)) return;
  if (vectors ? !prepare(ctx, U, A, {a.rows, left}, A.dtype) || !prepare(ctx, Vh, A, {right, a.cols}, A.dtype)
              : !prepare_empty(ctx, U) || !prepare_empty(ctx, Vh)) {
    return;
  }
  double* work = ctx.temp_array<double>(a.size());
  double* u = ctx.temp_array<double>(rows * width);
  double* v = ctx.temp_array<double>(k * k);
  double* s = ctx.temp_array<double>(k);
  if (work == nullptr || u == nullptr || v == nullptr || s == nullptr) return;
  for (int64_t m = 0; m < a.count; ++m) {
    load(A, m * a.size(), a.size(), work);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < k; ++j) u[i * width + j] = wide ? work[j * a.cols + i] : work[i * a.cols + j];
    }
    singular_values(u, rows, k, width, v, s);
    store(S, m * k, k, s);
    // The long factor is [rows, width], the short one [k, k]; Vh has the vectors in rows.
    for (int64_t i = 0; vectors && i < rows; ++i) {
      for (int64_t j = 0; j < width; ++j) {
        const int64_t at = wide ? (m * width + j) * rows + i : (m * rows + i) * width + j;
        store(wide ? Vh : U, at, 1, u + i * width + j);
      }
    }
    for (int64_t i = 0; vectors && i < k; ++i) {
      for (int64_t j = 0; j < k; ++j) {
        const int64_t at = wide ? (m * k + i) * k + j : (m * k + j) * k + i;
        store(wide ? U : Vh, at, 1, v + i * k + j);
      }
    }
  }
}

/// linalg_matrix_exp(self; out), by a Taylor series of the scaled matrix and repeated squaring. Temp: three matrices.
void linalg_matrix_exp_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  Matrices a;
  if (!square(ctx, self, &a)) return;
  const int64_t n = a.rows;
  if (!prepare(ctx, out, self, {n, n}, self.dtype)) return;
  double* x = ctx.temp_array<double>(n * n);
  double* term = ctx.temp_array<double>(n * n);
  double* sum = ctx.temp_array<double>(n * n);
  double* row = ctx.temp_array<double>(n);
  if (x == nullptr || term == nullptr || sum == nullptr || row == nullptr) return;
  // b = b * c, in place, row by row.
  const auto multiply = [&](double* b, const double* c) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) row[j] = 0;
      for (int64_t k = 0; k < n; ++k) {
        for (int64_t j = 0; j < n; ++j) row[j] += b[i * n + k] * c[k * n + j];
      }
      for (int64_t j = 0; j < n; ++j) b[i * n + j] = row[j];
    }
  };
  for (int64_t m = 0; m < a.count; ++m) {
    load(self, m * n * n, n * n, x);
    double norm = 0;
    for (int64_t i = 0; i < n; ++i) {
      double total = 0;
      for (int64_t j = 0; j < n; ++j) total += std::fabs(x[i * n + j]);
      if (!(total <= norm)) norm = total;
    }
    int squarings = 0;
    for (double scaled = norm; scaled > 0.5 && squarings < 1100; scaled /= 2) ++squarings;
    const double factor = std::ldexp(1.0, -squarings);
    for (int64_t i = 0; i < n * n; ++i) x[i] *= factor;
    set_identity(sum, n);
    set_identity(term, n);
    for (int k = 1; k <= 18; ++k) {
      multiply(term, x);
      for (int64_t i = 0; i < n * n; ++i) sum[i] += term[i] /= k;
    }
    for (; squarings > 0; --squarings) {
      for (int64_t i = 0; i < n * n; ++i) term[i] = sum[i];
      multiply(sum, term);
    }
    store(out, m * n * n, n * n, sum);
  }
}

}  // namespace etir
