// The QR algorithm: a Hessenberg matrix becomes triangular under unitary transformations.
//
// Real matrices go through double steps with a pair of shifts, which keep them real and the pairs of conjugate
// eigenvalues exact, to blocks of one or two rows (Golub and Van Loan, Matrix Computations, 7.5.1 to 7.5.6, Francis
// 1961); the blocks of two are then made triangular in complex numbers. Complex matrices take single steps with
// Wilkinson's shift (7.5.1). An entry below the diagonal counts as zero by the criterion of Ahues and Tisseur (LAPACK
// Working Note 122), which keeps small eigenvalues of graded matrices.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>

#include "kernels/factorization/hessenberg.h"

namespace etir {

constexpr double kUnit = std::numeric_limits<double>::epsilon();
/// Steps for one eigenvalue; every tenth takes shifts that are no estimate, in case that the others repeat themselves.
constexpr int kSteps = 300;

/// The first row of the block that ends with row `last` and has no zero below its diagonal, not before `first`.
template <typename T>
int64_t block_start(const T* h, int64_t n, int64_t first, int64_t last) {
  const auto at = [&](int64_t i, int64_t j) { return magnitude(h[i * n + j]); };
  int64_t k = last;
  for (; k > first; --k) {
    const double below = at(k, k - 1);
    if (below <= std::numeric_limits<double>::min()) break;
    double around = at(k - 1, k - 1) + at(k, k);
    if (around == 0) around = (k > first + 1 ? at(k - 1, k - 2) : 0) + (k < last ? at(k + 1, k) : 0);
    if (below > kUnit * around) continue;
    const double above = at(k - 1, k), difference = magnitude(h[(k - 1) * n + k - 1] - h[k * n + k]);
    const double larger = std::fmax(below, above), smaller = std::fmin(below, above);
    const double on = std::fmax(at(k, k), difference), off = std::fmin(at(k, k), difference), sum = larger + on;
    if (smaller * (larger / sum) <= std::fmax(std::numeric_limits<double>::min(), kUnit * (off * (on / sum)))) break;
  }
  return k;
}

/// A' = G A G^T for the rotation G = [c, s; -s, c] of rows and columns k and k + 1, of which columns up to `end` and
/// rows from `begin` count. `z`, which may be null, becomes Z G^T.
inline void rotate(double* h, double* z, int64_t n, int64_t k, double c, double s, int64_t begin, int64_t end) {
  double *upper = h + k * n, *lower = upper + n;
  for (int64_t j = k; j < end; ++j) {
    const double x = upper[j], y = lower[j];
    upper[j] = c * x + s * y;
    lower[j] = c * y - s * x;
  }
  const auto rotate_columns = [&](double* m, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const double x = m[i * n + k], y = m[i * n + k + 1];
      m[i * n + k] = c * x + s * y;
      m[i * n + k + 1] = c * y - s * x;
    }
  };
  rotate_columns(h, begin, k + 2);
  if (z != nullptr) rotate_columns(z, 0, n);
}

/// Rows k and k + 1 become a triangle if their eigenvalues are real, or else a block with equal diagonal elements and
/// elements of different signs beside them.
inline void standardize(double* h, double* z, int64_t n, int64_t k, int64_t begin, int64_t end) {
  double& a = h[k * n + k];
  double& b = h[k * n + k + 1];
  double& c = h[(k + 1) * n + k];
  double& d = h[(k + 1) * n + k + 1];
  if (c == 0) return;
  if (b == 0) {
    rotate(h, z, n, k, 0, 1, begin, end);
    c = 0;
    return;
  }
  const double half = (a - d) / 2;
  const double scale = std::fmax(std::fabs(half), std::fmax(std::fabs(b), std::fabs(c)));
  const double square = half / scale * half + b / scale * c;  // half the distance of the eigenvalues, squared, / scale
  if (square >= 4 * kUnit * scale) {
    const double root = half + std::copysign(std::sqrt(scale) * std::sqrt(square), half);
    const double first = d + root, second = d - b / root * c, length = std::hypot(c, root);
    rotate(h, z, n, k, root / length, c / length, begin, end);
    a = first, d = second, c = 0;
    return;
  }
  const double angle = std::atan2(d - a, b + c) / 2;
  rotate(h, z, n, k, std::cos(angle), std::sin(angle), begin, end);
  const double mean = (a + d) / 2;
  a = d = mean;
  if (c == 0 || (b != 0 && (b < 0) != (c < 0))) return;
  // Equal elements and a product that is not negative: real eigenvalues that rounding cannot tell from complex ones.
  const double up = std::sqrt(std::fabs(b)), down = std::sqrt(std::fabs(c)), length = std::hypot(up, down);
  rotate(h, z, n, k, up / length, std::copysign(down / length, c), begin, end);
  a = mean + up * down, d = mean - up * down, c = 0;
}

