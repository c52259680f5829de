// What comes before the QR algorithm for a general matrix: balancing, and Hessenberg form.
//
// Sources: Golub and Van Loan, Matrix Computations, 7.5.7 (balancing, Parlett and Reinsch 1969) and 7.4.3 (Hessenberg
// form by Householder reflections). Both leave the eigenvalues as they are.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <utility>

#include "kernels/factorization/matrix.h"

namespace etir {

/// A square matrix in row-major order of which rows and columns [low, high] still have eigenvalues to be found; outside
/// of them it is upper triangular.
template <typename T>
struct Active {
  T* a;
  int64_t n, low, high;

  T& operator()(int64_t i, int64_t j) const { return a[i * n + j]; }

  /// Exchanges rows and columns i and j, which keeps the eigenvalues.
  void exchange(int64_t i, int64_t j) const {
    if (i == j) return;
    for (int64_t k = 0; k < n; ++k) std::swap((*this)(k, i), (*this)(k, j));
    for (int64_t k = 0; k < n; ++k) std::swap((*this)(i, k), (*this)(j, k));
  }

  /// Whether row (or column) i has nothing beside the diagonal.
  bool is_alone(int64_t i, bool row) const {
    for (int64_t j = low; j <= high; ++j) {
      if (j != i && (row ? (*this)(i, j) : (*this)(j, i)) != T(0)) return false;
    }
    return true;
  }

  double norm(int64_t i, bool row) const {
    double result = 0;
    for (int64_t j = low; j <= high; ++j) result = std::hypot(result, std::abs(row ? (*this)(i, j) : (*this)(j, i)));
    return result;
  }
};

/// Moves rows and columns that show an eigenvalue to the ends, then scales rows and columns by powers of two until
/// their norms are close. `scale[i]` is the factor of row i of a vector, or, outside of [low, high], the row that it
/// was exchanged with.
template <typename T>
void balance(Active<T>& m, double* scale) {
  for (int64_t i = m.high; i >= m.low; --i) {
    if (!m.is_alone(i, true)) continue;
    m.exchange(i, m.high);
    scale[m.high] = static_cast<double>(i);
    i = m.high--;  // from the last row again
  }
  for (int64_t j = m.low; j <= m.high; ++j) {
    if (!m.is_alone(j, false)) continue;
    m.exchange(j, m.low);
    scale[m.low] = static_cast<double>(j);
    j = m.low++;
  }
  for (int64_t i = m.low; i <= m.high; ++i) scale[i] = 1;
  for (bool changed = true; changed;) {
    changed = false;
    for (int64_t i = m.low; i <= m.high; ++i) {
      const double column = m.norm(i, false), row = m.norm(i, true);
      if (column == 0 || row == 0) continue;
      const int exponent = static_cast<int>(std::lround(std::log2(row / column) / 2));
      const double factor = std::ldexp(1.0, exponent);
      if (column * factor + row / factor >= 0.95 * (column + row)) continue;
      changed = true;
      scale[i] *= factor;
      for (int64_t k = 0; k < m.n; ++k) m(k, i) *= factor;
      for (int64_t k = 0; k < m.n; ++k) m(i, k) /= factor;
    }
  }
}

/// Rows of vectors of the balanced matrix become those of the original one.
template <typename V>
void undo_balance(int64_t n, int64_t low, int64_t high, const double* scale, V* vectors) {
  const auto exchange = [&](int64_t i) {
    const int64_t other = static_cast<int64_t>(scale[i]);
    for (int64_t k = 0; other != i && k < n; ++k) std::swap(vectors[i * n + k], vectors[other * n + k]);
  };
  for (int64_t i = low; i <= high; ++i) {
    for (int64_t k = 0; k < n; ++k) vectors[i * n + k] *= scale[i];
  }
  for (int64_t i = low - 1; i >= 0; --i) exchange(i);
  for (int64_t i = high + 1; i < n; ++i) exchange(i);
}

/// The reflection I - tau v v^H, v[0] = 1, that makes all of `v` but the first element zero. `v` has the vector after
/// it; the result is what the first element becomes.
template <typename T>
T reflection(T* v, int64_t n, double* tau) {
  double rest = 0;
  for (int64_t i = 1; i < n; ++i) rest = std::hypot(rest, std::abs(v[i]));
  const T first = v[0];
  v[0] = T(1);
  *tau = 0;
  if (rest == 0) return first;
  const double size = std::abs(first), length = std::hypot(size, rest);
  const T phase = size == 0 ? T(1) : first / size;
  const T pivot = phase * (size + length);
  for (int64_t i = 1; i < n; ++i) v[i] /= pivot;
  *tau = 1 + size / length;
  return -phase * length;
}

/// Columns [from, to) of rows `at`, `at` + 1, ... are reflected.
template <typename T>
void reflect_rows(T* a, int64_t n, int64_t at, const T* v, int64_t count, double tau, int64_t from, int64_t to) {
  for (int64_t j = from; j < to; ++j) {
    T sum = T(0);
    for (int64_t i = 0; i < count; ++i) sum += conjugate(v[i]) * a[(at + i) * n + j];
    sum *= tau;
    for (int64_t i = 0; i < count; ++i) a[(at + i) * n + j] -= sum * v[i];
  }
}

/// Rows [from, to) of columns `at`, `at` + 1, ... are reflected.
template <typename T>
void reflect_columns(T* a, int64_t n, int64_t at, const T* v, int64_t count, double tau, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; ++i) {
    T sum = T(0);
    T* row = a + i * n + at;
    for (int64_t j = 0; j < count; ++j) sum += row[j] * v[j];
    sum *= tau;
    for (int64_t j = 0; j < count; ++j) row[j] -= sum * conjugate(v[j]);
  }
}

/// Z^H A Z, zero below the first subdiagonal, in place. `z`, which may be null, becomes Z; `v` has room for a column.
template <typename T>
void reduce_to_hessenberg(const Active<T>& m, T* z, T* v) {
  for (int64_t i = 0; z != nullptr && i < m.n * m.n; ++i) z[i] = T(i % (m.n + 1) == 0 ? 1 : 0);
  for (int64_t k = m.low; k + 1 < m.high; ++k) {
    const int64_t count = m.high - k;
    for (int64_t i = 0; i < count; ++i) v[i] = m(k + 1 + i, k);
    double tau;
    m(k + 1, k) = reflection(v, count, &tau);
    for (int64_t i = k + 2; i <= m.high; ++i) m(i, k) = T(0);
    reflect_rows(m.a, m.n, k + 1, v, count, tau, k + 1, m.n);
    reflect_columns(m.a, m.n, k + 1, v, count, tau, int64_t{0}, m.high + 1);
    if (z != nullptr) reflect_columns(z, m.n, k + 1, v, count, tau, int64_t{0}, m.n);
  }
}

}  // namespace etir
