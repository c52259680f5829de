// What the file says about a method, read when asked for.
#include <cstring>

#include "executor/method.h"
#include "executor/slots.h"
#include "executor/validator.h"

namespace etir {

Payload literal(Tag tag, const flat::Table& table) {
  Payload payload = {};
  switch (tag) {
    case Tag::None:
    case Tag::Tensor:
      break;
    case Tag::Int:
    case Tag::Double:
      payload.integer = table.get<int64_t>(0);
      break;
    case Tag::Bool:
      payload.boolean = table.get<uint8_t>(0) != 0;
      break;
    default:
      payload.vector = table.follow(0);
  }
  return payload;
}

StringView MethodMeta::name() const { return plan_.string(slot::kName); }
flat::Table MethodMeta::value(uint32_t i) const {
  return plan_.vector(slot::kValues).table(i).table(slot::kValueTable);
}
uint32_t MethodMeta::num_values() const { return plan_.vector(slot::kValues).count(); }
Tag MethodMeta::value_tag(uint32_t i) const {
  return static_cast<Tag>(plan_.vector(slot::kValues).table(i).get<uint8_t>(slot::kValueType));
}

TensorInfo MethodMeta::value_tensor(uint32_t i) const {
  TensorInfo info;
  const flat::Table tensor = value(i);
  const flat::Vector sizes = tensor.vector(slot::kSizes);
  info.dtype = static_cast<ScalarType>(tensor.get<uint8_t>(slot::kDtype));
  info.rank = static_cast<uint8_t>(sizes.count());
  info.dynamism = static_cast<Dynamism>(tensor.get<uint8_t>(slot::kDynamism));
  info.planned = tensor.table(slot::kAllocationInfo).at != nullptr;
  info.sizes = reinterpret_cast<const int32_t*>(sizes.items());
  info.dim_order = tensor.vector(slot::kDimOrder).items();
  info.nbytes = static_cast<uint64_t>(tensor_nbytes(info.dtype, sizes.items(), info.rank));
  const flat::Table extra = tensor.table(slot::kExtraInfo);
  bool has_data = tensor.get<uint32_t>(slot::kDataIndex) != 0;
  if (extra.at != nullptr) {
    info.name = extra.string(slot::kQualifiedName);
    has_data = has_data || extra.get<uint8_t>(slot::kLocation) == kLocationExternal;
  }
  info.constant = has_data && !info.planned;
  return info;
}

uint32_t MethodMeta::num_inputs() const { return plan_.vector(slot::kInputs).count(); }
int32_t MethodMeta::input_index(uint32_t i) const { return plan_.vector(slot::kInputs).get<int32_t>(i); }
Tag MethodMeta::input_tag(uint32_t i) const { return value_tag(input_index(i)); }
TensorInfo MethodMeta::input_tensor(uint32_t i) const { return value_tensor(input_index(i)); }

Value MethodMeta::input_value(uint32_t i) const {
  Value result;
  result.tag = input_tag(i);
  const flat::Table number = value(input_index(i));
  result.payload = literal(result.tag, number);
  return result;
}

uint32_t MethodMeta::num_outputs() const { return plan_.vector(slot::kOutputs).count(); }
int32_t MethodMeta::output_index(uint32_t i) const { return plan_.vector(slot::kOutputs).get<int32_t>(i); }
Tag MethodMeta::output_tag(uint32_t i) const { return value_tag(output_index(i)); }
TensorInfo MethodMeta::output_tensor(uint32_t i) const { return value_tensor(output_index(i)); }

uint32_t MethodMeta::num_planned_buffers() const {
  const uint32_t count = plan_.vector(slot::kBufferSizes).count();
  return count == 0 ? 0 : count - 1;
}
uint64_t MethodMeta::planned_buffer_size(uint32_t i) const {
  return static_cast<uint64_t>(plan_.vector(slot::kBufferSizes).get<int64_t>(i + 1));
}

StringView MethodMeta::input_encoding() const {
  const flat::Table containers = plan_.table(slot::kContainers);
  return containers.at == nullptr ? StringView{} : containers.string(0);
}
StringView MethodMeta::output_encoding() const {
  const flat::Table containers = plan_.table(slot::kContainers);
  return containers.at == nullptr ? StringView{} : containers.string(1);
}

uint32_t MethodMeta::num_instructions() const {
  const flat::Vector chains = plan_.vector(slot::kChains);
  uint32_t count = 0;
  for (uint32_t c = 0; c < chains.count(); ++c) count += chains.table(c).vector(slot::kInstructions).count();
  return count;
}

bool MethodMeta::input_varies(uint32_t i) const {
  const int32_t wanted = input_index(i);
  const flat::Vector chains = plan_.vector(slot::kChains);
  for (uint32_t c = 0; c < chains.count(); ++c) {
    const flat::Vector instructions = chains.table(c).vector(slot::kInstructions);
    for (uint32_t n = 0; n < instructions.count(); ++n) {
      const flat::Table instruction = instructions.table(n);
      const auto type = static_cast<InstructionType>(instruction.get<uint8_t>(slot::kInstructionType));
      if (type != InstructionType::KernelCall) continue;
      const flat::Table call = instruction.table(slot::kInstructionTable);
      const flat::Vector args = call.vector(1);
      const uint32_t op = static_cast<uint32_t>(call.get<int32_t>(0));
      if (args.count() == 0 || args.get<int32_t>(0) != wanted || op >= num_operators()) continue;
      const StringView name = operator_name(op);
      constexpr char kMark[] = "etir::check_number";
      if (name.size == sizeof(kMark) - 1 && std::memcmp(name.data, kMark, name.size) == 0) return true;
    }
  }
  return false;
}

StringView MethodMeta::instruction_text(uint32_t i) const {
  const flat::Vector chains = plan_.vector(slot::kChains);
  for (uint32_t c = 0; c < chains.count(); ++c) {
    const flat::Vector instructions = chains.table(c).vector(slot::kInstructions);
    if (i >= instructions.count()) {
      i -= instructions.count();
      continue;
    }
    const flat::Table instruction = instructions.table(i);
    const auto type = static_cast<InstructionType>(instruction.get<uint8_t>(slot::kInstructionType));
    if (type != InstructionType::KernelCall) break;
    const flat::Vector args = instruction.table(slot::kInstructionTable).vector(1);
    const uint32_t last = args.count() == 0 ? num_values() : static_cast<uint32_t>(args.get<int32_t>(args.count() - 1));
    if (last >= num_values() || value_tag(last) != Tag::String) break;
    return value(last).string(0);
  }
  return StringView{};
}

uint32_t MethodMeta::num_operators() const { return plan_.vector(slot::kOperators).count(); }
StringView MethodMeta::operator_name(uint32_t i) const { return plan_.vector(slot::kOperators).table(i).string(0); }
StringView MethodMeta::operator_overload(uint32_t i) const { return plan_.vector(slot::kOperators).table(i).string(1); }
uint32_t MethodMeta::num_delegates() const { return plan_.vector(slot::kDelegates).count(); }
StringView MethodMeta::delegate_id(uint32_t i) const {
  return plan_.vector(slot::kDelegates).table(i).string(slot::kDelegateId);
}

uint64_t MethodMeta::method_memory_size() const {
  const uint64_t values = num_values();
  uint64_t bytes = (sizeof(Payload) + sizeof(Tag)) * values + uint64_t{sizeof(Method::Operator)} * num_operators() +
                   uint64_t{sizeof(Method::Delegate)} * num_delegates() + num_inputs();
  for (uint32_t i = 0; i < num_values(); ++i) {
    if (value_tag(i) != Tag::Tensor) continue;
    bytes += sizeof(Tensor);
    const flat::Table tensor = value(i);
    if (tensor.get<uint8_t>(slot::kDynamism) != 0) bytes += sizeof(int32_t) * tensor.vector(slot::kSizes).count();
  }
  return bytes;
}

}  // namespace etir
