// LDL factorizations of symmetric and Hermitian matrices, and the solutions of systems with them.
//
// Source: Golub and Van Loan, Matrix Computations, 4.4.4 (diagonal pivoting, Bunch and Kaufman 1977), in the form of
// LAPACK's sytrf and hetrf for the lower triangle: row exchanges count from 1, a negative one, twice, stands for a
// block of two rows; a zero block of one row is no failure, its number goes to `info`.
#include <cmath>
#include <complex>
#include <utility>

#include "kernels/factorization/matrix.h"
#include "kernels/factorization/symmetric.gen.h"

namespace etir {

namespace {

/// A matrix of which the lower triangle is used, symmetric or Hermitian.
template <typename T, bool kHermitian>
struct Symmetric {
  T* a;
  int64_t n;

  T& operator()(int64_t i, int64_t j) const { return a[i * n + j]; }
  /// What is in the upper triangle for an element of the lower one.
  static T mirrored(const T& x) { return kHermitian ? conjugate(x) : x; }
  double diagonal_size(int64_t k) const {
    return kHermitian ? std::fabs(std::real((*this)(k, k))) : magnitude((*this)(k, k));
  }

  /// Exchanges rows and columns `k` and `other` > k of what is left from `first` on.
  void exchange(int64_t first, int64_t k, int64_t other) const {
    const Symmetric& m = *this;
    for (int64_t i = other + 1; i < n; ++i) std::swap(m(i, k), m(i, other));
    for (int64_t j = k + 1; j < other; ++j) {
      const T kept = mirrored(m(j, k));
      m(j, k) = mirrored(m(other, j));
      m(other, j) = kept;
    }
    m(other, k) = mirrored(m(other, k));
    std::swap(m(k, k), m(other, other));
    if (first < k) std::swap(m(k, first), m(other, first));
  }

  /// The row whose element in column k is the largest below the diagonal.
  int64_t largest_below(int64_t k) const {
    int64_t best = k + 1;
    for (int64_t i = k + 2; i < n; ++i) best = magnitude((*this)(i, k)) > magnitude((*this)(best, k)) ? i : best;
    return best;
  }

  /// The next block begins at row k: whether it has two rows, and the row that comes to its end.
  int64_t pivot(int64_t k, bool* two, bool* zero) const {
    static const double kAlpha = (1 + std::sqrt(17.0)) / 8;
    const Symmetric& m = *this;
    const double on = diagonal_size(k);
    const int64_t best = k + 1 < n ? largest_below(k) : k;
    const double below = best > k ? magnitude(m(best, k)) : 0;
    *two = false;
    *zero = std::fmax(on, below) == 0 || std::isnan(on);
    if (*zero || on >= kAlpha * below) return k;
    double row = 0;
    for (int64_t j = k; j < best; ++j) row = std::fmax(row, magnitude(m(best, j)));
    for (int64_t i = best + 1; i < n; ++i) row = std::fmax(row, magnitude(m(i, best)));
    if (on >= kAlpha * below * (below / row)) return k;
    *two = diagonal_size(best) < kAlpha * row;
    return best;
  }

  /// A block of one row is eliminated from what is below it.
  void eliminate_one(int64_t k) const {
    const Symmetric& m = *this;
    const T inverse = T(1) / m(k, k);
    for (int64_t j = k + 1; j < n; ++j) {
      const T factor = mirrored(m(j, k)) * inverse;
      for (int64_t i = j; i < n; ++i) m(i, j) -= m(i, k) * factor;
      make_real(j);
    }
    for (int64_t i = k + 1; i < n; ++i) m(i, k) *= inverse;
  }

  /// A block of two rows is eliminated from what is below it.
  void eliminate_two(int64_t k) const {
    const Symmetric& m = *this;
    const T between = m(k + 1, k), scale = kHermitian ? T(std::abs(between)) : between, phase = between / scale;
    const T first = m(k, k) / scale, second = m(k + 1, k + 1) / scale;
    const T factor = T(1) / (first * second - T(1)) / scale;
    for (int64_t j = k + 2; j < n; ++j) {
      const T x = factor * (second * m(j, k) - phase * m(j, k + 1));
      const T y = factor * (first * m(j, k + 1) - mirrored(phase) * m(j, k));
      for (int64_t i = j; i < n; ++i) m(i, j) -= m(i, k) * mirrored(x) + m(i, k + 1) * mirrored(y);
      m(j, k) = x, m(j, k + 1) = y;
      make_real(j);
    }
  }

