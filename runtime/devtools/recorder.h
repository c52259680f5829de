// Records what a method does: 16 bytes for each boundary of its runs, into memory that the caller gives.
//
//   Record memory[1000];
//   Recorder recorder({memory, 1000}, clock);        // uint64_t clock(): a timer of the machine, or of the system
//   options.events = recorder.sink();                // of MethodOptions, or method.watch(recorder.sink())
//   method.execute();
//   send(recorder.records(), recorder.count());      // bytes as they are: et-inspect --records reads them
//
// The clock is read once at a boundary: the end of an instruction is the beginning of the next. Records hold no names:
// the program has them. When the memory is full, what comes is counted and not kept. For machines without a heap too;
// what hosts do with records is in devtools/recording.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/span.h"
#include "core/value.h"
#include "kernels/kernel.h"

namespace etir {

/// What a record is about. The first numbers are those of Boundary.
enum class RecordKind : uint16_t {
  Begin = 0,
  KernelCall = 1,
  DelegateCall = 2,
  MoveCall = 3,
  JumpFalseCall = 4,
  FreeCall = 5,
  End = 6,
  Failed = 7,
  Resume = 8,      ///< the run goes on: values have been copied, or the caller stepped
  NodeBegin = 16,  ///< operation `instruction` (the backend's id) of delegate `delegate` begins
  NodeEnd = 17,
};

/// One boundary. Numbers are in the order of the machine; all that etir runs on have the lowest byte first.
struct Record {
  uint64_t ticks;        ///< the clock, at the boundary
  uint32_t instruction;  ///< index in the method of the instruction that has ended; of a node, its id
  uint16_t kind;         ///< a RecordKind
  uint16_t delegate;     ///< of a node: index of the delegate in the method
};
static_assert(sizeof(Record) == 16, "records are sent as they lie in memory");

/// Takes values that instructions leave. `record` is the index of the instruction's record.
struct ValueSink {
  void (*take)(void* context, size_t record, const Values& values, uint32_t index) = nullptr;
  void* context = nullptr;
};

class Recorder {
 public:
  using Clock = uint64_t (*)();

  /// Neither may be null. The memory must live as long as anything is recorded.
  Recorder(Span<Record> memory, Clock clock) : memory_(memory), clock_(clock) {}

  /// Also hands values to `sink`: those of instructions `first` to `last` of the method, both included.
  void take_values(const ValueSink& sink, uint32_t first = 0, uint32_t last = UINT32_MAX) {
    values_ = sink;
    first_ = first;
    last_ = last;
  }
  /// What a method is given. The recorder must live as long as the method has it.
  EventSink sink();

  const Record* records() const { return memory_.data; }
  size_t count() const { return count_; }
  /// Records that there was no room for.
  uint64_t dropped() const { return dropped_; }
  /// Forgets all records.
  void clear() {
    count_ = 0;
    dropped_ = 0;
  }

 private:
  static void on_event(void* context, uint32_t delegate, uint32_t id, bool begin);
  static void on_instruction(void* context, Boundary boundary, uint32_t instruction);
  static void on_value(void* context, const Values& values, uint32_t index);
  void add(RecordKind kind, uint32_t instruction, uint32_t delegate);

  Span<Record> memory_;
  Clock clock_;
  size_t count_ = 0;
  uint64_t dropped_ = 0;
  ValueSink values_;
  uint32_t first_ = 0, last_ = UINT32_MAX;
};

}  // namespace etir
