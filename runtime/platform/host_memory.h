// What a host has and an embedded program has not: files, memory as it is asked for, and messages that are sentences.
//
// The base of host_module.h. Nothing here throws; what fails returns null, or says why in a Status.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/error.h"

namespace etir {
namespace host {

/// Whether a call worked, and why not.
struct Status {
  ErrorRecord record;  ///< check None for failures outside of a program, such as a file that cannot be read
  Error error = Error::Ok;
  std::string message;  ///< a sentence
  std::string method;   ///< name, where the failure belongs to one
  std::string op;       ///< operator, where the failure belongs to one
  bool ok() const { return error == Error::Ok; }
};

/// Bytes and what keeps them alive. Null data means that there are none.
struct Bytes {
  std::shared_ptr<const void> owner;
  const void* data = nullptr;
  size_t size = 0;
};
/// A copy of a file, or the file mapped into memory: nothing may then change it while the bytes are in use.
Bytes read_file(const std::string& path, Status* status);
Bytes map_file(const std::string& path, Status* status);
/// A copy, aligned as a program needs it.
Bytes copy_bytes(const void* data, size_t size);

/// Memory for `size` bytes that starts at a cache line, or null.
std::shared_ptr<void> allocate_aligned(size_t size);
/// The same, all bytes zero. Large blocks come from the system, which gives a page when it is touched.
std::shared_ptr<void> allocate_zeros(size_t size);
/// What allocate_aligned() aligns to, in bytes.
constexpr size_t kHostAlignment = 64;
/// At most `most` bytes of address space, fewer where the system refuses; memory comes when it is touched. Null when
/// there is not even a mebibyte.
std::shared_ptr<void> reserve_memory(size_t most, size_t* size);

/// Gives memory that was freed back to the system, where the C library keeps it otherwise (glibc does).
void return_freed_memory();

/// A failure without a record.
Status refusal(Error error, std::string message);

}  // namespace host
}  // namespace etir
