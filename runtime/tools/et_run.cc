// et-run, stand-alone: execute a method of a program on .npy or raw files. The Python package has a tool of the same
// name, which reads .npz files.
//
// Exit codes are those of the Python tools: 0 done, 1 a message was printed, 2 the command line is wrong.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/error_text.h"
#include "devtools/bundled.h"
#include "devtools/etdump_writer.h"
#include "devtools/recording.h"
#include "platform/describe.h"
#include "platform/host_module.h"
#include "platform/library.h"
#include "tools/npy.h"

namespace etir {
namespace {

constexpr char kHelp[] = R"(usage: et-run MODEL.pte [options]

Execute a method of a program and print or write its outputs.

  --method NAME      the method (default: forward)
  --input FILE       the next tensor input: a .npy file, or any other file with the tensor's bytes and nothing else;
                     inputs without a file are zeros
  --outputs PREFIX   write PREFIX0.npy, PREFIX1.npy, ... instead of printing
  --data FILE        a .ptd file with external weights; may be given several times
  --load-library FILE  a shared library with kernels or backends of your own; may be given several times
  --threads N        threads that a run may use (default: 1)
  --native           run machine code that the file brings along (default: kernels run instead)
  --isa NAME         instruction set of the kernels (default: the best for this processor)
  --repeat N         run N times and print the shortest and the median time
  --profile          print the time of each operator
  --etdump FILE      write a profile of all runs, which ExecuTorch's Inspector and et-inspect read
  --values FILE      write what each instruction left, too, to which the profile refers
  --check            run the test cases of a bundled program (.bpte) and compare the outputs with what it expects
  --rtol X, --atol X  with --check: by how much of it, and besides, floats may differ (default: 1e-3, 1e-5)
  --list             print the methods with their inputs, outputs and memory, and execute nothing
  --help             print this text
)";

struct Arguments {
  std::string model, method = "forward", outputs, isa, etdump, values;
  std::vector<std::string> inputs, data, libraries;
  int threads = 1, repeat = 1;
  bool profile = false, list = false, native = false, check = false;
  double rtol = 1e-3, atol = 1e-5;
};

int complain(const char* id, const std::string& message) {
  std::fprintf(stderr, "error[%s]: %s\n", id, message.c_str());
  return id == std::string("E0901") ? 2 : 1;
}

int complain(const host::Status& status) {
  std::fprintf(stderr, "error[%s]: %s\n", error_name(status.error), status.message.c_str());
  if (!status.method.empty()) {
    std::fprintf(stderr, "  note: in method '%s'", status.method.c_str());
    if (status.record.instruction >= 0) std::fprintf(stderr, ", instruction %d", status.record.instruction);
    if (!status.op.empty()) std::fprintf(stderr, ", operator %s", status.op.c_str());
    std::fprintf(stderr, "\n");
  }
  if (status.record.check != Check::None) {
    char text[kRecordTextSize];
    format_record(status.record, text);
    std::fprintf(stderr, "  note: %s\n  help: et-translate --decode-error says which line of the model it is\n", text);
  }
  return 1;
}

/// An empty text, or what is wrong.
std::string parse(int argc, char** argv, Arguments* out) {
  const std::map<std::string, std::string*> texts = {{"--method", &out->method},
                                                     {"--outputs", &out->outputs},
                                                     {"--isa", &out->isa},
                                                     {"--etdump", &out->etdump},
                                                     {"--values", &out->values}};
  const std::map<std::string, std::vector<std::string>*> lists = {
      {"--input", &out->inputs}, {"--data", &out->data}, {"--load-library", &out->libraries}};
  const std::map<std::string, int*> numbers = {{"--threads", &out->threads}, {"--repeat", &out->repeat}};
  const std::map<std::string, double*> reals = {{"--rtol", &out->rtol}, {"--atol", &out->atol}};
  const std::map<std::string, bool*> flags = {
      {"--profile", &out->profile}, {"--list", &out->list}, {"--check", &out->check}, {"--native", &out->native}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (const auto flag = flags.find(word); flag != flags.end()) {
      *flag->second = true;
      continue;
    }
    if (word.rfind("--", 0) != 0) {
      if (!out->model.empty()) return "more than one model: '" + out->model + "' and '" + word + "'";
      out->model = word;
      continue;
    }
    const auto text = texts.find(word);
    const auto list = lists.find(word);
    const auto number = numbers.find(word);
    const auto real = reals.find(word);
    if (text == texts.end() && list == lists.end() && number == numbers.end() && real == reals.end()) {
      return "no option '" + word + "'";
    }
    if (++i == argc) return word + " needs a value";
    if (text != texts.end()) *text->second = argv[i];
    if (list != lists.end()) list->second->push_back(argv[i]);
    if (real != reals.end()) {
      char* end = nullptr;
      *real->second = std::strtod(argv[i], &end);
      if (*end != '\0' || !(*real->second >= 0)) return word + " needs a number from 0 on, not '" + argv[i] + "'";
    }
    if (number != numbers.end()) {
      char* end = nullptr;
      const long value = std::strtol(argv[i], &end, 10);
      if (*end != '\0' || value < 1 || value > 1000000)
        return word + " needs a number from 1 on, not '" + argv[i] + "'";
      *number->second = static_cast<int>(value);
    }
  }
  if (out->etdump.empty() && !out->values.empty()) return "--values needs --etdump, the profile that refers to them";
  return out->model.empty() ? "no model" : "";
}

std::string text_of(const TensorInfo& info) {
  std::string text = std::string(dtype_name(info.dtype)) + "[";
  for (int d = 0; d < info.rank; ++d) {
    text += (d == 0 ? "" : ", ") + std::string(info.dynamism == Dynamism::Static ? "" : "<=") +
            std::to_string(info.sizes[d]);
  }
  return text + "]";
}

void print_methods(const Program& program) {
  for (uint32_t m = 0; m < program.num_methods(); ++m) {
    const MethodMeta meta = program.method_meta(m);
    std::printf("%.*s: %u instructions, %zu bytes of method memory\n", static_cast<int>(meta.name().size),
                meta.name().data, meta.num_instructions(), meta.method_memory_size());
    for (uint32_t i = 0; i < meta.num_inputs(); ++i) {
      const bool tensor = meta.input_tag(i) == Tag::Tensor;
      std::printf("  input %u: %s\n", i, tensor ? text_of(meta.input_tensor(i)).c_str() : kind_name(meta.input_tag(i)));
    }
    for (uint32_t i = 0; i < meta.num_outputs(); ++i) {
      const bool tensor = meta.output_tag(i) == Tag::Tensor;
      std::printf("  output %u: %s\n", i,
                  tensor ? text_of(meta.output_tensor(i)).c_str() : kind_name(meta.output_tag(i)));
    }
    for (uint32_t i = 0; i < meta.num_planned_buffers(); ++i) {
      std::printf("  planned memory %u: %llu bytes\n", i + 1,
                  static_cast<unsigned long long>(meta.planned_buffer_size(i)));
    }
  }
}

/// The array for a tensor input: from a .npy file, from raw bytes, or zeros without a file.
std::string read_input(const std::string& path, const TensorInfo& info, Array* array) {
  array->dtype = info.dtype;
  array->sizes.assign(info.sizes, info.sizes + info.rank);
  array->order.resize(info.rank);
  std::iota(array->order.begin(), array->order.end(), uint8_t{0});
  if (info.dim_order != nullptr) std::copy_n(info.dim_order, info.rank, array->order.begin());
  if (path.empty()) {
    array->bytes.resize(static_cast<size_t>(info.nbytes));
    return "";
  }
  if (path.size() > 4 && path.compare(path.size() - 4, 4, ".npy") == 0) return read_npy(path, array);
  host::Status status;
  const host::Bytes bytes = host::read_file(path, &status);
  if (!status.ok()) return status.message;
  if (bytes.size != info.nbytes) {
    return "'" + path + "' has " + std::to_string(bytes.size) + " bytes, the input " + text_of(info) + " has " +
           std::to_string(info.nbytes);
  }
  const char* data = static_cast<const char*>(bytes.data);
  array->bytes.assign(data, data + bytes.size);
  return "";
}

template <typename T, typename Convert>
void print_values(const host::Output& output, const Convert& convert) {
  constexpr size_t kMost = 16;
  const size_t count = output.nbytes / sizeof(T);
  for (size_t i = 0; i < std::min(count, kMost); ++i) {
    T value;
    std::memcpy(&value, output.values<char>() + i * sizeof(T), sizeof(T));
    std::printf(" %.7g", static_cast<double>(convert(value)));
  }
  std::printf(count > kMost ? " ...\n" : "\n");
}

void print_output(const std::string& label, const host::Output& output) {
  const auto same = [](auto value) { return value; };
  switch (output.tag) {
    case Tag::Int:
      std::printf("%s = %lld\n", label.c_str(), static_cast<long long>(output.scalar.integer));
      break;
    case Tag::Bool:
      std::printf("%s = %s\n", label.c_str(), output.scalar.boolean ? "true" : "false");
      break;
    case Tag::Double:
      std::printf("%s = %.17g\n", label.c_str(), output.scalar.real);
      break;
    case Tag::String:
      std::printf("%s = \"%s\"\n", label.c_str(), output.text.c_str());
      break;
    case Tag::Tensor: {
      std::string shape;
      for (const int32_t size : output.sizes) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
      std::printf("%s: %s[%s]\n ", label.c_str(), dtype_name(output.dtype), shape.c_str());
      switch (output.dtype) {
        case ScalarType::Half:
          print_values<uint16_t>(output, [](uint16_t bits) { return detail::half_to_float(bits); });
          break;
        case ScalarType::BFloat16:
          print_values<uint16_t>(output, [](uint16_t bits) { return detail::bfloat16_to_float(bits); });
          break;
#define ETIR_PRINT(type, name)        \
  case ScalarType::name:              \
    print_values<type>(output, same); \
    break;
          ETIR_PRINT(uint8_t, Byte)
          ETIR_PRINT(uint8_t, Bool)
          ETIR_PRINT(int8_t, Char)
          ETIR_PRINT(int16_t, Short)
          ETIR_PRINT(int32_t, Int)
          ETIR_PRINT(int64_t, Long)
          ETIR_PRINT(float, Float)
          ETIR_PRINT(double, Double)
          ETIR_PRINT(uint16_t, UInt16)
          ETIR_PRINT(uint32_t, UInt32)
          ETIR_PRINT(uint64_t, UInt64)
#undef ETIR_PRINT
        default:
          std::printf(" %zu bytes\n", output.nbytes);
      }
      break;
    }
    default:
      std::printf("%s: %s of %zu\n", label.c_str(), kind_name(output.tag), output.items.size());
      for (size_t i = 0; i < output.items.size(); ++i) print_output(label + "." + std::to_string(i), output.items[i]);
  }
}

void print_profile(const host::Method& method, const std::vector<host::InstructionTime>& times) {
  std::map<std::string, std::pair<int, int64_t>> by_operator;
  int64_t total = 0;
  for (const host::InstructionTime& row : times) {
    auto& sum = by_operator[method.module()->instruction_label(method.meta().index(), row.instruction)];
    ++sum.first;
    sum.second += row.nanoseconds;
    total += row.nanoseconds;
  }
  std::vector<std::pair<std::string, std::pair<int, int64_t>>> rows(by_operator.begin(), by_operator.end());
  std::stable_sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.second.second > b.second.second; });
  std::printf("%-48s %6s %12s %7s\n", "operator", "calls", "us", "share");
  for (const auto& [name, sum] : rows) {
    std::printf("%-48s %6d %12.1f %5.1f %%\n", name.c_str(), sum.first, static_cast<double>(sum.second) / 1e3,
                100.0 * static_cast<double>(sum.second) / static_cast<double>(std::max<int64_t>(total, 1)));
  }
  std::printf("%-48s %6zu %12.1f %5.1f %%\n", "all", times.size(), static_cast<double>(total) / 1e3, 100.0);
}

