#include "executor/file_places.h"

#include <string>
#include <utility>

#include "testing/file_writer.h"
#include "testing/testing.h"

namespace etir {
namespace {

using testing::FileWriter;
using testing::Node;

/// Walks the fields of a table, whatever they are, and those of the tables in its second field.
class Walker : public PlaceWalker {
 public:
  using PlaceWalker::PlaceWalker;
  void walk(uint32_t most) {
    uint64_t root;
    if (!follow(0, flat::kProgram, &root)) return;
    walk_fields(root, most, [&](uint32_t slot, uint64_t at) {
      seen.emplace_back(slot, flat::read<uint32_t>(base_ + at));
      if (slot == 1) walk_tables(at, flat::kChain, [&](uint64_t item) { tables.push_back(item); });
      if (slot == 2) walk_vector(at, 2);
    });
  }
  std::vector<std::pair<uint32_t, uint32_t>> seen;  ///< slots, and the first four bytes of each field
  std::vector<uint64_t> tables;
};

struct File {
  FileWriter w;
  std::string bytes;
  explicit File(size_t before = 0) {
    Node* child = w.table({w.u32(5)});
    Node* vector = w.vector<int16_t>({7, 8, 9});
    Node* root = w.table({w.u32(11), w.to(w.tables({child, child})), w.to(vector), {}, w.u32(12)});
    bytes = std::string(before, '#') + w.file(root, "TEST");
  }
};

struct Walked {
  Walked(const std::string& bytes, size_t before, uint32_t most)
      : memory(bytes), walker(memory.data(), before, bytes.size() - before, places) {
    walker.walk(most);
  }
  testing::Aligned memory;
  std::vector<Place> places;
  Walker walker;
};

// Fields that are there are seen by their slots; places are counted from before the buffer.
ETIR_TEST(places_are_those_of_what_the_file_holds) {
  for (const size_t before : {0, 16}) {
    File file(before);
    const Walked walked(file.bytes, before, 9);
    const Walker& walker = walked.walker;
    CHECK_EQ(walker.seen.size(), 4u);
    CHECK(walker.seen[0] == (std::pair<uint32_t, uint32_t>{0, 11}) && walker.seen[1].first == 1);
    CHECK(walker.seen[2].first == 2 && walker.seen[3] == (std::pair<uint32_t, uint32_t>{4, 12}));
    CHECK_EQ(walker.tables.size(), 2u);
    std::vector<uint32_t> numbers, counts;
    size_t offsets = 0, layouts = 0;
    for (const Place& place : walked.places) {
      CHECK(place.at >= before && place.at + place.width <= file.bytes.size());
      const uint8_t* at = reinterpret_cast<const uint8_t*>(file.bytes.data()) + place.at;
      offsets += place.kind == PlaceKind::Offset;
      layouts += place.kind == PlaceKind::Layout;
      if (place.kind == PlaceKind::Count) counts.push_back(flat::read<uint32_t>(at));
      if (place.kind == PlaceKind::Number) numbers.push_back(flat::read<uint16_t>(at));
      CHECK_EQ(int{place.width}, place.kind == PlaceKind::Number || place.kind == PlaceKind::Layout ? 2 : 4);
    }
    CHECK(counts == (std::vector<uint32_t>{2, 3}) && numbers == (std::vector<uint32_t>{7, 8, 9}));
    CHECK_EQ(offsets, 5u);  // the root, two vectors, two tables
    CHECK_EQ(layouts, 5u);  // an entry of the vtable for each field, absent or not
  }
}

ETIR_TEST(no_more_fields_are_walked_than_the_schema_has) {
  File file;
  const Walked walked(file.bytes, 0, 2);
  CHECK(walked.walker.seen.size() == 2 && walked.walker.seen[1].first == 1);
}

// Fuzzers change what they have changed before.
ETIR_TEST(what_lies_outside_of_the_file_is_left_out) {
  File file;
  for (size_t size = 4; size < file.bytes.size(); ++size) {
    const Walked walked(file.bytes.substr(0, size), 0, 9);
    for (const Place& place : walked.places) CHECK(place.at + place.width <= size);
  }
  for (size_t at = 0; at < file.bytes.size(); ++at) {
    for (const int value : {0, 1, 4, 0x7f, 0xff}) {
      std::string changed = file.bytes;
      changed[at] = static_cast<char>(value);
      const Walked walked(changed, 0, 9);
      for (const Place& place : walked.places) CHECK(place.at + place.width <= changed.size());
    }
  }
}

}  // namespace
}  // namespace etir
