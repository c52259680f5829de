// The one symbol of a shared module of kernels (platform/isa.h).
#include "platform/isa.h"

namespace etir {
extern const KernelTable kKernels;
}

extern "C" __attribute__((visibility("default"))) const etir::KernelTable* etir_kernel_table(uint32_t abi) {
  return abi == etir::kKernelAbi ? &etir::kKernels : nullptr;
}
