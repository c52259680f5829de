// The three loaders give the same bytes, and nothing outside of the file.
#include "core/data_loader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "platform/file_data_loader.h"
#include "platform/mmap_data_loader.h"
#include "testing/testing.h"

namespace etir {
namespace {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes) {
    const int file = ::mkstemp(path_);
    CHECK(file >= 0 && ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    ::close(file);
  }
  ~TemporaryFile() { ::unlink(path_); }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/etir-loader-XXXXXX";
};

void check_bounds(DataLoader& loader, const std::string& bytes) {
  const uint64_t size = bytes.size();
  CHECK_EQ(loader.size(), size);
  const uint64_t most = UINT64_MAX;
  const uint64_t outside[][2] = {{0, size + 1}, {1, size}, {size, 1},   {size + 1, 1},
                                 {most, 1},     {1, most}, {most, most}};
  for (const auto& range : outside) CHECK(loader.load(range[0], range[1], 1) == nullptr);
  for (const auto& range : {std::pair<uint64_t, uint64_t>{0, size}, {3, 5}, {size - 1, 1}}) {
    const void* data = loader.load(range.first, range.second, 16);
    CHECK(data != nullptr && std::memcmp(data, &bytes[range.first], range.second) == 0);
    loader.release(data);
  }
}

std::string numbered(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7);
  return bytes;
}

ETIR_TEST(all_loaders_keep_to_the_file) {
  const std::string bytes = numbered(10000);
  const TemporaryFile file(bytes);
  BufferDataLoader buffer(bytes.data(), bytes.size());
  check_bounds(buffer, bytes);
  FileDataLoader read;
  CHECK(read.open(file.path()));
  check_bounds(read, bytes);
  MmapDataLoader mapped;
  CHECK(mapped.open(file.path()));
  check_bounds(mapped, bytes);
}

ETIR_TEST(files_that_cannot_be_opened) {
  FileDataLoader read;
  MmapDataLoader mapped;
  CHECK(!read.open("/nonexistent/file") && errno == ENOENT);
  CHECK(!mapped.open("/nonexistent/file") && errno == ENOENT);
  CHECK(!read.open("/tmp") && errno == EISDIR);
  CHECK(!mapped.open("/tmp") && errno == EISDIR);
  CHECK(!read.open("/dev/null") && errno == EINVAL);
  CHECK(!mapped.open("/dev/null") && errno == EINVAL);
  CHECK(read.load(0, 1, 1) == nullptr && mapped.load(0, 1, 1) == nullptr);
  CHECK_EQ(read.size() + mapped.size(), 0u);
}

ETIR_TEST(an_empty_file_has_no_bytes) {
  const TemporaryFile file("");
  FileDataLoader read;
  MmapDataLoader mapped;
  CHECK(read.open(file.path()) && mapped.open(file.path()));
  CHECK_EQ(read.size() + mapped.size(), 0u);
  CHECK(read.load(0, 1, 1) == nullptr && mapped.load(0, 1, 1) == nullptr);
}

ETIR_TEST(one_range_is_read_once) {
  const std::string bytes = numbered(300);
  const TemporaryFile file(bytes);
  FileDataLoader loader;
  CHECK(loader.open(file.path()));
  const void* first = loader.load(16, 64, 16);
  const void* second = loader.load(16, 64, 16);
  CHECK(first == second && reinterpret_cast<uintptr_t>(first) % 16 == 0);
  CHECK(loader.load(16, 63, 16) != first);
  CHECK(loader.load(0, 8, 4096) == nullptr);  // more than it can align
  loader.release(first);
  CHECK(std::memcmp(second, &bytes[16], 64) == 0);  // the second load still holds it
  loader.release(second);
  loader.release(nullptr);
  int other;
  loader.release(&other);
}

ETIR_TEST(a_file_that_was_cut_is_an_error) {
  const TemporaryFile file(numbered(300));
  FileDataLoader loader;
  CHECK(loader.open(file.path()));
  CHECK_EQ(::truncate(file.path(), 100), 0);
  CHECK(loader.load(50, 100, 1) == nullptr);
  CHECK(loader.load(50, 50, 1) != nullptr);
}

ETIR_TEST(opening_again_forgets_the_first_file) {
  const std::string one = numbered(100), two = numbered(50);
  const TemporaryFile first(one), second(two);
  FileDataLoader read;
  MmapDataLoader mapped;
  for (int i = 0; i < 2; ++i) {
    CHECK(read.open(first.path()) && mapped.open(first.path()));
    CHECK(read.load(0, 100, 1) != nullptr);
    CHECK(read.open(second.path()) && mapped.open(second.path()));
    check_bounds(read, two);
    check_bounds(mapped, two);
  }
}

}  // namespace
}  // namespace etir
