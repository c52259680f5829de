#include "devtools/recorder.h"

namespace etir {

EventSink Recorder::sink() {
  EventSink sink;
  sink.event = on_event;
  sink.instruction = on_instruction;
  sink.value = values_.take == nullptr ? nullptr : on_value;
  sink.context = this;
  return sink;
}

void Recorder::add(RecordKind kind, uint32_t instruction, uint32_t delegate) {
  if (count_ == memory_.size) {
    ++dropped_;
    return;
  }
  Record& record = memory_.data[count_++];
  record.instruction = instruction;
  record.kind = static_cast<uint16_t>(kind);
  record.delegate = static_cast<uint16_t>(delegate);
  record.ticks = clock_();
}

void Recorder::on_event(void* context, uint32_t delegate, uint32_t id, bool begin) {
  static_cast<Recorder*>(context)->add(begin ? RecordKind::NodeBegin : RecordKind::NodeEnd, id, delegate);
}

void Recorder::on_instruction(void* context, Boundary boundary, uint32_t instruction) {
  static_cast<Recorder*>(context)->add(static_cast<RecordKind>(boundary), instruction, 0);
}

// The copying is not the next instruction's: that begins at the record that is written, or moved, here.
void Recorder::on_value(void* context, const Values& values, uint32_t index) {
  Recorder& self = *static_cast<Recorder*>(context);
  if (self.dropped_ > 0 || self.count_ == 0) return;
  const bool again = self.memory_.data[self.count_ - 1].kind == static_cast<uint16_t>(RecordKind::Resume);
  const size_t record = self.count_ - (again ? 2 : 1);
  const uint32_t instruction = self.memory_.data[record].instruction;
  if (instruction < self.first_ || instruction > self.last_) return;
  self.values_.take(self.values_.context, record, values, index);
  if (again) {
    self.memory_.data[self.count_ - 1].ticks = self.clock_();
  } else {
    self.add(RecordKind::Resume, instruction, 0);
  }
}

}  // namespace etir
