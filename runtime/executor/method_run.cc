// Running a method: inputs and outputs, the instructions, and the state between runs.
#include <cmath>

#include "executor/method.h"
#include "executor/slots.h"
#include "executor/validator.h"

namespace etir {

// Puts values back to what they are at the start of a run: what handles refer to, and, after a run that did not come to
// its end, the numbers that it changed.
void Method::restore(bool numbers) {
  if (!numbers && !handles_move_) return;
  const flat::Vector values = plan_.vector(slot::kValues);
  Tensor* next = tensors_;
  for (uint32_t i = 0; i < values_.count; ++i) {
    if (values_.tags[i] != Tag::Tensor) {
      if (numbers) values_.payloads[i] = literal(values_.tags[i], values.table(i).table(slot::kValueTable));
      continue;
    }
    Tensor& tensor = *next++;
    values_.payloads[i].tensor = &tensor;
    // What a run can take away: a view's data may be gone, and so is what the allocator gave.
    const bool allocated = tensor.dynamism == Dynamism::Unbound && (tensor.flags & Tensor::kFlagConstant) == 0;
    if (allocated || (tensor.flags & Tensor::kFlagView) != 0) place(values.table(i).table(slot::kValueTable), tensor);
  }
  if (has_unbound_ && dynamic_.release != nullptr) dynamic_.release(dynamic_.context);
}

Error Method::reset() {
  if (program_ == nullptr) return fail(Check::MethodNotLoaded);
  if (state_ != State::Idle) restore(state_ == State::Running);
  state_ = State::Idle;
  chain_ = next_ = chain_start_ = 0;
  return Error::Ok;
}

// Before anything that changes the method: a run that came to its end is over now.
Error Method::prepare() {
  record_ = {};
  if (state_ == State::Running) return fail(Check::MethodInProgress, next_instruction());
  return reset();
}

Error Method::check_shape(uint32_t i, const TensorInput& given, const Tensor& tensor) {
  if (given.dtype != tensor.dtype) return fail(Check::InputDtype, i, static_cast<int64_t>(given.dtype));
  if (given.rank != tensor.rank) return fail(Check::InputRank, i, given.rank);
  for (int d = 0; d < given.rank; ++d) {
    const int32_t size = given.sizes[d];
    if (size < 0 || (tensor.dynamism == Dynamism::Static && size != tensor.sizes[d])) {
      return fail(Check::InputSize, i, size);
    }
  }
  // Dims of size 1 may be anywhere in the order: it is the others that decide where elements are.
  int mine = 0;
  for (int position = 0; position < given.rank; ++position) {
    const int dim = given.dim_order == nullptr ? position : given.dim_order[position];
    if (dim >= given.rank) return fail(Check::InputDimOrder, i, position);
    if (given.sizes[dim] == 1) continue;
    while (mine < given.rank && given.sizes[tensor.order(mine)] == 1) ++mine;
    if (mine == given.rank || tensor.order(mine++) != dim) return fail(Check::InputDimOrder, i, position);
  }
  return Error::Ok;
}

Error Method::set_input(uint32_t i, const TensorInput& given) {
  Error error = prepare();
  if (error != Error::Ok) return error;
  if (i >= inputs_.count()) return fail(Check::InputNumber, i, inputs_.count());
  const uint32_t index = inputs_.get<uint32_t>(i);
  if (values_.tags[index] != Tag::Tensor) return fail(Check::InputKind, i, static_cast<int64_t>(Tag::Tensor));
  Tensor& tensor = *values_.payloads[index].tensor;
  if ((tensor.flags & Tensor::kFlagConstant) != 0) return fail(Check::InputKind, i, static_cast<int64_t>(Tag::Tensor));
  error = check_shape(i, given, tensor);
  if (error != Error::Ok) return error;
  const int64_t nbytes = tensor_nbytes(given.dtype, reinterpret_cast<const uint8_t*>(given.sizes), given.rank);
  const TensorInfo info = meta().value_tensor(index);
  const bool fits = nbytes >= 0 && (static_cast<uint64_t>(nbytes) <= info.nbytes ||
                                    (info.dynamism == Dynamism::Unbound && !info.planned));
  const int64_t elements = nbytes < 0 ? INT64_MAX : nbytes / static_cast<int64_t>(element_size(given.dtype));
  if (!fits || elements > UINT32_MAX) {
    // A static tensor, whose sizes have been compared, is not limited by what capacity can say.
    if (tensor.dynamism != Dynamism::Static) return fail(Check::InputTooLarge, i, elements);
  }
  if (given.data == nullptr && nbytes > 0) return fail(Check::InputNoData, i, elements);
  const uintptr_t address = reinterpret_cast<uintptr_t>(given.data);
  if (!info.planned && address % element_alignment(given.dtype) != 0) {
    return fail(Check::InputAlignment, i, static_cast<int64_t>(address));
  }
  if (tensor.dynamism != Dynamism::Static && tensor.rank > 0) {
    std::memcpy(const_cast<int32_t*>(tensor.sizes), given.sizes, sizeof(int32_t) * tensor.rank);
  }
  if (info.planned) {
    if (nbytes > 0 && tensor.data != given.data) std::memmove(tensor.data, given.data, static_cast<size_t>(nbytes));
  } else {
    tensor.data = given.data;
    if (tensor.dynamism != Dynamism::Static) tensor.capacity = static_cast<uint32_t>(elements);
  }
  input_set_[i] = 1;
  return Error::Ok;
}

// Whether an input that is a number may be any: one that an instruction "etir::check_number" reads. The others have
// been written into the program. Looked up once, the answer is kept where tensors have whether they were set.
bool Method::varies(uint32_t i) {
  if (input_set_[i] == 0) input_set_[i] = meta().input_varies(i) ? 1 : 2;
  return input_set_[i] == 1;
}

Error Method::set_input(uint32_t i, const Value& given) {
  const Error error = prepare();
  if (error != Error::Ok) return error;
  if (i >= inputs_.count()) return fail(Check::InputNumber, i, inputs_.count());
  const Value own = meta().input_value(i);
  if (given.tag != own.tag || own.tag > Tag::Double) return fail(Check::InputKind, i, static_cast<int64_t>(given.tag));
  if (varies(i)) {
    values_.payloads[inputs_.get<uint32_t>(i)] = given.payload;
    return Error::Ok;
  }
  bool same = true;
  if (own.tag == Tag::Int) same = given.payload.integer == own.payload.integer;
  if (own.tag == Tag::Bool) same = given.payload.boolean == own.payload.boolean;
  if (own.tag == Tag::Double) {
    const double a = given.payload.real, b = own.payload.real;
    same = a == b || (a != a && b != b) || std::fabs(a - b) <= 1e-4 + 1e-5 * std::fabs(b);
    if (std::isinf(a) || std::isinf(b)) same = a == b;
  }
  if (!same) return fail(Check::InputValue, i);
  return Error::Ok;
}

Error Method::set_input(uint32_t i, StringView given) {
  const Error error = prepare();
  if (error != Error::Ok) return error;
  if (i >= inputs_.count()) return fail(Check::InputNumber, i, inputs_.count());
  const Value own = meta().input_value(i);
  if (own.tag != Tag::String) return fail(Check::InputKind, i, static_cast<int64_t>(Tag::String));
  const StringView text = string(own);
  const bool same = text.size == given.size && (text.size == 0 || std::memcmp(text.data, given.data, text.size) == 0);
  if (!same) return fail(Check::InputValue, i);
  return Error::Ok;
}

Error Method::set_output_data(uint32_t i, void* data, size_t nbytes) {
  const Error error = prepare();
  if (error != Error::Ok) return error;
  if (i >= outputs_.count()) return fail(Check::OutputNumber, i, outputs_.count());
  const uint32_t index = outputs_.get<uint32_t>(i);
  if (values_.tags[index] != Tag::Tensor) return fail(Check::OutputNotSettable, i);
  const TensorInfo info = meta().value_tensor(index);
  if (info.planned || info.constant) return fail(Check::OutputNotSettable, i);
  Tensor& tensor = *values_.payloads[index].tensor;
  const uint64_t elements = nbytes / element_size(tensor.dtype);
  // The least that there has to be room for: all of a fixed shape, and the one element of a tensor of rank 0.
  const bool fixed = info.dynamism == Dynamism::Static || info.rank == 0;
  if ((data == nullptr && info.nbytes > 0) || (fixed && nbytes < info.nbytes)) {
    return fail(Check::OutputTooSmall, i, static_cast<int64_t>(info.nbytes));
  }
  tensor.data = data;
  tensor.capacity = elements > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(elements);
  // Kernels rely on the sizes not being more than there is room for; those of the last run may be.
  if (!fixed && tensor.numel() > static_cast<int64_t>(tensor.capacity)) const_cast<int32_t*>(tensor.sizes)[0] = 0;
  return Error::Ok;
}

Error Method::begin() {
  const Error error = prepare();
  if (error != Error::Ok) return error;
  for (uint32_t i = 0; i < inputs_.count(); ++i) {
    const uint32_t index = inputs_.get<uint32_t>(i);
    if (values_.tags[index] != Tag::Tensor) continue;
    const Tensor& tensor = *values_.payloads[index].tensor;
    const bool constant = (tensor.flags & Tensor::kFlagConstant) != 0;
    // What an unbound input was given last time is gone.
    if (!constant && (input_set_[i] == 0 || (tensor.data == nullptr && tensor.numel() > 0))) {
      return fail(Check::InputNotSet, i);
    }
  }
  state_ = State::Running;
  at(Boundary::Begin);
  return Error::Ok;
}

#if ETIR_TRACE
// Tells who watches where the run is.
void Method::at(Boundary boundary) const {
  if (watched()) events_.instruction(events_.context, boundary, next_instruction());
}

// An instruction has ended: tells that, and the values that it may have written.
void Method::ended(Boundary boundary, const flat::Table& fields) const {
  at(boundary);
  if (events_.value == nullptr || record_.check != Check::None) return;
  const bool kernel = boundary == Boundary::KernelCall;
  if (!kernel && boundary != Boundary::DelegateCall) return;
  const flat::Vector args = fields.vector(1);
  const uint32_t written = kernel ? operators_[fields.get<int32_t>(0)].kernel->writes : 0;
  for (uint32_t i = 0; i < args.count(); ++i) {
    if (kernel && (i >= 32 || (written >> i & 1) == 0)) continue;
    events_.value(events_.context, values_, args.get<uint32_t>(i));
  }
}
#endif

Error Method::execute() {
  const Error error = begin();
  return error == Error::Ok ? run(max_instructions_, false) : error;
}

Error Method::step() {
  if (state_ == State::Finished) {
    record_ = {};
    return fail(Check::MethodAtEnd);
  }
  if (state_ == State::Idle) {
    const Error error = begin();
    if (error != Error::Ok) return error;
  } else {
    at(Boundary::Resume);
  }
  record_ = {};
  return run(0, true);
}

namespace {

// Where two fields are in tables of one kind. Nearly all of them share a vtable: comparing its address costs less than
// going through it, and the processor need not wait for it to read the fields.
struct FieldPair {
  const uint8_t* vtable = nullptr;
  uint16_t first = 0;
  uint16_t second = 0;

