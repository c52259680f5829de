// Backends: code that runs delegated parts of a program.
//
// A backend is a row of function pointers. The client gives a table of them when it loads a method, so that nothing
// registers itself and a build without delegates has no trace of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/error.h"
#include "core/span.h"
#include "core/value.h"
#include "executor/external_data.h"
#include "executor/program.h"
#include "kernels/kernel.h"

namespace etir {

struct CompileSpec {
  StringView key;
  Span<const uint8_t> value;
};

/// What a backend is given to prepare one delegate.
class BackendInit {
 public:
  /// What the backend's compiler wrote; lives as long as the method.
  Span<const uint8_t> processed;
  /// Name of the method that the delegate belongs to.
  StringView method;

  uint32_t num_compile_specs() const { return specs_.count(); }
  CompileSpec compile_spec(uint32_t i) const {
    const flat::Table spec = specs_.table(i);
    const flat::Vector value = spec.vector(1);
    return {spec.string(0), {value.at == nullptr ? nullptr : value.items(), value.count()}};
  }
  /// Method memory, which lives as long as the method; null when there is not enough.
  void* allocate(size_t bytes, size_t alignment = 8) { return memory_.allocate(bytes, alignment); }
  /// Data by name: the program's own, then the external data given to the method. NotFound, AccessFailed. The bytes
  /// live as long as their loader.
  Result<Span<const uint8_t>> named_data(StringView key) const;

 private:
  friend class Method;
  BackendInit(const Program& program, Span<const ExternalData* const> external, Arena& memory)
      : program_(program), external_(external), memory_(memory) {}

  const Program& program_;
  Span<const ExternalData* const> external_;
  Arena& memory_;
  flat::Vector specs_;
};

/// One backend. Functions report failure by returning an error; they must not throw.
struct Backend {
  /// As the file names it, for instance "XnnpackBackend".
  const char* name;
  /// Whether it can work on this machine. May be null: yes.
  bool (*available)();
  /// Prepares a delegate and puts what execute() needs into `*handle`.
  Error (*init)(BackendInit& init, void** handle);
  /// Runs a delegate. The context's arguments, `count` of them, are the call's inputs and then its outputs; the file
  /// decides their kinds, so check tag(i) before reading. Outputs are resized with ctx.resize().
  Error (*execute)(void* handle, KernelContext& ctx, uint32_t count);
  /// Ends a delegate for which init() succeeded. May be null.
  void (*destroy)(void* handle);
};

struct BackendTable {
  const Backend* rows = nullptr;
  uint32_t count = 0;
};

}  // namespace etir
