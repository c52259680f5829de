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
#include "executor/native_code.h"
#include "executor/program.h"
#include "kernels/kernel.h"

namespace etir {

class Method;
struct MethodOptions;

struct CompileSpec {
  StringView key;
  Span<const uint8_t> value;
};

/// What a backend is given to prepare one delegate.
class BackendInit {
 public:
  /// What the backend's compiler wrote; lives as long as the method.
  Span<const uint8_t> processed;
  /// Name of the method that the delegate belongs to, and the delegate's index in it.
  StringView method;
  uint32_t index = 0;

  uint32_t num_compile_specs() const { return specs_.count(); }
  CompileSpec compile_spec(uint32_t i) const {
    const flat::Table spec = specs_.table(i);
    const flat::Vector value = spec.vector(1);
    return {spec.string(0), {value.at == nullptr ? nullptr : value.items(), value.count()}};
  }
  /// Memory that lives as long as the method: method memory, and where it has no more, what MethodOptions::delegates
  /// gives. Null when there is not enough.
  void* allocate(size_t bytes, size_t alignment = 8);
  /// The memory that the first ctx.temp() of every execute() gives, if it asks for no less than `bytes` here: always at
  /// this address, its contents gone when execute() returns. Null when there is not enough.
  void* scratch(size_t bytes, size_t alignment = 16) const;
  /// The planned bytes of argument `i` of the calls of this delegate, which are there in every execute(): memory that
  /// the method has planned for the delegate to work in. Empty where it is no planned tensor of a fixed size, or one of
  /// its own for each call.
  Span<uint8_t> argument(uint32_t i) const;
  /// What the method around the delegate was loaded with: kernels, threads, external data, allocators. Not kept longer
  /// than init() runs.
  const MethodOptions& options() const { return options_; }
  /// Where activations lie for a program inside of this delegate; by default in scratch().
  Span<uint8_t> activations;
  /// Constants for a program inside of this delegate; by default none.
  ConstantSource constants;
  /// Says why init() fails; returns the check's error, for init() to return. Without it the record says BackendInit.
  Error fail(Check check, int64_t a = -1, int64_t b = -1) {
    record_.check = check;
    record_.a = a;
    record_.b = b;
    return record_.error();
  }
  /// Data by name: the program's own, then the external data given to the method. NotFound, AccessFailed. The bytes
  /// live as long as their loader.
  Result<Span<const uint8_t>> named_data(StringView key) const;

 private:
  friend class Method;
  BackendInit(Method& method, const MethodOptions& options) : method_(method), options_(options) {}

  Method& method_;
  const MethodOptions& options_;
  flat::Vector specs_;
  ErrorRecord record_;
};

/// Whether methods besides the one that initialized a delegate use it (MethodOptions::share).
enum class Sharing : uint8_t {
  No,    ///< each method has its own
  May,   ///< one for all of them saves time and memory
  Must,  ///< it holds state that methods share: those that have it are to use one
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
  void (*destroy)(void* handle) = nullptr;
  /// Whether other methods use an initialized delegate. May be null: no.
  Sharing (*shareable)(void* handle) = nullptr;
};

struct BackendTable {
  const Backend* rows = nullptr;
  uint32_t count = 0;
};

}  // namespace etir
