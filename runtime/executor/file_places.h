// What can be changed in a file, found by walking its tables as far as they can be walked: for the fuzzers, not part of
// the runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/flatbuffer_reader.h"
#include "core/flatbuffer_schema.h"

namespace etir {

/// What a place holds. The fuzzers know values that are worth a try for each kind.
enum class PlaceKind : uint8_t { Number, Count, Offset, Union, Layout };

/// Something that can be changed: `width` bytes. Of an offset, `table` is what it leads to, kNumTables for a vector.
struct Place {
  uint32_t at;
  uint8_t width;
  PlaceKind kind;
  uint8_t table;
};

/// Collects the places of a FlatBuffer. What lies outside of its bytes is left out. Places count from `origin`, which
/// is before the buffer.
class PlaceWalker {
 public:
  PlaceWalker(const uint8_t* origin, uint64_t start, uint64_t size, std::vector<Place>& places)
      : base_(origin + start), start_(start), size_(size), places_(places) {}

 protected:
  static constexpr uint32_t kMostPlaces = 4096;
  static constexpr uint32_t kMostItems = 64;  // of one vector

  bool inside(uint64_t at, uint64_t width) const { return at + width <= size_; }
  void add(uint64_t at, uint8_t width, PlaceKind kind, uint8_t table = flat::kNumTables) {
    if (places_.size() < kMostPlaces) places_.push_back({static_cast<uint32_t>(start_ + at), width, kind, table});
  }
  /// Follows the offset at `at`.
  bool follow(uint64_t at, uint8_t table, uint64_t* to) {
    if (!inside(at, 4) || places_.size() >= kMostPlaces) return false;
    add(at, 4, PlaceKind::Offset, table);
    *to = at + flat::read<uint32_t>(base_ + at);
    return inside(*to, 4);
  }
  void walk_vector(uint64_t at, uint8_t item_size) {
    uint64_t vector;
    if (!follow(at, flat::kNumTables, &vector)) return;
    add(vector, 4, PlaceKind::Count);
    const uint32_t count = flat::read<uint32_t>(base_ + vector);
    for (uint32_t i = 0; i < count && i < kMostItems; ++i) {
      const uint64_t item = vector + 4 + uint64_t{i} * item_size;
      if (!inside(item, item_size)) return;
      add(item, item_size, PlaceKind::Number);
    }
  }
  /// Calls `visit` with each table of the vector that the offset at `at` leads to.
  template <typename Visit>
  void walk_tables(uint64_t at, uint8_t table, Visit visit) {
    uint64_t vector, item;
    if (!follow(at, flat::kNumTables, &vector)) return;
    add(vector, 4, PlaceKind::Count);
    const uint32_t count = flat::read<uint32_t>(base_ + vector);
    for (uint32_t i = 0; i < count; ++i) {
      if (!follow(vector + 4 + uint64_t{4} * i, table, &item)) return;
      visit(item);
    }
  }
  /// Calls `visit` with the slot and the place of each field of a table that is there.
  template <typename Visit>
  void walk_fields(uint64_t position, uint32_t most, Visit visit) {
    const int64_t vtable = static_cast<int64_t>(position) - flat::read<int32_t>(base_ + position);
    if (vtable < 0 || !inside(static_cast<uint64_t>(vtable), 4)) return;
    const uint32_t slots = (flat::read<uint16_t>(base_ + vtable) - 4u) / 2u;
    for (uint32_t slot = 0; slot < most && slot < slots; ++slot) {
      const uint64_t entry = static_cast<uint64_t>(vtable) + 4 + 2 * slot;
      if (!inside(entry, 2)) return;
      const uint16_t offset = flat::read<uint16_t>(base_ + entry);
      add(entry, 2, PlaceKind::Layout);
      if (offset != 0 && inside(position + offset, 8)) visit(slot, position + offset);
    }
  }

  const uint8_t* base_;

 private:
  uint64_t start_, size_;
  std::vector<Place>& places_;
};

}  // namespace etir
