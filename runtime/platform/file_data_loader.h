// A loader that reads parts of a file into memory of its own.
//
// One range that is loaded several times is read once: methods that share external data share its bytes. For machines
// with an operating system; uses the heap, and a lock, so that several threads may load at once.
#pragma once

#include <mutex>

#include "core/data_loader.h"

namespace etir {

class FileDataLoader final : public DataLoader {
 public:
  FileDataLoader() = default;
  FileDataLoader(const FileDataLoader&) = delete;
  FileDataLoader& operator=(const FileDataLoader&) = delete;
  /// Closes the file and frees all that has been loaded.
  ~FileDataLoader();

  /// Opens a file. False, with errno set, when it cannot be opened or is no regular file.
  bool open(const char* path);

  uint64_t size() const override { return size_; }
  const void* load(uint64_t offset, uint64_t size, size_t alignment) override;
  void release(const void* data) override;

 private:
  struct Part {
    Part* next;
    uint64_t offset, size;
    uint32_t users;
    void* data;
  };
  void close();

  std::mutex mutex_;
  int file_ = -1;
  uint64_t size_ = 0;
  Part* parts_ = nullptr;
};

}  // namespace etir
