// C functions over Program, Method and ExternalData: the tests use them through ctypes. Not part of the runtime.
#include <cstdlib>
#include <cstring>
#include <new>

#include "backends/reference/reference.h"
#include "executor/external_data.h"
#include "executor/method.h"
#include "executor/program.h"
#include "platform/file_data_loader.h"
#include "platform/mmap_data_loader.h"

namespace etir {
extern const KernelTable kKernels;
}

#define ETIR_EXPORT __attribute__((visibility("default")))

namespace {

using namespace etir;

struct TestProgram {
  BufferDataLoader buffer{nullptr, 0};
  FileDataLoader file;
  MmapDataLoader mapped;
  Program program;
  ErrorRecord record;
};

struct TestExternal {
  explicit TestExternal(const void* data, size_t size) : loader(data, size) {}
  BufferDataLoader loader;
  ExternalData data;
  ErrorRecord record;
};

// Memory for unbound tensors: a list of blocks, freed together.
struct Blocks {
  Blocks* next;
  alignas(16) unsigned char bytes[1];
};

struct TestMethod {
  Method method;
  Blocks* blocks = nullptr;
  uint32_t releases = 0;
  const Method* shared = nullptr;  // whose delegates the next load may use
  bool watched = false;            // whether the next load asks for events
  uint32_t begun = 0, ended = 0, last_event = 0;
};

void count_event(void* context, uint32_t delegate, uint32_t id, bool begin) {
  TestMethod* method = static_cast<TestMethod*>(context);
  ++(begin ? method->begun : method->ended);
  method->last_event = delegate << 16 | id;
}

void* allocate_block(void* context, void*, size_t bytes) {
  TestMethod* method = static_cast<TestMethod*>(context);
  if (bytes > (size_t{1} << 26)) return nullptr;
  Blocks* block = static_cast<Blocks*>(std::malloc(sizeof(Blocks) + bytes));
  if (block == nullptr) return nullptr;
  block->next = method->blocks;
  method->blocks = block;
  return block->bytes;
}

void release_blocks(void* context) {
  TestMethod* method = static_cast<TestMethod*>(context);
  ++method->releases;
  while (method->blocks != nullptr) {
    Blocks* block = method->blocks;
    method->blocks = block->next;
    std::free(block);
  }
}

void write_record(const ErrorRecord& record, int64_t* out) {
  out[0] = static_cast<int64_t>(record.check);
  out[1] = record.method;
  out[2] = record.instruction;
  out[3] = record.op;
  out[4] = record.a;
  out[5] = record.b;
}

// A backend for tests: writes the sum of its float inputs, times the first byte of its blob, to its last argument. What
// follows that byte names data whose first byte takes its place.
struct SumState {
  uint8_t factor;
};

Error sum_init(BackendInit& init, void** handle) {
  if (init.processed.size < 1) return Error::DelegateInvalidCompatibility;
  if (init.num_compile_specs() > 0 && init.compile_spec(0).value.size == 0) return Error::InvalidArgument;
  SumState* state = static_cast<SumState*>(init.allocate(sizeof(SumState), alignof(SumState)));
  if (state == nullptr) return Error::DelegateMemoryAllocationFailed;
  state->factor = init.processed[0];
  if (init.processed.size > 1) {
    const char* key = reinterpret_cast<const char*>(init.processed.data + 1);
    const Result<Span<const uint8_t>> data = init.named_data({key, init.processed.size - 1});
    if (!data.ok()) return data.error();
    if (data->size < 1) return Error::DelegateInvalidCompatibility;
    state->factor = (*data)[0];
  }
  *handle = state;
  return Error::Ok;
}

Error sum_execute(void* handle, KernelContext& ctx, uint32_t count) {
  if (count < 2) return Error::InvalidArgument;
  const int last = static_cast<int>(count) - 1;
  for (int i = 0; i <= last; ++i) {
    if (ctx.tag(i) != Tag::Tensor || ctx.tensor(i).dtype != ScalarType::Float) return Error::InvalidArgument;
    if (ctx.tensor(i).data == nullptr) return Error::InvalidState;
  }
  Tensor& out = ctx.tensor(last);
  for (int i = 0; i < last; ++i) {
    if (!same_shape(ctx.tensor(i), ctx.tensor(0))) return Error::InvalidArgument;
  }
  if ((out.flags & Tensor::kFlagConstant) != 0 || !ctx.resize_like(out, ctx.tensor(0))) return Error::InvalidArgument;
  const int64_t numel = out.numel();
  for (int64_t k = 0; k < numel; ++k) {
    float sum = 0;
    for (int i = 0; i < last; ++i) sum += ctx.tensor(i).ptr<float>()[k];
    out.ptr<float>()[k] = sum * static_cast<const SumState*>(handle)->factor;
  }
  return Error::Ok;
}

const Backend kTestBackends[] = {{"SumBackend", nullptr, sum_init, sum_execute}, kReferenceBackend};

}  // namespace

