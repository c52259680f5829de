// A C function that calls one kernel on a table of values made by the caller; the kernel tests use it through ctypes.
#include <cstddef>

#include "kernels/kernel.h"

namespace etir {
extern const KernelTable kKernels;
}

extern "C" {

/// Calls the kernel `name` with `args` (indices of values, their count before the first one). Fills `record` with
/// check, a, b and temp memory used. Returns false when there is no such kernel.
__attribute__((visibility("default"))) bool etir_call_kernel(const char* name, etir::Payload* payloads, etir::Tag* tags,
                                                             uint32_t count, const int32_t* args, void* temp,
                                                             size_t temp_size, int64_t* record) {
  size_t size = 0;
  while (name[size] != '\0') ++size;
  const etir::Kernel* kernel = etir::find_kernel(etir::kKernels, name, size);
  if (kernel == nullptr) return false;
  etir::Values values{payloads, tags, count};
  etir::Arena arena;
  arena.base = static_cast<uint8_t*>(temp);
  arena.size = temp_size;
  etir::ErrorRecord error;
  etir::RandomState random;
  etir::KernelContext ctx(values, args, arena, error);
  ctx.random = &random;
  kernel->function(ctx);
  record[0] = static_cast<int64_t>(error.check);
  record[1] = error.a;
  record[2] = error.b;
  record[3] = static_cast<int64_t>(arena.peak);
  return true;
}

/// The signature of a kernel's row, or null.
__attribute__((visibility("default"))) const char* etir_kernel_signature(const char* name) {
  size_t size = 0;
  while (name[size] != '\0') ++size;
  const etir::Kernel* kernel = etir::find_kernel(etir::kKernels, name, size);
  return kernel == nullptr ? nullptr : kernel->signature;
}
}
