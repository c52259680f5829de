// Bundled programs (.bpte): a program with inputs for its methods and the outputs that they should give.
//
//   BundledProgram bundled;
//   Status status = read_bundled(bytes, &bundled);
//   auto module = Module::load(bundled.program, {}, options, &status);
//   for (BundledSuite& suite : bundled.suites) ...   // run each case, compare with difference()
//
// emit/bundled does the same in Python.
#pragma once

#include <string>
#include <vector>

#include "platform/host_module.h"

namespace etir {
namespace host {

struct BundledCase {
  std::vector<Input> inputs;     ///< whose tensors are in `memory`
  std::vector<Output> expected;  ///< none: nothing is said
  std::vector<std::shared_ptr<void>> memory;
};

struct BundledSuite {
  std::string method;
  std::vector<BundledCase> cases;
};

struct BundledProgram {
  Bytes program;  ///< a part of the file's bytes, or a copy where those are not aligned
  std::vector<BundledSuite> suites;
};

/// Whether these are the bytes of a bundled program, whatever else is wrong with them.
bool is_bundled(const Bytes& bytes);
/// Reads a file that nobody vouches for. Error InvalidProgram says what is wrong, and where.
Status read_bundled(const Bytes& bytes, BundledProgram* bundled);
/// What is not as expected, or an empty text. Floats may differ by `rtol` of what is expected and `atol` besides.
std::string difference(const std::vector<Output>& expected, const std::vector<Output>& found, double rtol, double atol);

}  // namespace host
}  // namespace etir
