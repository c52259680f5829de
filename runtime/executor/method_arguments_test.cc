// What the inputs of a method and the arguments of its calls may be: texts, kinds, element types, nothing at all.
#include <string>
#include <vector>

#include "testing/small_method.h"

namespace etir {
namespace {

using testing::Fixture;
using testing::Node;
using testing::Small;

void nothing(KernelContext&) {}

/// What loading says of a call of a kernel with these arguments. Value 2 is nothing, 3 a number, 4 a text, 5 a list of
/// the tensors 0 and 1.
ErrorRecord load_with(const char* signature, const std::vector<int32_t>& arguments, uint32_t dtypes = UINT32_MAX,
                      ScalarType dtype = ScalarType::Float) {
  Small small;
  small.input->fields[0] = small.w.u8(static_cast<uint8_t>(dtype));
  Node* text = small.w.table({small.w.to(small.w.string("text"))});
  Node* list = small.w.table({small.w.to(small.w.vector<int32_t>({0, 1}))});
  small.values->children.push_back(small.value(Tag::None, small.w.table({})));
  small.values->children.push_back(small.integer(5));
  small.values->children.push_back(small.value(Tag::String, text));
  small.values->children.push_back(small.value(Tag::TensorList, list));
  small.call->fields[1] = small.w.to(small.w.vector(arguments));
  const Kernel row = {"test::twice.out", nothing, signature, 0, dtypes};
  Fixture f(small);
  f.load(f.needed, 64, 0, {&row, 1});
  return f.record();
}

ETIR_TEST(arguments_are_of_the_kinds_that_the_kernel_takes) {
  constexpr Tag kTags[] = {Tag::Tensor, Tag::Tensor, Tag::None, Tag::Int, Tag::String, Tag::TensorList};
  const std::vector<std::pair<std::string, std::vector<int>>> takers = {
      {"T", {0, 1}}, {"t", {0, 1, 2}}, {"I", {3}}, {"N", {3}},    {"n", {2, 3}}, {"B", {}},
      {"S", {4}},    {"s", {2, 4}},    {"V", {5}}, {"v", {2, 5}}, {"W", {5}},    {"L", {}},
  };
  for (const auto& [letter, taken] : takers) {
    for (int value = 0; value < 6; ++value) {
      bool is_taken = false;
      for (const int one : taken) is_taken = is_taken || one == value;
      const ErrorRecord record = load_with(("T" + letter + ">T").c_str(), {0, value, 1, 1});
      const Check wrong = kTags[value] == Tag::None ? Check::ArgumentNone : Check::ArgumentKind;
      CHECK_EQ(record.check, is_taken ? Check::None : wrong);
      if (!is_taken) CHECK(record.a == 1 && record.b == static_cast<int64_t>(kTags[value]) && record.op == 0);
    }
  }
}

// Byte has the number 0.
ETIR_TEST(element_types_that_a_kernel_leaves_out_are_named) {
  for (const ScalarType dtype : {ScalarType::Byte, ScalarType::Int, ScalarType::Float}) {
    const uint32_t others = dtype_bit(ScalarType::Double) | (dtype == ScalarType::Float ? 0 : kFloats);
    for (const std::vector<int32_t>& arguments : {std::vector<int32_t>{0, 1, 1}, std::vector<int32_t>{5, 1, 1}}) {
      const char* signature = arguments[0] == 5 ? "V>T" : "T>T";
      const ErrorRecord record = load_with(signature, arguments, others, dtype);
      CHECK(record.check == Check::ArgumentLeftOut && record.a == 0 && record.b == static_cast<int64_t>(dtype));
      CHECK_EQ(load_with(signature, arguments, others | kAllInts | kFloats, dtype).check, Check::None);
    }
  }
}

#if ETIR_NARROW_KERNELS
int narrow_calls = 0, wide_calls = 0;

// An operator of which a module for an instruction set has floats only.
ETIR_TEST(a_call_has_the_first_kernel_that_takes_its_element_types) {
  Small small;
  Node* integers = small.tensor(32);
  integers->fields[0] = small.w.u8(static_cast<uint8_t>(ScalarType::Int));
  small.values->children.push_back(small.value(Tag::Tensor, integers));
  const auto call = [&](int32_t argument) {
    Node* fields = small.w.table({small.w.u32(0), small.w.to(small.w.vector<int32_t>({argument, 1, 1}))});
    small.instructions->children.push_back(small.w.table({small.w.u8(1), small.w.to(fields)}));
  };
  call(2), call(0);
  const Kernel narrow = {"test::twice.out", [](KernelContext&) { ++narrow_calls; }, "T>T", 2, kFloats};
  const Kernel other = {"test::twice.out", nothing, "TT>T", 2, UINT32_MAX};
  const Kernel wide = {"test::twice.out", [](KernelContext&) { ++wide_calls; }, "T>T", 2, kFloats | kAllInts};
  Fixture f(small);
  f.further = {&wide, 1};
  CHECK_EQ(f.load(f.needed, 64, 0, {&narrow, 1}), Error::Ok);
  CHECK_EQ(f.set(), Error::Ok);
  CHECK_EQ(f.method.execute(), Error::Ok);
  CHECK_EQ(narrow_calls, 2);
  CHECK_EQ(wide_calls, 1);
  // Of one with another signature all calls are.
  f.further = {&other, 1};
  CHECK(f.load(f.needed, 64, 0, {&narrow, 1}) != Error::Ok);
  CHECK(f.record().check == Check::ArgumentCount && f.record().op == 0);
}
#endif

ETIR_TEST(a_text_is_the_one_that_the_program_was_compiled_for) {
  for (const std::string own : {"text", ""}) {
    Small small;
    Node* text = small.w.table({small.w.to(small.w.string(own))});
    small.values->children.push_back(small.value(Tag::String, text));
    small.plan->fields[3] = small.w.to(small.w.vector<int32_t>({0, 2}));
    Fixture f(small);
    CHECK_EQ(f.load(f.needed, 64, 0), Error::Ok);
    for (const std::string given : {"text", "test", "texts", ""}) {
      f.method.set_input(1, StringView{given.data(), static_cast<uint32_t>(given.size())});
      CHECK_EQ(f.record().check, given == own ? Check::None : Check::InputValue);
      if (given != own) CHECK_EQ(f.record().a, 1);
    }
    CHECK_EQ(f.method.set_input(0, StringView{"text", 4}), Error::InvalidArgument);
    CHECK_EQ(f.record().check, Check::InputKind);
    CHECK_EQ(f.method.set_input(2, StringView{"text", 4}), Error::InvalidArgument);
    CHECK_EQ(f.record().check, Check::InputNumber);
  }
}

ETIR_TEST(a_buffer_of_size_zero_need_not_exist) {
  Small small;
  small.plan->fields[8] = small.w.to(small.w.vector<int64_t>({0, 0}));
  for (Node* tensor : {small.input, small.output}) {
    tensor->fields[2] = small.w.to(small.w.vector<int32_t>({0, 3}));
    tensor->fields[6] = small.w.to(small.w.table({small.w.u32(1), small.w.u32(0), small.w.u32(0)}));
  }
  Fixture f(small);
  CHECK_EQ(f.meta.input_tensor(0).nbytes, 0u);
  CHECK_EQ(f.load(f.needed, 0, 0), Error::Ok);
  MethodMemory memory;
  memory.method = {static_cast<uint8_t*>(f.method_memory.get()), f.needed};
  const PlannedBuffer none;
  memory.planned = {&none, 1};
  MethodOptions options;
  options.kernels = {&testing::kTable, 1};
  CHECK_EQ(f.method.load(f.program, 0, memory, options), Error::Ok);
  CHECK_EQ(f.set(0, 3), Error::Ok);
  CHECK_EQ(f.method.execute(), Error::Ok);
}

// Instructions that free tensors are for those whose memory an allocator gave.
ETIR_TEST(planned_tensors_outlive_what_frees_them) {
  Small small;
  const auto free = [&](uint32_t value) {
    return small.w.table({small.w.u8(5), small.w.to(small.w.table({small.w.u32(value)}))});
  };
  small.instructions->children = {free(1), small.instruction, free(0), free(1)};
  Fixture f(small);
  CHECK_EQ(f.load(f.needed, 64, 0), Error::Ok);
  for (int again = 0; again < 2; ++again) {
    CHECK_EQ(f.set(), Error::Ok);
    CHECK_EQ(f.method.execute(), Error::Ok);
    CHECK_EQ(f.output(5), 12.0f);
  }
}

}  // namespace
}  // namespace etir
