// Reading FlatBuffers: a check of a whole buffer against a schema, once, and accessors that trust it afterwards.
//
// The schema is data: one row for each table, one byte or two for each field (core/flatbuffer_schema.h). One walker
// checks every vtable, table, field, vector, string, union and offset of a file, so that no table needs code of its own
// and nothing that reads a checked buffer has to look at bounds again. Tables may be shared; a budget proportional to
// the size of the buffer keeps files in which they are shared without end from taking long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/error.h"
#include "core/value.h"

namespace etir {
namespace flat {

/// A little-endian number at any address.
template <typename T>
inline T read(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

struct Table;

/// A vector in a checked buffer: u32 count, then the items. An absent vector has no items.
struct Vector {
  const uint8_t* at = nullptr;

  uint32_t count() const { return at == nullptr ? 0 : read<uint32_t>(at); }
  const uint8_t* items() const { return at + 4; }
  template <typename T>
  T get(uint32_t i) const {
    return read<T>(items() + sizeof(T) * i);
  }
  inline Table table(uint32_t i) const;
  StringView string() const {
    return at == nullptr ? StringView{} : StringView{reinterpret_cast<const char*>(items()), count()};
  }
};

/// A table in a checked buffer. Slots are those of the schema; absent fields give defaults.
struct Table {
  const uint8_t* at = nullptr;

  /// Where a field is, or null.
  const uint8_t* field(uint32_t slot) const {
    const uint8_t* vtable = at - read<int32_t>(at);
    const uint32_t position = 4 + 2 * slot;
    if (position >= read<uint16_t>(vtable)) return nullptr;
    const uint16_t offset = read<uint16_t>(vtable + position);
    return offset == 0 ? nullptr : at + offset;
  }
  template <typename T>
  T get(uint32_t slot) const {
    const uint8_t* where = field(slot);
    return where == nullptr ? T{} : read<T>(where);
  }
  /// What an offset in a field leads to, or null.
  const uint8_t* follow(uint32_t slot) const {
    const uint8_t* where = field(slot);
    return where == nullptr ? nullptr : where + read<uint32_t>(where);
  }
  Table table(uint32_t slot) const { return Table{follow(slot)}; }
  Vector vector(uint32_t slot) const { return Vector{follow(slot)}; }
  StringView string(uint32_t slot) const { return vector(slot).string(); }
};

inline Table Vector::table(uint32_t i) const {
  const uint8_t* where = items() + 4 * i;
  return Table{where + read<uint32_t>(where)};
}

/// Checks everything that the tables of a buffer refer to. The error record gets the first failure.
class Checker {
 public:
  Checker(const uint8_t* base, uint32_t size, ErrorRecord& error);

  /// Checks the root table, as `schema` (a TableId) describes it, and all below. A null table when something is wrong.
  Table check_root(uint8_t schema);

  /// Takes `amount` from the budget. False, with the failure recorded, when none is left: for checks that walk items.
  bool spend(uint64_t amount);

 private:
  bool fail(Check check, uint64_t a, int64_t b);
  bool check_table(uint64_t position, uint8_t schema);
  bool check_vector(uint64_t position, uint32_t item_size, uint32_t& count);
  bool check_tables(uint64_t position, uint8_t schema);
  bool follow(uint64_t from, uint64_t& to);

  const uint8_t* base_;
  uint32_t size_;
  uint64_t budget_;
  ErrorRecord& error_;
};

}  // namespace flat
}  // namespace etir
