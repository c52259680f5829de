#include "backends/xnnpack/blob_places.h"

#include <cstring>

namespace etir {
namespace xnnpack {

namespace {

// Tables of the graph, as numbers that say which offsets lead to the same kind of table.
enum BlobTable : uint8_t { kRoot = 64, kNode, kFields, kLimits, kValue, kTensor, kScales, kConstant };

constexpr uint32_t kHeaderSize = 30;
constexpr uint32_t kMostBytes = 256;  // of the constants

// Slots of nodes' tables that are lists. All others are numbers of four bytes.
bool is_list(uint8_t kind, uint32_t slot) {
  if (kind == 10) return slot < 2;                // static_constant_pad
  if (kind == 35) return slot == 1 || slot == 2;  // static_slice
  return (kind == 5 || kind == 20) && slot == 1;  // static_transpose, static_reshape
}

class BlobWalker : public PlaceWalker {
 public:
  using PlaceWalker::PlaceWalker;

  void walk() {
    uint64_t root;
    if (!follow(0, kRoot, &root)) return;
    walk_fields(root, 9, [&](uint32_t slot, uint64_t at) {
      if (slot == 1) walk_tables(at, kNode, [&](uint64_t item) { node(item); });
      if (slot == 2) walk_tables(at, kValue, [&](uint64_t item) { value(item); });
      if (slot == 3) add(at, 4, PlaceKind::Number);
      if (slot == 4 || slot == 5) walk_vector(at, 4);
      if (slot == 8) walk_tables(at, kConstant, [&](uint64_t item) { constant(item); });
    });
  }

 private:
  void numbers(uint64_t table) {
    walk_fields(table, 32, [&](uint32_t, uint64_t at) { add(at, 4, PlaceKind::Number); });
  }

  void node(uint64_t table) {
    uint8_t kind = 0;
    walk_fields(table, 4, [&](uint32_t slot, uint64_t at) {
      uint64_t target;
      if (slot == 0) {
        kind = base_[at];
        add(at, 1, PlaceKind::Number);
      } else if (slot == 1 && follow(at, kFields, &target)) {
        walk_fields(target, 32, [&](uint32_t field, uint64_t where) {
          is_list(kind, field) ? walk_vector(where, 4) : add(where, 4, PlaceKind::Number);
        });
      } else if (slot == 3 && follow(at, kLimits, &target)) {
        numbers(target);
      }
    });
  }

  void value(uint64_t table) {
    uint8_t type = 0;
    walk_fields(table, 2, [&](uint32_t slot, uint64_t at) {
      uint64_t target;
      if (slot == 0) {
        type = base_[at];
        add(at, 1, PlaceKind::Union);
      } else if (type == 2 && follow(at, kValue, &target)) {
        quantized(target);
      } else if (type == 1 && follow(at, kTensor, &target)) {
        tensor(target);
      }
    });
  }

  void tensor(uint64_t table) {
    walk_fields(table, 7, [&](uint32_t slot, uint64_t at) {
      if (slot == 2) return walk_vector(at, 4);
      add(at, slot == 0 ? 2 : 4, PlaceKind::Number);
    });
  }

  void quantized(uint64_t table) {
    uint8_t type = 0;
    walk_fields(table, 3, [&](uint32_t slot, uint64_t at) {
      uint64_t target;
      if (slot == 0 && follow(at, kTensor, &target)) tensor(target);
      if (slot == 1) {
        type = base_[at];
        add(at, 1, PlaceKind::Union);
      }
      if (slot != 2 || !follow(at, kScales, &target)) return;
      walk_fields(target, 6, [&](uint32_t field, uint64_t where) {
        // One scale for each channel or block: the first field is a list.
        const bool list = field == 0 && (type == 1 || type == 4);
        list ? walk_vector(where, 4) : add(where, 4, PlaceKind::Number);
      });
    });
  }

  void constant(uint64_t table) {
    walk_fields(table, 3,
                [&](uint32_t slot, uint64_t at) { slot == 2 ? walk_vector(at, 1) : add(at, 8, PlaceKind::Number); });
  }
};

}  // namespace

void blob_places(const uint8_t* file, size_t size, std::vector<Place>& places) {
  for (uint64_t at = 0; at + kHeaderSize <= size; at += 4) {
    if (std::memcmp(file + at + 4, "XH00", 4) != 0) continue;
    const auto place = [&](uint64_t offset, uint8_t width) {
      places.push_back({static_cast<uint32_t>(at + offset), width, PlaceKind::Number, flat::kNumTables});
    };
    place(8, 2), place(10, 4), place(14, 4), place(18, 4), place(22, 8);
    const uint64_t start = at + flat::read<uint32_t>(file + at + 10), length = flat::read<uint32_t>(file + at + 14);
    if (start < size && length < size - start) BlobWalker(file, start, length, places).walk();
    const uint64_t constants = at + flat::read<uint32_t>(file + at + 18), count = flat::read<uint64_t>(file + at + 22);
    for (uint64_t i = 0; i < count && i < kMostBytes && constants + i < size; ++i) {
      if (i % 4 == 0 && constants + i + 4 <= size) place(constants - at + i, 4);
      place(constants - at + i, 1);
    }
  }
}

}  // namespace xnnpack
}  // namespace etir
