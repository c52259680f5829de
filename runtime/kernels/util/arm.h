// Products of bytes on 64-bit Arm: NEON's widening ones, which every processor has, and dot products of four bytes
// (Armv8.2, `dotprod`). Linux says at run time whether the latter are there; elsewhere they run if the compiler may use
// them.
#pragma once

// ETIR_INT8_ARM=1 leaves dot products out, so that what comes before them can be tested and measured; 0 leaves NEON
// out, too.
#ifndef ETIR_INT8_ARM
#define ETIR_INT8_ARM 2
#endif

#if defined(__aarch64__) && defined(__AARCH64EL__) && defined(__ARM_NEON) && ETIR_INT8_ARM > 0
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#define ETIR_NEON 1
#define ETIR_DOT __attribute__((target("arch=armv8.2-a+dotprod")))

namespace etir {

/// What a processor multiplies bytes with; each has the ones before, too.
enum class ArmBytes { Neon, Dot };

inline ArmBytes arm_bytes() {
  bool dot = false;
#if defined(__linux__)
  // HWCAP_ASIMDDP: older headers have no name for it.
  dot = (getauxval(AT_HWCAP) >> 20 & 1) != 0;
#elif defined(__ARM_FEATURE_DOTPROD)
  dot = true;
#endif
  return ETIR_INT8_ARM >= 2 && dot ? ArmBytes::Dot : ArmBytes::Neon;
}

}  // namespace etir
#else
#define ETIR_NEON 0
#endif
