#include "backends/reference/reference.h"

#include <cstring>
#include <new>

#include "core/data_loader.h"
#include "executor/method.h"
#include "executor/program.h"

namespace etir {

namespace {

constexpr uint8_t kMagic[4] = {'E', 'T', 'R', 'D'};
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderSize = 16;
constexpr size_t kAlignment = 16;
/// The compile spec that names the state which the methods with this delegate share.
constexpr char kSharedState[] = "shared-state";
/// What a delegate takes for itself; the compiler counts with it (OBJECT_BYTES in backends/reference/backend.py).
constexpr size_t kObjectBytes = sizeof(void*) == 8 ? 1024 : 640;

constexpr size_t aligned(uint64_t size) {
  return static_cast<size_t>((size + kAlignment - 1) / kAlignment * kAlignment);
}

uint32_t read_u32(const uint8_t* data) {
  return data[0] | uint32_t{data[1]} << 8 | uint32_t{data[2]} << 16 | uint32_t{data[3]} << 24;
}

/// One delegate.
struct Reference {
  explicit Reference(Span<const uint8_t> bytes) : loader(bytes.data, bytes.size) {}

  BufferDataLoader loader;
  Program program;
  Method method;
  size_t scratch_bytes = 0;  ///< activations, which start at the temporary memory's start
  size_t temp_bytes = 0;     ///< temporary memory of the kernels, after the activations
  bool has_state = false;
  bool shares_state = false;  ///< whether other methods that have this delegate share its state
};
static_assert(sizeof(Reference) <= kObjectBytes, "the compiler counts with kObjectBytes");

// Forwards the failure of the method inside. The number of a tensor means nothing in the method around.
Error forward(BackendInit& init, const ErrorRecord& record) {
  if (record.check == Check::ExternalMissing || record.check == Check::ExternalMismatch) {
    return init.fail(Check::ExternalDelegate, init.index, record.a);
  }
  return init.fail(record.check, record.a, record.b);
}

Error load(BackendInit& init, Reference& self) {
  ErrorRecord record;
  if (self.program.load(self.loader, &record) != Error::Ok) return forward(init, record);
  if (self.program.num_methods() != 1) return init.fail(Check::BackendData, init.index, 8);
  const MethodMeta meta = self.program.method_meta(uint32_t{0});
  const size_t method_bytes = aligned(meta.method_memory_size());
  const uint32_t count = meta.num_planned_buffers();
  uint64_t bytes = method_bytes + aligned(uint64_t{sizeof(PlannedBuffer)} * count);
  for (uint32_t i = 1; i < count; ++i) bytes += aligned(meta.planned_buffer_size(i));
  uint8_t* memory = bytes > SIZE_MAX ? nullptr : static_cast<uint8_t*>(init.allocate(static_cast<size_t>(bytes), 16));
  if (memory == nullptr) return init.fail(Check::BackendMemory, init.index, static_cast<int64_t>(bytes));

  MethodMemory parts;
  parts.method.base = memory;
  parts.method.size = method_bytes;
  PlannedBuffer* planned = reinterpret_cast<PlannedBuffer*>(memory + method_bytes);
  uint8_t* next = memory + method_bytes + aligned(uint64_t{sizeof(PlannedBuffer)} * count);
  for (uint32_t i = 0; i < count; ++i) {
    PlannedBuffer& buffer = *new (planned + i) PlannedBuffer;
    buffer.size = meta.planned_buffer_size(i);
    if (i > 0) {
      // The first buffer has the activations, the others what outlives a run.
      buffer.data = next;
      next += aligned(buffer.size);
      self.has_state = self.has_state || buffer.size > 0;
    } else if (buffer.size > 0) {
      const bool given = init.activations.data != nullptr;
      if (!given) self.scratch_bytes = aligned(buffer.size);
      if (given && init.activations.size < buffer.size) return init.fail(Check::BackendData, init.index, 8);
      buffer.data = given ? init.activations.data : init.scratch(self.scratch_bytes + self.temp_bytes, kAlignment);
      if (buffer.data == nullptr) {
        return init.fail(Check::BackendMemory, init.index, static_cast<int64_t>(self.scratch_bytes + self.temp_bytes));
      }
    }
  }
  parts.planned = {planned, count};
  MethodOptions options = init.options();
  options.constants = init.constants;
  options.events = {};  // they are for the method around this one: run_watched() tells of what goes on in here
  const Error error = self.method.load(self.program, 0, parts, options);
  return error == Error::Ok ? error : forward(init, self.method.error_record());
}

Error reference_init(BackendInit& init, void** handle) {
  const Span<const uint8_t> blob = init.processed;
  if (blob.size < kHeaderSize || std::memcmp(blob.data, kMagic, sizeof(kMagic)) != 0) {
    return init.fail(Check::BackendData, init.index, 0);
  }
  const uint32_t version = read_u32(blob.data + 4);
  if (version != kVersion) return init.fail(Check::BackendVersion, version, kVersion);
  void* memory = init.allocate(kObjectBytes, kAlignment);
  if (memory == nullptr) return init.fail(Check::BackendMemory, init.index, kObjectBytes);
  Reference* self = new (memory) Reference({blob.data + kHeaderSize, blob.size - kHeaderSize});
  self->temp_bytes = aligned(read_u32(blob.data + 8));
  for (uint32_t i = 0; i < init.num_compile_specs(); ++i) {
    const StringView key = init.compile_spec(i).key;
    self->shares_state = self->shares_state ||
                         (key.size == sizeof(kSharedState) - 1 && std::memcmp(key.data, kSharedState, key.size) == 0);
  }
  const Error error = load(init, *self);
  if (error != Error::Ok) {
    self->~Reference();
    return error;
  }
  *handle = self;
  return Error::Ok;
}

// The tensor of an argument as an input of the method inside.
TensorInput input_of(const Tensor& tensor) {
  TensorInput input;
  input.data = tensor.data;
  input.dtype = tensor.dtype;
  input.rank = tensor.rank;
  input.sizes = tensor.sizes;
  input.dim_order = tensor.dim_order;
  return input;
}

// Runs the method inside instruction by instruction, and says so.
Error run_watched(Method& method, KernelContext& ctx) {
  const uint32_t count = method.meta().num_instructions();
  while (method.next_instruction() < count) {
    const uint32_t instruction = method.next_instruction();
    ctx.event(instruction, true);
    const Error error = method.step();
    ctx.event(instruction, false);
    if (error != Error::Ok) return error;
  }
  return Error::Ok;
}

Error reference_execute(void* handle, KernelContext& ctx, uint32_t count) {
  Reference& self = *static_cast<Reference*>(handle);
  Method& method = self.method;
  const uint32_t inputs = method.num_inputs();
  const uint32_t outputs = method.num_outputs();
  if (count != inputs + outputs) {
    ctx.fail(Check::BackendArguments, count, int64_t{inputs} + outputs);
    return Error::InvalidProgram;
  }
  const size_t temp_bytes = self.scratch_bytes + self.temp_bytes;
  uint8_t* temp = temp_bytes == 0 ? nullptr : static_cast<uint8_t*>(ctx.temp(temp_bytes, kAlignment));
  if (temp_bytes > 0 && temp == nullptr) return Error::MemoryAllocationFailed;
  Arena kernels_temp;
  kernels_temp.base = temp + self.scratch_bytes;
  kernels_temp.size = self.temp_bytes;
  method.set_temp(kernels_temp);
  method.reset();

  Error error = Error::Ok;
  for (uint32_t i = 0; i < inputs && error == Error::Ok; ++i) {
    const int at = static_cast<int>(i);
    if (ctx.tag(at) == Tag::Tensor) {
      error = method.set_input(i, input_of(ctx.tensor(at)));
    } else {
      ctx.fail(Check::BackendArguments, i, static_cast<int64_t>(ctx.tag(at)));
      return Error::InvalidProgram;
    }
  }
  for (uint32_t i = 0; i < outputs && error == Error::Ok; ++i) {
    const int at = static_cast<int>(inputs + i);
    if (ctx.tag(at) != Tag::Tensor || method.output(i).tag != Tag::Tensor ||
        (ctx.tensor(at).flags & Tensor::kFlagConstant) != 0 ||
        ctx.tensor(at).dtype != method.output(i).payload.tensor->dtype) {
      ctx.fail(Check::BackendArguments, inputs + i, static_cast<int64_t>(ctx.tag(at)));
      return Error::InvalidProgram;
    }
    const Tensor& out = ctx.tensor(at);
    const TensorInfo info = method.meta().output_tensor(i);
    if (info.planned || info.constant) continue;
    const size_t room =
        out.dynamism == Dynamism::Static ? out.nbytes() : size_t{out.capacity} * element_size(out.dtype);
    error = method.set_output_data(i, out.data, room);
  }
  if (error == Error::Ok) error = ctx.watched() ? run_watched(method, ctx) : method.execute();
  if (error != Error::Ok) {
    const ErrorRecord& record = method.error_record();
    ctx.fail(record.check, record.a, record.b);
    return error;
  }
  for (uint32_t i = 0; i < outputs; ++i) {
    Tensor& out = ctx.tensor(static_cast<int>(inputs + i));
    const Tensor& made = *method.output(i).payload.tensor;
    if (!ctx.resize_like(out, made)) return Error::InvalidArgument;
    if (made.data == out.data || made.nbytes() == 0) continue;
    // What the method inside keeps (a mutable buffer, a constant) is handed out as a copy.
    std::memcpy(out.data, made.data, made.nbytes());
  }
  return Error::Ok;
}

void reference_destroy(void* handle) { static_cast<Reference*>(handle)->~Reference(); }

// Two methods may use one delegate as long as they do not run at once, unless it holds state of one of them.
Sharing reference_shareable(void* handle) {
  const Reference& self = *static_cast<const Reference*>(handle);
  return !self.has_state ? Sharing::May : self.shares_state ? Sharing::Must : Sharing::No;
}

}  // namespace

const Backend kReferenceBackend = {"EtirReferenceBackend", nullptr,           reference_init,
                                   reference_execute,      reference_destroy, reference_shareable};

}  // namespace etir
