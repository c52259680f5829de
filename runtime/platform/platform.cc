#include "platform/platform.h"

#if defined(__unix__) || defined(__APPLE__) || defined(_WIN32)
#define ETIR_HAS_OS 1
#include <chrono>
#include <cstdio>
#include <cstdlib>
#endif

extern "C" {

__attribute__((weak)) void etir_platform_abort(void) {
#ifdef ETIR_HAS_OS
  std::abort();
#else
  __builtin_trap();
#endif
}

__attribute__((weak)) void etir_platform_log(const char* text, size_t size) {
#ifdef ETIR_HAS_OS
  std::fprintf(stderr, "%.*s\n", static_cast<int>(size), text);
#else
  (void)text, (void)size;
#endif
}

__attribute__((weak)) uint64_t etir_platform_ticks(void) {
#ifdef ETIR_HAS_OS
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
#else
  return 0;
#endif
}

__attribute__((weak)) void etir_platform_tick_length(uint64_t* nanoseconds, uint64_t* denominator) {
  *nanoseconds = 1;
  *denominator = 1;
}
}
