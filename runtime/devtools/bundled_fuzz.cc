// Fuzzing: read any bytes as a bundled program, and compare what it expects with itself.
//
// What is read has to be usable: every byte of each tensor is looked at, and the program lies inside of the file. The
// file is copied to memory that ends where its bytes end, so that the sanitizer sees the first byte beyond. The readers
// of ETDumps are in Python (emit/etdump), whose tests damage files.
#include <cstdlib>
#include <cstring>

#include "devtools/bundled.h"

namespace {

using namespace etir::host;

/// Reads all bytes of an output; a sum, so that nothing of it is left out.
uint64_t touched(const Output& output) {
  uint64_t sum = output.text.size();
  const auto* bytes = static_cast<const uint8_t*>(output.data.get());
  for (size_t i = 0; i < output.nbytes; ++i) sum += bytes[i];
  for (const Output& item : output.items) sum += touched(item);
  return sum;
}

/// Ends the process unless it is so.
void expect(bool good) {
  if (!good) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::shared_ptr<void> copy(std::aligned_alloc(64, (size / 64 + 1) * 64), std::free);
  auto* end = static_cast<uint8_t*>(copy.get()) + (size / 64 + 1) * 64;
  // The start stays a multiple of 8 as that of files is, and at most 7 bytes follow the end.
  uint8_t* start = end - (size + 7) / 8 * 8;
  if (size > 0) std::memcpy(start, data, size);
  const Bytes bytes{copy, start, size};
  BundledProgram bundled;
  const Status status = read_bundled(bytes, &bundled);
  if (!status.ok()) {
    expect(!status.message.empty());
    return 0;
  }
  expect(is_bundled(bytes));
  const auto* program = static_cast<const uint8_t*>(bundled.program.data);
  uint64_t sum = 0;
  for (size_t i = 0; i < bundled.program.size; ++i) sum += program[i];
  for (const BundledSuite& suite : bundled.suites) {
    for (const BundledCase& one : suite.cases) {
      for (const Output& output : one.expected) sum += touched(output);
      difference(one.expected, one.expected, 1e-3, 1e-5);
      for (const Input& input : one.inputs) sum += input.text.size() + (input.data != nullptr);
    }
  }
  static volatile uint64_t kept;
  kept = sum;
  return static_cast<int>(kept & 0);
}
