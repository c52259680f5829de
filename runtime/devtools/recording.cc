#include "devtools/recording.h"

#include <chrono>
#include <cstring>

#include "platform/host_memory.h"

namespace etir {
namespace host {

namespace {

/// Where values begin in the buffer, as in that of the stock runtime.
constexpr size_t kValueAlignment = 64;
/// Values of a run, to make room for: more take a little longer.
constexpr size_t kExpected = 1 << 14;

}  // namespace

uint64_t nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

std::vector<InstructionTime> instruction_times(const Recorder& recorder) {
  std::vector<InstructionTime> times;
  uint64_t last = 0;
  for (size_t i = 0; i < recorder.count(); ++i) {
    const Record& record = recorder.records()[i];
    if (record.kind > static_cast<uint16_t>(RecordKind::Resume)) continue;
    if (record.kind >= static_cast<uint16_t>(RecordKind::KernelCall) &&
        record.kind <= static_cast<uint16_t>(RecordKind::FreeCall)) {
      times.push_back({record.instruction, static_cast<int64_t>(record.ticks - last)});
    }
    last = record.ticks;
  }
  return times;
}

Recording::Recording(const RecordingOptions& options) : options_(options), recorder_({nullptr, 0}, nanoseconds) {
  size_t bytes = 0;
  records_ = reserve_memory(options_.most_records * sizeof(Record), &bytes);
  const size_t count = bytes / sizeof(Record);
  recorder_ =
      Recorder({static_cast<Record*>(records_.get()), count < options_.most_records ? count : options_.most_records},
               nanoseconds);
  ok_ = records_ != nullptr;
  if (!options_.values) return;
  bytes_ = reserve_memory(options_.most_value_bytes, &room_);
  if (room_ > options_.most_value_bytes) room_ = options_.most_value_bytes;
  ok_ = ok_ && bytes_ != nullptr;
  recorder_.take_values({take, this}, options_.first, options_.last);
  values_.reserve(kExpected);
  tensors_.reserve(kExpected);
  dims_.reserve(4 * kExpected);
}

void Recording::take(void* context, size_t record, const Values& values, uint32_t index) {
  static_cast<Recording*>(context)->keep(record, values, index, false);
}

void Recording::keep(size_t record, const Values& values, uint32_t index, bool output) {
  // What refers to records and dims has 32 bits.
  constexpr size_t kMost = UINT32_MAX - 2 * kMaxRank;
  if (record > kMost || dims_.size() > kMost || tensors_.size() > kMost) {
    ++dropped_;
    return;
  }
  LoggedValue value;
  value.record = static_cast<uint32_t>(record);
  value.output = output;
  value.tag = values.tags[index];
  value.number = values.payloads[index];
  value.first = static_cast<uint32_t>(tensors_.size());
  bool kept = true;
  switch (value.tag) {
    case Tag::Int:
    case Tag::Bool:
    case Tag::Double:
      break;
    case Tag::Tensor:
      kept = keep(*value.number.tensor);
      break;
    case Tag::TensorList: {
      const TensorList list(value.number.vector, values);
      for (size_t i = 0; i < list.size() && kept; ++i) kept = keep(list[i]);
      break;
    }
    default:
      return;  // None, and what only the compiler writes
  }
  if (!kept) {
    ++dropped_;
    tensors_.resize(value.first);
    return;
  }
  value.count = static_cast<uint32_t>(tensors_.size()) - value.first;
  values_.push_back(value);
}

bool Recording::keep(const Tensor& tensor) {
  LoggedTensor logged = {-1, static_cast<uint32_t>(dims_.size()), tensor.dtype, tensor.rank};
  const size_t nbytes = tensor.data == nullptr ? 0 : tensor.nbytes();
  if (nbytes > 0) {
    const size_t start = (used_ + kValueAlignment - 1) / kValueAlignment * kValueAlignment;
    if (start > room_ || nbytes > room_ - start) return false;
    std::memcpy(static_cast<uint8_t*>(bytes_.get()) + start, tensor.data, nbytes);
    logged.offset = static_cast<int64_t>(start);
    used_ = start + nbytes;
  }
  int64_t dims[2 * kMaxRank];
  for (int d = 0; d < tensor.rank; ++d) dims[d] = tensor.sizes[d];
  tensor.strides(dims + tensor.rank);
  dims_.insert(dims_.end(), dims, dims + 2 * tensor.rank);
  tensors_.push_back(logged);
  return true;
}

}  // namespace host
}  // namespace etir