  void make_real(int64_t k) const {
    if constexpr (kHermitian) (*this)(k, k) = T(std::real((*this)(k, k)));
  }

  /// A = L D L^T (or L^H) in place; the first zero block, from 1, or 0.
  int32_t factor(int32_t* pivots) const {
    int32_t info = 0;
    for (int64_t k = 0; k < n; ++k) make_real(k);
    for (int64_t k = 0; k < n;) {
      bool two, zero;
      const int64_t row = pivot(k, &two, &zero);
      if (zero && info == 0) info = static_cast<int32_t>(k + 1);
      const int64_t end = two ? k + 1 : k;
      if (row != end) exchange(k, end, row);
      if (two) {
        eliminate_two(k);
      } else if (!zero) {
        eliminate_one(k);
      }
      const int32_t number = static_cast<int32_t>(row + 1);
      pivots[k] = pivots[end] = two ? -number : number;
      k = end + 1;
    }
    return info;
  }

  /// The solution for a right side of `cols` columns, in place. The pivots are in range.
  void solve(const int32_t* pivots, T* x, int64_t cols) const {
    const Symmetric& m = *this;
    const auto exchange_rows = [&](int64_t i, int64_t j) {
      for (int64_t c = 0; i != j && c < cols; ++c) std::swap(x[i * cols + c], x[j * cols + c]);
    };
    for (int64_t k = 0; k < n; ++k) {
      const bool two = pivots[k] < 0;
      exchange_rows(two ? k + 1 : k, std::abs(pivots[k]) - 1);
      for (int64_t i = k + (two ? 2 : 1); i < n; ++i) {
        for (int64_t c = 0; c < cols; ++c) {
          x[i * cols + c] -= m(i, k) * x[k * cols + c];
          if (two) x[i * cols + c] -= m(i, k + 1) * x[(k + 1) * cols + c];
        }
      }
      if (!two) {
        for (int64_t c = 0; c < cols; ++c) x[k * cols + c] /= m(k, k);
        continue;
      }
      const T lower = m(k + 1, k), upper = mirrored(lower);
      const T first = m(k, k) / upper, second = m(k + 1, k + 1) / lower, denominator = first * second - T(1);
      for (int64_t c = 0; c < cols; ++c) {
        const T u = x[k * cols + c] / upper, v = x[(k + 1) * cols + c] / lower;
        x[k * cols + c] = (second * u - v) / denominator;
        x[(k + 1) * cols + c] = (first * v - u) / denominator;
      }
      ++k;
    }
    for (int64_t k = n - 1; k >= 0; --k) {
      const int64_t end = k;
      k -= pivots[k] < 0 ? 1 : 0;
      for (int64_t row = k; row <= end; ++row) {
        for (int64_t i = end + 1; i < n; ++i) {
          for (int64_t c = 0; c < cols; ++c) x[row * cols + c] -= mirrored(m(i, row)) * x[i * cols + c];
        }
      }
      exchange_rows(end, std::abs(pivots[k]) - 1);
    }
  }
};

/// Whether pivots name rows of a matrix, and negative ones come in pairs.
bool check_pivots(KernelContext& ctx, const int32_t* pivots, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const int64_t pivot = pivots[k];
    if (pivot == 0 || pivot > n || pivot < -n || (pivot < 0 && (k + 1 == n || pivots[k + 1] >= 0))) {
      ctx.fail(Check::KernelIndex, pivot, n);
      return false;
    }
    k += pivot < 0 ? 1 : 0;
  }
  return true;
}

/// Calls `body(TypeTag<T>(), TypeTag<Symmetric<C, ...>>())` for elements T that are computed in C, double or complex.
template <typename Body>
void dispatch_symmetric(ScalarType type, bool hermitian, const Body& body) {
  using Complex = std::complex<double>;
  dispatch<kFullFloats | kFullComplex>(type, [&](auto tag) {
    if constexpr (std::is_floating_point_v<typename decltype(tag)::type>) {
      body(tag, TypeTag<double>(), TypeTag<Symmetric<double, false>>());
    } else if (hermitian) {
      body(tag, TypeTag<Complex>(), TypeTag<Symmetric<Complex, true>>());
    } else {
      body(tag, TypeTag<Complex>(), TypeTag<Symmetric<Complex, false>>());
    }
  });
}

}  // namespace

