// Short vectors of the compiler (GCC and Clang vector extensions), as wide as the target's registers.
//
// A kernel that names registers itself (matrix products, convolutions) is written once on Vector<T>; on a target
// without vector registers Vector<T> is T. Loads and stores go through memcpy: no alignment is assumed.
#pragma once

#include <complex>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#define ETIR_VECTOR_BYTES 64
#elif defined(__AVX__)
#define ETIR_VECTOR_BYTES 32
#elif defined(__SSE2__) || defined(__ARM_NEON)
#define ETIR_VECTOR_BYTES 16
#else
#define ETIR_VECTOR_BYTES 0
#endif

// Unrolls the next loop entirely, whatever the optimisation level: arrays of accumulators must become registers.
#if defined(__clang__)
#define ETIR_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ETIR_UNROLL _Pragma("GCC unroll 64")
#endif

namespace etir {

/// `type` holds `kLanes` elements; element types without a vector type are their own vector of one lane.
template <typename T>
struct Vector {
  using type = T;
  static constexpr int kLanes = 1;
};
#if ETIR_VECTOR_BYTES > 0
template <>
struct Vector<float> {
  typedef float type __attribute__((vector_size(ETIR_VECTOR_BYTES)));
  static constexpr int kLanes = ETIR_VECTOR_BYTES / 4;
};
template <>
struct Vector<uint32_t> {
  typedef uint32_t type __attribute__((vector_size(ETIR_VECTOR_BYTES)));
  static constexpr int kLanes = ETIR_VECTOR_BYTES / 4;
};
#if defined(__SSE2__) || defined(__aarch64__)
template <>
struct Vector<double> {
  typedef double type __attribute__((vector_size(ETIR_VECTOR_BYTES)));
  static constexpr int kLanes = ETIR_VECTOR_BYTES / 8;
};
#endif
#endif

template <typename T>
inline typename Vector<T>::type load_vector(const T* from) {
  typename Vector<T>::type vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}
template <typename T>
inline void store_vector(T* to, const typename Vector<T>::type& vector) {
  std::memcpy(to, &vector, sizeof(vector));
}

/// sum += a * b, lane by lane; a is one number.
template <typename T>
inline void multiply_add(typename Vector<T>::type& sum, T a, const typename Vector<T>::type& b) {
  sum += a * b;
}
// Without the recovery of infinities that C++ asks of complex products: torch's kernels do not recover them either.
template <typename R>
inline void multiply_add_complex(std::complex<R>& sum, const std::complex<R>& a, const std::complex<R>& b) {
  sum = {sum.real() + (a.real() * b.real() - a.imag() * b.imag()),
         sum.imag() + (a.real() * b.imag() + a.imag() * b.real())};
}
template <>
inline void multiply_add<std::complex<float>>(std::complex<float>& sum, std::complex<float> a,
                                              const std::complex<float>& b) {
  multiply_add_complex(sum, a, b);
}
template <>
inline void multiply_add<std::complex<double>>(std::complex<double>& sum, std::complex<double> a,
                                               const std::complex<double>& b) {
  multiply_add_complex(sum, a, b);
}
template <typename T>
inline void multiply_add_scalar(T& sum, T a, T b) {
  sum += a * b;
}
template <typename R>
inline void multiply_add_scalar(std::complex<R>& sum, std::complex<R> a, std::complex<R> b) {
  multiply_add_complex(sum, a, b);
}
template <typename T>
inline T multiply(T a, T b) {
  return a * b;
}
template <>
inline std::complex<float> multiply(std::complex<float> a, std::complex<float> b) {
  // One times infinity is infinity: factors of one are the usual case.
  if (a == std::complex<float>(1)) return b;
  std::complex<float> product(0);
  multiply_add_complex(product, a, b);
  return product;
}
template <>
inline std::complex<double> multiply(std::complex<double> a, std::complex<double> b) {
  // One times infinity is infinity: factors of one are the usual case.
  if (a == std::complex<double>(1)) return b;
  std::complex<double> product(0);
  multiply_add_complex(product, a, b);
  return product;
}

/// The sum of a vector's lanes.
template <typename T>
inline T sum_lanes(const typename Vector<T>::type& vector) {
  if constexpr (Vector<T>::kLanes == 1) {
    return vector;
  } else {
    T lanes[Vector<T>::kLanes];
    store_vector<T>(lanes, vector);
    for (int width = Vector<T>::kLanes / 2; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    }
    return lanes[0];
  }
}

}  // namespace etir