/// The two shifts of a double step: conjugates, or twice the real one that is nearer to the last element.
struct Shifts {
  double real = 0, imaginary = 0;

  Shifts(const double* h, int64_t n, int64_t start, int64_t last, int step) {
    const auto at = [&](int64_t i, int64_t j) { return h[i * n + j]; };
    double a = at(last - 1, last - 1), b = at(last - 1, last), c = at(last, last - 1), d = at(last, last);
    if (step % 10 == 0 && step > 0) {
      const bool top = step % 20 != 0;
      const double below = top ? std::fabs(at(start + 1, start)) + std::fabs(at(start + 2, start + 1))
                               : std::fabs(c) + std::fabs(at(last - 1, last - 2));
      a = d = 0.75 * below + (top ? at(start, start) : d);
      b = -0.4375 * below, c = below;
    }
    const double scale = std::fabs(a) + std::fabs(b) + std::fabs(c) + std::fabs(d);
    if (scale == 0) return;
    const double last_one = d / scale, mean = (a / scale + last_one) / 2;
    const double square = (a / scale - mean) * (last_one - mean) - b / scale * (c / scale);
    const double root = std::sqrt(std::fabs(square));
    if (square >= 0) {
      real = mean * scale, imaginary = root * scale;
    } else {
      const double low = mean - root, high = mean + root;
      real = scale * (std::fabs(high - last_one) <= std::fabs(low - last_one) ? high : low);
    }
  }

  /// The first column of (H - s1)(H - s2), of a block from row m, up to a factor.
  void column(const double* h, int64_t n, int64_t m, double* v) const {
    const double* row = h + m * n + m;
    const double below = row[n], x = row[0] - real;
    const double scale = std::fabs(x) + std::fabs(imaginary) + std::fabs(below);
    v[0] = v[1] = v[2] = 0;
    if (scale == 0) return;
    const double ratio = below / scale;
    v[0] = x * (x / scale) + imaginary * (imaginary / scale) + ratio * row[1];
    v[1] = ratio * (row[0] + row[n + 1] - 2 * real);
    v[2] = ratio * row[2 * n + 1];
    const double sum = std::fabs(v[0]) + std::fabs(v[1]) + std::fabs(v[2]);
    for (int i = 0; sum > 0 && i < 3; ++i) v[i] /= sum;
  }
};

/// A double step on the block of rows [start, last], which has at least three.
inline void double_step(double* h, double* z, int64_t n, int64_t start, int64_t last, int64_t begin, int64_t end,
                        const Shifts& shifts) {
  const auto at = [&](int64_t i, int64_t j) -> double& { return h[i * n + j]; };
  // The step may begin in the middle, where two subdiagonal elements together are negligible.
  double v[3];
  int64_t m = last - 2;
  for (;; --m) {
    shifts.column(h, n, m, v);
    if (m == start) break;
    const double around = std::fabs(at(m - 1, m - 1)) + std::fabs(at(m, m)) + std::fabs(at(m + 1, m + 1));
    if (std::fabs(at(m, m - 1)) * (std::fabs(v[1]) + std::fabs(v[2])) <= kUnit * std::fabs(v[0]) * around) break;
  }
  for (int64_t k = m; k < last; ++k) {
    const int64_t count = k + 2 <= last ? 3 : 2;
    if (k > m) {
      for (int64_t i = 0; i < count; ++i) v[i] = at(k + i, k - 1);
    }
    double tau;
    const double first = reflection(v, count, &tau);
    if (k > m) {
      at(k, k - 1) = first;
      for (int64_t i = 1; i < count; ++i) at(k + i, k - 1) = 0;
    } else if (m > start) {
      at(k, k - 1) *= 1 - tau;
    }
    reflect_rows(h, n, k, v, count, tau, k, end);
    reflect_columns(h, n, k, v, count, tau, begin, (k + 3 < last ? k + 3 : last) + 1);
    if (z != nullptr) reflect_columns(z, n, k, v, count, tau, int64_t{0}, n);
  }
}

/// A real Hessenberg matrix to blocks of one and two rows; `z`, which may be null, is multiplied. Without it only the
/// blocks of the diagonal are right. False when it does not converge.
inline bool real_schur(double* h, double* z, int64_t n, int64_t low, int64_t high) {
  for (int64_t last = high; last >= low;) {
    int64_t start = last;
    for (int step = 0;; ++step) {
      start = block_start(h, n, low, last);
      if (start > low) h[start * n + start - 1] = 0;
      if (start >= last - 1) break;
      if (step == kSteps) return false;
      const int64_t begin = z == nullptr ? start : 0, end = z == nullptr ? last + 1 : n;
      double_step(h, z, n, start, last, begin, end, Shifts(h, n, start, last, step));
    }
    if (start < last) standardize(h, z, n, start, z == nullptr ? start : 0, z == nullptr ? last + 1 : n);
    last = start - 1;
  }
  return true;
}

