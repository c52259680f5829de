// Methods: memory of exact size, inputs, outputs, failures that leave a method usable; and what MethodMeta says.
#include "executor/method.h"

#include <cstring>
#include <string>
#include <vector>

#include "testing/small_method.h"

namespace etir {
namespace {

using testing::Aligned;
using testing::Fixture;
using testing::kTable;
using testing::Node;
using testing::refuse;
using testing::scratch;
using testing::Small;
using testing::twice;

void twice_in_place(KernelContext& ctx) {
  for (int64_t i = 0; i < ctx.tensor(0).numel(); ++i) ctx.tensor(0).ptr<float>()[i] *= 2;
}
constexpr Kernel kChangingRows[] = {{"test::twice.out", twice_in_place, "T>", 1}};
constexpr KernelTable kChangingTable = {kChangingRows, 1};
constexpr Kernel kOtherRows[] = {{"test::twice.out", twice, "TI>T", 4}};
constexpr KernelTable kOtherTable = {kOtherRows, 1};

ETIR_TEST(meta_says_what_the_file_says) {
  Small small;
  Fixture f(small);
  CHECK(f.meta.name() == "forward");
  CHECK_EQ(f.meta.num_inputs(), 1u);
  CHECK(f.meta.input_tag(0) == Tag::Tensor && f.meta.output_tag(0) == Tag::Tensor);
  const TensorInfo info = f.meta.input_tensor(0);
  CHECK(info.dtype == ScalarType::Float && info.rank == 2 && info.sizes[1] == 3 && info.nbytes == 24);
  CHECK(info.planned && !info.constant && info.dynamism == Dynamism::Static && info.name.size == 0);
  CHECK_EQ(f.meta.num_planned_buffers(), 1u);
  CHECK_EQ(f.meta.planned_buffer_size(0), 64u);
  CHECK_EQ(f.meta.num_values(), 2u);
  CHECK_EQ(f.meta.num_instructions(), 1u);
  CHECK(f.meta.operator_name(0) == "test::twice" && f.meta.operator_overload(0) == "out");
  CHECK_EQ(f.meta.num_delegates(), 0u);
  CHECK_EQ(f.meta.input_encoding().size, 0u);
  // method.h: 9 per value, the tensors, the operators, one flag per input.
  CHECK_EQ(f.meta.method_memory_size(), 9u * 2 + 2 * sizeof(Tensor) + sizeof(Method::Operator) + 1);
  Small dynamic(1);
  CHECK_EQ(Fixture(dynamic).meta.method_memory_size(), f.meta.method_memory_size() + 4u * (2 + 2));
}

ETIR_TEST(a_method_runs_in_memory_of_exact_size) {
  for (const uint8_t dynamism : {0, 1}) {
    Small small(dynamism);
    Fixture f(small);
    CHECK_EQ(f.load(f.needed, 64, 0), Error::Ok);
    CHECK_EQ(f.method.method_memory_used(), f.needed);
    CHECK_EQ(f.set(), Error::Ok);
    CHECK_EQ(f.method.execute(), Error::Ok);
    CHECK_EQ(f.output(5), 12.0f);
    CHECK_EQ(f.method.temp_memory_peak(), 0u);
  }
}

ETIR_TEST(each_memory_that_is_one_byte_short_has_an_error_of_its_own) {
  Small small;
  Fixture f(small);
  CHECK_EQ(f.load(f.needed - 1, 64, 0), Error::MemoryAllocationFailed);
  CHECK(f.record().check == Check::MethodMemory && f.record().a == static_cast<int64_t>(f.needed));
  CHECK_EQ(f.record().b, f.record().a - 1);
  CHECK_EQ(f.method.execute(), Error::InvalidState);
  CHECK_EQ(f.record().check, Check::MethodNotLoaded);
  CHECK_EQ(f.load(f.needed, 63, 0), Error::MemoryAllocationFailed);
  CHECK(f.record().check == Check::PlannedSize && f.record().a == 0 && f.record().b == 64);
  f.count = 0;
  CHECK_EQ(f.load(f.needed, 64, 0), Error::InvalidArgument);
  CHECK(f.record().check == Check::PlannedCount && f.record().a == 1 && f.record().b == 0);
  f.count = 1;
  scratch = 32;
  CHECK_EQ(f.load(f.needed, 64, 31), Error::Ok);
  CHECK_EQ(f.set(), Error::Ok);
  for (int again = 0; again < 2; ++again) {
    CHECK_EQ(f.method.execute(), Error::MemoryAllocationFailed);
    CHECK(f.record().check == Check::KernelTemp && f.record().a == 32 && f.record().b == 31);
    CHECK(f.record().method == 0 && f.record().instruction == 0 && f.record().op == 0);
  }
  // The same object is loaded again, with what it needs.
  CHECK_EQ(f.load(f.needed, 64, 32), Error::Ok);
  CHECK_EQ(f.set(), Error::Ok);
  CHECK_EQ(f.method.execute(), Error::Ok);
  CHECK_EQ(f.method.temp_memory_peak(), 32u);
  scratch = 0;
}

ETIR_TEST(misaligned_memory_is_refused) {
  Small small;
  Fixture f(small);
  Aligned memory(f.needed + 8), planned(72);
  PlannedBuffer buffer;
  MethodOptions options;
  options.kernels = {&kTable, 1};
  for (const size_t shift : {1, 4}) {
    MethodMemory all;
    all.method.base = memory.data() + shift;
    all.method.size = f.needed;
    buffer.data = planned.data();
    buffer.size = 64;
    all.planned = {&buffer, 1};
    CHECK_EQ(f.method.load(f.program, 0, all, options), Error::InvalidArgument);
    CHECK_EQ(f.record().check, Check::MethodMemoryAlignment);
    all.method.base = memory.data();
    buffer.data = planned.data() + shift;
    CHECK_EQ(f.method.load(f.program, 0, all, options), Error::InvalidArgument);
    CHECK_EQ(f.record().check, Check::PlannedAlignment);
  }
}

ETIR_TEST(what_no_kernel_takes_is_refused_when_the_method_is_loaded) {
  Small small;
  Fixture f(small);
  constexpr KernelTable kNone = {nullptr, 0};
  CHECK_EQ(f.load(f.needed, 64, 0, kNone), Error::OperatorMissing);
  CHECK(f.record().check == Check::OperatorMissing && f.record().op == 0);
  CHECK_EQ(f.load(f.needed, 64, 0, kOtherTable), Error::InvalidProgram);
  CHECK(f.record().check == Check::ArgumentCount && f.record().a == 3 && f.record().b == 4);
  CHECK_EQ(f.record().instruction, 0);
  f.index = 1;
  CHECK_EQ(f.load(f.needed, 64, 0), Error::NotFound);
  CHECK(f.record().check == Check::MethodIndex && f.record().a == 1 && f.record().b == 1);
}

ETIR_TEST(inputs_are_checked_and_a_refused_one_changes_nothing) {
  Small small;
  Fixture f(small);
  CHECK_EQ(f.load(f.needed, 64, 0), Error::Ok);
  CHECK_EQ(f.method.execute(), Error::InvalidState);
  CHECK(f.record().check == Check::InputNotSet && f.record().a == 0);
  const auto given = [&](void* data, ScalarType dtype, uint8_t rank, std::vector<int32_t> sizes,
                         std::vector<uint8_t> order) {
    const uint8_t* dims = order.empty() ? nullptr : order.data();
    f.method.set_input(0, TensorInput{data, dtype, rank, sizes.data(), dims});
    return f.record().check;
  };
  CHECK_EQ(given(f.data, ScalarType::Int, 2, {2, 3}, {}), Check::InputDtype);
  CHECK_EQ(given(f.data, ScalarType::Float, 1, {6}, {}), Check::InputRank);
  CHECK_EQ(given(f.data, ScalarType::Float, 2, {3, 2}, {}), Check::InputSize);
  CHECK_EQ(given(f.data, ScalarType::Float, 2, {2, -1}, {}), Check::InputSize);
  CHECK_EQ(given(f.data, ScalarType::Float, 2, {2, 3}, {1, 0}), Check::InputDimOrder);
  CHECK_EQ(given(f.data, ScalarType::Float, 2, {2, 3}, {0, 7}), Check::InputDimOrder);
  CHECK_EQ(given(nullptr, ScalarType::Float, 2, {2, 3}, {}), Check::InputNoData);
  CHECK_EQ(f.method.set_input(1, TensorInput{}), Error::InvalidArgument);
  CHECK(f.record().check == Check::InputNumber && f.record().a == 1 && f.record().b == 1);
  Value number;
  number.tag = Tag::Int;
  CHECK_EQ(f.method.set_input(0, number), Error::InvalidArgument);
  CHECK_EQ(f.record().check, Check::InputKind);
  CHECK_EQ(f.method.execute(), Error::InvalidState);
  CHECK_EQ(f.set(), Error::Ok);
  CHECK_EQ(f.method.execute(), Error::Ok);
  CHECK_EQ(f.output(0), 2.0f);
  float room[6];
  CHECK_EQ(f.method.set_output_data(0, room, sizeof(room)), Error::InvalidState);
  CHECK_EQ(f.record().check, Check::OutputNotSettable);
  CHECK_EQ(f.method.set_output_data(1, room, sizeof(room)), Error::InvalidArgument);
  CHECK_EQ(f.record().check, Check::OutputNumber);
}

ETIR_TEST(dynamic_inputs_keep_to_their_bound) {
  Small small(1);
  Fixture f(small);
  CHECK_EQ(f.load(f.needed, 64, 0), Error::Ok);
  CHECK_EQ(f.method.output(0).payload.tensor->capacity, 6u);
  CHECK_EQ(f.set(1, 6), Error::Ok);  // as many elements
  CHECK_EQ(f.method.execute(), Error::Ok);
  CHECK_EQ(f.method.output(0).payload.tensor->size(1), 6);
  CHECK_EQ(f.set(7, 1), Error::InvalidArgument);
  CHECK(f.record().check == Check::InputTooLarge && f.record().a == 0 && f.record().b == 7);
  CHECK_EQ(f.set(INT32_MAX, INT32_MAX), Error::InvalidArgument);
  CHECK_EQ(f.record().check, Check::InputTooLarge);
  CHECK_EQ(f.set(0, INT32_MAX), Error::Ok);
  CHECK_EQ(f.method.execute(), Error::Ok);
  CHECK_EQ(f.method.output(0).payload.tensor->numel(), 0);
}

// The others have been compiled into the program.
ETIR_TEST(a_number_varies_where_the_program_checks_it) {
  static constexpr Kernel kReading[] = {{"etir::check_number", twice_in_place, "I!"},
                                        {"etir::other_number", twice_in_place, "I!"},
                                        {"test::twice.out", twice, "T>T", 2}};
  for (const std::string name : {"etir::check_number", "etir::other_number"}) {
    Small small;
    small.values->children.push_back(small.integer(5));
    small.plan->fields[3] = small.w.to(small.w.vector<int32_t>({0, 2}));
    small.plan->fields[6] = small.w.to(small.w.tables({small.op, small.w.table({small.w.to(small.w.string(name))})}));
    Node* call = small.w.table({small.w.u32(1), small.w.to(small.w.vector<int32_t>({2}))});
    small.instructions->children.push_back(small.w.table({small.w.u8(1), small.w.to(call)}));
    Fixture f(small);
    CHECK_EQ(f.load(f.needed, 64, 0, {kReading, 3}), Error::Ok);
    const bool varies = name == "etir::check_number";
    CHECK(!f.meta.input_varies(0) && f.meta.input_varies(1) == varies);
    Value six;
    six.tag = Tag::Int;
    six.payload.integer = 6;
    CHECK_EQ(f.method.set_input(1, six), varies ? Error::Ok : Error::InvalidArgument);
    CHECK_EQ(f.method.value(2).payload.integer, varies ? 6 : 5);
  }
}

ETIR_TEST(outputs_in_memory_of_the_caller_s) {
  Small small(1);
  small.output->fields[6] = {};  // not planned
  Fixture f(small);
  CHECK_EQ(f.load(f.needed, 64, 0), Error::Ok);
  float room[6];
  CHECK_EQ(f.method.set_output_data(0, room, sizeof(room)), Error::Ok);
  CHECK_EQ(f.method.output(0).payload.tensor->size(0), 2);  // as there is room for
  CHECK_EQ(f.set(), Error::Ok);
  CHECK_EQ(f.method.execute(), Error::Ok);
  CHECK_EQ(room[5], 12.0f);
  CHECK_EQ(f.method.set_output_data(0, room, 3 * sizeof(float)), Error::Ok);
  CHECK_EQ(f.method.output(0).payload.tensor->numel(), 0);
  CHECK(f.method.execute() != Error::Ok);
  CHECK_EQ(f.set(1, 3), Error::Ok);
  CHECK_EQ(f.method.execute(), Error::Ok);
  CHECK_EQ(f.output(2), 6.0f);
}

// What a call returns is another name of the result until the next run; the value itself stays what it was.
ETIR_TEST(a_call_may_return_into_another_value) {
  for (const bool in_place : {false, true}) {
    Small small;
    small.values->children.push_back(small.value(Tag::Tensor, small.tensor(64)));
    small.plan->fields[8] = small.w.to(small.w.vector<int64_t>({0, 96}));
    small.plan->fields[4] = small.w.to(small.w.vector<int32_t>({2}));
    const std::vector<int32_t> args = in_place ? std::vector<int32_t>{0, 2} : std::vector<int32_t>{0, 1, 2};
    small.call->fields[1] = small.w.to(small.w.vector(args));
    Fixture f(small);
    CHECK_EQ(f.load(f.needed, 96, 0, in_place ? kChangingTable : kTable), Error::Ok);
    const Tensor* own = f.method.output(0).payload.tensor;
    for (int again = 0; again < 2; ++again) {
      CHECK_EQ(f.set(), Error::Ok);
      CHECK_EQ(f.method.execute(), Error::Ok);
      CHECK_EQ(f.output(5), 12.0f);
      CHECK(f.method.output(0).payload.tensor == f.method.value(in_place ? 0 : 1).payload.tensor);
      CHECK_EQ(f.method.reset(), Error::Ok);
      CHECK(f.method.output(0).payload.tensor == own);
    }
  }
}

ETIR_TEST(texts_of_instructions) {
  Small small;
  Node* text = small.value(Tag::String, small.w.table({small.w.to(small.w.string("said"))}));
  small.values->children.push_back(text);
  Node* call = small.w.table({small.w.u32(0), small.w.to(small.w.vector<int32_t>({0, 2}))});
  Node* chain = small.w.table({{}, {}, small.w.to(small.w.tables({small.w.table({small.w.u8(1), small.w.to(call)})}))});
  small.plan->fields[5] = small.w.to(small.w.tables({small.chain, chain}));
  Fixture f(small);
  CHECK_EQ(f.meta.num_instructions(), 2u);
  CHECK_EQ(f.meta.instruction_text(0).size, 0u);  // its last argument is a tensor
  CHECK(f.meta.instruction_text(1) == "said");
  CHECK_EQ(f.meta.instruction_text(2).size, 0u);
}

ETIR_TEST(a_failed_run_leaves_the_method_usable) {
  Small small;
  Fixture f(small);
  CHECK_EQ(f.load(f.needed, 64, 0), Error::Ok);
  CHECK_EQ(f.set(), Error::Ok);
  refuse = 1;
  CHECK_EQ(f.method.execute(), Error::InvalidArgument);
  CHECK(f.record().check == Check::KernelArgument && f.record().instruction == 0 && f.record().b == 42);
  CHECK_EQ(f.method.execute(), Error::Ok);
  CHECK_EQ(f.output(1), 4.0f);
  CHECK_EQ(f.record().check, Check::None);
}

// What fails after a kernel that did its work is not that kernel's fault.
ETIR_TEST(a_failing_jump_names_no_operator) {
  Small small;
  Node* jump = small.w.table({small.w.u32(1), small.w.u32(2)});
  small.instructions->children.push_back(small.w.table({small.w.u8(4), small.w.to(jump)}));
  small.instructions->children.push_back(small.instruction);
  Fixture f(small);
  CHECK_EQ(f.load(f.needed, 64, 0), Error::Ok);
  CHECK_EQ(f.set(), Error::Ok);
  CHECK(f.method.execute() != Error::Ok);
  CHECK(f.record().check == Check::JumpTensor && f.record().instruction == 1 && f.record().op == -1);
  refuse = 1;
  CHECK_EQ(f.method.execute(), Error::InvalidArgument);
  CHECK(f.record().instruction == 0 && f.record().op == 0);
}

ETIR_TEST(a_jump_is_taken_unless_all_of_a_tensor_is_true) {
  Small small;
  Node* tensor = small.tensor(64);
  tensor->fields[0] = small.w.u8(static_cast<uint8_t>(ScalarType::Bool));
  small.values->children.push_back(small.value(Tag::Tensor, tensor));
  small.plan->fields[8] = small.w.to(small.w.vector<int64_t>({0, 96}));
  Node* jump = small.w.table({small.w.u32(2), small.w.u32(2)});
  small.instructions->children = {small.w.table({small.w.u8(4), small.w.to(jump)}), small.instruction};
  Fixture f(small);
  CHECK_EQ(f.load(f.needed, 96, 0), Error::Ok);
  CHECK_EQ(f.set(), Error::Ok);
  uint8_t* condition = f.method.value(2).payload.tensor->ptr<uint8_t>();
  for (const int all : {5, 6}) {
    std::memset(condition, 1, static_cast<size_t>(all));
    CHECK_EQ(f.method.execute(), Error::Ok);
    CHECK_EQ(f.output(5), all == 6 ? 12.0f : 0.0f);
  }
}

Span<uint8_t> given[3];

Error look(BackendInit& init, void**) {
  for (uint32_t i = 0; i < 3; ++i) given[i] = init.argument(i);
  return Error::Ok;
}

Error nothing(void*, KernelContext&, uint32_t) { return Error::Ok; }

ETIR_TEST(delegates_know_the_planned_bytes_of_their_arguments) {
  Small small;
  const Backend backend = {"TestBackend", nullptr, look, nothing};
  // Not as the kernel has them: its call, of an operator with the same number, does not count.
  Node* call = small.w.table({small.w.u32(0), small.w.to(small.w.vector<int32_t>({1, 0}))});
  small.instructions->children.push_back(small.w.table({small.w.u8(2), small.w.to(call)}));
  Node* reference = small.w.table({small.w.u8(0), small.w.u32(0)});
  Node* delegate = small.w.table({small.w.to(small.w.string("TestBackend")), small.w.to(reference), {}});
  small.plan->fields[7] = small.w.to(small.w.tables({delegate}));
  Node* data = small.w.table({small.w.to(small.w.vector<uint8_t>({1, 2, 3, 4}))});
  small.program->fields.push_back({});
  small.program->fields.push_back(small.w.to(small.w.tables({data})));
  Fixture f(small);
  f.backends = {&backend, 1};
  CHECK_EQ(f.load(f.needed, 64, 0), Error::Ok);
  const uint8_t* planned = static_cast<const uint8_t*>(f.planned_memory.get());
  CHECK(given[0].data == planned + 32 && given[0].size == 24);
  CHECK(given[1].data == planned && given[1].size == 24);
  CHECK_EQ(given[2].size, 0u);
}

// A file with a segment of bytes after the tables, of which `offsets` says where tensors start: constants, or what
// states begin with.
std::string with_segment(Small& small, size_t field, const std::vector<uint64_t>& offsets, const std::string& data) {
  Node* segment = small.w.table({small.w.u64(0), small.w.u64(data.size())});
  Node* places = small.w.table({small.w.u32(0), small.w.to(small.w.vector(offsets))});
  small.program->fields.resize(7);
  small.program->fields[4] = small.w.to(small.w.tables({segment}));
  small.program->fields[field] = small.w.to(field == 5 ? places : small.w.tables({places}));
  std::string bytes = small.w.file(small.program, "ET12", 32);
  const uint32_t length = 32;
  const uint64_t size = bytes.size(), base = (size + 15) / 16 * 16;
  std::memcpy(&bytes[8], "eh00", 4);
  std::memcpy(&bytes[12], &length, 4);
  std::memcpy(&bytes[16], &size, 8);
  std::memcpy(&bytes[24], &base, 8);
  bytes.resize(static_cast<size_t>(base));
  return bytes + data;
}

// A constant is not written, alone or in a list.
ETIR_TEST(what_kernels_write_is_no_constant) {
  static constexpr Kernel kWriting[] = {{"test::twice.out", twice, "TV>", 2}};
  static constexpr KernelTable kWritingTable = {kWriting, 1};
  for (const bool is_constant : {false, true}) {
    Small small;
    Node* tensor = small.tensor(32);
    if (is_constant) {
      tensor->fields[5] = small.w.u32(1);
      tensor->fields[6] = {};
    }
    Node* list = small.w.table({small.w.to(small.w.vector<int32_t>({1, 2}))});
    small.values->children.push_back(small.value(Tag::Tensor, tensor));
    small.values->children.push_back(small.value(Tag::TensorList, list));
    small.call->fields[1] = small.w.to(small.w.vector<int32_t>({0, 3, 0}));
    Fixture f(with_segment(small, 5, {0, 0}, std::string(24, 1)));
    refuse = is_constant ? 0 : 1;  // The kernel is called where nothing is in the way.
    CHECK_EQ(f.load(f.needed, 64, 0, kWritingTable), Error::Ok);
    CHECK_EQ(f.set(), Error::Ok);
    CHECK(f.method.execute() != Error::Ok);
    CHECK_EQ(f.record().check, is_constant ? Check::WriteToConstant : Check::KernelArgument);
    CHECK(f.record().op == 0 && (!is_constant || f.record().a == 1));
  }
}

// What lies in memory before does not matter: the rest of it is zero.
ETIR_TEST(a_state_begins_with_its_bytes) {
  for (const uint8_t before : {0, 5, 6, 7, 255}) {
    Small small;
    Node* state = small.tensor(64);
    state->fields[5] = small.w.u32(1);
    small.values->children.push_back(small.value(Tag::Tensor, state));
    small.plan->fields[8] = small.w.to(small.w.vector<int64_t>({0, 96}));
    Fixture f(with_segment(small, 6, {0, 0}, std::string(24, 6)));
    f.before = before;
    CHECK_EQ(f.load(f.needed, 96, 0), Error::Ok);
    CHECK_EQ(f.loader.held, 1);  // the program: the state's bytes have been copied
    const uint8_t* planned = static_cast<const uint8_t*>(f.planned_memory.get());
    for (int i = 0; i < 96; ++i) CHECK_EQ(planned[i], i < 64 || i >= 88 ? 0 : 6);
  }
}

ETIR_TEST(a_run_begins_at_the_first_instruction) {
  CHECK_EQ(Method().next_instruction(), 0u);
  Small small;
  Fixture f(small);
  CHECK_EQ(f.load(f.needed, 64, 0), Error::Ok);
  CHECK_EQ(f.method.next_instruction(), 0u);
}

ETIR_TEST(steps) {
  Small small;
  small.instructions->children.push_back(small.instruction);
  Fixture f(small);
  CHECK_EQ(f.method.step(), Error::InvalidState);
  CHECK_EQ(f.load(f.needed, 64, 0), Error::Ok);
  CHECK_EQ(f.set(), Error::Ok);
  CHECK_EQ(f.method.step(), Error::Ok);
  CHECK_EQ(f.set(), Error::InvalidState);
  CHECK_EQ(f.record().check, Check::MethodInProgress);
  CHECK_EQ(f.method.next_instruction(), 1u);
  CHECK_EQ(f.method.step(), Error::Ok);
  CHECK_EQ(f.method.step(), Error::EndOfMethod);
  CHECK_EQ(f.method.step(), Error::EndOfMethod);
  CHECK_EQ(f.method.reset(), Error::Ok);
  CHECK_EQ(f.method.step(), Error::Ok);
  CHECK_EQ(f.output(2), 6.0f);
}

}  // namespace
}  // namespace etir
