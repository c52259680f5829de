// Loading a method: its memory, its values, its kernels.
#include "executor/method.h"

#include "core/error_text.h"
#include "executor/slots.h"
#include "executor/validator.h"

namespace etir {

static_assert(sizeof(Payload) % alignof(Tensor) == 0 && sizeof(Tensor) % alignof(Method::Operator) == 0 &&
                  sizeof(Method::Operator) % alignof(Method::Delegate) == 0 && alignof(Tensor) <= kMemoryAlignment,
              "the parts of method memory follow each other without padding");

namespace {

// The dim order as tensors have it: null where it is 0, 1, 2, ...
const uint8_t* reduced_order(const uint8_t* order, uint32_t rank) {
  for (uint32_t position = 0; position < rank; ++position) {
    if (order[position] != position) return order;
  }
  return nullptr;
}

uint32_t saturate(uint64_t count) { return count > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(count); }

// Whether an argument with a letter of a signature may be a value of a kind.
bool takes(char letter, Tag tag) {
  if (letter >= 'a') {
    if (tag == Tag::None) return true;
    letter = static_cast<char>(letter - 'a' + 'A');
  }
  switch (letter) {
    case 'T':
      return tag == Tag::Tensor;
    case 'I':
      return tag == Tag::Int;
    case 'B':
      return tag == Tag::Bool;
    case 'D':
    case 'N':
      return tag == Tag::Int || tag == Tag::Bool || tag == Tag::Double;
    case 'S':
      return tag == Tag::String;
    case 'L':
      return tag == Tag::IntList;
    case 'F':
      return tag == Tag::DoubleList;
    case 'O':
      return tag == Tag::BoolList;
    case 'V':
      return tag == Tag::TensorList;
    case 'W':
      return tag == Tag::TensorList || tag == Tag::OptionalTensorList;
    default:
      return false;
  }
}

// A kernel of the same operator for more element types; null when no table has one.
const Kernel* find_wider(const Span<const KernelTable>& tables, const Kernel& kernel) {
  for (const KernelTable& table : tables) {
    const Kernel* found = find_kernel(table, kernel.name, std::strlen(kernel.name));
    if (found != nullptr && (kernel.dtypes & ~found->dtypes) == 0 && found->dtypes != kernel.dtypes) return found;
  }
  return nullptr;
}

}  // namespace

void Method::note(Check check, int64_t a, int64_t b) {
  record_.check = check;
  record_.method = static_cast<int32_t>(index_);
  record_.a = a;
  record_.b = b;
}

// Called from everywhere: code size.
__attribute__((noinline)) Error Method::fail(Check check, int64_t a, int64_t b) {
  note(check, a, b);
  log();
  return record_.error();
}

#ifdef ETIR_LOG
void Method::log() const {
  const bool named = program_ != nullptr && record_.op >= 0;
  const uint32_t op = static_cast<uint32_t>(record_.op);
  log_failure(record_, named ? meta().operator_name(op) : StringView(),
              named ? meta().operator_overload(op) : StringView());
}
#endif

Error Method::load(const Program& program, uint32_t index, const MethodMemory& memory, const MethodOptions& options) {
  unload();
  record_ = {};
  index_ = index;
  if (index >= program.num_methods()) return fail(Check::MethodIndex, index, program.num_methods());
  program_ = &program;
  const Error error = load_all(memory, options);
  if (error != Error::Ok) unload();
  return error;
}

void Method::unload() {
  if (program_ == nullptr) return;
  end_delegates();
  if (has_unbound_ && dynamic_.release != nullptr) dynamic_.release(dynamic_.context);
  program_ = nullptr;
  inputs_ = outputs_ = chains_ = {};
}

Error Method::load_all(const MethodMemory& memory, const MethodOptions& options) {
  plan_ = program_->plans_.table(index_);
  inputs_ = plan_.vector(slot::kInputs);
  outputs_ = plan_.vector(slot::kOutputs);
  chains_ = plan_.vector(slot::kChains);
  temp_ = memory.temp;
  planned_ = memory.planned;
  parallel_ = options.parallel;
  dynamic_ = options.dynamic;
  random_ = {options.seed, 0};
  max_instructions_ = options.max_instructions;
  watch(options.events);
  state_ = State::Idle;
  chain_ = next_ = chain_start_ = 0;
  handles_move_ = has_unbound_ = check_writes_ = false;
  Error error = take_memory(memory);
  if (error == Error::Ok) error = check_planned();
  if (error == Error::Ok) error = resolve_operators(options);
  if (error == Error::Ok) error = init_values(options);
  if (error == Error::Ok) error = check_calls(options.kernels);
  if (error == Error::Ok) error = init_delegates(options);
  return error;
}

// Cuts the memory up. The parts are in the order of their alignment, so that there is no padding between them.
Error Method::take_memory(const MethodMemory& memory) {
  memory_ = memory.method;
  const uint64_t needed = meta().method_memory_size();
  uint8_t* at = memory_.base + memory_.used;
  const uintptr_t address = reinterpret_cast<uintptr_t>(at);
  if (needed > memory_.size - memory_.used) {
    return fail(Check::MethodMemory, static_cast<int64_t>(needed), static_cast<int64_t>(memory_.size - memory_.used));
  }
  if (address % kMemoryAlignment != 0 && needed > 0) {
    return fail(Check::MethodMemoryAlignment, static_cast<int64_t>(address), kMemoryAlignment);
  }
  memory_.used += static_cast<size_t>(needed);
  if (memory_.used > memory_.peak) memory_.peak = memory_.used;
  const uint32_t count = meta().num_values();
  size_t tensors = 0, ranks = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (meta().value_tag(i) != Tag::Tensor) continue;
    ++tensors;
    const flat::Table tensor = meta().value(i);
    if (tensor.get<uint8_t>(slot::kDynamism) != 0) ranks += tensor.vector(slot::kSizes).count();
  }
  values_.count = count;
  values_.payloads = reinterpret_cast<Payload*>(at);
  at += sizeof(Payload) * count;
  tensors_ = reinterpret_cast<Tensor*>(at);
  at += sizeof(Tensor) * tensors;
  operators_ = reinterpret_cast<Operator*>(at);
  at += sizeof(Operator) * meta().num_operators();
  delegates_ = reinterpret_cast<Delegate*>(at);
  at += sizeof(Delegate) * meta().num_delegates();
  sizes_ = reinterpret_cast<int32_t*>(at);
  at += sizeof(int32_t) * ranks;
  values_.tags = reinterpret_cast<Tag*>(at);
  at += sizeof(Tag) * count;
  input_set_ = at;
  std::memset(input_set_, 0, inputs_.count());
  return Error::Ok;
}

