#include "platform/host_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace etir {
namespace host {

namespace {

constexpr size_t kLeastReserve = size_t{1} << 20;

/// Asks for pages of the largest size, where the system has them: a decoder reads all weights for each token, and takes
/// 4 % longer where each 4 KB of them are looked up. Those of a file that is mapped come with the first reading of it
/// from the disk.
void use_large_pages(void* data, size_t size) {
#if defined(MADV_HUGEPAGE)
  constexpr size_t kLeast = size_t{4} << 20;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t skipped = (page - reinterpret_cast<uintptr_t>(data) % page) % page;
  if (size >= kLeast) madvise(static_cast<char*>(data) + skipped, size - skipped, MADV_HUGEPAGE);
#else
  (void)data, (void)size;
#endif
}

Bytes open_file(const std::string& path, Status* status, bool map) {
  Bytes result;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info = {};
  if (file < 0 || fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    const char* why = file >= 0 && errno == 0 ? "not a file" : std::strerror(errno);
    if (file >= 0 && !S_ISREG(info.st_mode)) why = "not a file";
    *status = refusal(Error::AccessFailed, "cannot read '" + path + "': " + why);
    if (file >= 0) close(file);
    return result;
  }
  const size_t size = static_cast<size_t>(info.st_size);
  if (map && size > 0) {
    void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data != MAP_FAILED) {
      use_large_pages(data, size);
      result = {std::shared_ptr<const void>(data, [size](const void* at) { munmap(const_cast<void*>(at), size); }),
                data, size};
    }
  } else if (std::shared_ptr<void> data = allocate_aligned(size)) {
    use_large_pages(data.get(), size);
    size_t done = 0;
    while (done < size) {
      const ssize_t got = read(file, static_cast<char*>(data.get()) + done, size - done);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    if (done == size) result = {data, data.get(), size};
  }
  if (result.data == nullptr)
    *status = refusal(Error::AccessFailed, "cannot read '" + path + "': " + std::strerror(errno));
  close(file);
  return result;
}

}  // namespace

Status refusal(Error error, std::string message) {
  Status status;
  status.error = error;
  status.message = std::move(message);
  return status;
}

std::shared_ptr<void> allocate_aligned(size_t size) {
  void* data = nullptr;
  if (posix_memalign(&data, kHostAlignment, std::max(size, size_t{1})) != 0) return nullptr;
  return std::shared_ptr<void>(data, std::free);
}

std::shared_ptr<void> allocate_zeros(size_t size) {
  if (size >= kLeastReserve) {
    void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    return std::shared_ptr<void>(data, [size](void* at) { munmap(at, size); });
  }
  std::shared_ptr<void> result = allocate_aligned(size);
  if (result != nullptr) std::memset(result.get(), 0, size);
  return result;
}

std::shared_ptr<void> reserve_memory(size_t most, size_t* size) {
  for (size_t bytes = most; bytes >= std::min(most, kLeastReserve); bytes /= 2) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data != MAP_FAILED) {
      *size = bytes;
      return std::shared_ptr<void>(data, [bytes](void* at) { munmap(at, bytes); });
    }
  }
  return nullptr;
}

void return_freed_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

Bytes read_file(const std::string& path, Status* status) { return open_file(path, status, false); }
Bytes map_file(const std::string& path, Status* status) { return open_file(path, status, true); }

Bytes copy_bytes(const void* data, size_t size) {
  std::shared_ptr<void> copy = allocate_aligned(size);
  if (copy == nullptr) return {};
  if (size > 0) std::memcpy(copy.get(), data, size);
  return {copy, copy.get(), size};
}

}  // namespace host
}  // namespace etir
