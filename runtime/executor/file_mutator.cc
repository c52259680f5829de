#include "executor/file_mutator.h"

#include <cstring>
#include <vector>

#include "core/flatbuffer_reader.h"
#include "core/flatbuffer_schema.h"

namespace etir {

namespace {

using flat::read;

enum class Kind : uint8_t { Number, Count, Offset, Union, Layout };

/// Something that can be changed: `width` bytes. Of an offset, `table` is what it leads to, kNumTables for a vector.
struct Place {
  uint32_t at;
  uint8_t width;
  Kind kind;
  uint8_t table;
};

constexpr uint32_t kMostPlaces = 4096;
constexpr uint32_t kMostItems = 64;  // of one vector

class Walker {
 public:
  Walker(const uint8_t* base, size_t size) : base_(base), size_(size) {
    for (int i = 0; i < flat::kNumTables; ++i) {
      starts_.push_back(i == 0 ? 0 : starts_[static_cast<size_t>(i) - 1] + flat::kFieldCounts[i - 1]);
    }
  }

  void walk(uint8_t schema) {
    uint64_t root;
    if (follow(0, schema, &root)) walk_table(root, schema);
  }
  const std::vector<Place>& places() const { return places_; }

 private:
  bool inside(uint64_t at, uint64_t width) const { return at + width <= size_; }

  void add(uint64_t at, uint8_t width, Kind kind, uint8_t table = flat::kNumTables) {
    if (places_.size() < kMostPlaces) places_.push_back({static_cast<uint32_t>(at), width, kind, table});
  }

  bool follow(uint64_t at, uint8_t table, uint64_t* to) {
    if (!inside(at, 4) || places_.size() >= kMostPlaces) return false;
    add(at, 4, Kind::Offset, table);
    *to = at + read<uint32_t>(base_ + at);
    return inside(*to, 4);
  }

  void walk_vector(uint64_t at, uint8_t item_size) {
    uint64_t vector;
    if (!follow(at, flat::kNumTables, &vector)) return;
    add(vector, 4, Kind::Count);
    const uint32_t count = read<uint32_t>(base_ + vector);
    for (uint32_t i = 0; i < count && i < kMostItems; ++i) {
      const uint64_t item = vector + 4 + uint64_t{i} * item_size;
      if (!inside(item, item_size)) return;
      add(item, item_size, Kind::Number);
    }
  }

  void walk_tables(uint64_t at, uint8_t schema) {
    uint64_t vector;
    if (!follow(at, flat::kNumTables, &vector)) return;
    add(vector, 4, Kind::Count);
    const uint32_t count = read<uint32_t>(base_ + vector);
    uint64_t table;
    for (uint32_t i = 0; i < count; ++i) {
      if (!follow(vector + 4 + uint64_t{4} * i, schema, &table)) return;
      walk_table(table, schema);
    }
  }

  void walk_table(uint64_t position, uint8_t schema) {
    const int64_t vtable = static_cast<int64_t>(position) - read<int32_t>(base_ + position);
    if (vtable < 0 || !inside(static_cast<uint64_t>(vtable), 4)) return;
    const uint32_t slots = (read<uint16_t>(base_ + vtable) - 4u) / 2u;
    const flat::FieldSchema* fields = flat::kFields + starts_[schema];
    uint8_t type = 0;
    for (uint32_t slot = 0; slot < flat::kFieldCounts[schema] && slot < slots; ++slot) {
      const uint64_t entry = static_cast<uint64_t>(vtable) + 4 + 2 * slot;
      if (!inside(entry, 2)) return;
      const uint16_t offset = read<uint16_t>(base_ + entry);
      add(entry, 2, Kind::Layout);
      const uint64_t at = position + offset;
      if (offset == 0 || !inside(at, 8)) continue;
      uint64_t target;
      switch (fields[slot].kind & flat::kKindMask) {
        case flat::kScalar1:
          add(at, 1, Kind::Number);
          break;
        case flat::kScalar4:
          add(at, 4, Kind::Number);
          break;
        case flat::kScalar8:
          add(at, 8, Kind::Number);
          break;
        case flat::kVector1:
          walk_vector(at, 1);
          break;
        case flat::kVector4:
          walk_vector(at, 4);
          break;
        case flat::kVector8:
          walk_vector(at, 8);
          break;
        case flat::kTables:
          walk_tables(at, fields[slot].table);
          break;
        case flat::kOneTable:
          if (follow(at, fields[slot].table, &target)) walk_table(target, fields[slot].table);
          break;
        case flat::kUnion:
          type = base_[at];
          add(at, 1, Kind::Union);
          break;
        default: {
          if (type == 0 || type > fields[slot].table) break;
          const uint8_t chosen = static_cast<uint8_t>(fields[slot - 1].table + type - 1);
          if (follow(at, chosen, &target)) walk_table(target, chosen);
        }
      }
    }
  }

