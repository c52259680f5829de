// A loader for tests that counts what it has given and not got back, and checks what it is asked for.
#pragma once

#include <string>

#include "core/data_loader.h"
#include "testing/file_writer.h"
#include "testing/testing.h"

namespace etir {
namespace testing {

/// A file in memory of its own. Other loaders may read into memory with every load, which lasts until it is released.
class CountingLoader final : public DataLoader {
 public:
  explicit CountingLoader(const std::string& bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  const void* load(uint64_t offset, uint64_t size, size_t alignment) override {
    CHECK(alignment > 0 && alignment <= 16 && (alignment & (alignment - 1)) == 0);
    CHECK(size > 0 && offset <= bytes_.size() && size <= bytes_.size() - offset);
    ++held;
    return bytes_.data() + offset;
  }
  void release(const void* data) override {
    CHECK(data != nullptr);
    --held;
  }
  int held = 0;

 private:
  Aligned bytes_;
};

}  // namespace testing
}  // namespace etir