Error Method::check_planned() {
  const uint32_t count = meta().num_planned_buffers();
  if (planned_.size < count) return fail(Check::PlannedCount, count, static_cast<int64_t>(planned_.size));
  for (uint32_t i = 0; i < count; ++i) {
    const PlannedBuffer& buffer = planned_[i];
    const uint64_t size = meta().planned_buffer_size(i);
    if (size == 0) continue;
    if (buffer.size < size || buffer.data == nullptr) {
      return fail(Check::PlannedSize, i, static_cast<int64_t>(size));
    }
    const uintptr_t address = reinterpret_cast<uintptr_t>(buffer.data);
    if (address % kMemoryAlignment != 0) return fail(Check::PlannedAlignment, i, static_cast<int64_t>(address));
    if (buffer.contents == Contents::Unknown) std::memset(buffer.data, 0, static_cast<size_t>(size));
  }
  return Error::Ok;
}

Error Method::init_values(const MethodOptions& options) {
  const flat::Vector values = plan_.vector(slot::kValues);
  Tensor* next = tensors_;
  for (uint32_t i = 0; i < values_.count; ++i) {
    const flat::Table value = values.table(i);
    const flat::Table table = value.table(slot::kValueTable);
    const Tag tag = static_cast<Tag>(value.get<uint8_t>(slot::kValueType));
    values_.tags[i] = tag;
    values_.payloads[i] = literal(tag, table);
    if (tag != Tag::Tensor) continue;
    values_.payloads[i].tensor = next;
    const Error error = init_tensor(i, table, *next++, options);
    if (error != Error::Ok) return error;
  }
  return Error::Ok;
}

