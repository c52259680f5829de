#include "core/flatbuffer_reader.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/flatbuffer_schema.h"
#include "testing/file_writer.h"
#include "testing/testing.h"

namespace etir {
namespace {

using flat::Checker;
using testing::Aligned;
using testing::FileWriter;
using testing::Node;
using testing::Small;

ErrorRecord check(const std::string& bytes, uint8_t schema = flat::kProgram) {
  // A block of its own, so that sanitizers see reads beyond it.
  const std::unique_ptr<uint8_t, decltype(&std::free)> block(
      static_cast<uint8_t*>(std::malloc(bytes.size() > 0 ? bytes.size() : 1)), &std::free);
  uint8_t* data = block.get();
  std::memcpy(data, bytes.data(), bytes.size());
  ErrorRecord record;
  const flat::Table root = Checker(data, static_cast<uint32_t>(bytes.size()), record).check_root(schema);
  CHECK_EQ(root.at == nullptr, record.check != Check::None);
  return record;
}

ETIR_TEST(a_good_buffer_is_read) {
  Small small;
  const std::string bytes = small.bytes();
  CHECK_EQ(check(bytes).check, Check::None);
  Aligned aligned(bytes);
  ErrorRecord record;
  Checker checker(aligned.data(), static_cast<uint32_t>(aligned.size()), record);
  const flat::Table root = checker.check_root(flat::kProgram);
  const flat::Table plan = root.vector(1).table(0);
  CHECK(plan.string(0) == "forward");
  CHECK_EQ(plan.vector(8).get<int64_t>(1), 64);
  CHECK_EQ(plan.vector(7).count(), 0u);  // an absent vector
  CHECK_EQ(root.get<uint32_t>(40), 0u);  // a slot that the file's vtable does not have
  CHECK(plan.field(1) == nullptr);       // an absent field
  CHECK(plan.vector(2).table(0).table(1).vector(2).get<int32_t>(1) == 3);
}

// Wherever the file is truncated, the walker finds it without reading what is not there.
ETIR_TEST(every_prefix_is_refused_or_whole) {
  Small small;
  const std::string bytes = small.bytes();
  size_t whole = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    whole += check(bytes.substr(0, size)).check == Check::None;
  }
  CHECK(whole <= 8);  // the padding at the end
}

ETIR_TEST(every_byte_may_have_any_value) {
  Small small;
  const std::string bytes = small.bytes();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int value : {0, 1, 2, 3, 4, 5, 7, 8, 0x7f, 0x80, 0xfe, 0xff}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(value);
      const ErrorRecord record = check(changed);
      CHECK(record.check == Check::None || error_of(record.check) == Error::InvalidProgram);
    }
  }
}

// A table with one field, which the test then moves about.
std::string one_field(uint32_t width, uint64_t number) {
  FileWriter w;
  return w.file(w.table({{width, number, nullptr}}), "TEST");
}

ETIR_TEST(layouts_of_tables_are_checked) {
  const std::string good = one_field(4, 7);  // as flat::kCompileSpec would refuse it: the field is no offset
  CHECK_EQ(check(good, flat::kInlineData).check, Check::FlatOffset);
  CHECK_EQ(check(one_field(8, 7), flat::kInt).check, Check::None);
  const std::string bytes = one_field(8, 7);
  const uint32_t root = flat::read<uint32_t>(reinterpret_cast<const uint8_t*>(bytes.data()));
  const auto with = [&](size_t at, auto value) {
    std::string changed = bytes;
    std::memcpy(&changed[at], &value, sizeof(value));
    return check(changed, flat::kInt).check;
  };
  const int32_t back = flat::read<int32_t>(reinterpret_cast<const uint8_t*>(bytes.data()) + root);
  const size_t vtable = root - static_cast<size_t>(back);
  CHECK_EQ(with(root, int32_t{INT32_MAX}), Check::FlatTable);
  CHECK_EQ(with(root, int32_t{INT32_MIN}), Check::FlatTable);
  CHECK_EQ(with(root, back - 1), Check::FlatTable);                // odd
  CHECK_EQ(with(vtable, uint16_t{3}), Check::FlatTable);           // smaller than its own head
  CHECK_EQ(with(vtable, uint16_t{7}), Check::FlatTable);           // odd
  CHECK_EQ(with(vtable, uint16_t{0xfffe}), Check::FlatTable);      // over the end
  CHECK_EQ(with(vtable + 2, uint16_t{3}), Check::FlatTable);       // no room for the vtable's offset
  CHECK_EQ(with(vtable + 2, uint16_t{0xffff}), Check::FlatTable);  // over the end
  CHECK_EQ(with(vtable + 4, uint16_t{2}), Check::FlatField);       // inside of the vtable's offset
  CHECK_EQ(with(vtable + 4, uint16_t{12}), Check::FlatField);      // misaligned or outside
  CHECK_EQ(with(vtable + 4, uint16_t{0xfff8}), Check::FlatField);  // far outside
  CHECK_EQ(with(vtable, uint16_t{4}), Check::None);                // no field: its default
  CHECK_EQ(with(0, uint32_t{0}), Check::FlatOffset);
  CHECK_EQ(with(0, root + 2), Check::FlatOffset);
  CHECK_EQ(with(0, UINT32_MAX), Check::FlatOffset);
}

