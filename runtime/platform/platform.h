// What the runtime may ask of the machine that it runs on.
//
// Plain functions with weak defaults (platform/platform.cc): a port overrides one by defining a function of the same
// name. Core, executor and kernels call none of them, except for the log of a build with ETIR_LOG; programs built on
// top do.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/log.h"  // etir_platform_log

extern "C" {

/// Ends the process, or stops the machine. Does not return.
[[noreturn]] void etir_platform_abort(void);

/// A clock that counts up, and how many nanoseconds `*denominator` of its ticks take.
uint64_t etir_platform_ticks(void);
void etir_platform_tick_length(uint64_t* nanoseconds, uint64_t* denominator);
}