// Where a tensor's data are at the start of a run, and how much room there is.
void Method::place(const flat::Table& table, Tensor& tensor) const {
  const flat::Table allocation = table.table(slot::kAllocationInfo);
  const uint32_t data = table.get<uint32_t>(slot::kDataIndex);
  const flat::Vector sizes = table.vector(slot::kSizes);
  tensor.flags = 0;
  tensor.data = nullptr;
  tensor.capacity = 0;
  // Kernels rely on the sizes not being more than there is room for.
  if (tensor.dynamism != Dynamism::Static) {
    std::memcpy(const_cast<int32_t*>(tensor.sizes), sizes.items(), sizeof(int32_t) * tensor.rank);
  }
  if (allocation.at != nullptr) {
    const uint32_t id = allocation.get<uint32_t>(slot::kMemoryId);
    // A buffer of size zero need not exist.
    uint8_t* base = static_cast<uint8_t*>(planned_[id - 1].data);
    if (base != nullptr) tensor.data = base + allocation.get<uint32_t>(slot::kOffsetLow);
    if constexpr (sizeof(size_t) > 4) {
      if (base != nullptr) {
        tensor.data = static_cast<uint8_t*>(tensor.data) +
                      static_cast<size_t>(uint64_t{allocation.get<uint32_t>(slot::kOffsetHigh)} << 32);
      }
    }
  } else if (data > 0 && data < program_->constant_offsets_.count()) {
    tensor.flags = Tensor::kFlagConstant;
    tensor.data = const_cast<uint8_t*>(program_->constant(data));
  } else {
    return;
  }
  if (tensor.dynamism == Dynamism::Static) return;
  tensor.capacity = saturate(static_cast<uint64_t>(tensor_nbytes(tensor.dtype, sizes.items(), tensor.rank)) /
                             element_size(tensor.dtype));
}

Error Method::init_tensor(uint32_t index, const flat::Table& table, Tensor& tensor, const MethodOptions& options) {
  const flat::Vector sizes = table.vector(slot::kSizes);
  tensor.rank = static_cast<uint8_t>(sizes.count());
  tensor.dtype = static_cast<ScalarType>(table.get<uint8_t>(slot::kDtype));
  tensor.dynamism = static_cast<Dynamism>(table.get<uint8_t>(slot::kDynamism));
  tensor.dim_order = reduced_order(table.vector(slot::kDimOrder).items(), tensor.rank);
  tensor.sizes = reinterpret_cast<const int32_t*>(sizes.items());
  if (tensor.dynamism != Dynamism::Static) {
    tensor.sizes = sizes_;
    sizes_ += tensor.rank;
    if (tensor.dynamism == Dynamism::Unbound) handles_move_ = has_unbound_ = true;
  }
  place(table, tensor);
  const flat::Table extra = table.table(slot::kExtraInfo);
  if (extra.at != nullptr && extra.get<uint8_t>(slot::kLocation) == kLocationExternal) {
    return init_external(index, table, tensor, options);
  }
  const flat::Table allocation = table.table(slot::kAllocationInfo);
  const uint32_t data = table.get<uint32_t>(slot::kDataIndex);
  if (allocation.at == nullptr || data == 0) return Error::Ok;
  if (planned_[allocation.get<uint32_t>(slot::kMemoryId) - 1].contents == Contents::Kept) return Error::Ok;
  const size_t nbytes = tensor.nbytes();
  if (nbytes == 0) return Error::Ok;
  const uint64_t offset = program_->mutable_offsets_.get<uint64_t>(data);
  const uint8_t* bytes = program_->load_segment(program_->mutable_segment_, offset, nbytes, 1);
  if (bytes == nullptr) return fail(Check::FileRead, static_cast<int64_t>(offset), static_cast<int64_t>(nbytes));
  // A cache begins with zeros: pages that have them already are only read, and take no memory before they are written.
  if (std::memcmp(tensor.data, bytes, nbytes) != 0) std::memcpy(tensor.data, bytes, nbytes);
  program_->loader_->release(bytes);
  return Error::Ok;
}

