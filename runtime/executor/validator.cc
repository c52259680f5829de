#include "executor/validator.h"

#include <climits>

#include "executor/slots.h"

namespace etir {

bool is_permutation(const uint8_t* order, uint32_t rank) {
  uint32_t seen = 0;
  for (uint32_t position = 0; position < rank; ++position) {
    if (order[position] >= rank) return false;
    seen |= uint32_t{1} << order[position];
  }
  return seen == (uint32_t{1} << rank) - 1;
}

int64_t tensor_nbytes(ScalarType dtype, const uint8_t* sizes, uint32_t rank) {
  // A size of zero makes the product zero whatever comes after it, but the product of the others is still computed by
  // kernels that walk the outer dims only: so zeros count as ones here.
  uint64_t count = element_size(dtype);
  bool empty = false;
  for (uint32_t d = 0; d < rank; ++d) {
    const int32_t size = flat::read<int32_t>(sizes + 4 * d);
    if (size < 0) return -1;
    empty = empty || size == 0;
    if (size != 0 && __builtin_mul_overflow(count, static_cast<uint32_t>(size), &count)) return -1;
    if (count > static_cast<uint64_t>(PTRDIFF_MAX)) return -1;
  }
  return empty ? 0 : static_cast<int64_t>(count);
}

bool Program::Validator::fail(Check check, int64_t a, int64_t b) {
  error_.check = check;
  error_.a = a;
  error_.b = b;
  return false;
}

Tag Program::Validator::tag(uint32_t value) const {
  return static_cast<Tag>(values_.table(value).get<uint8_t>(slot::kValueType));
}

bool Program::Validator::check_plan(uint32_t index) {
  error_.method = static_cast<int32_t>(index);
  plan_ = program_.plans_.table(index);
  values_ = plan_.vector(slot::kValues);
  if (!check_buffers()) return false;
  for (uint32_t i = 0; i < values_.count(); ++i) {
    if (!check_value(i)) return false;
  }
  if (!check_indices(plan_.vector(slot::kInputs), Check::InputIndex)) return false;
  if (!check_indices(plan_.vector(slot::kOutputs), Check::OutputIndex)) return false;
  for (uint32_t i = 0; i < plan_.vector(slot::kDelegates).count(); ++i) {
    if (!check_delegate(i)) return false;
  }
  const flat::Vector chains = plan_.vector(slot::kChains);
  error_.instruction = 0;
  for (uint32_t c = 0; c < chains.count(); ++c) {
    const flat::Vector instructions = chains.table(c).vector(slot::kInstructions);
    if (!checker_.spend(instructions.count())) return false;
    for (uint32_t i = 0; i < instructions.count(); ++i) {
      if (!check_instruction(instructions.table(i), instructions.count())) return false;
      ++error_.instruction;
    }
  }
  error_.instruction = -1;
  error_.method = -1;
  return true;
}

bool Program::Validator::check_buffers() {
  const flat::Vector sizes = plan_.vector(slot::kBufferSizes);
  for (uint32_t i = 0; i < sizes.count(); ++i) {
    const int64_t size = sizes.get<int64_t>(i);
    if (size < 0 || static_cast<uint64_t>(size) > PTRDIFF_MAX) return fail(Check::PlannedBufferSize, i, size);
  }
  const flat::Vector devices = plan_.vector(slot::kBufferDevices);
  for (uint32_t i = 0; i < devices.count(); ++i) {
    const uint8_t type = devices.table(i).get<uint8_t>(1);
    if (type != 0) return fail(Check::PlannedBufferDevice, devices.table(i).get<int32_t>(0), type);
  }
  return true;
}

bool Program::Validator::check_value(uint32_t index) {
  const flat::Table value = values_.table(index).table(slot::kValueTable);
  const Tag kind = tag(index);
  switch (kind) {
    case Tag::Tensor:
      return check_tensor(index, value);
    case Tag::IntList:
    case Tag::TensorList:
    case Tag::OptionalTensorList:
      return check_list(index, kind, value.vector(0));
    default:
      return true;
  }
}

bool Program::Validator::check_list(uint32_t index, Tag kind, const flat::Vector& items) {
  if (!checker_.spend(items.count())) return false;
  const Tag wanted = kind == Tag::IntList ? Tag::Int : Tag::Tensor;
  for (uint32_t i = 0; i < items.count(); ++i) {
    const int64_t item = kind == Tag::IntList ? items.get<int64_t>(i) : items.get<int32_t>(i);
    if (kind == Tag::OptionalTensorList && item == -1) continue;
    if (item < 0 || item >= values_.count()) return fail(Check::ListIndex, index, item);
    const Tag found = tag(static_cast<uint32_t>(item));
    // An optional tensor that is a value of its own may be nothing.
    if (found != wanted && !(kind == Tag::OptionalTensorList && found == Tag::None)) {
      return fail(found == Tag::None ? Check::ListItemNone : Check::ListItemKind, index, item);
    }
  }
  return true;
}

bool Program::Validator::check_indices(const flat::Vector& indices, Check check) {
  for (uint32_t i = 0; i < indices.count(); ++i) {
    const int32_t value = indices.get<int32_t>(i);
    if (value < 0 || static_cast<uint32_t>(value) >= values_.count()) return fail(check, i, value);
  }
  return checker_.spend(indices.count());
}

bool Program::Validator::check_tensor(uint32_t index, const flat::Table& tensor) {
  const uint8_t number = tensor.get<uint8_t>(slot::kDtype);
  const ScalarType dtype = static_cast<ScalarType>(number);
  if (element_size(dtype) == 0) return fail(Check::TensorDtype, index, number);
  const int32_t storage_offset = tensor.get<int32_t>(slot::kStorageOffset);
  const uint8_t layout = tensor.get<uint8_t>(slot::kLayout);
  if (storage_offset != 0 || layout != 0) return fail(Check::TensorLayout, index, storage_offset + layout);
  const flat::Vector sizes = tensor.vector(slot::kSizes);
  const flat::Vector order = tensor.vector(slot::kDimOrder);
  const uint32_t rank = sizes.count();
  if (rank > kMaxRank) return fail(Check::TensorRank, index, rank);
  if (order.count() != rank || !is_permutation(order.items(), rank)) return fail(Check::TensorDimOrder, index);
  for (uint32_t d = 0; d < rank; ++d) {
    if (sizes.get<int32_t>(d) < 0) return fail(Check::TensorSize, index, sizes.get<int32_t>(d));
  }
  const int64_t nbytes = tensor_nbytes(dtype, sizes.items(), rank);
  if (nbytes < 0) return fail(Check::TensorTooLarge, index);
  const uint8_t dynamism = tensor.get<uint8_t>(slot::kDynamism);
  if (dynamism > static_cast<uint8_t>(Dynamism::Unbound)) return fail(Check::TensorDynamism, index, dynamism);
  return check_data(index, tensor, static_cast<uint64_t>(nbytes), element_alignment(dtype));
}

bool Program::Validator::check_data(uint32_t index, const flat::Table& tensor, uint64_t nbytes, uint32_t alignment) {
  const uint32_t data = tensor.get<uint32_t>(slot::kDataIndex);
  const flat::Table allocation = tensor.table(slot::kAllocationInfo);
  const flat::Table extra = tensor.table(slot::kExtraInfo);
  uint8_t location = 0;
  if (extra.at != nullptr) {
    location = extra.get<uint8_t>(slot::kLocation);
    if (location > kLocationExternal) return fail(Check::TensorLocation, index, location);
    const uint8_t device = extra.get<uint8_t>(slot::kDeviceType);
    if (device != 0) return fail(Check::TensorLayout, index, device);
    if (location == kLocationExternal && extra.string(slot::kQualifiedName).size == 0) {
      return fail(Check::TensorExternalName, index);
    }
  }
  if (allocation.at != nullptr) {
    const flat::Vector buffers = plan_.vector(slot::kBufferSizes);
    const uint32_t id = allocation.get<uint32_t>(slot::kMemoryId);
    if (id == 0 || id >= buffers.count()) return fail(Check::TensorMemoryId, index, id);
    const uint64_t offset =
        uint64_t{allocation.get<uint32_t>(slot::kOffsetHigh)} << 32 | allocation.get<uint32_t>(slot::kOffsetLow);
    const uint64_t size = static_cast<uint64_t>(buffers.get<int64_t>(id));
    if (offset > size || nbytes > size - offset) {
      return fail(Check::TensorPlannedBounds, index, static_cast<int64_t>(offset));
    }
    if (offset % alignment != 0) return fail(Check::TensorPlannedAlignment, index, static_cast<int64_t>(offset));
  }
  if (location == kLocationExternal || data == 0) return true;
  if (allocation.at != nullptr) {
    const flat::Vector& offsets = program_.mutable_offsets_;
    if (data >= offsets.count()) return fail(Check::TensorMutableIndex, index, data);
    const uint64_t size = program_.segments_.table(program_.mutable_segment_).get<uint64_t>(slot::kSegmentSize);
    if (nbytes > size - offsets.get<uint64_t>(data)) {
      return fail(Check::TensorMutableBounds, index, static_cast<int64_t>(nbytes));
    }
    return true;
  }
  const flat::Vector& offsets = program_.constant_offsets_;
  if (data >= offsets.count()) return fail(Check::TensorConstantIndex, index, data);
  if (nbytes > program_.constants_size_ - offsets.get<uint64_t>(data)) {
    return fail(Check::TensorConstantBounds, index, static_cast<int64_t>(nbytes));
  }
  if (nbytes > 0 && reinterpret_cast<uintptr_t>(program_.constant(data)) % alignment != 0) {
    return fail(Check::TensorConstantAlignment, index, tensor.get<uint8_t>(slot::kDtype));
  }
  return true;
}

bool Program::Validator::check_delegate(uint32_t index) {
  const flat::Table reference = plan_.vector(slot::kDelegates).table(index).table(slot::kProcessed);
  const uint8_t location = reference.get<uint8_t>(slot::kReferenceLocation);
  const uint32_t data = reference.get<uint32_t>(slot::kReferenceIndex);
  if (location > 1) return fail(Check::DelegateDataLocation, index, location);
  if (location == 1) {
    if (data >= program_.segments_.count()) return fail(Check::SegmentIndex, data, program_.segments_.count());
    return true;
  }
  if (data >= program_.root_.vector(slot::kInlineDelegateData).count()) {
    return fail(Check::DelegateDataIndex, index, data);
  }
  return true;
}

bool Program::Validator::check_instruction(const flat::Table& instruction, uint32_t chain_size) {
  const flat::Table fields = instruction.table(slot::kInstructionTable);
  const uint32_t count = values_.count();
  const auto in_range = [count](int32_t value) { return value >= 0 && static_cast<uint32_t>(value) < count; };
  const int32_t first = fields.get<int32_t>(0);
  const InstructionType type = static_cast<InstructionType>(instruction.get<uint8_t>(slot::kInstructionType));
  if (type == InstructionType::KernelCall || type == InstructionType::DelegateCall) {
    const bool kernel = type == InstructionType::KernelCall;
    const uint32_t targets = plan_.vector(kernel ? slot::kOperators : slot::kDelegates).count();
    if (first < 0 || static_cast<uint32_t>(first) >= targets) {
      return fail(kernel ? Check::OpIndex : Check::DelegateIndex, first, targets);
    }
    const flat::Vector args = fields.vector(1);
    if (!checker_.spend(args.count())) return false;
    for (uint32_t i = 0; i < args.count(); ++i) {
      const int32_t value = args.get<int32_t>(i);
      if (!in_range(value)) return fail(Check::ArgumentIndex, i, value);
    }
    return true;
  }
  if (!in_range(first)) return fail(Check::ArgumentIndex, 0, first);
  const Tag kind = tag(static_cast<uint32_t>(first));
  const int32_t second = fields.get<int32_t>(1);
  switch (type) {
    case InstructionType::MoveCall:
      if (!in_range(second)) return fail(Check::ArgumentIndex, 1, second);
      if (tag(static_cast<uint32_t>(second)) != kind) return fail(Check::MoveKind, first, second);
      return true;
    case InstructionType::JumpFalseCall:
      if (kind != Tag::Bool && kind != Tag::Tensor) {
        return fail(Check::JumpCondition, first, static_cast<int64_t>(kind));
      }
      if (second < 0 || static_cast<uint32_t>(second) > chain_size) {
        return fail(Check::JumpDestination, second, chain_size);
      }
      return true;
    default:
      return kind == Tag::Tensor || fail(Check::FreeKind, first, static_cast<int64_t>(kind));
  }
}

}  // namespace etir
