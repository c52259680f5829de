// The bare-metal example under an operating system: prints to standard output.
#include <cstdio>
#include <cstdlib>

#include "embedded/semihosting.h"

namespace etir {
void hosted_print(const char* text) { std::fputs(text, stdout); }
}  // namespace etir
