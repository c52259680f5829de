#include "platform/code.h"

#if defined(__riscv)
#include <sys/auxv.h>
#endif
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "platform/isa.h"

namespace etir {

namespace {

size_t in_pages(size_t size) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (size + page - 1) / page * page;
}

void* map_code(Span<const uint8_t> bytes) {
  const size_t size = in_pages(bytes.size);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::memcpy(memory, bytes.data, bytes.size);
  char* const begin = static_cast<char*>(memory);
  __builtin___clear_cache(begin, begin + bytes.size);
  if (mprotect(memory, size, PROT_READ | PROT_EXEC) == 0) return memory;
  munmap(memory, size);
  return nullptr;
}

void unmap_code(void* code, size_t size) { munmap(code, in_pages(size)); }

bool has(const char* cpu, size_t size) {
  const std::string name(cpu, size);
#if defined(__x86_64__)
  return name == "x86-64" || processor_has(name);
#elif defined(__aarch64__)
  return name == "aarch64";
#elif defined(__riscv) && __riscv_xlen == 64
  // Bit n of the auxiliary vector's word is the extension with letter n.
  return name == "riscv64" || (name == "rv64gcv" && (getauxval(AT_HWCAP) >> ('v' - 'a') & 1) != 0);
#else
  return false;
#endif
}

}  // namespace

NativeCode native_code() {
  NativeCode native;
  native.has = has;
  native.map = map_code;
  native.unmap = unmap_code;
  return native;
}

}  // namespace etir
