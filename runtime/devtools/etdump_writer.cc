#include "devtools/etdump_writer.h"

#include <cstdio>
#include <cstring>

#include "backends/native/sha256.h"
#include "devtools/flatbuffer_builder.h"

namespace etir {
namespace host {

namespace {

using Handle = FlatBufferBuilder::Handle;

/// Kinds of values in the file.
enum class ValueType : uint8_t { Null, Int, Bool, Float, Double, Tensor, TensorList, String };

/// The text as a JSON string.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      result += c;
      continue;
    }
    char escape[8];
    std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
    result += escape;
  }
  return result + '"';
}

class Writer {
 public:
  Writer(const Recording& recording, const Method& method)
      : recording_(recording), method_(method), module_(*method.module()) {}

  std::string write() {
    write_load();
    for (const Record* record = recording_.recorder().records(); at_ < recording_.recorder().count(); ++at_) {
      write(record[at_]);
    }
    if (open_) end_block("Execute");
    const Handle root = builder_.table({{}, FlatBufferBuilder::to(builder_.tables(blocks_))});
    return builder_.finish(root, "ED00");
  }

 private:
  struct Node {
    uint16_t delegate;
    uint32_t id;
    uint64_t start, end;
    bool ended;
  };

  void write_load() {
    const Bytes& program = module_.bytes();
    uint8_t digest[32];
    sha256(static_cast<const uint8_t*>(program.data), program.size, digest);
    std::string hex;
    for (const uint8_t byte : digest) {
      char text[3];
      std::snprintf(text, sizeof(text), "%02x", byte);
      hex += text;
    }
    const StringView name = method_.meta().name();
    const std::string said = "{\"runtime\": \"etir\", \"method\": " + quoted(std::string(name.data, name.size)) +
                             ", \"program\": \"" + hex +
                             "\", \"dropped\": " + std::to_string(recording_.recorder().dropped()) +
                             ", \"dropped_values\": " + std::to_string(recording_.dropped_values()) + "}";
    const auto [start, end] = method_.load_ticks();
    profile_event("Method::init", -1, 0, start, end, nullptr, builder_.bytes(said));
    profile_event("Program::load_method", -1, 0, start, end);
    end_block("Default");
  }

  void write(const Record& record) {
    switch (static_cast<RecordKind>(record.kind)) {
      case RecordKind::Begin:
        if (open_) end_block("Execute");
        open_ = true;
        begin_ = record.ticks;
        break;
      case RecordKind::Resume:
        break;
      case RecordKind::NodeBegin:
        nodes_.push_back({record.delegate, record.instruction, record.ticks, record.ticks, false});
        break;
      case RecordKind::NodeEnd:
        for (size_t i = nodes_.size(); i-- > 0;) {
          Node& node = nodes_[i];
          if (node.ended || node.id != record.instruction || node.delegate != record.delegate) continue;
          node.end = record.ticks;
          node.ended = true;
          break;
        }
        return;
      case RecordKind::End:
      case RecordKind::Failed:
        profile_event("Method::execute", -1, 0, begin_, record.ticks);
        write_values(-1, 0);
        if (open_) end_block("Execute");
        open_ = false;
        break;
      default:
        write_instruction(record);
    }
    if (record.kind != static_cast<uint16_t>(RecordKind::NodeBegin)) last_ = record.ticks;
  }

  void write_instruction(const Record& record) {
    static constexpr const char* kNames[] = {"", "OPERATOR_CALL", "DELEGATE_CALL", "MOVE_CALL", "JF_CALL", "FREE_CALL"};
    const Module::Place place = module_.place(method_.meta().index(), record.instruction);
    for (const Node& node : nodes_) {
      if (node.ended) profile_event(nullptr, place.chain, place.instruction, node.start, node.end, &node.id);
    }
    nodes_.clear();
    write_values(place.chain, place.instruction);
    if (record.kind == static_cast<uint16_t>(RecordKind::KernelCall)) {
      std::string name = module_.instruction_label(method_.meta().index(), record.instruction);
      const size_t colons = name.find("::");
      if (colons != std::string::npos) name = name.substr(colons + 2);
      profile_event(("native_call_" + name).c_str(), place.chain, place.instruction, last_, record.ticks);
    }
    profile_event(kNames[record.kind], place.chain, place.instruction, last_, record.ticks);
  }