Error Method::init_external(uint32_t index, const flat::Table& table, Tensor& tensor, const MethodOptions& options) {
  const TensorInfo info = meta().value_tensor(index);
  const size_t nbytes = static_cast<size_t>(info.nbytes);
  const void* data = nullptr;
  for (const ExternalData* external : options.external) {
    const Result<uint32_t> found = external->find(info.name);
    if (!found.ok()) continue;
    const ExternalData::Entry entry = external->entry(*found);
    if (!entry.has_layout || entry.dtype != info.dtype || entry.rank != info.rank ||
        std::memcmp(entry.sizes, info.sizes, sizeof(int32_t) * info.rank) != 0 ||
        std::memcmp(entry.dim_order, info.dim_order, info.rank) != 0) {
      return fail(Check::ExternalMismatch, index);
    }
    data = external->data(entry, 16);
    if (data == nullptr) {
      return fail(Check::FileRead, static_cast<int64_t>(entry.offset), static_cast<int64_t>(entry.nbytes));
    }
    break;
  }
  if (info.planned) {
    if (data == nullptr) return fail(Check::ExternalMissing, index);
    const flat::Table allocation = table.table(slot::kAllocationInfo);
    if (nbytes > 0 && planned_[allocation.get<uint32_t>(slot::kMemoryId) - 1].contents != Contents::Kept) {
      std::memcpy(tensor.data, data, nbytes);
    }
    return Error::Ok;
  }
  const ConstantSource& source = options.constants;
  if (data == nullptr && source.find != nullptr) {
    data = source.find(source.context, info.name.data, info.name.size, nbytes);
  }
  if (data == nullptr) return fail(Check::ExternalMissing, index);
  if (nbytes > 0 && reinterpret_cast<uintptr_t>(data) % element_alignment(info.dtype) != 0) {
    return fail(Check::TensorConstantAlignment, index, static_cast<int64_t>(info.dtype));
  }
  tensor.flags = Tensor::kFlagConstant;
  tensor.data = const_cast<void*>(data);
  tensor.capacity = saturate(info.nbytes / element_size(info.dtype));
  return Error::Ok;
}

Error Method::resolve_operators(const MethodOptions& options) {
#if ETIR_NARROW_KERNELS
  narrow_rows_ = nullptr;
#endif
  constexpr size_t kLongestName = 128;
  char name[kLongestName];
  const uint32_t count = meta().num_operators();
  for (uint32_t i = 0; i < count; ++i) {
    record_.op = static_cast<int32_t>(i);
    const StringView base = meta().operator_name(i);
    const StringView overload = meta().operator_overload(i);
    if (base.size + overload.size + 1 > kLongestName) return fail(Check::OperatorMissing, i);
    std::memcpy(name, base.data, base.size);
    size_t size = base.size;
    if (overload.size > 0) {
      name[size++] = '.';
      std::memcpy(name + size, overload.data, overload.size);
      size += overload.size;
    }
    const Kernel* kernel = nullptr;
    for (const KernelTable& table : options.kernels) {
      kernel = find_kernel(table, name, size);
      if (kernel != nullptr) break;
    }
    if (kernel == nullptr) return fail(Check::OperatorMissing, i);
    bind_operator(operators_[i], *kernel);
  }
  record_.op = -1;
  return Error::Ok;
}

// Makes calls of an operator calls of a kernel, whose signature says what they have.
void Method::bind_operator(Operator& op, const Kernel& kernel) {
  op.kernel = &kernel;
#if ETIR_NARROW_KERNELS
  op.narrow = 0;
#endif
  const char* mark = kernel.signature;
  while (*mark != '\0' && *mark != '>' && *mark != '!') ++mark;
  op.trailing = *mark == '>';
  const size_t results = op.trailing ? std::strlen(mark + 1) : 0;
  op.arguments = static_cast<uint8_t>(mark - kernel.signature + results);
  op.returned = -1;
  if (results == 1 && mark[1] == 'T') op.returned = static_cast<int8_t>(op.arguments - 1);
  // A kernel without results of its own returns the argument that it changes: the first.
  if (op.trailing && results == 0 && kernel.signature[0] == 'T') op.returned = 0;
  // Of the primitives, those that end in a tensor make a view of it.
  if (!op.trailing && op.arguments > 0 && mark[-1] == 'T') handles_move_ = true;
}

