// A method of the small program in memory of its own for each part, and the kernel that it calls: for the tests of
// methods.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "executor/method.h"
#include "testing/counting_loader.h"
#include "testing/file_writer.h"
#include "testing/testing.h"

namespace etir {
namespace testing {

inline int refuse = 0;      // the kernel fails this many times
inline size_t scratch = 0;  // and asks for so much temporary memory

inline void twice(KernelContext& ctx) {
  if (refuse > 0) {
    --refuse;
    return ctx.fail(Check::KernelArgument, 0, 42);
  }
  if (scratch > 0 && ctx.temp(scratch, 1) == nullptr) return;
  if (!ctx.resize_like(ctx.tensor(1), ctx.tensor(0))) return;
  for (int64_t i = 0; i < ctx.tensor(0).numel(); ++i) {
    ctx.tensor(1).ptr<float>()[i] = 2 * ctx.tensor(0).ptr<float>()[i];
  }
}

inline constexpr Kernel kRows[] = {{"test::twice.out", twice, "T>T", 2}};
inline constexpr KernelTable kTable = {kRows, 1};

/// A loaded program, and memory of its own for each part, so that sanitizers see the first byte beyond it.
struct Fixture {
  explicit Fixture(Small& small) : Fixture(small.bytes()) {}
  explicit Fixture(const std::string& file) : loader(file) {
    CHECK_EQ(program.load(loader), Error::Ok);
    meta = program.method_meta(uint32_t{0});
    needed = static_cast<size_t>(meta.method_memory_size());
  }
  Error load(size_t method_size, uint64_t planned_size, size_t temp_size, const KernelTable& table = kTable) {
    method_memory.reset(std::aligned_alloc(16, (method_size + 15) / 16 * 16));
    planned_memory.reset(std::aligned_alloc(16, static_cast<size_t>(planned_size + 15) / 16 * 16));
    std::memset(planned_memory.get(), before, static_cast<size_t>(planned_size));
    temp_memory.reset(std::malloc(temp_size + 1));
    buffer.data = planned_memory.get();
    buffer.size = planned_size;
    MethodMemory memory;
    memory.method.base = static_cast<uint8_t*>(method_memory.get());
    memory.method.size = method_size;
    memory.planned = {&buffer, count};
    memory.temp.base = static_cast<uint8_t*>(temp_memory.get());
    memory.temp.size = temp_size;
    MethodOptions options;
    const KernelTable tables[] = {table, further};
    options.kernels = {tables, 2};
    options.backends = backends;
    return method.load(program, index, memory, options);
  }
  Error set(int32_t rows = 2, int32_t columns = 3) {
    sizes[0] = rows, sizes[1] = columns;
    return method.set_input(0, TensorInput{data, ScalarType::Float, 2, sizes, nullptr});
  }
  const ErrorRecord& record() const { return method.error_record(); }
  float output(int i) const { return method.output(0).payload.tensor->ptr<float>()[i]; }

  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  CountingLoader loader;
  Program program;
  MethodMeta meta;
  size_t needed = 0;
  uint32_t index = 0;
  size_t count = 1;
  uint8_t before = 0;  ///< what is in planned memory when the method is loaded
  BackendTable backends = {};
  KernelTable further = {};  ///< kernels for what the given ones do not have
  PlannedBuffer buffer;
  std::unique_ptr<void, Free> method_memory, planned_memory, temp_memory;
  alignas(16) float data[6] = {1, 2, 3, 4, 5, 6};
  int32_t sizes[2];
  Method method;
};

}  // namespace testing
}  // namespace etir