  /// The values of the record that is being written. They are in the order of their records.
  void write_values(int64_t chain, int64_t instruction) {
    const std::vector<LoggedValue>& values = recording_.values();
    while (next_value_ < values.size() && values[next_value_].record < at_) ++next_value_;
    for (; next_value_ < values.size() && values[next_value_].record == at_; ++next_value_) {
      const Handle value = write_value(values[next_value_]);
      const Handle event = builder_.table({FlatBufferBuilder::u64(static_cast<uint64_t>(chain)),
                                           FlatBufferBuilder::i32(instruction, -1), FlatBufferBuilder::to(value)});
      events_.push_back(builder_.table({{}, {}, FlatBufferBuilder::to(event)}));
    }
  }

  Handle write_value(const LoggedValue& value) {
    using B = FlatBufferBuilder;
    std::vector<B::Field> fields(8);
    const auto kind = [&fields](ValueType type) { fields[0] = B::u8(static_cast<uint8_t>(type)); };
    switch (value.tag) {
      case Tag::Int:
        kind(ValueType::Int);
        fields[3] = B::to(builder_.table({B::u64(static_cast<uint64_t>(value.number.integer))}));
        break;
      case Tag::Bool:
        kind(ValueType::Bool);
        fields[6] = B::to(builder_.table({B::u8(value.number.boolean)}));
        break;
      case Tag::Double:
        kind(ValueType::Double);
        fields[5] = B::to(builder_.table({B::u64(static_cast<uint64_t>(value.number.integer))}));
        break;
      default: {
        std::vector<Handle> tensors;
        for (size_t i = 0; i < value.count; ++i) tensors.push_back(write_tensor(recording_.tensors()[value.first + i]));
        if (value.tag == Tag::Tensor) {
          kind(ValueType::Tensor);
          fields[1] = B::to(tensors[0]);
        } else {
          kind(ValueType::TensorList);
          fields[2] = B::to(builder_.table({B::to(builder_.tables(tensors))}));
        }
      }
    }
    if (value.output) fields[7] = B::to(builder_.table({B::u8(1)}));
    return builder_.table(fields);
  }

  Handle write_tensor(const LoggedTensor& tensor) {
    using B = FlatBufferBuilder;
    const int64_t* dims = recording_.dims().data() + tensor.dims;
    const Handle sizes = builder_.numbers(dims, tensor.rank);
    const Handle strides = builder_.numbers(dims + tensor.rank, tensor.rank);
    return builder_.table({B::u8(static_cast<uint8_t>(tensor.dtype)), B::to(sizes), B::to(strides),
                           B::u64(static_cast<uint64_t>(tensor.offset))});
  }

  void profile_event(const char* name, int64_t chain, int64_t instruction, uint64_t start, uint64_t end,
                     const uint32_t* id = nullptr, Handle metadata = 0) {
    using B = FlatBufferBuilder;
    const Handle text = name == nullptr ? 0 : builder_.string(name);
    const B::Field node = id == nullptr ? B::Field{} : B::i32(static_cast<int32_t>(*id), -1);
    const Handle event = builder_.table(
        {B::to(text), B::i32(chain), B::i32(instruction, -1), node, {}, B::to(metadata), B::u64(start), B::u64(end)});
    events_.push_back(builder_.table({B::to(event)}));
  }

  void end_block(const char* name) {
    using B = FlatBufferBuilder;
    const Handle events = events_.empty() ? 0 : builder_.tables(events_);
    blocks_.push_back(builder_.table({B::to(builder_.string(name)), {}, {}, B::to(events)}));
    events_.clear();
    nodes_.clear();
  }

  const Recording& recording_;
  const Method& method_;
  const Module& module_;
  FlatBufferBuilder builder_;
  std::vector<Handle> blocks_, events_;
  std::vector<Node> nodes_;
  size_t at_ = 0, next_value_ = 0;
  uint64_t begin_ = 0, last_ = 0;
  bool open_ = false;
};

}  // namespace

std::string write_etdump(const Recording& recording, const Method& method) { return Writer(recording, method).write(); }

}  // namespace host
}  // namespace etir
