// The kernels for the processor at hand, on hosts with dynamic libraries.
//
// The build may compile kernels several times, each for another instruction set, into a shared module of its own
// (ETIR_ISAS in runtime/CMakeLists.txt). A module need not have all of them: others run as they are linked in. Modules
// share no code with each other or with the program that loads them, so that no inline function compiled for a newer
// processor is ever called on an older one. Without a module that fits, the kernels that the program was linked with
// run.
#pragma once

#include <string>

#include "kernels/kernel.h"

namespace etir {

/// Kernels, and the instruction set that they were compiled for.
struct IsaKernels {
  const KernelTable* table = nullptr;  ///< null when the wanted instruction set is not there
  std::string isa;
};

/// The instruction set of the kernels that are linked in.
constexpr const char* kBaselineIsa = "baseline";

/// The best kernels among the modules in `folder` that this processor can run, or those of `wanted` (the name of an
/// instruction set; empty to choose). `baseline` is the table that is linked in. Modules stay loaded.
IsaKernels select_kernels(const KernelTable& baseline, const std::string& folder, const std::string& wanted);

/// Whether this processor has what programs for `isa` need: "baseline", "x86-64-v3", "x86-64-v4".
bool processor_has(const std::string& isa);

/// Number that a module and its user must agree on: it changes with the layout of what they exchange.
constexpr uint32_t kKernelAbi =
    static_cast<uint32_t>(sizeof(KernelContext) << 20 | sizeof(Tensor) << 12 | sizeof(Kernel) << 6 | sizeof(Values));

}  // namespace etir
