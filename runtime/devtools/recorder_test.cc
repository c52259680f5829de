// The recorder: what it is told of runs and steps, of failures, of values, and when its memory is full.
#include "devtools/recorder.h"

#include <vector>

#include "executor/method.h"
#include "testing/file_writer.h"
#include "testing/testing.h"

namespace etir {
namespace {

using testing::Aligned;
using testing::Small;

uint64_t time_now = 0;
bool fails = false;

uint64_t clock() { return time_now += 10; }

void twice(KernelContext& ctx) {
  if (fails) return ctx.fail(Check::KernelArgument, 0, 42);
  if (!ctx.resize_like(ctx.tensor(1), ctx.tensor(0))) return;
  for (int64_t i = 0; i < ctx.tensor(0).numel(); ++i) {
    ctx.tensor(1).ptr<float>()[i] = 2 * ctx.tensor(0).ptr<float>()[i];
  }
}

constexpr Kernel kRows[] = {{"test::twice.out", twice, "T>T", 2}};
constexpr KernelTable kTable = {kRows, 1};

/// A method of three calls of one kernel, all from the input to the output, that is loaded and has its input.
struct Fixture {
  explicit Fixture(const EventSink& events) : bytes(file()), loader(bytes.data(), bytes.size()) {
    CHECK_EQ(program.load(loader), Error::Ok);
    buffer.data = planned.data();
    buffer.size = planned.size();
    MethodMemory parts;
    parts.method.base = memory.data();
    parts.method.size = memory.size();
    parts.planned = {&buffer, 1};
    MethodOptions options;
    options.kernels = {&kTable, 1};
    options.events = events;
    CHECK_EQ(method.load(program, 0, parts, options), Error::Ok);
    CHECK_EQ(method.set_input(0, TensorInput{data, ScalarType::Float, 2, sizes, nullptr}), Error::Ok);
    time_now = 0;
    fails = false;
  }
  static std::string file() {
    Small small;
    small.instructions->children = {small.instruction, small.instruction, small.instruction};
    return small.bytes();
  }

  Aligned bytes, memory = Aligned(1024), planned = Aligned(64);
  BufferDataLoader loader;
  Program program;
  PlannedBuffer buffer;
  float data[6] = {1, 2, 3, 4, 5, 6};
  int32_t sizes[2] = {2, 3};
  Method method;
};

void check(const Recorder& recorder, size_t i, RecordKind kind, uint32_t instruction, uint64_t ticks) {
  const Record& record = recorder.records()[i];
  CHECK_EQ(record.kind, static_cast<uint16_t>(kind));
  CHECK_EQ(record.instruction, instruction);
  CHECK_EQ(record.ticks, ticks);
}

ETIR_TEST(one_look_at_the_clock_for_each_boundary) {
  Record memory[16];
  Recorder recorder({memory, 16}, clock);
  Fixture f(recorder.sink());
  CHECK_EQ(f.method.execute(), Error::Ok);
  CHECK_EQ(recorder.count(), 5u);
  check(recorder, 0, RecordKind::Begin, 0, 10);
  for (uint32_t i = 0; i < 3; ++i) check(recorder, i + 1, RecordKind::KernelCall, i, 20 + 10 * i);
  check(recorder, 4, RecordKind::End, 3, 50);
  CHECK_EQ(time_now, 50u);
  // Not any more: nothing is recorded, and the clock is left alone.
  f.method.watch({});
  CHECK_EQ(f.method.execute(), Error::Ok);
  CHECK_EQ(recorder.count(), 5u);
  CHECK_EQ(time_now, 50u);
}

ETIR_TEST(steps_go_on_after_the_caller) {
  Record memory[16];
  Recorder recorder({memory, 16}, clock);
  Fixture f(recorder.sink());
  for (int i = 0; i < 3; ++i) {
    CHECK_EQ(f.method.step(), Error::Ok);
    time_now += 1000;
  }
  CHECK_EQ(recorder.count(), 7u);
  check(recorder, 2, RecordKind::Resume, 1, 1030);
  check(recorder, 3, RecordKind::KernelCall, 1, 1040);
  check(recorder, 4, RecordKind::Resume, 2, 2050);
  check(recorder, 6, RecordKind::End, 3, 2070);
}

ETIR_TEST(a_run_that_fails_says_so) {
  Record memory[16];
  Recorder recorder({memory, 16}, clock);
  Fixture f(recorder.sink());
  fails = true;
  CHECK_EQ(f.method.execute(), Error::InvalidArgument);
  CHECK_EQ(recorder.count(), 3u);
  check(recorder, 1, RecordKind::KernelCall, 0, 20);
  check(recorder, 2, RecordKind::Failed, 0, 30);
  CHECK_EQ(f.method.error_record().instruction, 0);
}

struct Taken {
  std::vector<size_t> records;
  std::vector<float> last;
};

void take(void* context, size_t record, const Values& values, uint32_t index) {
  Taken& taken = *static_cast<Taken*>(context);
  taken.records.push_back(record);
  CHECK(values.tags[index] == Tag::Tensor);
  taken.last.push_back(values.payloads[index].tensor->ptr<float>()[5]);
  time_now += 1000;
}

ETIR_TEST(taking_values_is_nobodys_time) {
  Record memory[16];
  Recorder recorder({memory, 16}, clock);
  Taken taken;
  recorder.take_values({take, &taken}, 1, 2);
  Fixture f(recorder.sink());
  CHECK_EQ(f.method.execute(), Error::Ok);
  // The first instruction is not asked for.
  check(recorder, 2, RecordKind::KernelCall, 1, 30);
  check(recorder, 3, RecordKind::Resume, 1, 1040);
  check(recorder, 4, RecordKind::KernelCall, 2, 1050);
  check(recorder, 5, RecordKind::Resume, 2, 2060);
  CHECK_EQ(taken.records.size(), 2u);
  CHECK(taken.records[0] == 2 && taken.records[1] == 4);
  CHECK(taken.last[0] == 12.0f && taken.last[1] == 12.0f);
}

ETIR_TEST(full_memory_is_a_count) {
  for (size_t room = 0; room < 6; ++room) {
    std::vector<Record> memory(room);
    Recorder recorder({memory.data(), room}, clock);
    Taken taken;
    recorder.take_values({take, &taken});
    EventSink sink = recorder.sink();
    sink.value = nullptr;
    Fixture f(sink);
    CHECK_EQ(f.method.execute(), Error::Ok);
    CHECK_EQ(recorder.count(), room < 5 ? room : 5u);
    CHECK_EQ(recorder.dropped(), room < 5 ? 5 - room : 0u);
    recorder.clear();
    CHECK(recorder.count() == 0 && recorder.dropped() == 0);
  }
  // Values of records that are not there are not taken.
  Record memory[2];
  Recorder recorder({memory, 2}, clock);
  Taken taken;
  recorder.take_values({take, &taken});
  Fixture f(recorder.sink());
  CHECK_EQ(f.method.execute(), Error::Ok);
  CHECK_EQ(taken.records.size(), 1u);
  CHECK_EQ(recorder.dropped(), 4u);
}

}  // namespace
}  // namespace etir
