#include "executor/file_mutator.h"

#include <cstring>
#include <vector>

#include "backends/native/blob_places.h"
#include "backends/xnnpack/blob_places.h"
#include "executor/file_places.h"

namespace etir {

namespace {

using Kind = PlaceKind;

// The tables of the two file formats.
class Walker : public PlaceWalker {
 public:
  Walker(const uint8_t* base, size_t size, std::vector<Place>& places) : PlaceWalker(base, 0, size, places) {
    for (int i = 0; i < flat::kNumTables; ++i) {
      starts_.push_back(i == 0 ? 0 : starts_[static_cast<size_t>(i) - 1] + flat::kFieldCounts[i - 1]);
    }
  }

  void walk(uint8_t schema) {
    uint64_t root;
    if (follow(0, schema, &root)) walk_table(root, schema);
  }

 private:
  void walk_table(uint64_t position, uint8_t schema) {
    const flat::FieldSchema* fields = flat::kFields + starts_[schema];
    uint8_t type = 0;
    walk_fields(position, flat::kFieldCounts[schema], [&](uint32_t slot, uint64_t at) {
      const uint8_t table = fields[slot].table;
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
          walk_tables(at, table, [&](uint64_t item) { walk_table(item, table); });
          break;
        case flat::kOneTable:
          if (follow(at, table, &target)) walk_table(target, table);
          break;
        case flat::kUnion:
          type = base_[at];
          add(at, 1, Kind::Union);
          break;
        default: {
          if (type == 0 || type > table) break;
          const uint8_t chosen = static_cast<uint8_t>(fields[slot - 1].table + type - 1);
          if (follow(at, chosen, &target)) walk_table(target, chosen);
        }
      }
    });
  }

  std::vector<int> starts_;
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
                                   0x7f7fffff,
                                   0x7f800000,
                                   0x7fc00000,
                                   0x7fffffff,
                                   0x80000000,
                                   0xff800000,
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
      store(data, place, random.below(random.below(4) == 0 ? 256 : 13));
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
      store(data, place, random.below(random.below(2) == 0 ? 8 : 64));
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
  std::vector<Place> places, in_blobs;
  // What a delegate's graph says, more often than not: a file's own tables are many more.
  if (random.below(4) != 0) {
    xnnpack::blob_places(data, size, in_blobs);
    native::blob_places(data, size, in_blobs);
  }
  if (!in_blobs.empty()) {
    places.swap(in_blobs);
  } else {
    Walker(data, size, places).walk(std::memcmp(data + 4, "FT01", 4) == 0 ? flat::kFlatTensor : flat::kProgram);
  }
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
