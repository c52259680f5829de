// AVX-512 with VNNI, which a processor is asked for at run time: no level of the x86-64 ABI has it.
#pragma once

// ETIR_INT8_VNNI=0 leaves it out, so that the variant below it can be tested and measured.
#ifndef ETIR_INT8_VNNI
#define ETIR_INT8_VNNI 1
#endif

#if defined(__x86_64__) && defined(__AVX2__) && ETIR_INT8_VNNI
#include <immintrin.h>
#define ETIR_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

namespace etir {

inline bool has_vnni() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}

}  // namespace etir
#endif
