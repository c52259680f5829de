// Runs one method of a program in flash, with memory of exactly the sizes that the compiler reported, and prints the
// bytes of its outputs. What a firmware does, without a firmware around it.
//
// The build gives: the program's bytes (section .model, symbols etir_program and etir_program_end), the compiler's
// memory header (model_memory.h), and the inputs (model_inputs.h: ETIR_INPUTS, a list of X(data, dtype, rank, sizes)).
#include <cstdint>

#ifdef ETIR_REFERENCE_DELEGATE
#include "backends/reference/reference.h"
#endif
#ifdef ETIR_LINKED_NATIVE
#include "backends/native/native.h"
#include "etir_native.h"
#endif
#include "core/data_loader.h"
#include "core/error_text.h"
#ifdef ETIR_EMBEDDED_RECORDS
#include "devtools/recorder.h"
#endif
#include "embedded/semihosting.h"
#include "executor/method.h"
#include "executor/program.h"
#include "model_inputs.h"
#include "model_memory.h"

extern "C" {
extern const uint8_t etir_program[];
extern const uint8_t etir_program_end[];
}

namespace etir {
extern const KernelTable kKernels;

namespace {

#define ARENA __attribute__((section(".arena"), aligned(16)))
ARENA uint8_t method_memory[ETIR_FORWARD_METHOD_BYTES];
ARENA uint8_t planned_memory[ETIR_FORWARD_PLANNED_BYTES + 1];
ARENA uint8_t temp_memory[ETIR_FORWARD_TEMP_BYTES + 1];

#ifdef ETIR_EMBEDDED_RECORDS
ARENA Record records[ETIR_EMBEDDED_RECORDS];
#endif

int failed(const char* what, const ErrorRecord& record) {
  char text[kRecordTextSize];
  format_record(record, text);
  semihosting_print(what);
  semihosting_print(": ");
  semihosting_print(text);
  semihosting_print("\n");
  return 1;
}

Arena arena(uint8_t* data, size_t size) {
  Arena result;
  result.base = data;
  result.size = size;
  return result;
}

int run() {
  BufferDataLoader loader(etir_program, static_cast<size_t>(etir_program_end - etir_program));
  Program program;
  ErrorRecord record;
  if (program.load(loader, &record) != Error::Ok) return failed("program", record);
  const auto meta = program.method_meta("forward");
  if (!meta.ok()) return failed("no method forward", record);

  PlannedBuffer buffers[ETIR_FORWARD_PLANNED_COUNT + 1];
  constexpr uint64_t kSizes[] = {ETIR_FORWARD_PLANNED_SIZES 0};
  uint8_t* next = planned_memory;
  for (int i = 0; i < ETIR_FORWARD_PLANNED_COUNT; ++i) {
    buffers[i].data = next;
    buffers[i].size = kSizes[i];
    next += kSizes[i];
  }
  MethodMemory memory;
  memory.method = arena(method_memory, sizeof(method_memory));
  memory.planned = {buffers, ETIR_FORWARD_PLANNED_COUNT};
  memory.temp = arena(temp_memory, ETIR_FORWARD_TEMP_BYTES);
  MethodOptions options;
  options.kernels = {&kKernels, 1};
#ifdef ETIR_REFERENCE_DELEGATE
  options.backends = {&kReferenceBackend, 1};
#endif
#ifdef ETIR_LINKED_NATIVE
  options.backends = {&kLinkedNativeBackend, 1};
  options.native.linked = kLinkedNative;
#endif
#ifdef ETIR_EMBEDDED_RECORDS
  Recorder recorder({records, ETIR_EMBEDDED_RECORDS}, machine_ticks);
  options.events = recorder.sink();
#endif
  Method method;
  if (method.load(program, meta->index(), memory, options) != Error::Ok) return failed("load", method.error_record());

  uint32_t index = 0;
#define ETIR_SET_INPUT(bytes, type, dims, shape)                                                      \
  {                                                                                                   \
    TensorInput input;                                                                                \
    input.data = const_cast<uint8_t*>(bytes);                                                         \
    input.dtype = static_cast<ScalarType>(type);                                                      \
    input.rank = dims;                                                                                \
    input.sizes = shape;                                                                              \
    if (method.set_input(index++, input) != Error::Ok) return failed("input", method.error_record()); \
  }
  ETIR_INPUTS(ETIR_SET_INPUT)
  if (method.execute() != Error::Ok) return failed("execute", method.error_record());
  for (uint32_t i = 0; i < method.num_outputs(); ++i) {
    const Value value = method.output(i);
    if (value.tag != Tag::Tensor) continue;
    semihosting_print("output ");
    semihosting_print_hex(value.payload.tensor->ptr<const uint8_t>(),
                          static_cast<uint32_t>(value.payload.tensor->nbytes()));
  }
#ifdef ETIR_EMBEDDED_RECORDS
  // What et-inspect --records reads.
  semihosting_print("records ");
  semihosting_print_hex(reinterpret_cast<const uint8_t*>(recorder.records()),
                        static_cast<uint32_t>(sizeof(Record) * recorder.count()));
  semihosting_print_number("dropped_records ", static_cast<uint32_t>(recorder.dropped()));
#endif
  semihosting_print_number("method_memory ", static_cast<uint32_t>(method.method_memory_used()));
  semihosting_print_number("temp_memory ", static_cast<uint32_t>(method.temp_memory_peak()));
  return 0;
}

}  // namespace
}  // namespace etir

int main() { return etir::run(); }
