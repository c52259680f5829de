// Short vectors of the compiler (GCC and Clang vector extensions), as wide as the target's registers.
//
// A kernel that names registers itself (matrix products, convolutions) is written once on Vector<T>; on a target
// without vector registers Vector<T> is T. Loads and stores go through memcpy: no alignment is assumed.
#pragma once

#include <complex>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__AVX512F__)
#define ETIR_VECTOR_BYTES 64
#elif defined(__AVX__)
#define ETIR_VECTOR_BYTES 32
#elif defined(__SSE2__) || defined(__ARM_NEON)
#define ETIR_VECTOR_BYTES 16
#else
#define ETIR_VECTOR_BYTES 0
#endif

// Unrolls the next loop entirely, whatever the optimization level: arrays of accumulators must become registers. Or not
// at all.
#if defined(__clang__)
#define ETIR_UNROLL _Pragma("clang loop unroll(full)")
#define ETIR_NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define ETIR_UNROLL _Pragma("GCC unroll 64")
#define ETIR_NO_UNROLL _Pragma("GCC unroll 1")
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

/// Asks for the line of the cache that is `bytes` after `from`, which need not exist.
inline void prefetch_ahead(const void* from, int64_t bytes) {
#if ETIR_VECTOR_BYTES > 0
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(from) + static_cast<uintptr_t>(bytes)));
#else
  (void)from, (void)bytes;
#endif
}

/// Every second of 2 * kLanes - 1 elements.
template <typename T>
inline typename Vector<T>::type load_every_second(const T* from) {
  constexpr int kLanes = Vector<T>::kLanes;
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
  // The second load starts one element early: the element after the last one may not exist.
  if constexpr (kLanes == 4) {
    return __builtin_shufflevector(load_vector<T>(from), load_vector<T>(from + 3), 0, 2, 5, 7);
  } else if constexpr (kLanes == 8) {
    return __builtin_shufflevector(load_vector<T>(from), load_vector<T>(from + 7), 0, 2, 4, 6, 9, 11, 13, 15);
  } else if constexpr (kLanes == 2) {
    return __builtin_shufflevector(load_vector<T>(from), load_vector<T>(from + 1), 0, 3);
  }
#endif
#endif
  T lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = from[2 * i];
  return load_vector<T>(lanes);
}

/// Copies `count` elements, more than a few of them in vectors; the last vector may overlap the one before it.
template <typename T>
inline void copy_run(T* to, const T* from, int64_t count) {
  constexpr int kLanes = Vector<T>::kLanes;
  if constexpr (kLanes > 1) {
    if (count >= kLanes) {
      for (int64_t i = 0; i + kLanes < count; i += kLanes) store_vector<T>(to + i, load_vector<T>(from + i));
      return store_vector<T>(to + count - kLanes, load_vector<T>(from + count - kLanes));
    }
  }
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
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

/// Whether V is the vector type of T, and not T itself.
template <typename V, typename T>
constexpr bool is_vector_of_v = Vector<T>::kLanes > 1 && std::is_same_v<V, typename Vector<T>::type>;

namespace detail {
/// The vector's lanes with each half of every 2 * width of them exchanged.
template <int kWidth, typename V, size_t... i>
inline V exchange_lanes(const V& v, std::index_sequence<i...>) {
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(v, v, (static_cast<int>(i) ^ kWidth)...);
#define ETIR_EXCHANGES 1
#endif
#endif
#ifndef ETIR_EXCHANGES
  V result = v;
  (void(result[i] = v[i ^ kWidth]), ...);
  return result;
#endif
}
template <typename T, int kWidth, typename V, typename Combine>
inline T fold_halves(const V& v, const Combine& combine) {
  if constexpr (kWidth == 0) {
    return v[0];
  } else {
    const V other = exchange_lanes<kWidth>(v, std::make_index_sequence<Vector<T>::kLanes>());
    return fold_halves<T, kWidth / 2>(combine(v, other), combine);
  }
}
}  // namespace detail

/// All lanes of a vector of T combined, as a balanced tree, with an operator on vectors.
template <typename T, typename Combine>
inline T fold_lanes(const typename Vector<T>::type& vector, const Combine& combine) {
  if constexpr (Vector<T>::kLanes == 1) {
    return vector;
  } else {
    return detail::fold_halves<T, Vector<T>::kLanes / 2>(vector, combine);
  }
}

/// The sum of a vector's lanes.
template <typename T>
inline T sum_lanes(const typename Vector<T>::type& vector) {
  using V = typename Vector<T>::type;
  return fold_lanes<T>(vector, [](const V& a, const V& b) -> V { return a + b; });
}

}  // namespace etir
