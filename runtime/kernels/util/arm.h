// Products of bytes on 64-bit Arm: NEON's widening ones, which every processor has, dot products of four bytes
// (Armv8.2, `dotprod`), and products of matrices of 2 x 8 and 8 x 2 bytes (Armv8.6, `i8mm`). Linux says at run time
// which of the last two there are; elsewhere those that the compiler may use run.
#pragma once

// Less than 3 leaves the last of them out, so that those before can be tested and measured: 2 is dot products, 1 NEON
// alone, 0 portable C++.
#ifndef ETIR_INT8_ARM
#define ETIR_INT8_ARM 3
#endif

#if defined(__aarch64__) && defined(__AARCH64EL__) && defined(__ARM_NEON) && ETIR_INT8_ARM > 0
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#define ETIR_NEON 1
#define ETIR_DOT __attribute__((target("arch=armv8.2-a+dotprod")))
#define ETIR_I8MM __attribute__((target("arch=armv8.2-a+dotprod+i8mm")))

namespace etir {

/// What a processor multiplies bytes with; each has the ones before, too.
enum class ArmBytes { Neon, Dot, Matrix };

inline ArmBytes arm_bytes() {
  bool dot = false, matrix = false;
#if defined(__linux__)
  // HWCAP_ASIMDDP and HWCAP2_I8MM: older headers have no names for them.
  dot = (getauxval(AT_HWCAP) >> 20 & 1) != 0;
  matrix = (getauxval(AT_HWCAP2) >> 13 & 1) != 0;
#else
#if defined(__ARM_FEATURE_DOTPROD)
  dot = true;
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8)
  matrix = true;
#endif
#endif
  if (ETIR_INT8_ARM >= 3 && dot && matrix) return ArmBytes::Matrix;
  return ETIR_INT8_ARM >= 2 && dot ? ArmBytes::Dot : ArmBytes::Neon;
}

}  // namespace etir
#else
#define ETIR_NEON 0
#endif