bool write_file(const std::string& path, const void* data, size_t size) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool written = std::fwrite(data, 1, size, file) == size;
  return std::fclose(file) == 0 && written;
}

int write_profile(const Arguments& arguments, const host::Recording& recording, const host::Method& method) {
  const std::string data = host::write_etdump(recording, method);
  if (data.empty()) return complain("E0903", "the profile is too large for its format: record fewer runs");
  if (!write_file(arguments.etdump, data.data(), data.size())) {
    return complain("E0903", "cannot write '" + arguments.etdump + "'");
  }
  if (!arguments.values.empty() &&
      !write_file(arguments.values, recording.value_bytes(), recording.num_value_bytes())) {
    return complain("E0903", "cannot write '" + arguments.values + "'");
  }
  const unsigned long long records = recording.recorder().dropped(), values = recording.dropped_values();
  if (records > 0) std::fprintf(stderr, "warning: %llu records did not fit and are missing\n", records);
  if (values > 0) std::fprintf(stderr, "warning: %llu values did not fit and are missing\n", values);
  return 0;
}

/// Runs the test cases of a bundled program; 1 when one gives something else than it should.
int check(const Arguments& arguments, const host::Options& options, host::Bytes bytes, std::vector<host::Bytes> data) {
  host::BundledProgram bundled;
  host::Status status = host::read_bundled(bytes, &bundled);
  if (!status.ok()) return complain("E0844", "'" + arguments.model + "': " + status.message);
  const auto module = host::Module::load(bundled.program, std::move(data), options, &status);
  if (module == nullptr) return complain(status);
  int code = 0;
  for (host::BundledSuite& suite : bundled.suites) {
    const auto method = module->load_method(suite.method, &status);
    if (method == nullptr) return complain(status);
    for (size_t i = 0; i < suite.cases.size(); ++i) {
      std::vector<host::Output> outputs;
      status = method->run(suite.cases[i].inputs, &outputs);
      if (!status.ok()) return complain(status);
      const auto& expected = suite.cases[i].expected;
      const std::string label = suite.method + ", case " + std::to_string(i) + ": ";
      const std::string wrong = host::difference(expected, outputs, arguments.rtol, arguments.atol);
      if (wrong.empty()) {
        std::printf("%s%zu outputs as expected\n", label.c_str(), expected.size());
      } else {
        code = complain("E0920", label + wrong);
      }
    }
  }
  return code;
}

