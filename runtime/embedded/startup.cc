// Reset handler and vector table of a Cortex-M: switches the floating point unit on, sets up memory, calls main.
#include <cstdint>

#include "embedded/semihosting.h"

extern "C" {
extern uint32_t _data_load[], _data_start[], _data_end[], _bss_start[], _bss_end[], _stack_top[];
int main();

[[noreturn]] void reset_handler() {
  // CPACR: full access to coprocessors 10 and 11, which are the floating point unit and the vector extension.
  *reinterpret_cast<volatile uint32_t*>(0xe000ed88u) |= 0xfu << 20;
  asm volatile("dsb\n isb" ::: "memory");
  const uint32_t* from = _data_load;
  for (uint32_t* to = _data_start; to != _data_end; ++to, ++from) *to = *from;
  for (uint32_t* to = _bss_start; to != _bss_end; ++to) *to = 0;
  etir::semihosting_exit(static_cast<uint32_t>(main()));
}

[[noreturn]] void fault_handler() {
  etir::semihosting_print("fault\n");
  etir::semihosting_exit(99);
}

// Initial stack pointer, reset, NMI, and the faults. Nothing enables an interrupt.
__attribute__((section(".vectors"), used)) const uintptr_t kVectors[16] = {
    reinterpret_cast<uintptr_t>(_stack_top),    reinterpret_cast<uintptr_t>(reset_handler),
    reinterpret_cast<uintptr_t>(fault_handler), reinterpret_cast<uintptr_t>(fault_handler),
    reinterpret_cast<uintptr_t>(fault_handler), reinterpret_cast<uintptr_t>(fault_handler),
    reinterpret_cast<uintptr_t>(fault_handler), reinterpret_cast<uintptr_t>(fault_handler),
};
}
