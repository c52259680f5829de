// Whether a method may run machine code that its file brings along, and what the platform has for it.
//
// Code in a model file is as trusted as a program: by default it is refused, and what it stands for runs on kernels.
// Who loads a file decides; the compiler's checks say something about code that it has just made, and nothing about a
// file that somebody else has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/span.h"

namespace etir {

/// A function that native code is entered by (runtime/backends/native/call.h).
struct NativeCall;
using NativeEntry = int32_t (*)(const NativeCall* call);

/// SHA-256 of an image.
struct ImageDigest {
  uint8_t bytes[32];
};

/// Code that is part of the program already: a microcontroller's build compiles it as C. A file asks for it by
/// `digest`, and gets it when its tables have the digest `contract`: the sizes of arguments, weights and the arena.
struct LinkedNative {
  ImageDigest digest;
  ImageDigest contract;
  NativeEntry entry;
};

struct NativeCode {
  enum class Policy : uint8_t {
    Refuse,   ///< no code of the file is run
    Trusted,  ///< all of it is
    Listed,   ///< images with a digest of `listed` are
    Verify,   ///< those are for which `verify` gives true
  };
  Policy policy = Policy::Refuse;
  Span<const ImageDigest> listed;
  bool (*verify)(void* context, Span<const uint8_t> image) = nullptr;
  void* context = nullptr;
  /// Images that need not be copied anywhere, whatever the policy.
  Span<const LinkedNative> linked;
  /// Whether this processor has what code for `cpu` needs. Null: it has not.
  bool (*has)(const char* cpu, size_t size) = nullptr;
  /// A copy of `bytes` that can be executed and not written, at a multiple of 64; null when there is none. And its end.
  void* (*map)(Span<const uint8_t> bytes) = nullptr;
  void (*unmap)(void* code, size_t size) = nullptr;
};

/// Constants that a program leaves to others and that no external data has: a backend that runs a program inside of a
/// delegate gives its own. `find` returns the bytes of the tensor `name`, which live as long as the method, or null.
struct ConstantSource {
  const void* (*find)(void* context, const char* name, size_t name_size, size_t nbytes) = nullptr;
  void* context = nullptr;
};

}  // namespace etir
