// With ETIR_LOG, each failed check gives the platform one line. This program is built from the core with ETIR_LOG on,
// and is the platform.
#include <string>
#include <vector>

#include "core/error_text.h"
#include "executor/method.h"
#include "platform/platform.h"
#include "testing/file_writer.h"
#include "testing/testing.h"

#ifndef ETIR_LOG
#error "this test needs ETIR_LOG"
#endif

static std::vector<std::string> lines;

extern "C" void etir_platform_log(const char* text, size_t size) { lines.emplace_back(text, size); }

namespace etir {
namespace {

using testing::Aligned;
using testing::Small;

std::string only_line() {
  CHECK_EQ(lines.size(), 1u);
  const std::string line = lines.empty() ? "" : lines[0];
  lines.clear();
  return line;
}

void fails(KernelContext& ctx) { ctx.fail(Check::KernelShape, 1, -7); }

constexpr Kernel kRows[] = {{"test::twice.out", fails, "T>T", 2}};
constexpr KernelTable kTable = {kRows, 1};

ETIR_TEST(each_failed_check_is_one_line) {
  Small small;
  Aligned bytes(small.bytes()), method_memory(4096), planned(64);
  BufferDataLoader cut(bytes.data(), 5), whole(bytes.data(), bytes.size());
  Program program;
  CHECK(program.load(cut) != Error::Ok);
  CHECK_EQ(only_line(), "etir-error 100 -1 -1 -1 5 8 the file has 5 bytes; a program has at least 8");
  ExternalData external;
  CHECK(external.load(whole) != Error::Ok);
  CHECK_EQ(only_line(), "etir-error 701 -1 -1 -1 0 0 the file holds no external data: its identifier is not FT01");
  CHECK_EQ(program.load(whole), Error::Ok);
  Method method;
  PlannedBuffer buffer;
  buffer.data = planned.data();
  buffer.size = 64;
  MethodMemory memory;
  memory.planned = {&buffer, 1};
  MethodOptions options;
  CHECK(method.load(program, 0, memory, options) != Error::Ok);
  const std::string needed = std::to_string(program.method_meta(uint32_t{0}).method_memory_size());
  CHECK_EQ(only_line(), "etir-error 400 0 -1 -1 " + needed + " 0 the method needs " + needed +
                            " bytes of method memory, it was given 0");
  memory.method.base = method_memory.data();
  memory.method.size = method_memory.size();
  CHECK(method.load(program, 0, memory, options) != Error::Ok);
  CHECK_EQ(only_line(),
           "etir-error 340 0 -1 0 0 -1 the operator test::twice.out is not among the kernels of this build");
  options.kernels = {&kTable, 1};
  CHECK_EQ(method.load(program, 0, memory, options), Error::Ok);
  CHECK_EQ(method.execute(), Error::InvalidState);
  CHECK_EQ(only_line(), "etir-error 513 0 -1 -1 0 -1 input 0 has not been set");
  alignas(16) float data[6] = {};
  const int32_t sizes[] = {2, 3};
  CHECK_EQ(method.set_input(0, TensorInput{data, ScalarType::Float, 2, sizes, nullptr}), Error::Ok);
  CHECK(lines.empty());
  CHECK_EQ(method.execute(), Error::InvalidArgument);
  CHECK_EQ(only_line(),
           "etir-error 602 0 0 0 1 -7 argument 1 of test::twice.out has a size -7 that does not go with the other "
           "arguments");
  CHECK_EQ(method.step(), Error::InvalidArgument);
  CHECK(!only_line().empty());
}

// Names come from the file, and may be of any length.
ETIR_TEST(a_long_name_is_cut) {
  Small small;
  small.op->fields[0] = small.w.to(small.w.string(std::string(5000, 'x')));
  Aligned bytes(small.bytes()), method_memory(4096), planned(64);
  BufferDataLoader loader(bytes.data(), bytes.size());
  Program program;
  CHECK_EQ(program.load(loader), Error::Ok);
  PlannedBuffer buffer;
  buffer.data = planned.data();
  buffer.size = 64;
  MethodMemory memory;
  memory.planned = {&buffer, 1};
  memory.method.base = method_memory.data();
  memory.method.size = method_memory.size();
  Method method;
  CHECK(method.load(program, 0, memory, MethodOptions()) != Error::Ok);
  const std::string line = only_line();
  CHECK(line.size() > 200 && line.size() < 500 && line.back() == 'x');
}

// The end of a method is what stepping through it comes to, not a failure.
ETIR_TEST(the_end_of_a_method_is_silent) {
  Method method;
  ErrorRecord record;
  record.check = Check::MethodAtEnd;
  log_failure(record);
  CHECK(lines.empty());
  CHECK_EQ(method.step(), Error::InvalidState);
  CHECK_EQ(only_line(), "etir-error 501 0 -1 -1 -1 -1 the method is not loaded");
}

}  // namespace
}  // namespace etir
