// Kernels and backends of shared libraries, for every program that this process loads from then on.
//
//   host::Status status = host::load_library("libmine.so");
//
// A library exports one or both of
//
//   etir_kernel_table    its kernels: platform/isa_module.cc with a table by kernels/generate.py
//   etir_backend_table   its backends: ETIR_EXPORT_BACKENDS in one of its sources
//
// which CMake's etir_add_library() builds (cmake/EtirKernels.cmake). Kernels and backends exchange C++ objects
// with the runtime, so that a library is built against the headers of the runtime that loads it: each function is asked
// with a number that changes with the layout of what they exchange. A library comes before what is built in, and before
// libraries that were loaded earlier: an operator or a backend of the same name is the last one's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/backend.h"
#include "kernels/kernel.h"
#include "platform/host_memory.h"
#include "platform/isa.h"

namespace etir {

/// Number that a library with backends and its user must agree on.
constexpr uint32_t kBackendAbi =
    static_cast<uint32_t>(sizeof(BackendInit) << 16 | sizeof(Backend) << 8 | sizeof(CompileSpec)) ^ kKernelAbi;

namespace host {

/// What libraries have brought so far, latest first. Never changes once it is handed out.
struct Libraries {
  std::vector<KernelTable> kernels;
  std::vector<Backend> backends;
};

/// What a library has, by name.
struct LibraryContents {
  std::vector<std::string> operators;
  std::vector<std::string> backends;
};

/// Loads a library, for good. A library that is loaded already is left as it is. AccessFailed: it cannot be loaded;
/// InvalidArgument: it exports neither table; NotSupported: it was built against another version of the runtime.
/// `contents`, which may be null, gets what it has. Any thread may call.
Status load_library(const std::string& path, LibraryContents* contents = nullptr);

/// What is loaded now; never null.
std::shared_ptr<const Libraries> loaded_libraries();

}  // namespace host

}  // namespace etir

/// In one source of a shared library: the backends that it brings.
#define ETIR_EXPORT_BACKENDS(...)                                                                                \
  extern "C" __attribute__((visibility("default"))) const etir::BackendTable* etir_backend_table(uint32_t abi) { \
    static const etir::Backend rows[] = {__VA_ARGS__};                                                           \
    static const etir::BackendTable table = {rows, static_cast<uint32_t>(sizeof(rows) / sizeof(rows[0]))};       \
    return abi == etir::kBackendAbi ? &table : nullptr;                                                          \
  }