extern "C" {

ETIR_EXPORT TestProgram* etir_program_new() { return new (std::malloc(sizeof(TestProgram))) TestProgram; }
ETIR_EXPORT void etir_program_free(TestProgram* self) {
  self->~TestProgram();
  std::free(self);
}
/// kind: 0 bytes, 1 path to read, 2 path to map.
ETIR_EXPORT uint32_t etir_program_load(TestProgram* self, int kind, const void* data, size_t size, int64_t* record) {
  DataLoader* loader = &self->buffer;
  if (kind == 0) self->buffer = BufferDataLoader(data, size);
  if (kind == 1) {
    self->file.open(static_cast<const char*>(data));
    loader = &self->file;
  }
  if (kind == 2) {
    self->mapped.open(static_cast<const char*>(data));
    loader = &self->mapped;
  }
  const Error error = self->program.load(*loader, &self->record);
  write_record(self->record, record);
  return static_cast<uint32_t>(error);
}
ETIR_EXPORT uint32_t etir_program_methods(const TestProgram* self) { return self->program.num_methods(); }
ETIR_EXPORT uint64_t etir_program_named_data(const TestProgram* self, const char* key, const void** data) {
  const auto found = self->program.named_data({key, std::strlen(key)});
  if (!found.ok()) return UINT64_MAX;
  *data = (*found).data;
  return (*found).size;
}

/// A number about a method: 0 inputs, 1 outputs, 2 planned buffers, 3 size of planned buffer i, 4 method memory,
/// 5 values, 6 instructions, 7 operators, 8 kind of input i, 9 kind of output i, 10 length of its name.
ETIR_EXPORT uint64_t etir_meta(const TestProgram* self, uint32_t method, int what, uint32_t i) {
  const MethodMeta meta = self->program.method_meta(method);
  switch (what) {
    case 0:
      return meta.num_inputs();
    case 1:
      return meta.num_outputs();
    case 2:
      return meta.num_planned_buffers();
    case 3:
      return meta.planned_buffer_size(i);
    case 4:
      return meta.method_memory_size();
    case 5:
      return meta.num_values();
    case 6:
      return meta.num_instructions();
    case 7:
      return meta.num_operators();
    case 8:
      return static_cast<uint64_t>(meta.input_tag(i));
    case 9:
      return static_cast<uint64_t>(meta.output_tag(i));
    default:
      return meta.name().size;
  }
}
/// A string about a method: 0 its name, 1 name of operator i, 2 overload of operator i, 3 input, 4 output encoding.
ETIR_EXPORT const char* etir_meta_string(const TestProgram* self, uint32_t method, int what, uint32_t i, size_t* size) {
  const MethodMeta meta = self->program.method_meta(method);
  const StringView text = what == 0   ? meta.name()
                          : what == 1 ? meta.operator_name(i)
                          : what == 2 ? meta.operator_overload(i)
                          : what == 3 ? meta.input_encoding()
                                      : meta.output_encoding();
  *size = text.size;
  return text.data;
}
ETIR_EXPORT void etir_meta_input(const TestProgram* self, uint32_t method, uint32_t i, TensorInfo* out) {
  *out = self->program.method_meta(method).input_tensor(i);
}

ETIR_EXPORT TestExternal* etir_external_new(const void* data, size_t size) {
  return new (std::malloc(sizeof(TestExternal))) TestExternal(data, size);
}
ETIR_EXPORT void etir_external_free(TestExternal* self) {
  self->~TestExternal();
  std::free(self);
}
ETIR_EXPORT uint32_t etir_external_load(TestExternal* self, int64_t* record) {
  const Error error = self->data.load(self->loader, &self->record);
  write_record(self->record, record);
  return static_cast<uint32_t>(error);
}
ETIR_EXPORT uint32_t etir_external_size(const TestExternal* self) { return self->data.size(); }

ETIR_EXPORT TestMethod* etir_method_new() { return new (std::malloc(sizeof(TestMethod))) TestMethod; }
ETIR_EXPORT void etir_method_free(TestMethod* self) {
  self->method.unload();
  self->~TestMethod();
  std::free(self);
}
ETIR_EXPORT uint32_t etir_method_load(TestMethod* self, const TestProgram* program, uint32_t index, void* memory,
                                      size_t memory_size, const PlannedBuffer* planned, size_t num_planned, void* temp,
                                      size_t temp_size, TestExternal* external, uint64_t max_instructions,
                                      int with_allocator, int64_t* record) {
  MethodMemory all;
  all.method.base = static_cast<uint8_t*>(memory);
  all.method.size = memory_size;
  all.planned = {planned, num_planned};
  all.temp.base = static_cast<uint8_t*>(temp);
  all.temp.size = temp_size;
  MethodOptions options;
  options.kernels = {&kKernels, 1};
  options.backends = {kTestBackends, 2};
  options.max_instructions = max_instructions;
  if (self->shared != nullptr) options.share = {&self->shared, 1};
  if (self->watched) options.events = {count_event, self};
  const ExternalData* data = external == nullptr ? nullptr : &external->data;
  if (external != nullptr) options.external = {&data, 1};
  if (with_allocator != 0) options.dynamic = {allocate_block, self, release_blocks};
  const Error error = self->method.load(program->program, index, all, options);
  write_record(self->method.error_record(), record);
  return static_cast<uint32_t>(error);
}
/// What the next load does besides: use the delegates of another method (or null), hear of events.
ETIR_EXPORT void etir_method_delegates(TestMethod* self, const TestMethod* shared, int watched) {
  self->shared = shared == nullptr ? nullptr : &shared->method;
  self->watched = watched != 0;
}
ETIR_EXPORT uint32_t etir_method_set_tensor(TestMethod* self, uint32_t i, const TensorInput* input, int64_t* record) {
  const Error error = self->method.set_input(i, *input);
  write_record(self->method.error_record(), record);
  return static_cast<uint32_t>(error);
}
ETIR_EXPORT uint32_t etir_method_set_number(TestMethod* self, uint32_t i, uint8_t tag, uint64_t bits, int64_t* record) {
  Value value;
  value.tag = static_cast<Tag>(tag);
  if (value.tag == Tag::Bool) {
    value.payload.boolean = bits != 0;
  } else {
    value.payload.integer = static_cast<int64_t>(bits);
  }
  const Error error = self->method.set_input(i, value);
  write_record(self->method.error_record(), record);
  return static_cast<uint32_t>(error);
}
ETIR_EXPORT uint32_t etir_method_set_output(TestMethod* self, uint32_t i, void* data, size_t size, int64_t* record) {
  const Error error = self->method.set_output_data(i, data, size);
  write_record(self->method.error_record(), record);
  return static_cast<uint32_t>(error);
}
/// what: 0 execute, 1 step, 2 reset.
ETIR_EXPORT uint32_t etir_method_run(TestMethod* self, int what, int64_t* record) {
  const Error error = what == 0 ? self->method.execute() : what == 1 ? self->method.step() : self->method.reset();
  write_record(self->method.error_record(), record);
  return static_cast<uint32_t>(error);
}
/// The kind of output i; its payload, a pointer for tensors, lists and strings.
ETIR_EXPORT uint8_t etir_method_output(const TestMethod* self, uint32_t i, uint64_t* bits) {
  const Value value = self->method.output(i);
  *bits = 0;
  if (value.tag == Tag::Bool) {
    *bits = value.payload.boolean ? 1 : 0;
  } else if (value.tag != Tag::None) {
    std::memcpy(bits, &value.payload, value.tag <= Tag::Double ? sizeof(*bits) : sizeof(void*));
  }
  return static_cast<uint8_t>(value.tag);
}
ETIR_EXPORT uint32_t etir_method_list_size(const TestMethod* self, uint32_t i) {
  return flat::Vector{self->method.output(i).payload.vector}.count();
}
/// Item k of the list that output i is: a number's bits, or a tensor's address.
ETIR_EXPORT uint64_t etir_method_list_item(const TestMethod* self, uint32_t i, uint32_t k) {
  const Value value = self->method.output(i);
  if (value.tag == Tag::IntList) return static_cast<uint64_t>(self->method.int_list(value)[k]);
  if (value.tag == Tag::BoolList) return Method::bool_list(value)[k] ? 1 : 0;
  if (value.tag == Tag::DoubleList) {
    uint64_t bits;
    const double real = Method::double_list(value)[k];
    std::memcpy(&bits, &real, sizeof(bits));
    return bits;
  }
  return reinterpret_cast<uintptr_t>(self->method.tensor_list(value).get(k));
}
/// what: 0 method memory, 1 temp peak, 2 next instruction, 3 releases of the allocator, 4 events of delegates that
/// began, 5 that ended, 6 the last one: delegate * 65536 + id.
ETIR_EXPORT uint64_t etir_method_number(const TestMethod* self, int what) {
  switch (what) {
    case 0:
      return self->method.method_memory_used();
    case 1:
      return self->method.temp_memory_peak();
    case 2:
      return self->method.next_instruction();
    case 4:
      return self->begun;
    case 5:
      return self->ended;
    case 6:
      return self->last_event;
    default:
      return self->releases;
  }
}
}
