#include "executor/external_data.h"

#include <functional>
#include <string>

#include "testing/file_writer.h"
#include "testing/testing.h"

namespace etir {
namespace {

using testing::Aligned;
using testing::FileWriter;
using testing::Node;

/// One entry `w`: two floats, in a segment of eight bytes; tests change the nodes or the header.
struct File {
  FileWriter w;
  Node *layout, *entry, *segment, *root;
  File() {
    layout = w.table({w.u8(6), w.to(w.vector<int32_t>({2})), w.to(w.vector<uint8_t>({0}))});
    entry = w.table({w.to(w.string("w")), w.u32(0), w.to(layout)});
    segment = w.table({w.u64(0), w.u64(8)});
    root = w.table({w.u32(0), w.to(w.tables({segment})), w.to(w.tables({entry}))});
  }
  std::string bytes() {
    std::string bytes = w.file(root, "FT01", 40);
    while (bytes.size() % 16 != 0) bytes.push_back('\0');
    const uint64_t base = bytes.size(), size = 8, root_offset = 48, root_size = base - 48;
    std::memcpy(&bytes[8], "FH01", 4);
    const uint32_t length = 40;
    std::memcpy(&bytes[12], &length, 4);
    std::memcpy(&bytes[16], &root_offset, 8);
    std::memcpy(&bytes[24], &root_size, 8);
    std::memcpy(&bytes[32], &base, 8);
    std::memcpy(&bytes[40], &size, 8);
    const float data[2] = {1.5f, -2.0f};
    return bytes.append(reinterpret_cast<const char*>(data), 8);
  }
};

ErrorRecord load(const std::string& bytes) {
  Aligned aligned(bytes);
  BufferDataLoader loader(aligned.data(), aligned.size());
  ExternalData data;
  ErrorRecord record;
  const Error error = data.load(loader, &record);
  CHECK_EQ(error, record.error());
  if (record.check != Check::None) CHECK_EQ(data.size(), 0u);
  return record;
}

void expect(const std::function<void(File&)>& change, Check check, int64_t a = -1, int64_t b = -1) {
  File file;
  change(file);
  const ErrorRecord record = load(file.bytes());
  CHECK_EQ(record.check, check);
  if (a != -1) CHECK_EQ(record.a, a);
  if (b != -1) CHECK_EQ(record.b, b);
}

ETIR_TEST(an_entry_is_found_by_its_key) {
  File file;
  Aligned aligned(file.bytes());
  BufferDataLoader loader(aligned.data(), aligned.size());
  ExternalData data;
  CHECK_EQ(data.load(loader), Error::Ok);
  CHECK_EQ(data.size(), 1u);
  const auto found = data.find({"w", 1});
  CHECK(found.ok() && *found == 0);
  CHECK_EQ(data.find({"w2", 2}).error(), Error::NotFound);
  CHECK_EQ(data.find({"", 0}).error(), Error::NotFound);
  const ExternalData::Entry entry = data.entry(0);
  CHECK(entry.has_layout && entry.dtype == ScalarType::Float && entry.rank == 1 && entry.sizes[0] == 2);
  CHECK_EQ(entry.nbytes, 8u);
  float value;
  std::memcpy(&value, data.data(entry, 4), 4);
  CHECK_EQ(value, 1.5f);
  // Loading another file in its place forgets the first.
  BufferDataLoader nothing(aligned.data(), 3);
  ErrorRecord record;
  CHECK_EQ(data.load(nothing, &record), Error::InvalidExternalData);
  CHECK_EQ(record.check, Check::ExternalTooSmall);
  CHECK_EQ(data.size(), 0u);
}

ETIR_TEST(headers_are_checked) {
  File file;
  const std::string good = file.bytes();
  const auto with = [&](size_t at, auto value) {
    std::string bytes = good;
    std::memcpy(&bytes[at], &value, sizeof(value));
    const ErrorRecord record = load(bytes);
    if (record.check == Check::ExternalHeader) CHECK_EQ(record.a, static_cast<int64_t>(at));
    return record.check;
  };
  CHECK_EQ(load(good.substr(0, 47)).check, Check::ExternalTooSmall);
  CHECK_EQ(with(4, 'X'), Check::ExternalIdentifier);
  CHECK_EQ(with(8, 'X'), Check::ExternalIdentifier);
  CHECK_EQ(with(12, uint32_t{39}), Check::ExternalHeader);
  for (const uint64_t value : {uint64_t{0}, uint64_t{good.size() + 1}, UINT64_MAX}) {
    CHECK(with(32, value) != Check::None);
    if (value != 0) CHECK_EQ(with(40, value), Check::ExternalHeader);
  }
  for (size_t size = 0; size < good.size(); ++size) CHECK(load(good.substr(0, size)).check != Check::None);
}

ETIR_TEST(entries_are_checked) {
  expect([](File&) {}, Check::None);
  expect([](File& f) { f.root->fields[0].number = 1; }, Check::ExternalVersion, 1, 0);
  expect([](File& f) { f.segment->fields[1].number = 9; }, Check::ExternalSegment, 0);
  expect([](File& f) { f.segment->fields[0].number = UINT64_MAX; }, Check::ExternalSegment, 0);
  expect([](File& f) { f.entry->fields[1].number = 1; }, Check::ExternalSegmentIndex, 0, 1);
  expect([](File& f) { f.layout->fields[0].number = 99; }, Check::ExternalLayout, 0);
  expect([](File& f) { f.layout->fields[1] = f.w.to(f.w.vector<int32_t>({-2})); }, Check::ExternalLayout, 0);
  expect([](File& f) { f.layout->fields[1] = f.w.to(f.w.vector<int32_t>({3})); }, Check::ExternalEntrySize, 0, 12);
  expect([](File& f) { f.layout->fields[2] = f.w.to(f.w.vector<uint8_t>({1})); }, Check::ExternalLayout, 0);
  expect([](File& f) { f.layout->fields[2] = f.w.to(f.w.vector<uint8_t>({0, 1})); }, Check::ExternalLayout, 0);
  expect([](File& f) { f.layout->fields[1] = f.w.to(f.w.vector<int32_t>(std::vector<int32_t>(17, 1))); },
         Check::ExternalLayout, 0);
  expect([](File& f) { f.entry->fields[2] = {}; }, Check::None);  // bytes that are no tensor
  expect(
      [](File& f) {
        std::vector<uint8_t> order(kMaxRank);
        for (int d = 0; d < kMaxRank; ++d) order[static_cast<size_t>(d)] = static_cast<uint8_t>(d);
        f.layout->fields[1] = f.w.to(f.w.vector(std::vector<int32_t>(kMaxRank, 1)));
        f.layout->fields[2] = f.w.to(f.w.vector(order));
      },
      Check::None);
}

ETIR_TEST(what_is_required_is_there) {
  expect([](File& f) { f.entry->fields[0] = {}; }, Check::FlatRequired, -1, 0);
  expect([](File& f) { f.entry->fields[0] = f.w.u32(0x10000000); }, Check::FlatOffset);
  expect([](File& f) { f.layout->fields[1] = {}; }, Check::FlatRequired, -1, 1);
  expect([](File& f) { f.layout->fields[2] = {}; }, Check::FlatRequired, -1, 2);
}

// A loader that has bytes and does not give them.
ETIR_TEST(bytes_that_cannot_be_read) {
  class Broken final : public DataLoader {
   public:
    uint64_t size() const override { return 4096; }
  } broken;
  ExternalData data;
  ErrorRecord record;
  CHECK_EQ(data.load(broken, &record), Error::AccessFailed);
  CHECK(record.check == Check::FileRead && record.a == 0 && record.b == 48);
}

ETIR_TEST(segments_end_within_the_bytes) {
  const auto second = [](uint64_t offset, uint64_t size) {
    return [=](File& f) {
      Node* segment = f.w.table({f.w.u64(offset), f.w.u64(size)});
      f.root->fields[1] = f.w.to(f.w.tables({f.segment, segment}));
    };
  };
  expect(second(8, 0), Check::None);
  expect(second(0, 8), Check::None);
  expect(second(9, 0), Check::ExternalSegment, 1);
  expect(second(4, 5), Check::ExternalSegment, 1);
  expect(second(8, UINT64_MAX), Check::ExternalSegment, 1);
}

}  // namespace
}  // namespace etir