int run(const Arguments& arguments) {
  host::Status status;
  for (const std::string& path : arguments.libraries) {
    status = host::load_library(path);
    if (!status.ok()) return complain(status);
  }
  host::Bytes bytes = host::read_file(arguments.model, &status);
  if (!status.ok()) return complain(status);
  std::vector<host::Bytes> data;
  for (const std::string& path : arguments.data) {
    data.push_back(host::read_file(path, &status));
    if (!status.ok()) return complain(status);
  }
  host::Options options;
  options.threads = arguments.threads;
  options.native = arguments.native ? NativeCode::Policy::Trusted : NativeCode::Policy::Verify;
  bool is_said = arguments.native;
  options.verify = [&](Span<const uint8_t>) {
    if (!is_said) {
      std::fprintf(stderr,
                   "%s: warning[E1216]: the file has machine code for this processor; what it stands for runs on "
                   "kernels\n  help: --native runs it\n",
                   arguments.model.c_str());
    }
    is_said = true;
    return false;
  };
  options.isa = arguments.isa;
  if (arguments.check) return check(arguments, options, std::move(bytes), std::move(data));
  if (host::is_bundled(bytes)) {
    return complain("E0901", "'" + arguments.model + "' is a bundled program: --check runs its test cases");
  }
  const auto module = host::Module::load(std::move(bytes), std::move(data), options, &status);
  if (module == nullptr) return complain(status);
  if (arguments.list) return print_methods(module->program()), 0;
  const auto method = module->load_method(arguments.method, &status);
  if (method == nullptr) return complain(status);

  const MethodMeta meta = method->meta();
  std::vector<host::Input> inputs(meta.num_inputs());
  std::vector<Array> arrays(inputs.size());
  size_t next = 0;
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    host::Input& input = inputs[i];
    input.tag = meta.input_tag(i);
    if (input.tag != Tag::Tensor) {
      // Numbers and texts are what the program was compiled for.
      const etir::Value own = meta.input_value(i);
      if (own.tag == Tag::String) {
        const etir::StringView text = etir::Method::string(own);
        input.text.assign(text.data, text.size);
      } else if (own.tag != Tag::None) {
        input.scalar = own.payload;
      }
      continue;
    }
    Array& array = arrays[i];
    const std::string path = next < arguments.inputs.size() ? arguments.inputs[next++] : "";
    const std::string wrong = read_input(path, meta.input_tensor(i), &array);
    if (!wrong.empty()) return complain("E0902", wrong);
    if (array.sizes.size() > static_cast<size_t>(kMaxRank))
      return complain("E0910", "'" + path + "' has too many dimensions");
    input.dtype = array.dtype;
    input.rank = static_cast<uint8_t>(array.sizes.size());
    std::copy(array.sizes.begin(), array.sizes.end(), input.sizes);
    std::copy(array.order.begin(), array.order.end(), input.order);
    input.data = array.bytes.data();
  }
  if (next < arguments.inputs.size()) {
    return complain("E0910", std::to_string(arguments.inputs.size()) + " inputs were given, the method takes " +
                                 std::to_string(next) + " tensors");
  }

  std::vector<host::Output> outputs;
  std::unique_ptr<host::Recording> recording;
  if (arguments.profile || !arguments.etdump.empty()) {
    host::RecordingOptions wanted;
    wanted.values = !arguments.values.empty();
    recording = std::make_unique<host::Recording>(wanted);
    if (!recording->ok()) return complain("E0910", "the machine has no memory left for a recording");
  }
  std::vector<double> runs;
  for (int i = 0; i < arguments.repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    status = method->run(inputs, &outputs, recording.get());
    if (!status.ok()) return complain(status);
    runs.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (arguments.outputs.empty()) {
      print_output("output_" + std::to_string(i), outputs[i]);
    } else if (outputs[i].tag == Tag::Tensor) {
      Array array;
      array.dtype = outputs[i].dtype;
      array.sizes = outputs[i].sizes;
      array.order = outputs[i].order;
      array.bytes.assign(outputs[i].values<char>(),
                         outputs[i].values<char>() + (outputs[i].data ? outputs[i].nbytes : 0));
      const std::string wrong = write_npy(arguments.outputs + std::to_string(i) + ".npy", array);
      if (!wrong.empty()) return complain("E0903", wrong);
    }
  }
  if (arguments.profile) print_profile(*method, host::instruction_times(recording->recorder()));
  if (!arguments.etdump.empty()) {
    const int code = write_profile(arguments, *recording, *method);
    if (code != 0) return code;
  }
  if (arguments.repeat > 1) {
    std::sort(runs.begin(), runs.end());
    std::printf("%d runs on %s kernels: shortest %.1f us, median %.1f us\n", arguments.repeat, module->isa().c_str(),
                runs.front(), runs[runs.size() / 2]);
  }
  return 0;
}

}  // namespace
}  // namespace etir

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--help") return std::fputs(etir::kHelp, stdout), 0;
  }
  etir::Arguments arguments;
  const std::string wrong = etir::parse(argc, argv, &arguments);
  if (!wrong.empty()) return etir::complain("E0901", "et-run: " + wrong + "; et-run --help lists the options");
  return etir::run(arguments);
}
