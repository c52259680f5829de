#include "platform/isa.h"

#include <dlfcn.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace etir {

namespace {

// From the most to the least wanted.
constexpr const char* kIsas[] = {"x86-64-v4", "x86-64-v3"};

#if defined(__x86_64__)
/// The register states that the operating system saves (XCR0).
uint64_t saved_states() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

bool all(uint64_t value, uint64_t bits) { return (value & bits) == bits; }

/// Levels of the x86-64 psABI beyond the first two: 3, 4, or 2 for anything less.
int x86_64_level() {
  uint32_t a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return 2;
  constexpr uint32_t kFma = 1u << 12, kMovbe = 1u << 22, kOsxsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
  if (!all(c, kFma | kMovbe | kOsxsave | kAvx | kF16c) || !all(saved_states(), 0x6)) return 2;
  if (__get_cpuid(0x80000001, &a, &b, &c, &d) == 0 || !all(c, 1u << 5 /* LZCNT */)) return 2;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return 2;
  constexpr uint32_t kBmi1 = 1u << 3, kAvx2 = 1u << 5, kBmi2 = 1u << 8;
  if (!all(b, kBmi1 | kAvx2 | kBmi2)) return 2;
  constexpr uint32_t kF = 1u << 16, kDq = 1u << 17, kCd = 1u << 28, kBw = 1u << 30, kVl = 1u << 31;
  return all(b, kF | kDq | kCd | kBw | kVl) && all(saved_states(), 0xe6) ? 4 : 3;
}
#endif

const KernelTable* load_module(const std::string& folder, const std::string& isa) {
  const std::string path = folder + "/etir_kernels_" + isa + ".so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  using Entry = const KernelTable* (*)(uint32_t);
  const Entry entry = reinterpret_cast<Entry>(dlsym(library, "etir_kernel_table"));
  return entry == nullptr ? nullptr : entry(kKernelAbi);
}

}  // namespace

bool processor_has(const std::string& isa) {
#if defined(__x86_64__)
  if (isa == "x86-64-v3") return x86_64_level() >= 3;
  if (isa == "x86-64-v4") return x86_64_level() >= 4;
#endif
  return isa == kBaselineIsa;
}

IsaKernels select_kernels(const KernelTable& baseline, const std::string& folder, const std::string& wanted) {
  for (const char* isa : kIsas) {
    if ((!wanted.empty() && wanted != isa) || !processor_has(isa)) continue;
    if (const KernelTable* table = load_module(folder, isa)) return {table, isa};
  }
  if (wanted.empty() || wanted == kBaselineIsa) return {&baseline, kBaselineIsa};
  return {};
}

}  // namespace etir
