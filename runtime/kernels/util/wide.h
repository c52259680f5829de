// Loops over floats whose vectors have 512 bits where the processor has them.
//
// Kernels are built for levels of the x86-64 ABI, with vectors of 256 bits; for a function of many steps vectors of
// twice the size take half the time. Without them, a long chain of steps is several loops (Steps): a processor looks
// ahead by so many instructions, and finds too few chains among them to be busy. Element by element it is the same
// arithmetic: results have the same bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/util/vnni.h"

// ETIR_WIDE=0 leaves them out.
#ifndef ETIR_WIDE
#if defined(__x86_64__) && defined(__AVX2__) && defined(__FMA__) && !defined(__AVX512F__) && ETIR_INT8_VNNI
#define ETIR_WIDE 1
#else
#define ETIR_WIDE 0
#endif
#endif

#if ETIR_WIDE && defined(__clang__)
#define ETIR_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#elif ETIR_WIDE
#define ETIR_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")))
#endif

namespace etir {

#if ETIR_WIDE
inline bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

/// A function of one number whose arithmetic takes much longer than to load and store it.
template <typename F>
struct Wide {
  F function;

  template <typename T>
  auto operator()(T x) const {
    return function(x);
  }
};
template <typename F>
Wide(F) -> Wide<F>;

/// A function f of T that is, of float32 numbers, last(x, middle(first(x))): chains of about the same length.
template <typename First, typename Middle, typename Last, typename F>
struct Steps {
  First first;
  Middle middle;
  Last last;
  F function;

  template <typename T>
  auto operator()(T x) const {
    if constexpr (std::is_same_v<T, float>)
      return last(x, middle(first(x)));
    else
      return function(x);
  }
};
template <typename First, typename Middle, typename Last, typename F>
Steps(First, Middle, Last, F) -> Steps<First, Middle, Last, F>;

namespace detail {

// Flattened, since compilers find such functions too long to be parts of two loops.
template <typename F>
[[gnu::flatten]] void apply_plain(const F& f, float* __restrict out, int64_t n, const float* __restrict a) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i]);
}
template <typename First, typename Middle, typename Last, typename F>
[[gnu::flatten]] void apply_plain(const Steps<First, Middle, Last, F>& f, float* __restrict out, int64_t n,
                                  const float* __restrict a) {
  constexpr int64_t kBlock = 64;
  float between[kBlock];
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = n - at < kBlock ? n - at : kBlock;
    for (int64_t i = 0; i < count; ++i) between[i] = f.first(a[at + i]);
    for (int64_t i = 0; i < count; ++i) between[i] = f.middle(between[i]);
    for (int64_t i = 0; i < count; ++i) out[at + i] = f.last(a[at + i], between[i]);
  }
}
#if ETIR_WIDE
template <typename F>
[[gnu::flatten]] ETIR_AVX512 void apply_avx512(const F& f, float* __restrict out, int64_t n,
                                               const float* __restrict a) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i]);
}
#endif

/// out[i] = f(a[i]).
template <typename F>
void apply_wide(const Wide<F>& f, float* __restrict out, int64_t n, const float* __restrict a) {
#if ETIR_WIDE
  if (has_avx512()) return apply_avx512(f.function, out, n, a);
#endif
  apply_plain(f.function, out, n, a);
}

}  // namespace detail

}  // namespace etir
