// The discrete Fourier transform of one line, of any length.
//
// Lengths whose prime factors are small go through a self-sorting (Stockham) transform with radices 4, 2 and the odd
// primes; any other length becomes a circular convolution of a power of two (Bluestein). Roots of unity are computed in
// double. Only the forward transform exists: the backward one is that of the conjugates, conjugated.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <utility>

#include "kernels/util/vectors.h"

namespace etir {

template <typename R>
class Fourier {
 public:
  using C = std::complex<R>;

  /// The largest odd prime that has a butterfly; its cost grows with the square.
  static constexpr int64_t kLargestRadix = 31;

  static int64_t largest_factor(int64_t n) {
    int64_t largest = 1;
    for (int64_t p = 2; p * p <= n; ++p) {
      while (n % p == 0) largest = p, n /= p;
    }
    return n > largest ? n : largest;
  }
  /// The length of the convolution, or 0 where there is none.
  static int64_t padded_length(int64_t n) {
    if (largest_factor(n) <= kLargestRadix) return 0;
    int64_t m = 1;
    while (m < 2 * n - 1) m *= 2;
    return m;
  }
  /// Numbers of temporary memory that a transform of length n takes: two lines and the roots, of the line itself or of
  /// the convolution, which also has its filter and the n factors of the line.
  static int64_t room(int64_t n) {
    const int64_t m = padded_length(n);
    return m == 0 ? 3 * n : 4 * m + n;
  }

  /// Transforms lines of n elements in `memory`, which has room(n) numbers.
  Fourier(C* memory, int64_t n) : n_(n), m_(padded_length(n)) {
    const int64_t length = m_ == 0 ? n : m_;
    line_ = memory, other_ = memory + length, roots_ = memory + 2 * length;
    for (int64_t i = 0; i < length; ++i) roots_[i] = root(i, length);
    if (m_ == 0) return;
    filter_ = memory + 3 * length, factors_ = memory + 4 * length;
    // exp(-pi i k^2 / n); the square is reduced before it is rounded.
    for (int64_t k = 0; k < n; ++k) factors_[k] = root(k * k % (2 * n), 2 * n);
    for (int64_t k = 0; k < m_; ++k) line_[k] = C(0);
    for (int64_t k = 0; k < n; ++k) {
      line_[k] = std::conj(factors_[k]);
      if (k > 0) line_[m_ - k] = line_[k];
    }
    const C* result = stages(m_);
    for (int64_t k = 0; k < m_; ++k) filter_[k] = result[k];
  }

  /// Where the caller puts the line's n elements.
  C* line() { return line_; }
  /// Transforms the line; the result stays valid until the next call.
  C* run() {
    if (m_ == 0) return stages(n_);
    C* const line = line_;
    for (int64_t k = 0; k < n_; ++k) line[k] = multiply(line[k], factors_[k]);
    for (int64_t k = n_; k < m_; ++k) line[k] = C(0);
    C* result = stages(m_);
    // The backward transform of the product.
    for (int64_t k = 0; k < m_; ++k) line_[k] = std::conj(multiply(result[k], filter_[k]));
    result = stages(m_);
    const R scale = R(1) / static_cast<R>(m_);
    for (int64_t k = 0; k < n_; ++k) result[k] = multiply(std::conj(result[k]) * scale, factors_[k]);
    return result;
  }

 private:
  static C root(int64_t i, int64_t n) {
    const double angle = -6.283185307179586476925286766559 * static_cast<double>(i) / static_cast<double>(n);
    return C(static_cast<R>(std::cos(angle)), static_cast<R>(std::sin(angle)));
  }
  static C multiply(C a, C b) {
    return C(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  }
  /// Times -i.
  static C turned(C a) { return C(a.imag(), -a.real()); }

  /// Transforms line_[0, n); returns the buffer that holds the result. The buffers change places: what is returned may
  /// be written over by the next line.
  C* stages(int64_t n) {
    C *from = line_, *to = other_;
    int64_t rest = n, step = 1;
    while (rest > 1) {
      int64_t radix = rest % 4 == 0 ? 4 : 2;
      if (rest % 2 != 0) {
        radix = 3;
        while (rest % radix != 0) radix += 2;
      }
      const int64_t parts = rest / radix;
      // Part p of the line and its `step` neighbors; element k of a butterfly is `parts * step` after element k - 1.
      for (int64_t p = 0; p < parts; ++p) {
        const C* x = from + p * step;
        C* y = to + p * radix * step;
        if (radix == 4) {
          butterfly4(x, parts * step, y, step, p * step);
        } else if (radix == 2) {
          butterfly2(x, parts * step, y, step, p * step);
        } else {
          butterfly(radix, x, parts * step, y, step, p * step, n);
        }
      }
      std::swap(from, to);
      rest = parts;
      step *= radix;
    }
    line_ = from, other_ = to;
    return from;
  }

  void butterfly2(const C* __restrict x, int64_t apart, C* __restrict y, int64_t step, int64_t turn) const {
    const C w = roots_[turn];
    for (int64_t q = 0; q < step; ++q) {
      const C a = x[q], b = x[q + apart];
      y[q] = a + b;
      y[q + step] = multiply(a - b, w);
    }
  }
  void butterfly4(const C* __restrict x, int64_t apart, C* __restrict y, int64_t step, int64_t turn) const {
    const C w1 = roots_[turn], w2 = roots_[2 * turn], w3 = roots_[3 * turn];
    for (int64_t q = 0; q < step; ++q) {
      const C a = x[q], b = x[q + apart], c = x[q + 2 * apart], d = x[q + 3 * apart];
      const C sum_ac = a + c, difference_ac = a - c, sum_bd = b + d, turned_bd = turned(b - d);
      y[q] = sum_ac + sum_bd;
      y[q + step] = multiply(difference_ac + turned_bd, w1);
      y[q + 2 * step] = multiply(sum_ac - sum_bd, w2);
      y[q + 3 * step] = multiply(difference_ac - turned_bd, w3);
    }
  }
  void butterfly(int64_t radix, const C* __restrict x, int64_t apart, C* __restrict y, int64_t step, int64_t turn,
                 int64_t n) const {
    const int64_t unit = n / radix;
    for (int64_t j = 0; j < radix; ++j) {
      C* to = y + j * step;
      for (int64_t q = 0; q < step; ++q) to[q] = x[q];
      for (int64_t k = 1; k < radix; ++k) {
        const C w = roots_[j * k % radix * unit];
        const C* from = x + k * apart;
        for (int64_t q = 0; q < step; ++q) to[q] += multiply(from[q], w);
      }
      if (j == 0 || turn == 0) continue;
      const C w = roots_[j * turn];
      for (int64_t q = 0; q < step; ++q) to[q] = multiply(to[q], w);
    }
  }

  int64_t n_, m_;
  C *line_, *other_, *roots_, *filter_ = nullptr, *factors_ = nullptr;
};

}  // namespace etir
