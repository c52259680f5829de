// Delegates of a method: which backend they get, the memory they ask for, why they fail, and which methods share them.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "executor/method.h"
#include "testing/file_writer.h"
#include "testing/testing.h"

namespace etir {
namespace {

using testing::Aligned;
using testing::Field;
using testing::FileWriter;
using testing::Node;
using testing::Small;

void nothing(KernelContext&) {}
constexpr Kernel kRows[] = {{"test::twice.out", nothing, "T>T", 2}};
constexpr KernelTable kTable = {kRows, 1};

// Delegates are numbered as they are initialized: that is what their handle points to.
int handles[16];
int initialized = 0;
size_t wanted = 0;            // each asks for so much memory
std::vector<int> ran;         // the numbers of those that ran
std::vector<Sharing> shared;  // whether a number is shared; the last one stands for all beyond

Error init(BackendInit& given, void** handle) {
  CHECK(given.method == "forward");
  if (wanted > 0 && given.allocate(wanted) == nullptr) {
    return given.fail(Check::KernelTemp, static_cast<int64_t>(wanted));
  }
  handles[initialized] = initialized;
  *handle = &handles[initialized++];
  return Error::Ok;
}
Error execute(void* handle, KernelContext&, uint32_t) {
  ran.push_back(*static_cast<int*>(handle));
  return Error::Ok;
}
Sharing shareable(void* handle) {
  const size_t number = static_cast<size_t>(*static_cast<int*>(handle));
  return number < shared.size() ? shared[number] : shared.back();
}
constexpr Backend kBackend = {"TestBackend", nullptr, init, execute, nullptr, shareable};

/// A program whose delegates have the same bytes and, each, these compile specs; a call of each follows the kernel's.
std::string program_with(const std::vector<std::vector<std::pair<std::string, std::string>>>& delegates) {
  Small small;
  FileWriter& w = small.w;
  std::vector<Node*> rows;
  for (const auto& specs : delegates) {
    std::vector<Node*> tables;
    for (const auto& [key, value] : specs) tables.push_back(w.table({w.to(w.string(key)), w.to(w.string(value))}));
    Node* reference = w.table({w.u8(0), w.u32(0)});
    const Field list = tables.empty() ? Field{} : w.to(w.tables(tables));
    Node* call = w.table({w.u32(rows.size()), w.to(w.vector<int32_t>({0, 1}))});
    rows.push_back(w.table({w.to(w.string("TestBackend")), w.to(reference), list}));
    small.instructions->children.push_back(w.table({w.u8(2), w.to(call)}));
  }
  small.plan->fields[7] = w.to(w.tables(rows));
  small.program->fields.resize(4);
  small.program->fields[3] = w.to(w.tables({w.table({w.to(w.vector<uint8_t>({1, 2, 3, 4}))})}));
  return small.bytes();
}

struct Loaded {
  explicit Loaded(const std::string& file) : bytes(file), loader(bytes.data(), bytes.size()) {
    initialized = 0;
    wanted = 0;
    shared = {Sharing::May};
    CHECK_EQ(program.load(loader), Error::Ok);
  }
  Aligned bytes;
  BufferDataLoader loader;
  Program program;
};

/// A method in memory of its own, which has room for `room` bytes besides what the method needs.
struct Loading {
  explicit Loading(const Loaded& loaded, size_t room = 0)
      : program(loaded.program),
        needed(static_cast<size_t>(program.method_meta(uint32_t{0}).method_memory_size())),
        method_memory(needed + room),
        planned(64) {
    options.kernels = {&kTable, 1};
    options.backends = {&kBackend, 1};
    buffer.data = planned.data();
    buffer.size = 64;
    memory.method.base = method_memory.data();
    memory.method.size = needed + room;
    memory.planned = {&buffer, 1};
  }
  Error load() { return method.load(program, 0, memory, options); }
  /// The numbers of the delegates that a run calls.
  std::vector<int> run() {
    ran.clear();
    int32_t sizes[2] = {2, 3};
    float data[6] = {};
    CHECK_EQ(method.set_input(0, TensorInput{data, ScalarType::Float, 2, sizes, nullptr}), Error::Ok);
    CHECK_EQ(method.execute(), Error::Ok);
    return ran;
  }
  const Program& program;
  size_t needed;
  Aligned method_memory, planned;
  PlannedBuffer buffer;
  MethodMemory memory;
  MethodOptions options;
  Method method;
};

ETIR_TEST(a_delegate_without_its_backend_is_refused) {
  Loaded loaded(program_with({{}}));
  Loading f(loaded);
  f.options.backends = {};
  CHECK(f.load() != Error::Ok);
  CHECK(f.method.error_record().check == Check::BackendMissing && f.method.error_record().a == 0);
}

ETIR_TEST(delegates_say_why_they_fail) {
  Loaded loaded(program_with({{}}));
  Loading f(loaded);
  wanted = 64;
  CHECK(f.load() != Error::Ok);
  const ErrorRecord& record = f.method.error_record();
  CHECK(record.check == Check::KernelTemp && record.a == 64 && record.b == -1 && record.method == 0);
}

// The client's allocator is asked where method memory has no more, and only there.
ETIR_TEST(delegates_get_memory_from_the_method_first) {
  static int asked;
  static uint64_t block[16];
  const auto give = [](void* context, size_t bytes, size_t alignment) -> void* {
    ++asked;
    CHECK(context == block && bytes <= sizeof(block) && alignment == 8);
    return block;
  };
  for (const size_t room : {0, 80}) {
    Loaded loaded(program_with({{}}));
    Loading f(loaded, room);
    wanted = 64;
    asked = 0;
    f.options.delegates = {give, block};
    CHECK_EQ(f.load(), Error::Ok);
    CHECK_EQ(asked, room == 0 ? 1 : 0);
  }
}

ETIR_TEST(delegates_are_shared_with_those_that_have_the_same_specs) {
  Loaded loaded(program_with({{{"k", "a"}}, {{"k", "b"}}, {{"l", "a"}}, {{"k", "a"}, {"l", "a"}}, {}}));
  Loading first(loaded), second(loaded);
  CHECK_EQ(first.load(), Error::Ok);
  CHECK_EQ(initialized, 5);
  const Method* others[] = {&first.method};
  second.options.share = {others, 1};
  CHECK_EQ(second.load(), Error::Ok);
  CHECK_EQ(initialized, 5);
  CHECK(first.run() == (std::vector<int>{0, 1, 2, 3, 4}));
  CHECK(second.run() == (std::vector<int>{0, 1, 2, 3, 4}));
  CHECK(second.method.uses_delegates_of(first.method));
  CHECK(!first.method.uses_delegates_of(second.method));
}

ETIR_TEST(the_backend_says_which_delegates_are_shared) {
  for (const Sharing how : {Sharing::No, Sharing::May, Sharing::Must}) {
    for (const bool state : {false, true}) {
      Loaded loaded(program_with({{}, {{"k", "a"}}}));
      Loading first(loaded), second(loaded);
      CHECK_EQ(first.load(), Error::Ok);
      shared = {Sharing::No, how, Sharing::No};  // Number 1 is the second delegate of the first method.
      const Method* others[] = {&first.method};
      (state ? second.options.share_state : second.options.share) = {others, 1};
      CHECK_EQ(second.load(), Error::Ok);
      const bool is_shared = how == Sharing::Must || (how == Sharing::May && !state);
      CHECK_EQ(initialized, is_shared ? 3 : 4);
      CHECK(second.run() == (is_shared ? std::vector<int>{2, 1} : std::vector<int>{2, 3}));
      CHECK_EQ(second.method.uses_delegates_of(first.method), is_shared);
    }
  }
}

}  // namespace
}  // namespace etir
