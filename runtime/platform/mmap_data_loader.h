// A loader that maps a whole file, read-only: nothing is copied, and what is not used is not read.
#pragma once

#include "core/data_loader.h"

namespace etir {

class MmapDataLoader final : public DataLoader {
 public:
  MmapDataLoader() = default;
  MmapDataLoader(const MmapDataLoader&) = delete;
  MmapDataLoader& operator=(const MmapDataLoader&) = delete;
  ~MmapDataLoader();

  /// Maps a file. False, with errno set, when it cannot be. The file must not be cut short while it is mapped: reading
  /// what is gone ends the process. A program is checked when it is loaded, so its file must not be changed either.
  bool open(const char* path);

  uint64_t size() const override { return size_; }
  const void* load(uint64_t offset, uint64_t size, size_t alignment) override {
    (void)alignment;
    return offset <= size_ && size <= size_ - offset ? data_ + offset : nullptr;
  }

 private:
  void close();

  const unsigned char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace etir