ETIR_TEST(required_fields_and_unions_are_checked) {
  FileWriter w;
  CHECK_EQ(check(w.file(w.table({{}}), "TEST"), flat::kCompileSpec).check, Check::FlatRequired);
  Node* null = w.table({});
  CHECK_EQ(check(w.file(w.table({w.u8(1), w.to(null)}), "TEST"), flat::kEValue).check, Check::None);
  CHECK_EQ(check(w.file(w.table({w.u8(0), w.to(null)}), "TEST"), flat::kEValue).check, Check::FlatUnion);
  CHECK_EQ(check(w.file(w.table({w.u8(12), w.to(null)}), "TEST"), flat::kEValue).check, Check::FlatUnion);
  CHECK_EQ(check(w.file(w.table({w.u8(1), {}}), "TEST"), flat::kEValue).check, Check::FlatRequired);
  CHECK_EQ(check(w.file(w.table({{}, w.to(null)}), "TEST"), flat::kEValue).check, Check::FlatRequired);
}

// Of a table without fields it is the first one that is required that is missed; the others have defaults.
ETIR_TEST(each_table_knows_the_first_field_that_it_requires) {
  const std::vector<std::pair<uint8_t, int>> required = {
      {flat::kProgram, 1},         {flat::kExecutionPlan, 0},
      {flat::kEValue, 0},          {flat::kTensor, 2},
      {flat::kString, 0},          {flat::kIntList, 0},
      {flat::kDoubleList, 0},      {flat::kBoolList, 0},
      {flat::kTensorList, 0},      {flat::kOptionalTensorList, 0},
      {flat::kOperator, 0},        {flat::kDelegate, 0},
      {flat::kCompileSpec, 0},     {flat::kChain, 2},
      {flat::kInstruction, 0},     {flat::kKernelCall, 1},
      {flat::kDelegateCall, 1},    {flat::kNamedData, 0},
      {flat::kFlatTensorEntry, 0}, {flat::kFlatTensorLayout, 1},
  };
  FileWriter w;
  const std::string bytes = w.file(w.table({}), "TEST");
  for (uint8_t table = 0; table < flat::kNumTables; ++table) {
    int slot = -1;
    for (const auto& [one, first] : required) slot = one == table ? first : slot;
    const ErrorRecord record = check(bytes, table);
    CHECK_EQ(record.check, slot >= 0 ? Check::FlatRequired : Check::None);
    CHECK_EQ(record.b, slot);
  }
}

ETIR_TEST(vectors_end_within_the_buffer) {
  FileWriter w;
  const std::string bytes = w.file(w.table({w.to(w.vector<int64_t>({1, 2, 3}))}), "TEST");
  CHECK_EQ(check(bytes, flat::kIntList).check, Check::None);
  const size_t at = bytes.find(std::string("\3\0\0\0\1\0\0\0", 8));
  for (const uint32_t count : {5u, 0x1fffffffu, 0x20000000u, UINT32_MAX}) {
    std::string changed = bytes;
    std::memcpy(&changed[at], &count, 4);
    const ErrorRecord record = check(changed, flat::kIntList);
    CHECK_EQ(record.check, Check::FlatVector);
    CHECK_EQ(record.a, static_cast<int64_t>(at));
    CHECK_EQ(record.b, static_cast<int64_t>(count));
  }
}

// Nothing is read of a vector without items: what comes after its count may lie anywhere.
ETIR_TEST(empty_vectors_need_no_alignment) {
  FileWriter w;
  const std::string bytes = w.file(w.table({w.to(w.vector<int32_t>({}))}), "TEST");
  CHECK_EQ(check(bytes, flat::kIntList).check, Check::None);
  CHECK_EQ(check(bytes, flat::kTensorList).check, Check::None);
}

// Offsets that all lead to one table cost as much as tables of their own.
ETIR_TEST(shared_tables_run_out_of_budget) {
  FileWriter w;
  const auto list = [&](size_t count) {
    // A frame list: a vector of tables, of which the offsets are made to agree.
    std::string bytes = w.file(w.table({w.to(w.tables(std::vector<Node*>(count, w.table({}))))}), "TEST");
    const uint32_t root = flat::read<uint32_t>(reinterpret_cast<const uint8_t*>(bytes.data()));
    const flat::Table table{reinterpret_cast<const uint8_t*>(bytes.data()) + root};
    const size_t first = static_cast<size_t>(table.vector(0).items() - reinterpret_cast<const uint8_t*>(bytes.data()));
    const size_t target = first + flat::read<uint32_t>(reinterpret_cast<const uint8_t*>(bytes.data()) + first);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t distance = static_cast<uint32_t>(target - (first + 4 * i));
      std::memcpy(&bytes[first + 4 * i], &distance, 4);
    }
    return bytes.substr(0, target + 8);
  };
  CHECK_EQ(check(list(1000), flat::kFrameList).check, Check::None);
  ErrorRecord record;
  Aligned aligned(list(1000));
  Checker checker(aligned.data(), static_cast<uint32_t>(aligned.size()), record);
  int walks = 0;
  while (checker.check_root(flat::kFrameList).at != nullptr && walks < 1000) ++walks;
  CHECK(walks >= 1 && walks < 1000);  // one buffer, one budget
  CHECK(record.check == Check::FlatTooComplex && record.a == 0 && record.b == 0);
}

}  // namespace
}  // namespace etir
