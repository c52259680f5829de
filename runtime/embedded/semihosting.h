// Talking to the debugger or the emulator (Arm semihosting): text out, and the end of the program. On a machine with an
// operating system, text goes to standard output (hosted.cc).
#pragma once

#include <cstdint>

namespace etir {

#if defined(__arm__) && !defined(__linux__)
inline int32_t semihosting_call(int32_t operation, const void* argument) {
  register int32_t r0 asm("r0") = operation;
  register const void* r1 asm("r1") = argument;
  asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

/// Prints text that ends in a zero.
inline void semihosting_print(const char* text) { semihosting_call(0x04, text); }

/// Ends the program with an exit code (SYS_EXIT_EXTENDED).
[[noreturn]] inline void semihosting_exit(uint32_t code) {
  const uint32_t block[2] = {0x20026, code};
  semihosting_call(0x20, block);
  for (;;) {
  }
}

/// Cycles of the processor, from the first call on, at least one each 2^24: the system timer has 24 bits, counts down,
/// and starts over.
inline uint64_t machine_ticks() {
  volatile uint32_t* const timer = reinterpret_cast<volatile uint32_t*>(0xe000e010u);  // control, reload, value
  static uint64_t total = 0;
  static uint32_t last = 0;
  if (timer[0] == 0) {
    timer[1] = 0xffffff;
    timer[2] = 0;
    timer[0] = 5;  // enabled, on the processor's clock, without an interrupt
    last = timer[2];
  }
  const uint32_t now = timer[2];
  total += (last - now) & 0xffffff;
  last = now;
  return total;
}
#else
void hosted_print(const char* text);
inline void semihosting_print(const char* text) { hosted_print(text); }
uint64_t machine_ticks();
#endif

inline void semihosting_print_hex(const uint8_t* bytes, uint32_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  char text[65];
  while (count > 0) {
    const uint32_t part = count < 32 ? count : 32;
    for (uint32_t i = 0; i < part; ++i) {
      text[2 * i] = kDigits[bytes[i] >> 4];
      text[2 * i + 1] = kDigits[bytes[i] & 15];
    }
    text[2 * part] = '\0';
    semihosting_print(text);
    bytes += part;
    count -= part;
  }
  semihosting_print("\n");
}

inline void semihosting_print_number(const char* label, uint32_t value) {
  char text[12];
  char* at = text + sizeof(text) - 1;
  *at = '\0';
  do {
    *--at = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value > 0);
  semihosting_print(label);
  semihosting_print(at);
  semihosting_print("\n");
}

}  // namespace etir
