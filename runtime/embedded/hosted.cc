// The bare-metal example under an operating system: prints to standard output.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "embedded/semihosting.h"

namespace etir {
void hosted_print(const char* text) { std::fputs(text, stdout); }
uint64_t machine_ticks() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}
}  // namespace etir
