#include "capi/etir.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "devtools/etdump_writer.h"
#include "devtools/recording.h"
#include "platform/host_module.h"
#include "platform/value_names.h"

using etir::Tag;
namespace host = etir::host;

struct etir_program {
  std::shared_ptr<host::Module> module;
  std::vector<std::string> names;
};

struct etir_method {
  std::shared_ptr<host::Method> method;
  std::vector<std::string> input_names;
  std::vector<std::string> output_names;
  std::vector<host::Output> outputs;
  std::vector<etir_value> values;
  std::deque<std::vector<etir_value>> items;  // of lists; addresses must not change
  std::unique_ptr<host::Recording> recording;
  std::string profile;  // made when it is asked for
};

namespace {

thread_local std::string last_error;
thread_local int last_check = 0;

void remember(const host::Status& status) {
  last_error = status.message;
  if (!status.method.empty()) last_error += " (in method '" + status.method + "'";
  if (status.record.instruction >= 0) last_error += ", instruction " + std::to_string(status.record.instruction);
  if (!status.method.empty()) last_error += ")";
  last_check = static_cast<int>(status.record.check);
}

void remember(const char* message) {
  last_error = message;
  last_check = 0;
}

/// Calls `body`, which may run out of memory.
template <typename Result, typename Body>
Result guarded(Result failed, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    remember("the machine has no memory left");
    return failed;
  }
}

etir_program* load(host::Bytes bytes, std::vector<host::Bytes> data, int threads) {
  host::Status status;
  host::Options options;
  options.threads = std::max(threads, 1);
  auto module = host::Module::load(std::move(bytes), std::move(data), options, &status);
  if (module == nullptr) {
    remember(status);
    return nullptr;
  }
  auto result = std::make_unique<etir_program>();
  for (uint32_t i = 0; i < module->program().num_methods(); ++i) {
    const etir::StringView name = module->program().method_meta(i).name();
    result->names.emplace_back(name.data, name.size);
  }
  result->module = std::move(module);
  return result.release();
}

etir_value value_of(etir_method& method, host::Output& output) {
  etir_value value = {};
  value.kind = static_cast<etir_kind>(output.tag);
  switch (output.tag) {
    case Tag::Int:
      value.integer = output.scalar.integer;
      break;
    case Tag::Bool:
      value.integer = output.scalar.boolean ? 1 : 0;
      break;
    case Tag::Double:
      value.real = output.scalar.real;
      break;
    case Tag::String:
      value.text = output.text.c_str();
      break;
    case Tag::Tensor:
      value.dtype = static_cast<int32_t>(output.dtype);
      value.rank = static_cast<int32_t>(output.sizes.size());
      value.sizes = output.sizes.data();
      value.dim_order = output.order.data();
      value.data = output.data.get();
      value.nbytes = output.nbytes;
      break;
    default: {
      std::vector<etir_value> items;
      for (host::Output& item : output.items) items.push_back(value_of(method, item));
      method.items.push_back(std::move(items));
      value.items = method.items.back().data();
      value.count = method.items.back().size();
    }
  }
  return value;
}

const char* name_at(const std::vector<std::string>& names, size_t index) {
  return index < names.size() && !names[index].empty() ? names[index].c_str() : nullptr;
}

/// False for a value that no method takes.
bool input_of(const etir_value& value, host::Input* input) {
  input->tag = static_cast<Tag>(value.kind);
  switch (value.kind) {
    case ETIR_NONE:
      return true;
    case ETIR_INT:
      input->scalar.integer = value.integer;
      return true;
    case ETIR_BOOL:
      input->scalar.boolean = value.integer != 0;
      return true;
    case ETIR_DOUBLE:
      input->scalar.real = value.real;
      return true;
    case ETIR_STRING:
      input->text = value.text == nullptr ? "" : value.text;
      return true;
    case ETIR_TENSOR:
      if (value.rank < 0 || value.rank > etir::kMaxRank || value.dtype < 0 || value.dtype >= etir::kNumScalarTypes)
        return false;
      input->dtype = static_cast<etir::ScalarType>(value.dtype);
      input->rank = static_cast<uint8_t>(value.rank);
      input->data = value.data;
      for (int d = 0; d < value.rank; ++d) {
        input->sizes[d] = value.sizes[d];
        input->order[d] = value.dim_order == nullptr ? static_cast<uint8_t>(d) : value.dim_order[d];
      }
      return true;
    default:
      return false;
  }
}

}  // namespace

