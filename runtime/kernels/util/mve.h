// Whether the compiler has Arm's vectors for Cortex-M (MVE, Helium): those of integers, and those of float32.
#pragma once

#if defined(__ARM_FEATURE_MVE) && __ARM_FEATURE_MVE & 1 && !defined(__ARM_BIG_ENDIAN)
#include <arm_mve.h>
#define ETIR_MVE 1
#define ETIR_MVE_FLOAT ((__ARM_FEATURE_MVE >> 1) & 1)
#else
#define ETIR_MVE 0
#define ETIR_MVE_FLOAT 0
#endif