/// linalg_ldl_factor_ex(self, hermitian, check_errors; LD, pivots, info). Temp: one matrix of complex doubles.
void linalg_ldl_factor_ex_out(KernelContext& ctx, const Tensor& self, bool hermitian, bool /*check_errors*/, Tensor& LD,
                              Tensor& pivots, Tensor& info) {
  Matrices shape;
  if (!square(ctx, self, &shape, kFullFloats | kFullComplex)) return;
  const int64_t n = shape.rows;
  if (!prepare(ctx, LD, self, {n, n}, self.dtype) || !prepare(ctx, pivots, self, {n}, ScalarType::Int) ||
      !prepare(ctx, info, self, {}, ScalarType::Int)) {
    return;
  }
  dispatch_symmetric(self.dtype, hermitian, [&](auto tag, auto compute, auto matrix) {
    using T = typename decltype(tag)::type;
    using Compute = typename decltype(compute)::type;
    Compute* work = ctx.temp_array<Compute>(n * n);
    if (work == nullptr) return;
    for (int64_t m = 0; m < shape.count; ++m) {
      const T* from = self.ptr<const T>() + m * n * n;
      T* to = LD.ptr<T>() + m * n * n;
      for (int64_t i = 0; i < n * n; ++i) work[i] = i / n < i % n ? Compute(0) : static_cast<Compute>(from[i]);
      info.ptr<int32_t>()[m] = typename decltype(matrix)::type{work, n}.factor(pivots.ptr<int32_t>() + m * n);
      for (int64_t i = 0; i < n * n; ++i) to[i] = static_cast<T>(work[i]);
    }
  });
}

/// linalg_ldl_solve(LD, pivots, B, hermitian; out). Temp: one matrix of each, as complex doubles.
void linalg_ldl_solve_out(KernelContext& ctx, const Tensor& LD, const Tensor& pivots, const Tensor& B, bool hermitian,
                          Tensor& out) {
  Matrices a, b;
  if (!square(ctx, LD, &a, kFullFloats | kFullComplex) || !matrices(ctx, B, &b, kFullFloats | kFullComplex)) return;
  if (B.dtype != LD.dtype) return ctx.fail(Check::KernelDtypeMismatch, B, static_cast<int64_t>(B.dtype));
  if (pivots.dtype != ScalarType::Int) return ctx.fail(Check::KernelDtype, pivots, static_cast<int64_t>(pivots.dtype));
  if (!pivots.is_row_major()) return ctx.fail(Check::KernelDimOrder, pivots);
  if (pivots.numel() != a.count * a.rows) return ctx.fail(Check::KernelShape, pivots, pivots.numel());
  if (pivots.data == nullptr && pivots.numel() > 0) return ctx.fail(Check::KernelNoData, pivots);
  if (b.rows != a.rows) return ctx.fail(Check::KernelShape, B, b.rows);
  if (!prepare_broadcast(ctx, out, LD, B) || out.numel() == 0) return;
  const int64_t n = a.rows;
  dispatch_symmetric(LD.dtype, hermitian, [&](auto tag, auto compute, auto matrix) {
    using T = typename decltype(tag)::type;
    using Compute = typename decltype(compute)::type;
    Compute* factors = ctx.temp_array<Compute>(n * n);
    Compute* right = ctx.temp_array<Compute>(b.size());
    if (factors == nullptr || right == nullptr) return;
    for (int64_t m = 0; m < out.numel() / b.size(); ++m) {
      const int64_t index = batch_of(LD, out, m);
      const T* from = LD.ptr<const T>() + index * n * n;
      const T* side = B.ptr<const T>() + batch_of(B, out, m) * b.size();
      const int32_t* order = pivots.ptr<const int32_t>() + index * n;
      if (!check_pivots(ctx, order, n)) return;
      for (int64_t i = 0; i < n * n; ++i) factors[i] = static_cast<Compute>(from[i]);
      for (int64_t i = 0; i < b.size(); ++i) right[i] = static_cast<Compute>(side[i]);
      typename decltype(matrix)::type{factors, n}.solve(order, right, b.cols);
      T* to = out.ptr<T>() + m * b.size();
      for (int64_t i = 0; i < b.size(); ++i) to[i] = static_cast<T>(right[i]);
    }
  });
}

}  // namespace etir