extern "C" {

etir_program* etir_program_open(const char* path, int threads) {
  return etir_program_open_with_data(path, nullptr, 0, threads);
}

etir_program* etir_program_open_with_data(const char* path, const char* const* data, size_t count, int threads) {
  return guarded<etir_program*>(nullptr, [&]() -> etir_program* {
    host::Status status;
    host::Bytes program = host::read_file(path, &status);
    std::vector<host::Bytes> external;
    for (size_t i = 0; i < count && status.ok(); ++i) external.push_back(host::read_file(data[i], &status));
    if (status.ok()) return load(std::move(program), std::move(external), threads);
    remember(status);
    return nullptr;
  });
}

etir_program* etir_program_load(const void* bytes, size_t size, int threads) {
  return guarded<etir_program*>(nullptr, [&] { return load(host::Bytes{nullptr, bytes, size}, {}, threads); });
}

void etir_program_free(etir_program* program) { delete program; }

size_t etir_program_num_methods(const etir_program* program) { return program->names.size(); }

const char* etir_program_method_name(const etir_program* program, size_t index) {
  return index < program->names.size() ? program->names[index].c_str() : nullptr;
}

etir_method* etir_method_load(etir_program* program, const char* name) {
  return guarded<etir_method*>(nullptr, [&]() -> etir_method* {
    host::Status status;
    auto method = std::make_unique<etir_method>();
    method->method = program->module->load_method(std::string(name), &status);
    if (method->method == nullptr) {
      remember(status);
      return nullptr;
    }
    method->input_names = host::input_names(method->method->meta());
    method->output_names = host::output_names(method->method->meta());
    return method.release();
  });
}

void etir_method_free(etir_method* method) { delete method; }

size_t etir_method_num_inputs(const etir_method* method) { return method->method->meta().num_inputs(); }
size_t etir_method_num_outputs(const etir_method* method) { return method->method->meta().num_outputs(); }

int etir_method_input_info(const etir_method* method, size_t index, etir_value* info) {
  const etir::MethodMeta meta = method->method->meta();
  if (index >= meta.num_inputs()) {
    remember("there is no such input");
    return 1;
  }
  *info = {};
  const uint32_t i = static_cast<uint32_t>(index);
  info->kind = static_cast<etir_kind>(meta.input_tag(i));
  if (info->kind == ETIR_TENSOR) {
    const etir::TensorInfo tensor = meta.input_tensor(i);
    info->dtype = static_cast<int32_t>(tensor.dtype);
    info->rank = tensor.rank;
    info->sizes = tensor.sizes;
    info->dim_order = tensor.dim_order;
    info->nbytes = static_cast<size_t>(tensor.nbytes);
  }
  return 0;
}

const char* etir_method_input_name(const etir_method* method, size_t index) {
  return name_at(method->input_names, index);
}

const char* etir_method_output_name(const etir_method* method, size_t index) {
  return name_at(method->output_names, index);
}

int etir_method_run(etir_method* method, const etir_value* inputs, size_t count) {
  return guarded(1, [&] {
    std::vector<host::Input> converted(count);
    for (size_t i = 0; i < count; ++i) {
      if (input_of(inputs[i], &converted[i])) continue;
      remember("an input has a kind, rank or dtype that no input has");
      return 1;
    }
    method->values.clear();
    method->items.clear();
    std::vector<host::Output> outputs;
    const host::Status status = method->method->run(converted, &outputs, method->recording.get());
    if (!status.ok()) {
      remember(status);
      return 1;
    }
    method->outputs = std::move(outputs);
    for (host::Output& output : method->outputs) method->values.push_back(value_of(*method, output));
    return 0;
  });
}

const etir_value* etir_method_output(const etir_method* method, size_t index) {
  return index < method->values.size() ? &method->values[index] : nullptr;
}

int etir_method_record(etir_method* method, int values) {
  return guarded(1, [&] {
    etir_method_stop_recording(method);
    host::RecordingOptions options;
    options.values = values != 0;
    auto recording = std::make_unique<host::Recording>(options);
    if (!recording->ok()) {
      remember("the machine has no memory left for a recording");
      return 1;
    }
    method->recording = std::move(recording);
    return 0;
  });
}

void etir_method_stop_recording(etir_method* method) {
  method->recording.reset();
  method->profile = std::string();
}

const void* etir_method_profile(etir_method* method, size_t* size) {
  return guarded<const void*>(nullptr, [&]() -> const void* {
    *size = 0;
    if (method->recording == nullptr) {
      remember("nothing is recorded: call etir_method_record before the runs");
      return nullptr;
    }
    method->profile = host::write_etdump(*method->recording, *method->method);
    if (method->profile.empty()) {
      remember("the profile is too large for its format: record fewer runs");
      return nullptr;
    }
    *size = method->profile.size();
    return method->profile.data();
  });
}

const void* etir_method_profile_values(etir_method* method, size_t* size) {
  *size = 0;
  if (method->recording == nullptr || !method->recording->keeps_values()) {
    remember("no values are recorded: call etir_method_record with values before the runs");
    return nullptr;
  }
  *size = method->recording->num_value_bytes();
  return method->recording->value_bytes();
}

uint64_t etir_method_num_dropped(const etir_method* method) {
  const host::Recording* recording = method->recording.get();
  return recording == nullptr ? 0 : recording->recorder().dropped() + recording->dropped_values();
}

const char* etir_last_error(void) { return last_error.c_str(); }
int etir_last_check(void) { return last_check; }
}