using Complex = std::complex<double>;

/// Rows k and k + 1 in columns [from, end) times the unitary matrix with the rows (conj(p), conj(q)) and (-q, p), and
/// columns k and k + 1 in rows [begin, rows) times its inverse: the eigenvector (p, q) becomes the first unit vector.
inline void rotate(Complex* h, Complex* z, int64_t n, int64_t k, Complex p, Complex q, int64_t begin, int64_t rows,
                   int64_t from, int64_t end) {
  Complex *upper = h + k * n, *lower = upper + n;
  for (int64_t j = from; j < end; ++j) {
    const Complex x = upper[j], y = lower[j];
    upper[j] = std::conj(p) * x + std::conj(q) * y;
    lower[j] = p * y - q * x;
  }
  const auto rotate_columns = [&](Complex* m, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const Complex x = m[i * n + k], y = m[i * n + k + 1];
      m[i * n + k] = x * p + y * q;
      m[i * n + k + 1] = y * std::conj(p) - x * std::conj(q);
    }
  };
  rotate_columns(h, begin, rows);
  if (z != nullptr) rotate_columns(z, 0, n);
}

/// The blocks of a real result as triangles of complex numbers, the eigenvalue with a positive imaginary part first.
/// Without `z` only the diagonal.
inline void make_triangle(const double* h, const double* z, int64_t n, Complex* t, Complex* q) {
  for (int64_t i = 0; i < n * n; ++i) t[i] = h[i];
  for (int64_t i = 0; z != nullptr && i < n * n; ++i) q[i] = z[i];
  for (int64_t k = 0; k + 1 < n; ++k) {
    const double b = h[k * n + k + 1], c = h[(k + 1) * n + k];
    if (c == 0) continue;
    const double a = h[k * n + k], imaginary = std::sqrt(std::fabs(b)) * std::sqrt(std::fabs(c));
    const double length = std::hypot(b, imaginary);
    if (z != nullptr) rotate(t, q, n, k, Complex(b / length), Complex(0, imaginary / length), 0, k + 2, k, n);
    t[k * n + k] = Complex(a, imaginary);
    t[(k + 1) * n + k + 1] = Complex(a, -imaginary);
    t[(k + 1) * n + k] = Complex(0);
  }
}

/// The shift of a single step: the eigenvalue of the last block of two that is nearer to its last element.
inline Complex single_shift(const Complex* h, int64_t n, int64_t start, int64_t last, int step) {
  const auto at = [&](int64_t i, int64_t j) { return h[i * n + j]; };
  const Complex end = at(last, last);
  if (step > 0 && step % 20 == 0) return end + 0.75 * std::abs(at(last, last - 1));
  if (step > 0 && step % 10 == 0) return at(start, start) + 0.75 * std::abs(at(start + 1, start));
  const Complex product = std::sqrt(at(last - 1, last)) * std::sqrt(at(last, last - 1));
  if (product == Complex(0)) return end;
  const Complex half = (at(last - 1, last - 1) - end) / 2.0;
  const double scale = std::fmax(magnitude(half), magnitude(product));
  const Complex x = half / scale, y = product / scale;
  Complex root = std::sqrt(x * x + y * y);
  if (x.real() * root.real() + x.imag() * root.imag() < 0) root = -root;
  return end - product * (y / (x + root));
}

/// A complex Hessenberg matrix becomes triangular; `z`, which may be null, is multiplied. Without it only the diagonal
/// is right. False when it does not converge.
inline bool complex_schur(Complex* h, Complex* z, int64_t n, int64_t low, int64_t high) {
  const auto at = [&](int64_t i, int64_t j) -> Complex& { return h[i * n + j]; };
  for (int64_t last = high; last >= low;) {
    int64_t start = last;
    for (int step = 0;; ++step) {
      start = block_start(h, n, low, last);
      if (start > low) at(start, start - 1) = Complex(0);
      if (start == last) break;
      if (step == kSteps) return false;
      const int64_t begin = z == nullptr ? start : 0, end = z == nullptr ? last + 1 : n;
      Complex p = at(start, start) - single_shift(h, n, start, last, step), q = at(start + 1, start);
      for (int64_t k = start; k < last; ++k) {
        if (k > start) p = at(k, k - 1), q = at(k + 1, k - 1);
        const double length = std::hypot(std::abs(p), std::abs(q));
        if (length == 0) continue;
        const int64_t rows = (k + 2 < last ? k + 2 : last) + 1;
        rotate(h, z, n, k, p / length, q / length, begin, rows, k > start ? k - 1 : k, end);
        if (k > start) at(k + 1, k - 1) = Complex(0);
      }
    }
    last = start - 1;
  }
  return true;
}

}  // namespace etir