#if ETIR_NARROW_KERNELS
// The other calls of an operator, whose kernel is a wider one now, have what they had before.
void Method::keep_narrow(Operator& op, const Operator& before, const Span<const KernelTable>& tables) {
  const bool is_same = std::strcmp(op.kernel->signature, before.kernel->signature) == 0;
  if (before.narrow != 0 || !is_same) {
    op.narrow = is_same ? before.narrow : 0;
    return;
  }
  for (const KernelTable& table : tables) {
    if (before.kernel < table.rows || before.kernel >= table.rows + table.count) continue;
    if (narrow_rows_ == nullptr) narrow_rows_ = table.rows;
    if (narrow_rows_ == table.rows) op.narrow = static_cast<uint32_t>(before.kernel - table.rows) + 1;
  }
}
#endif

Error Method::check_calls(const Span<const KernelTable>& tables) {
  record_.instruction = 0;
  for (uint32_t c = 0; c < chains_.count(); ++c) {
    const flat::Vector instructions = chains_.table(c).vector(slot::kInstructions);
    for (uint32_t i = 0; i < instructions.count(); ++i) {
      const flat::Table instruction = instructions.table(i);
      const InstructionType type = static_cast<InstructionType>(instruction.get<uint8_t>(slot::kInstructionType));
      const flat::Table fields = instruction.table(slot::kInstructionTable);
      if (type == InstructionType::KernelCall) {
        const Error error = check_call(fields, tables);
        if (error != Error::Ok) return error;
      } else if (type == InstructionType::MoveCall) {
        check_writes_ = true;
        if (values_.tags[fields.get<int32_t>(0)] == Tag::Tensor) handles_move_ = true;
      }
      ++record_.instruction;
    }
  }
  // What an argument refers to is known only as long as nothing moves handles.
  check_writes_ = check_writes_ || handles_move_;
  record_.instruction = -1;
  return Error::Ok;
}

// Whether the arguments of a call are of the kinds in the kernel's signature.
Error Method::check_call(const flat::Table& call, const Span<const KernelTable>& tables) {
  const int32_t index = call.get<int32_t>(0);
  Operator& op = operators_[index];
  const flat::Vector args = call.vector(1);
  const uint32_t wanted = op.arguments + (op.trailing ? 1u : 0u);
  record_.op = index;
  if (args.count() != wanted) return fail(Check::ArgumentCount, args.count(), wanted);
  const char* letter = op.kernel->signature;
  for (uint32_t i = 0; i < op.arguments; ++i, ++letter) {
    if (*letter == '>') ++letter;
    const Tag tag = values_.tags[args.get<int32_t>(i)];
    if (!takes(*letter, tag)) {
      return fail(tag == Tag::None ? Check::ArgumentNone : Check::ArgumentKind, i, static_cast<int64_t>(tag));
    }
    const int left_out = find_left_out(args.get<int32_t>(i), op.kernel->dtypes);
    if (left_out >= 0) {
      // Modules for an instruction set have some kernels for some types; those that are linked in have the rest.
      const Kernel* wider = find_wider(tables, *op.kernel);
      if (wider == nullptr) return fail(Check::ArgumentLeftOut, i, left_out);
#if ETIR_NARROW_KERNELS
      const Operator before = op;
      bind_operator(op, *wider);
      keep_narrow(op, before, tables);
#else
      bind_operator(op, *wider);
#endif
      return check_call(call, tables);
    }
  }
  if (op.trailing) {
    const int32_t last = args.get<int32_t>(op.arguments);
    const Tag tag = values_.tags[last];
    if (tag != (op.returned >= 0 ? Tag::Tensor : Tag::TensorList)) {
      return fail(Check::ReturnSlot, last, static_cast<int64_t>(tag));
    }
    if (op.returned >= 0 && args.get<int32_t>(static_cast<uint32_t>(op.returned)) != last) handles_move_ = true;
  }
  if (written_constant(*op.kernel, reinterpret_cast<const int32_t*>(args.items())) >= 0) check_writes_ = true;
  record_.op = -1;
  return Error::Ok;
}

}  // namespace etir
