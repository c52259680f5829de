#include "platform/mmap_data_loader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace etir {

MmapDataLoader::~MmapDataLoader() { close(); }

void MmapDataLoader::close() {
  if (size_ > 0) ::munmap(const_cast<unsigned char*>(data_), size_);
  data_ = nullptr;
  size_ = 0;
}

bool MmapDataLoader::open(const char* path) {
  close();
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  struct stat status;
  int error = 0;
  if (::fstat(file, &status) != 0) {
    error = errno;
  } else if (!S_ISREG(status.st_mode)) {
    error = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  } else if (status.st_size > 0) {
    // An empty file cannot be mapped; it has no bytes to give either.
    void* data = ::mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) {
      error = errno;
    } else {
      data_ = static_cast<const unsigned char*>(data);
      size_ = static_cast<size_t>(status.st_size);
    }
  }
  ::close(file);
  errno = error;
  return error == 0;
}

}  // namespace etir
