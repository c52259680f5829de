// Loading: headers, segments, and what the validator says about each part of a method.
#include "executor/program.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "testing/counting_loader.h"
#include "testing/file_writer.h"
#include "testing/testing.h"

namespace etir {
namespace {

using testing::Aligned;
using testing::FileWriter;
using testing::Node;
using testing::Small;

ErrorRecord load(const std::string& bytes) {
  Aligned aligned(bytes);
  BufferDataLoader loader(aligned.data(), aligned.size());
  Program program;
  ErrorRecord record;
  const Error error = program.load(loader, &record);
  CHECK_EQ(error, record.error());
  CHECK_EQ(program.num_methods() > 0, error == Error::Ok);
  return record;
}

void expect(const std::function<void(Small&)>& change, Check check, int64_t a, int64_t b = -1) {
  Small small;
  change(small);
  const ErrorRecord record = load(small.bytes());
  CHECK_EQ(record.check, check);
  if (check != Check::None) CHECK_EQ(record.a, a);
  if (b != -1) CHECK_EQ(record.b, b);
}

ETIR_TEST(a_small_program_loads) {
  Small small;
  CHECK_EQ(load(small.bytes()).check, Check::None);
}

ETIR_TEST(no_file_at_all) {
  CHECK_EQ(load("").check, Check::FileTooSmall);
  CHECK_EQ(load("1234567").a, 7);
  CHECK_EQ(load(std::string(64, '\0')).check, Check::FileIdentifier);
  // A loader that has bytes and does not give them.
  class Broken final : public DataLoader {
   public:
    uint64_t size() const override { return 4096; }
  } broken;
  Program program;
  ErrorRecord record;
  CHECK_EQ(program.load(broken, &record), Error::AccessFailed);
  CHECK_EQ(record.check, Check::FileRead);
  CHECK_EQ(program.load(broken), Error::AccessFailed);  // the record is optional
}

ETIR_TEST(loads_ask_for_powers_of_two_and_are_released) {
  Small small;
  testing::CountingLoader loader(small.bytes());
  {
    Program program;
    CHECK_EQ(program.load(loader), Error::Ok);
    CHECK_EQ(loader.held, 1);  // the program itself
  }
  CHECK_EQ(loader.held, 0);
}

ETIR_TEST(every_delegate_is_checked) {
  for (int bad = 0; bad <= 3; ++bad) {  // the last is none of them
    Small small;
    FileWriter& w = small.w;
    std::vector<Node*> delegates;
    for (int i = 0; i < 3; ++i) {
      Node* reference = w.table({w.u8(0), w.u32(i == bad ? 1 : 0)});
      delegates.push_back(w.table({w.to(w.string("TestBackend")), w.to(reference), {}}));
    }
    small.plan->fields[7] = w.to(w.tables(delegates));
    small.program->fields.resize(4);
    small.program->fields[3] = w.to(w.tables({w.table({w.to(w.vector<uint8_t>({1, 2, 3, 4}))})}));
    const ErrorRecord record = load(small.bytes());
    CHECK_EQ(record.check, bad < 3 ? Check::DelegateDataIndex : Check::None);
    if (bad < 3) CHECK_EQ(record.a, bad);
  }
}

ETIR_TEST(misaligned_bytes_are_refused) {
  Small small;
  Aligned aligned(small.bytes() + "        ");
  std::memmove(aligned.data() + 4, aligned.data(), aligned.size() - 8);
  BufferDataLoader loader(aligned.data() + 4, aligned.size() - 8);
  Program program;
  ErrorRecord record;
  CHECK_EQ(program.load(loader, &record), Error::InvalidArgument);
  CHECK_EQ(record.check, Check::FileAlignment);
  CHECK_EQ(record.b, 8);
}

std::string with_header(Small& small, uint32_t length, uint64_t program, uint64_t base, uint64_t segments) {
  std::string bytes = small.w.file(small.program, "ET12", 32);
  std::memcpy(&bytes[8], "eh00", 4);
  std::memcpy(&bytes[12], &length, 4);
  std::memcpy(&bytes[16], &program, 8);
  std::memcpy(&bytes[24], &base, 8);
  std::memcpy(&bytes[32], &segments, 8);
  return bytes;
}

ETIR_TEST(headers_are_checked) {
  Small small;
  const size_t size = with_header(small, 32, 0, 0, 0).size();
  CHECK_EQ(load(with_header(small, 32, size, 0, 0)).check, Check::None);
  CHECK_EQ(load(with_header(small, 24, size, 0, UINT64_MAX)).check, Check::None);  // the short header has no sizes
  CHECK_EQ(load(with_header(small, 23, size, 0, 0)).check, Check::FileHeader);
  CHECK_EQ(load(with_header(small, 32, size + 1, 0, 0)).check, Check::FileTruncated);
  CHECK_EQ(load(with_header(small, 32, 7, 0, 0)).check, Check::FileTruncated);
  CHECK_EQ(load(with_header(small, 32, UINT64_MAX, 0, 0)).check, Check::FileTruncated);
  CHECK_EQ(load(with_header(small, 32, size, size + 1, 0)).check, Check::FileSegments);
  CHECK_EQ(load(with_header(small, 32, size, UINT64_MAX, 1)).check, Check::FileSegments);
  CHECK_EQ(load(with_header(small, 32, size, size, UINT64_MAX)).check, Check::FileSegments);
}

ETIR_TEST(programs_have_a_version_and_methods) {
  expect([](Small& s) { s.program->fields[0].number = 1; }, Check::ProgramVersion, 1, 0);
  expect([](Small& s) { s.plans->children.clear(); }, Check::ProgramNoMethod, 0);
}

ETIR_TEST(what_is_required_is_there) {
  for (const size_t field : {0, 2, 3, 4, 5, 8}) {
    Small small;
    small.plan->fields[field] = {};
    const ErrorRecord record = load(small.bytes());
    CHECK(record.check == Check::FlatRequired && record.b == static_cast<int64_t>(field));
    small.plan->fields[field] = small.w.u32(0x10000000);  // and ends within the file
    CHECK_EQ(load(small.bytes()).check, Check::FlatOffset);
  }
}

ETIR_TEST(planned_buffers) {
  expect([](Small& s) { s.plan->fields[8] = s.w.to(s.w.vector<int64_t>({0, -1})); }, Check::PlannedBufferSize, 1, -1);
  expect([](Small& s) { s.plan->fields[8] = s.w.to(s.w.vector<int64_t>({0, INT64_MIN})); }, Check::PlannedBufferSize,
         1);
  expect([](Small& s) { s.plan->fields[8] = s.w.to(s.w.vector<int64_t>({0, 55})); }, Check::TensorPlannedBounds, 1, 32);
  expect([](Small& s) { s.plan->fields[8] = s.w.to(s.w.vector<int64_t>({0})); }, Check::TensorMemoryId, 0, 1);
  expect(
      [](Small& s) { s.plan->fields.push_back(s.w.to(s.w.tables({s.w.table({s.w.u32(1), s.w.u8(1), s.w.u8(0)})}))); },
      Check::PlannedBufferDevice, 1, 1);
}

void tensor_with(size_t field, testing::Field value, Check check, int64_t b) {
  expect([&](Small& s) { s.input->fields[field] = value; }, check, 0, b);
}

ETIR_TEST(tensors) {
  FileWriter w;
  for (const uint64_t dtype : {18, 21, 30, 255})
    tensor_with(0, w.u8(dtype), Check::TensorDtype, static_cast<int64_t>(dtype));
  tensor_with(1, w.u32(1), Check::TensorLayout, 1);
  tensor_with(7, w.u8(2), Check::TensorLayout, 2);
  tensor_with(2, w.to(w.vector<int32_t>(std::vector<int32_t>(17, 1))), Check::TensorRank, 17);
  tensor_with(2, w.to(w.vector<int32_t>({2, 3, 1})), Check::TensorDimOrder, -1);
  tensor_with(3, w.to(w.vector<uint8_t>({0, 0})), Check::TensorDimOrder, -1);
  tensor_with(3, w.to(w.vector<uint8_t>({1, 2})), Check::TensorDimOrder, -1);
  tensor_with(3, w.to(w.vector<uint8_t>({0, 255})), Check::TensorDimOrder, -1);
  tensor_with(2, w.to(w.vector<int32_t>({2, INT32_MIN})), Check::TensorSize, INT32_MIN);
  tensor_with(2, w.to(w.vector<int32_t>({INT32_MIN, 3})), Check::TensorSize, INT32_MIN);
  tensor_with(2, w.to(w.vector<int32_t>({INT32_MAX, INT32_MAX})), Check::TensorTooLarge, -1);
  tensor_with(8, w.u8(3), Check::TensorDynamism, 3);
  tensor_with(5, w.u32(1), Check::TensorMutableIndex, 1);
  const auto placed = [&](uint64_t id, uint64_t low, uint64_t high, Check check, int64_t b) {
    tensor_with(6, w.to(w.table({w.u32(id), w.u32(low), w.u32(high)})), check, b);
  };
  placed(0, 0, 0, Check::TensorMemoryId, 0);
  placed(2, 0, 0, Check::TensorMemoryId, 2);
  placed(UINT32_MAX, 0, 0, Check::TensorMemoryId, UINT32_MAX);
  placed(1, 41, 0, Check::TensorPlannedBounds, 41);
  placed(1, 40, 0, Check::None, -1);
  placed(1, 0, 1, Check::TensorPlannedBounds, int64_t{1} << 32);
  placed(1, UINT32_MAX, UINT32_MAX, Check::TensorPlannedBounds, -1);
  placed(1, 2, 0, Check::TensorPlannedAlignment, 2);
  const auto extra = [&](uint64_t location, uint64_t device, Check check, int64_t b) {
    tensor_with(9, w.to(w.table({{}, {}, w.u8(location), w.u8(device)})), check, b);
  };
  extra(2, 0, Check::TensorLocation, 2);
  extra(0, 1, Check::TensorLayout, 1);
  extra(1, 0, Check::TensorExternalName, -1);
}

// Complex numbers lie as their parts do.
ETIR_TEST(planned_tensors_are_aligned_for_their_elements) {
  const std::vector<std::pair<ScalarType, uint32_t>> alignments = {
      {ScalarType::Byte, 1},         {ScalarType::Half, 2},          {ScalarType::Float, 4},
      {ScalarType::Double, 8},       {ScalarType::Bool, 1},          {ScalarType::ComplexHalf, 2},
      {ScalarType::ComplexFloat, 4}, {ScalarType::ComplexDouble, 8},
  };
  for (const auto& [dtype, alignment] : alignments) {
    for (uint32_t offset = 0; offset <= 16; ++offset) {
      const bool is_good = offset % alignment == 0;
      const auto place = [&, type = dtype](Small& s) {
        s.input->fields[0] = s.w.u8(static_cast<uint8_t>(type));
        s.input->fields[2] = s.w.to(s.w.vector<int32_t>({1, 1}));
        s.input->fields[6] = s.w.to(s.w.table({s.w.u32(1), s.w.u32(offset), s.w.u32(0)}));
      };
      expect(place, is_good ? Check::None : Check::TensorPlannedAlignment, 0, is_good ? -1 : int64_t{offset});
    }
  }
}

ETIR_TEST(a_tensor_without_a_place_may_be_constant) {
  FileWriter w;
  expect(
      [](Small& s) {
        s.input->fields[6] = {};
        s.input->fields[5].number = 1;
      },
      Check::TensorConstantIndex, 0, 1);
}

ETIR_TEST(lists) {
  const auto list = [](Tag tag, auto items, Check check, int64_t b) {
    expect([&](Small& s) { s.values->children.push_back(s.value(tag, s.w.table({s.w.to(s.w.vector(items))}))); }, check,
           check == Check::None ? -1 : 2, b);
  };
  list(Tag::IntList, std::vector<int64_t>{3}, Check::ListIndex, 3);
  list(Tag::IntList, std::vector<int64_t>{-1}, Check::ListIndex, -1);
  list(Tag::IntList, std::vector<int64_t>{INT64_MIN}, Check::ListIndex, INT64_MIN);
  list(Tag::IntList, std::vector<int64_t>{0}, Check::ListItemKind, 0);  // a tensor
  list(Tag::TensorList, std::vector<int32_t>{0, 1}, Check::None, -1);
  list(Tag::TensorList, std::vector<int32_t>{-1}, Check::ListIndex, -1);
  list(Tag::OptionalTensorList, std::vector<int32_t>{-1, 1}, Check::None, -1);
  list(Tag::OptionalTensorList, std::vector<int32_t>{-2}, Check::ListIndex, -2);
  list(Tag::TensorList, std::vector<int32_t>{2}, Check::ListItemKind, 2);  // itself
}

ETIR_TEST(inputs_outputs_and_calls) {
  expect([](Small& s) { s.plan->fields[3] = s.w.to(s.w.vector<int32_t>({2})); }, Check::InputIndex, 0, 2);
  expect([](Small& s) { s.plan->fields[4] = s.w.to(s.w.vector<int32_t>({1, -1})); }, Check::OutputIndex, 1, -1);
  expect([](Small& s) { s.call->fields[0].number = 1; }, Check::OpIndex, 1, 1);
  expect([](Small& s) { s.call->fields[0].number = UINT32_MAX; }, Check::OpIndex, -1, 1);
  expect([](Small& s) { s.call->fields[1] = s.w.to(s.w.vector<int32_t>({0, 1, 2})); }, Check::ArgumentIndex, 2, 2);
  const auto instruction = [](uint64_t type, std::vector<testing::Field> fields, Check check, int64_t a, int64_t b) {
    expect([&](Small& s) { s.instructions->children.push_back(s.w.table({s.w.u8(type), s.w.to(s.w.table(fields))})); },
           check, a, b);
  };
  FileWriter w;
  instruction(2, {w.u32(0), w.to(w.vector<int32_t>({0}))}, Check::DelegateIndex, 0, 0);
  instruction(3, {w.u32(0), w.u32(2)}, Check::ArgumentIndex, 1, 2);
  instruction(3, {w.u32(0), w.u32(1)}, Check::None, -1, -1);
  instruction(4, {w.u32(0), w.u32(3)}, Check::JumpDestination, 3, 2);
  instruction(4, {w.u32(0), w.u32(2)}, Check::None, -1, -1);  // to the end
  instruction(4, {w.u32(0), w.u32(UINT32_MAX)}, Check::JumpDestination, -1, 2);
  instruction(4, {w.u32(7), w.u32(0)}, Check::ArgumentIndex, 0, 7);
  instruction(5, {w.u32(9)}, Check::ArgumentIndex, 0, 9);
  expect(
      [](Small& s) {
        s.values->children.push_back(s.integer(5));
        s.instructions->children.push_back(s.w.table({s.w.u8(4), s.w.to(s.w.table({s.w.u32(2), s.w.u32(0)}))}));
      },
      Check::JumpCondition, 2, static_cast<int64_t>(Tag::Int));
}

ETIR_TEST(the_record_says_where) {
  Small small;
  small.call->fields[0].number = 9;
  const ErrorRecord record = load(small.bytes());
  CHECK_EQ(record.method, 0);
  CHECK_EQ(record.instruction, 0);
}

// The reserved first entry is no constant.
ETIR_TEST(a_table_without_constants_needs_no_segment) {
  for (const size_t entries : {0, 1, 2}) {
    Small small;
    FileWriter& w = small.w;
    small.program->fields.resize(6);
    small.program->fields[5] = w.to(w.table({w.u32(0), w.to(w.vector<uint64_t>(std::vector<uint64_t>(entries, 0)))}));
    CHECK_EQ(load(small.bytes()).check, entries < 2 ? Check::None : Check::SegmentIndex);
  }
}

ETIR_TEST(offsets_lie_within_their_segment) {
  for (const std::vector<uint64_t>& offsets : {std::vector<uint64_t>{17, 0}, {0, 17}, {0, UINT64_MAX}, {0, 16}}) {
    for (const size_t field : {5, 6}) {
      Small small;
      FileWriter& w = small.w;
      Node* places = w.table({w.u32(0), w.to(w.vector(offsets))});
      small.program->fields.resize(7);
      small.program->fields[4] = w.to(w.tables({w.table({w.u64(0), w.u64(16)})}));
      small.program->fields[field] = w.to(field == 5 ? places : w.tables({places}));
      const size_t program = with_header(small, 32, 0, 0, 0).size();
      const ErrorRecord record = load(with_header(small, 32, program, program, 16) + std::string(16, 'x'));
      const bool is_good = offsets[1] == 16;
      CHECK_EQ(record.check, is_good ? Check::None : Check::SegmentOffset);
      if (!is_good) CHECK_EQ(record.a, offsets[0] == 17 ? 0 : 1);
    }
  }
}

ETIR_TEST(segments_and_named_data) {
  const auto with = [](uint64_t offset, uint64_t size, uint64_t named) {
    Small small;
    FileWriter& w = small.w;
    small.program->fields.resize(8);
    small.program->fields[4] = w.to(w.tables({w.table({w.u64(offset), w.u64(size)})}));
    small.program->fields[7] = w.to(w.tables({w.table({w.to(w.string("key")), w.u32(named)})}));
    const size_t program = with_header(small, 32, 0, 0, 0).size();
    return with_header(small, 32, program, program, 16) + std::string(16, 'x');
  };
  CHECK_EQ(load(with(0, 16, 0)).check, Check::None);
  CHECK_EQ(load(with(1, 16, 0)).check, Check::SegmentBounds);
  CHECK_EQ(load(with(UINT64_MAX, 2, 0)).check, Check::SegmentBounds);
  CHECK_EQ(load(with(0, 16, 1)).check, Check::SegmentIndex);
  Aligned aligned(with(4, 12, 0));
  BufferDataLoader loader(aligned.data(), aligned.size());
  Program program;
  CHECK_EQ(program.load(loader), Error::Ok);
  const auto found = program.named_data({"key", 3});
  CHECK(found.ok() && found->size == 12 && found->data[0] == 'x');
  CHECK_EQ(program.named_data({"kex", 3}).error(), Error::NotFound);
  CHECK_EQ(program.named_data({"ke", 2}).error(), Error::NotFound);
  CHECK_EQ(program.method_meta("forward")->index(), 0u);
  CHECK_EQ(program.method_meta("forwards").error(), Error::NotFound);
  CHECK_EQ(program.method_meta("").error(), Error::NotFound);
}

}  // namespace
}  // namespace etir
