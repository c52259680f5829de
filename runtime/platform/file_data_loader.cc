#include "platform/file_data_loader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace etir {

FileDataLoader::~FileDataLoader() { close(); }

void FileDataLoader::close() {
  while (parts_ != nullptr) {
    Part* part = parts_;
    parts_ = part->next;
    std::free(part->data);
    std::free(part);
  }
  if (file_ >= 0) ::close(file_);
  file_ = -1;
  size_ = 0;
}

bool FileDataLoader::open(const char* path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  close();
  file_ = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file_ < 0) return false;
  struct stat status;
  if (::fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
    const int error = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    close();
    errno = error;
    return false;
  }
  size_ = static_cast<uint64_t>(status.st_size);
  return true;
}

const void* FileDataLoader::load(uint64_t offset, uint64_t size, size_t alignment) {
  constexpr size_t kAlignment = 64;
  if (offset > size_ || size > size_ - offset || size == 0 || size > SIZE_MAX - kAlignment) return nullptr;
  if (alignment > kAlignment) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Part* part = parts_; part != nullptr; part = part->next) {
    if (part->offset != offset || part->size != size) continue;
    ++part->users;
    return part->data;
  }
  Part* part = static_cast<Part*>(std::malloc(sizeof(Part)));
  void* data = nullptr;
  if (part == nullptr || ::posix_memalign(&data, kAlignment, static_cast<size_t>(size)) != 0) {
    std::free(part);
    return nullptr;
  }
  uint64_t done = 0;
  while (done < size) {
    const ssize_t count = ::pread(file_, static_cast<char*>(data) + done, static_cast<size_t>(size - done),
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      std::free(data);
      std::free(part);
      return nullptr;
    }
    done += static_cast<uint64_t>(count);
  }
  *part = {parts_, offset, size, 1, data};
  parts_ = part;
  return data;
}

void FileDataLoader::release(const void* data) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Part** link = &parts_; *link != nullptr; link = &(*link)->next) {
    Part* part = *link;
    if (part->data != data) continue;
    if (--part->users > 0) return;
    *link = part->next;
    std::free(part->data);
    std::free(part);
    return;
  }
}

}  // namespace etir
