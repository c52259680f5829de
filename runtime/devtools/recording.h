// What a host keeps of runs: records, and the values that instructions left.
//
//   Recording recording(RecordingOptions{});
//   method->run(inputs, &outputs, &recording);       // host::Method; any number of times
//   write_etdump(recording, *method, ...)            // devtools/etdump_writer.h
//
// The memory of records and of values is address space until something is written there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/scalar_type.h"
#include "core/value.h"
#include "devtools/recorder.h"

namespace etir {
namespace host {

struct RecordingOptions {
  size_t most_records = size_t{1} << 24;
  bool values = false;  ///< whether values are kept, the outputs of the program included
  size_t most_value_bytes = size_t{1} << 30;
  uint32_t first = 0, last = UINT32_MAX;  ///< instructions whose values are kept
};

/// A tensor whose bytes are at `offset` of the values; -1 where it has none.
struct LoggedTensor {
  int64_t offset;
  uint32_t dims;  ///< where, in Recording::dims(), its sizes are; its strides, in elements, follow
  ScalarType dtype;
  uint8_t rank;
};

/// A value of the record's instruction, or an output of the program at the end of a run.
struct LoggedValue {
  Payload number = {};
  uint32_t record = 0;
  uint32_t first = 0, count = 0;  ///< of Recording::tensors(): those that it consists of
  Tag tag = Tag::None;            ///< Int, Bool, Double, Tensor or TensorList
  bool output = false;
};

/// Time that an instruction took.
struct InstructionTime {
  uint32_t instruction;
  int64_t nanoseconds;
};

/// Nanoseconds of the steady clock.
uint64_t nanoseconds();
/// The instructions of all runs, in the order of execution.
std::vector<InstructionTime> instruction_times(const Recorder& recorder);

class Recording {
 public:
  explicit Recording(const RecordingOptions& options = {});
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// Whether the machine gave memory for it.
  bool ok() const { return ok_; }
  Recorder& recorder() { return recorder_; }
  const Recorder& recorder() const { return recorder_; }
  /// In the order of their records.
  const std::vector<LoggedValue>& values() const { return values_; }
  const std::vector<LoggedTensor>& tensors() const { return tensors_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  const uint8_t* value_bytes() const { return static_cast<const uint8_t*>(bytes_.get()); }
  size_t num_value_bytes() const { return used_; }
  /// Values that there was no room for.
  uint64_t dropped_values() const { return dropped_; }
  bool keeps_values() const { return options_.values; }
  /// Keeps a value: of a record, or an output of the run that ended there.
  void keep(size_t record, const Values& values, uint32_t index, bool output);

 private:
  static void take(void* context, size_t record, const Values& values, uint32_t index);
  bool keep(const Tensor& tensor);

  const RecordingOptions options_;
  std::shared_ptr<void> records_, bytes_;
  size_t room_ = 0, used_ = 0;
  bool ok_ = false;
  uint64_t dropped_ = 0;
  std::vector<LoggedValue> values_;
  std::vector<LoggedTensor> tensors_;
  std::vector<int64_t> dims_;
  Recorder recorder_;
};

}  // namespace host
}  // namespace etir