  void find(const flat::Table& table, uint32_t first_slot, uint32_t second_slot) {
    const uint8_t* own = table.at - flat::read<int32_t>(table.at);
    if (own == vtable) return;
    vtable = own;
    const auto offset = [&table](uint32_t slot) {
      const uint8_t* field = table.field(slot);
      return static_cast<uint16_t>(field == nullptr ? 0 : field - table.at);
    };
    first = offset(first_slot);
    second = offset(second_slot);
  }
};

}  // namespace

Error Method::run(uint64_t limit, bool single) {
  KernelContext ctx(values_, nullptr, temp_, record_);
  ctx.parallel = parallel_;
  ctx.dynamic = dynamic_;
  ctx.random = &random_;
#if ETIR_TRACE
  ctx.events = events_;
#endif
  FieldPair in_instruction, in_call;
  const bool watched = this->watched();
  uint64_t executed = 0;
  for (; chain_ < chains_.count(); ++chain_) {
    const flat::Vector instructions = chains_.table(chain_).vector(slot::kInstructions);
    const uint32_t count = instructions.count();
    while (next_ < count) {
      if (single && executed == 1) return Error::Ok;
      const flat::Table instruction = instructions.table(next_);
      in_instruction.find(instruction, slot::kInstructionType, slot::kInstructionTable);
      const uint8_t* where = instruction.at + in_instruction.second;
      const flat::Table fields{where + flat::read<uint32_t>(where)};
      uint32_t next = next_ + 1;
      temp_.used = 0;
      const InstructionType type = static_cast<InstructionType>(instruction.at[in_instruction.first]);
      switch (type) {
        case InstructionType::KernelCall: {
          in_call.find(fields, 0, 1);
          const uint8_t* args = fields.at + in_call.second;
          args += flat::read<uint32_t>(args) + 4;
          const int32_t index = in_call.first == 0 ? 0 : flat::read<int32_t>(fields.at + in_call.first);
          call_kernel(ctx, index, reinterpret_cast<const int32_t*>(args));
          break;
        }
        case InstructionType::DelegateCall:
          call_delegate(ctx, fields);
          break;
        case InstructionType::MoveCall:
          values_.payloads[fields.get<int32_t>(1)] = values_.payloads[fields.get<int32_t>(0)];
          break;
        case InstructionType::JumpFalseCall:
          if (!condition(fields.get<uint32_t>(0))) next = fields.get<uint32_t>(1);
          break;
        case InstructionType::FreeCall: {
          // Planned memory and constants stay: the next run needs them.
          Tensor& tensor = *values_.payloads[fields.get<int32_t>(0)].tensor;
          if (tensor.dynamism != Dynamism::Unbound || (tensor.flags & Tensor::kFlagConstant) != 0) break;
          tensor.data = nullptr;
          tensor.capacity = 0;
          break;
        }
      }
      if (watched) ended(static_cast<Boundary>(type), fields);
      if (++executed == limit && record_.check == Check::None) {
        const bool done = next >= count && chain_ + 1 == chains_.count();
        if (!done) note(Check::InstructionLimit, static_cast<int64_t>(executed));
      }
      if (record_.check != Check::None) {
        record_.method = static_cast<int32_t>(index_);
        record_.instruction = static_cast<int32_t>(next_instruction());
        log();
        at(Boundary::Failed);
        restore(true);
        state_ = State::Idle;
        chain_ = next_ = chain_start_ = 0;
        return record_.error();
      }
      next_ = next;
    }
    chain_start_ += count;
    next_ = 0;
  }
  state_ = State::Finished;
  at(Boundary::End);
  if (single && executed == 0) return fail(Check::MethodAtEnd);
  return Error::Ok;
}

// The first argument that a kernel would write though it is a constant, or holds one; -1 when there is none.
int Method::written_constant(const Kernel& kernel, const int32_t* args) const {
  for (uint32_t left = kernel.writes; left != 0; left &= left - 1) {
    const int i = __builtin_ctz(left);
    const Tag tag = values_.tags[args[i]];
    const Payload& payload = values_.payloads[args[i]];
    bool constant = false;
    if (tag == Tag::Tensor) {
      constant = (payload.tensor->flags & Tensor::kFlagConstant) != 0;
    } else if (tag == Tag::TensorList) {
      const TensorList list(payload.vector, values_);
      for (size_t k = 0; k < list.size(); ++k) constant = constant || (list[k].flags & Tensor::kFlagConstant) != 0;
    }
    if (constant) return i;
  }
  return -1;
}

// The number of a dtype of a tensor, maybe in a list, that is not in a set; -1 when there is none.
int Method::find_left_out(int32_t index, DtypeSet dtypes) const {
  if (index < 0) return -1;
  const Tag tag = values_.tags[index];
  const Payload& payload = values_.payloads[index];
  if (tag == Tag::Tensor && !contains(dtypes, payload.tensor->dtype)) return static_cast<int>(payload.tensor->dtype);
  if (tag < Tag::TensorList) return -1;
  int found = -1;
  for (uint32_t i = 0; i < detail::vector_count(payload.vector) && found < 0; ++i) {
    found = find_left_out(flat::read<int32_t>(payload.vector + 4 + 4 * i), dtypes);
  }
  return found;
}

// The kernel of a call: the one for fewer element types where these are all that it has.
const Kernel& Method::kernel_of(const Operator& op, const int32_t* args) const {
#if ETIR_NARROW_KERNELS
  if (op.narrow != 0) {
    const Kernel& narrow = narrow_rows_[op.narrow - 1];
    uint32_t i = 0;
    while (i < op.arguments && find_left_out(args[i], narrow.dtypes) < 0) ++i;
    if (i == op.arguments) return narrow;
  }
#endif
  (void)args;
  return *op.kernel;
}

void Method::call_kernel(KernelContext& ctx, int32_t index, const int32_t* args) {
  const Operator& op = operators_[index];
  const Kernel& kernel = kernel_of(op, args);
  if (check_writes_) {
    const int constant = written_constant(kernel, args);
    if (constant >= 0) {
      record_.op = index;
      return note(Check::WriteToConstant, constant);
    }
  }
  ctx.set_args(args);
  kernel.function(ctx);
  if (op.returned >= 0 && args[op.arguments] != args[op.returned]) {
    values_.payloads[args[op.arguments]].tensor = values_.payloads[args[op.returned]].tensor;
  }
  if (record_.check != Check::None) record_.op = index;
}

void Method::call_delegate(KernelContext& ctx, const flat::Table& call) {
  const int32_t index = call.get<int32_t>(0);
  const flat::Vector args = call.vector(1);
  const Delegate& delegate = delegates_[index];
  ctx.delegate_ = static_cast<uint32_t>(index);
  ctx.set_args(reinterpret_cast<const int32_t*>(args.items()));
  const Error error = delegate.backend->execute(delegate.handle, ctx, args.count());
  if (error != Error::Ok && record_.check == Check::None) {
    note(Check::BackendExecute, index, static_cast<int64_t>(error));
  }
}

// Whether a condition holds: a bool, or a tensor of bools that are all true.
bool Method::condition(uint32_t index) {
  const Payload& payload = values_.payloads[index];
  if (values_.tags[index] == Tag::Bool) return payload.boolean;
  const Tensor& tensor = *payload.tensor;
  const int64_t count = tensor.numel();
  if (tensor.dtype != ScalarType::Bool || (tensor.data == nullptr && count > 0)) {
    note(Check::JumpTensor, index, static_cast<int64_t>(tensor.dtype));
    return false;
  }
  const uint8_t* items = static_cast<const uint8_t*>(tensor.data);
  for (int64_t i = 0; i < count; ++i) {
    if (items[i] == 0) return false;
  }
  return true;
}

}  // namespace etir
