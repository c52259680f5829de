// The walker that checks a FlatBuffer against the tables in core/flatbuffer_schema.h.
#include "core/flatbuffer_reader.h"

#include "core/flatbuffer_schema.h"

namespace etir {
namespace flat {

namespace {

// Where the fields of each table start in kFields.
struct Starts {
  uint8_t at[kNumTables + 1];
};
constexpr Starts make_starts() {
  Starts starts{};
  for (int i = 0; i < kNumTables; ++i) starts.at[i + 1] = static_cast<uint8_t>(starts.at[i] + kFieldCounts[i]);
  return starts;
}
constexpr Starts kStarts = make_starts();
static_assert(kStarts.at[kNumTables] == sizeof(kFields) / sizeof(kFields[0]), "a table has a wrong number of fields");

// Bytes that a field takes in its table, and bytes of an item of a vector; by kind.
constexpr uint8_t kWidths[] = {1, 4, 8, 4, 4, 4, 4, 4, 1, 4};
constexpr uint8_t kItemSizes[] = {0, 0, 0, 1, 4, 8, 4, 0, 0, 0};

}  // namespace

// Every table that is not shared takes eight bytes at the least, with the offset that leads to it; so this is room for
// sharing each of them some hundred times.
Checker::Checker(const uint8_t* base, uint32_t size, ErrorRecord& error)
    : base_(base), size_(size), budget_(1024 + uint64_t{32} * size), error_(error) {}

bool Checker::fail(Check check, uint64_t a, int64_t b) {
  error_.check = check;
  error_.a = static_cast<int64_t>(a);
  error_.b = b;
  return false;
}

bool Checker::spend(uint64_t amount) {
  if (amount > budget_) return fail(Check::FlatTooComplex, 0, 0);
  budget_ -= amount;
  return true;
}

bool Checker::follow(uint64_t from, uint64_t& to) {
  to = from + read<uint32_t>(base_ + from);
  // All that offsets lead to begins with four bytes at a multiple of four.
  if (to == from || to % 4 != 0 || to + 4 > size_) return fail(Check::FlatOffset, from, static_cast<int64_t>(to));
  return true;
}

bool Checker::check_vector(uint64_t position, uint32_t item_size, uint32_t& count) {
  count = read<uint32_t>(base_ + position);
  const uint64_t begin = position + 4;
  if (uint64_t{count} * item_size > size_ - begin || (count > 0 && begin % item_size != 0)) {
    return fail(Check::FlatVector, position, count);
  }
  return true;
}

bool Checker::check_tables(uint64_t position, uint8_t schema) {
  uint32_t count;
  if (!check_vector(position, 4, count)) return false;
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t target;
    if (!follow(position + 4 + uint64_t{4} * i, target) || !check_table(target, schema)) return false;
  }
  return true;
}

bool Checker::check_table(uint64_t position, uint8_t schema) {
  const int64_t vtable = static_cast<int64_t>(position) - read<int32_t>(base_ + position);
  if (vtable < 0 || vtable % 2 != 0 || vtable + 4 > size_) return fail(Check::FlatTable, position, vtable);
  const uint32_t vtable_size = read<uint16_t>(base_ + vtable);
  const uint32_t table_size = read<uint16_t>(base_ + vtable + 2);
  if (vtable_size < 4 || vtable_size % 2 != 0 || vtable + vtable_size > size_ || table_size < 4 ||
      position + table_size > size_) {
    return fail(Check::FlatTable, position, vtable);
  }
  const uint32_t count = kFieldCounts[schema];
  if (!spend(2 + count)) return false;
  const FieldSchema* fields = kFields + kStarts.at[schema];
  uint8_t union_type = 0;
  for (uint32_t slot = 0; slot < count; ++slot) {
    const uint8_t kind = fields[slot].kind & kKindMask;
    const uint32_t offset = 4 + 2 * slot < vtable_size ? read<uint16_t>(base_ + vtable + 4 + 2 * slot) : 0;
    if (offset == 0) {
      if ((fields[slot].kind & kRequired) != 0 || (kind == kUnionValue && union_type != 0)) {
        return fail(Check::FlatRequired, position, slot);
      }
      continue;
    }
    const uint64_t at = position + offset;
    const uint32_t width = kWidths[kind];
    if (offset < 4 || offset + width > table_size || at % width != 0) return fail(Check::FlatField, position, slot);
    uint64_t target;
    uint32_t items;
    switch (kind) {
      case kVector1:
      case kVector4:
      case kVector8:
        if (!follow(at, target) || !check_vector(target, kItemSizes[kind], items)) return false;
        break;
      case kTables:
        if (!follow(at, target) || !check_tables(target, fields[slot].table)) return false;
        break;
      case kOneTable:
        if (!follow(at, target) || !check_table(target, fields[slot].table)) return false;
        break;
      case kUnion:
        union_type = base_[at];
        if (union_type == 0 || union_type > fields[slot + 1].table) {
          return fail(Check::FlatUnion, position, union_type);
        }
        break;
      case kUnionValue:
        if (union_type == 0) return fail(Check::FlatUnion, position, union_type);
        if (!follow(at, target)) return false;
        if (!check_table(target, static_cast<uint8_t>(fields[slot - 1].table + union_type - 1))) return false;
        break;
      default:
        break;
    }
  }
  return true;
}

Table Checker::check_root(uint8_t schema) {
  uint64_t root;
  if (size_ < 8) {
    fail(Check::FlatTable, 0, 0);
    return {};
  }
  if (!follow(0, root) || !check_table(root, schema)) return {};
  return Table{base_ + root};
}

}  // namespace flat
}  // namespace etir
