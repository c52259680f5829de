// Functions of complex numbers that std::complex lacks, without cancellation near their zeros.
#pragma once

#include <cmath>
#include <complex>
#include <limits>

namespace etir {

/// e^z - 1.
template <typename T>
std::complex<T> complex_expm1(const std::complex<T>& z) {
  const T sine = std::sin(z.imag() / T(2));
  return {std::expm1(z.real()) * std::cos(z.imag()) - T(2) * sine * sine, std::exp(z.real()) * std::sin(z.imag())};
}

/// log(1 + z).
template <typename T>
std::complex<T> complex_log1p(const std::complex<T>& z) {
  const T x = z.real(), y = z.imag();
  const T angle = std::atan2(y, x + T(1));
  if (!(std::abs(z) < T(0.5))) return {std::log(std::abs(z + T(1))), angle};
  // |1 + z|^2 - 1
  const T excess = x * (T(2) + x) + y * y;
  return {excess == T(0) ? x : T(0.5) * std::log1p(excess), angle};
}

/// log(e^a + e^b), without overflow: the number with the larger real part is taken out.
template <typename T>
std::complex<T> complex_logaddexp(const std::complex<T>& a, const std::complex<T>& b) {
  const auto is_nan = [](const std::complex<T>& z) { return std::isnan(z.real()) || std::isnan(z.imag()); };
  if (is_nan(a) || is_nan(b)) {
    return {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::quiet_NaN()};
  }
  const bool less = a.real() < b.real();
  const std::complex<T> low = less ? a : b, high = less ? b : a;
  if (!std::isfinite(low.real()) && low.real() == high.real()) {
    // Two zeros, whose logarithm is either of them, or two infinities, whose angles are added up.
    return low.real() < 0 ? low : std::log(std::exp(low) + std::exp(high));
  }
  return complex_log1p(std::exp(low - high)) + high;
}

}  // namespace etir
