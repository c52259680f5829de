// Where a program's bytes come from.
//
// A loader hands out parts of one file. Loaders that have the file in memory hand out pointers into it; others read
// into memory of their own. The functions are virtual but not pure, so that no C++ runtime support is linked for them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace etir {

/// Gives access to the bytes of one file. Must outlive every Program and ExternalData loaded from it.
class DataLoader {
 public:
  /// Bytes in the file.
  virtual uint64_t size() const { return 0; }

  /// The `size` bytes (at least 1) at `offset`, at an address that is a multiple of `alignment` (a power of two, at
  /// most 16) where the loader can choose the address; callers check. Null when they cannot be read or lie outside of
  /// the file. The bytes stay where they are until release() or the end of the loader. Loading one range twice may give
  /// one pointer; each load is released once.
  virtual const void* load(uint64_t offset, uint64_t size, size_t alignment) {
    (void)offset, (void)size, (void)alignment;
    return nullptr;
  }

  /// Says that a pointer which load() gave is no longer used. May be left out: the loader frees everything at its end.
  virtual void release(const void* data) { (void)data; }

 protected:
  ~DataLoader() = default;
};

/// A file that is in memory already: flash, or a buffer of the caller's, which must outlive the loader. Copies nothing.
class BufferDataLoader final : public DataLoader {
 public:
  /// `data` should be aligned to 16 bytes; a program checks that it is aligned as far as its tensors need.
  BufferDataLoader(const void* data, size_t size) : data_(static_cast<const uint8_t*>(data)), size_(size) {}
  uint64_t size() const override { return size_; }
  const void* load(uint64_t offset, uint64_t size, size_t alignment) override {
    (void)alignment;
    return offset <= size_ && size <= size_ - offset ? data_ + static_cast<size_t>(offset) : nullptr;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

}  // namespace etir