  const uint8_t* base_;
  size_t size_;
  std::vector<int> starts_;
  std::vector<Place> places_;
};

uint64_t load(const uint8_t* data, const Place& place) {
  uint64_t value = 0;
  std::memcpy(&value, data + place.at, place.width);
  return value;
}

void store(uint8_t* data, const Place& place, uint64_t value) { std::memcpy(data + place.at, &value, place.width); }

uint64_t odd_number(FuzzRandom& random) {
  constexpr uint64_t kNumbers[] = {0,
                                   1,
                                   2,
                                   3,
                                   4,
                                   5,
                                   7,
                                   8,
                                   15,
                                   16,
                                   17,
                                   31,
                                   63,
                                   64,
                                   127,
                                   255,
                                   256,
                                   1024,
                                   65535,
                                   0x7ffffffe,
                                   0x7fffffff,
                                   0x80000000,
                                   0xfffffffe,
                                   0xffffffff,
                                   0x100000000,
                                   0x3fffffffffffffff,
                                   0x7fffffffffffffff,
                                   0x8000000000000000,
                                   0xfffffffffffffffe,
                                   0xffffffffffffffff,
                                   0x3ff0000000000000,
                                   0x7ff0000000000000,
                                   0x7ff8000000000000,
                                   0xc000000000000000};
  return kNumbers[random.below(sizeof(kNumbers) / sizeof(kNumbers[0]))];
}

void mutate_place(uint8_t* data, size_t size, const std::vector<Place>& places, const Place& place,
                  FuzzRandom& random) {
  const uint64_t value = load(data, place);
  const Place& other = places[random.below(places.size())];
  switch (place.kind) {
    case Kind::Union:
      store(data, place, random.below(13));
      return;
    case Kind::Offset:
      // To another table of the same kind, most of the time; offsets go up.
      if (other.kind == Kind::Offset && other.table == place.table && random.below(8) != 0) {
        const uint64_t target = other.at + load(data, other);
        if (target > place.at && target < size) store(data, place, target - place.at);
        return;
      }
      store(data, place, value + 4 * random.below(17) - 32);
      return;
    case Kind::Layout:
      store(data, place, random.below(4) == 0 ? random.below(64) : 0);
      return;
    case Kind::Count:
      store(data, place, random.below(4) == 0 ? odd_number(random) : value + random.below(5) - 2);
      return;
    case Kind::Number:
      break;
  }
  switch (random.below(6)) {
    case 0:
      store(data, place, odd_number(random));
      break;
    case 1:
      store(data, place, value + random.below(9) - 4);
      break;
    case 2:
      store(data, place, random.below(place.width == 1 ? 32 : 64));
      break;
    case 3:
      if (other.width == place.width && other.kind == place.kind) store(data, place, load(data, other));
      break;
    case 4:
      store(data, place, value ^ uint64_t{1} << random.below(8u * place.width));
      break;
    default:
      store(data, place, random.next());
  }
}

}  // namespace

bool mutate_file(uint8_t* data, size_t size, FuzzRandom& random) {
  if (size < 16 || size > UINT32_MAX) return false;
  Walker walker(data, size);
  walker.walk(std::memcmp(data + 4, "FT01", 4) == 0 ? flat::kFlatTensor : flat::kProgram);
  const std::vector<Place>& places = walker.places();
  if (places.empty()) return false;
  const size_t times = 1 + random.below(4);
  for (size_t i = 0; i < times; ++i) {
    // Most of a file's places are layouts and offsets, which the checks refuse at once: numbers get further.
    Place place = places[random.below(places.size())];
    for (int k = 0; k < 3 && (place.kind == Kind::Layout || place.kind == Kind::Offset); ++k) {
      place = places[random.below(places.size())];
    }
    mutate_place(data, size, places, place, random);
  }
  return true;
}

}  // namespace etir
