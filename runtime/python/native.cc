// The native module etir.runtime._native: programs and methods for runtime/python/__init__.py, which is what users see.
//
// A failure becomes the exception that `failure` of runtime/python/errors.py makes of its parts; the texts come from
// core/checks.def.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <stdexcept>
#include <string_view>

#include "devtools/etdump_writer.h"
#include "devtools/recording.h"
#include "platform/describe.h"
#include "platform/host_module.h"
#include "platform/library.h"
#include "python/arrays.h"
#include "python/language_models.h"

namespace nb = nanobind;

namespace etir {
namespace {

/// Text from a file, which may hold anything, as a str.
nb::object text_of(const char* data, size_t size) {
  return nb::steal(PyUnicode_DecodeUTF8(data, static_cast<Py_ssize_t>(size), "replace"));
}
nb::object text_of(const std::string& text) { return text_of(text.data(), text.size()); }
nb::object text_of(StringView text) { return text_of(text.data == nullptr ? "" : text.data, text.size); }

[[noreturn]] void raise(const host::Status& status) {
  const ErrorRecord& record = status.record;
  // Looked up each time: a reference of this module's own would keep the function's module alive at the end, and all
  // that anybody has put there.
  const nb::object modules = nb::module_::import_("sys").attr("modules");
  const nb::object errors = modules.attr("get")("etir.runtime.errors");
  if (errors.is_none()) throw std::runtime_error(status.message);
  const nb::object factory = errors.attr("failure");
  nb::object exception = factory(static_cast<int>(record.check), check_name(record.check), error_name(status.error),
                                 text_of(status.message), text_of(status.method), record.instruction,
                                 text_of(status.op), record.a, record.b);
  PyErr_SetObject(reinterpret_cast<PyObject*>(exception.ptr()->ob_type), exception.ptr());
  throw nb::python_error();
}

[[noreturn]] void raise(Error error, const std::string& message, const MethodMeta* meta = nullptr,
                        Check check = Check::None) {
  host::Status status;
  status.error = error;
  status.message = message;
  status.record.check = check;
  if (meta != nullptr) status.method = std::string(meta->name().data, meta->name().size);
  raise(status);
}

/// Whether a program has kernels that read packed weights by lines of the cache.
bool reads_lines(const etir::Program& program) {
  constexpr std::string_view kReaders[] = {"etir::int8_conv2d",         "etir::int8_conv_transpose2d",
                                           "etir::int8_dynamic_linear", "etir::int8_float_conv2d",
                                           "etir::int8_float_linear",   "etir::int8_linear"};
  for (uint32_t m = 0; m < program.num_methods(); ++m) {
    const MethodMeta meta = program.method_meta(m);
    for (uint32_t i = 0; i < meta.num_operators(); ++i) {
      const StringView name = meta.operator_name(i);
      const auto* const end = std::end(kReaders);
      if (std::find(std::begin(kReaders), end, std::string_view(name.data, name.size)) != end) return true;
    }
  }
  return false;
}

/// The bytes of a file (a str), or of an object with a buffer: used in place when it is read-only and aligned.
host::Bytes bytes_of(nb::handle source, bool map) {
  host::Status status;
  host::Bytes bytes;
  if (PyUnicode_Check(source.ptr())) {
    const std::string path = nb::cast<std::string>(source);
    const nb::gil_scoped_release release;
    bytes = map ? host::map_file(path, &status) : host::read_file(path, &status);
  } else {
    auto view = std::make_unique<Py_buffer>();
    if (PyObject_GetBuffer(source.ptr(), view.get(), PyBUF_SIMPLE) != 0) throw nb::python_error();
    const std::shared_ptr<Py_buffer> held(view.release(), [](Py_buffer* kept) {
      const nb::gil_scoped_acquire acquire;
      PyBuffer_Release(kept);
      delete kept;
    });
    const size_t size = static_cast<size_t>(held->len);
    if (held->readonly && reinterpret_cast<uintptr_t>(held->buf) % 16 == 0) {
      bytes = {held, held->buf, size};
    } else {
      bytes = host::copy_bytes(held->buf, size);
    }
    if (bytes.data == nullptr) raise(Error::MemoryAllocationFailed, "the machine has no memory left for the program");
  }
  if (!status.ok()) raise(status);
  return bytes;
}

/// (kind, dtype, shape, dim order, dynamic, name)
nb::tuple describe_tensor(const TensorInfo& info) {
  nb::list shape, order;
  for (int d = 0; d < info.rank; ++d) shape.append(info.sizes[d]);
  for (int d = 0; d < info.rank; ++d) order.append(info.dim_order == nullptr ? d : static_cast<int>(info.dim_order[d]));
  return nb::make_tuple("tensor", dtype_name(info.dtype), nb::tuple(shape), nb::tuple(order),
                        info.dynamism != Dynamism::Static, text_of(info.name));
}

nb::tuple describe_value(Tag tag) { return nb::make_tuple(kind_name(tag)); }

/// (kind, the one value that the input may have or None when it may have others)
nb::tuple describe_scalar_input(const MethodMeta& meta, uint32_t i) {
  const Value own = meta.input_value(i);
  nb::object fixed = nb::none();
  if (own.tag == Tag::String) {
    fixed = text_of(Method::string(own));
  } else if (own.tag <= Tag::Double && !meta.input_varies(i)) {
    if (own.tag == Tag::Int) fixed = nb::int_(own.payload.integer);
    if (own.tag == Tag::Bool) fixed = nb::bool_(own.payload.boolean);
    if (own.tag == Tag::Double) fixed = nb::float_(own.payload.real);
  }
  return nb::make_tuple(kind_name(own.tag), fixed);
}

/// The runs of a method, recorded.
class PythonRecording {
 public:
  PythonRecording(std::shared_ptr<host::Method> method, const host::RecordingOptions& options)
      : method_(std::move(method)), recording_(options) {
    if (!recording_.ok()) raise(Error::MemoryAllocationFailed, "the machine has no memory left for a recording");
  }

  host::Recording& recording() { return recording_; }

  /// (instruction, name, nanoseconds) of the instructions of all runs
  nb::list times() const {
    nb::list rows;
    for (const host::InstructionTime& row : host::instruction_times(recording_.recorder())) {
      const nb::object name = text_of(method_->module()->instruction_label(method_->meta().index(), row.instruction));
      rows.append(nb::make_tuple(row.instruction, name, row.nanoseconds));
    }
    return rows;
  }
  nb::bytes records() const {
    const Recorder& recorder = recording_.recorder();
    return nb::bytes(recorder.records(), sizeof(Record) * recorder.count());
  }
  /// (record, whether it is an output, number or None, (dtype, sizes, strides, offset) of each tensor or None)
  nb::list values() const {
    nb::list rows;
    for (const host::LoggedValue& value : recording_.values()) {
      nb::object number = nb::none(), tensors = nb::none();
      switch (value.tag) {
        case Tag::Int:
          number = nb::int_(value.number.integer);
          break;
        case Tag::Bool:
          number = nb::bool_(value.number.boolean);
          break;
        case Tag::Double:
          number = nb::float_(value.number.real);
          break;
        default:
          tensors = tensors_of(value);
      }
      rows.append(nb::make_tuple(value.record, value.output, kind_name(value.tag), number, tensors));
    }
    return rows;
  }
  nb::bytes value_bytes() const { return nb::bytes(recording_.value_bytes(), recording_.num_value_bytes()); }
  nb::tuple dropped() const { return nb::make_tuple(recording_.recorder().dropped(), recording_.dropped_values()); }
  std::pair<uint64_t, uint64_t> load_ticks() const { return method_->load_ticks(); }
  nb::bytes etdump() const {
    std::string data;
    {
      const nb::gil_scoped_release release;
      data = host::write_etdump(recording_, *method_);
    }
    return nb::bytes(data.data(), data.size());
  }

 private:
  nb::list tensors_of(const host::LoggedValue& value) const {
    nb::list rows;
    for (size_t i = 0; i < value.count; ++i) {
      const host::LoggedTensor& tensor = recording_.tensors()[value.first + i];
      const int64_t* dims = recording_.dims().data() + tensor.dims;
      nb::list sizes, strides;
      for (int d = 0; d < tensor.rank; ++d) sizes.append(dims[d]);
      for (int d = 0; d < tensor.rank; ++d) strides.append(dims[tensor.rank + d]);
      rows.append(nb::make_tuple(static_cast<int>(tensor.dtype), nb::tuple(sizes), nb::tuple(strides), tensor.offset));
    }
    return rows;
  }

  std::shared_ptr<host::Method> method_;
  host::Recording recording_;
};

class PythonMethod {
 public:
  explicit PythonMethod(std::shared_ptr<host::Method> method) : method_(std::move(method)) {}

  nb::list run(nb::handle inputs, bool torch) { return run(inputs, torch, nullptr); }

  /// Runs `repeat` times and records it: the outputs of the last run, and the recording.
  nb::tuple record(nb::handle inputs, bool torch, int repeat, bool values, size_t most_records,
                   size_t most_value_bytes) {
    host::RecordingOptions options;
    options.values = values;
    options.most_records = most_records;
    options.most_value_bytes = most_value_bytes;
    auto recording = std::make_unique<PythonRecording>(method_, options);
    nb::list outputs;
    for (int i = 0; i < repeat; ++i) outputs = run(inputs, torch, &recording->recording());
    return nb::make_tuple(outputs, nb::cast(recording.release(), nb::rv_policy::take_ownership));
  }

  nb::tuple memory() const {
    nb::list planned;
    for (const uint64_t size : method_->planned_bytes()) planned.append(size);
    return nb::make_tuple(method_->method_bytes(), nb::tuple(planned), method_->temp_bytes());
  }

 private:
  nb::list run(nb::handle objects, bool torch, host::Recording* recording) {
    const MethodMeta meta = method_->meta();
    PythonInputs inputs(meta);
    for (nb::handle object : objects) {
      const std::string wrong = inputs.add(object);
      if (!wrong.empty()) {
        raise(Error::InvalidArgument, "input " + std::to_string(inputs.inputs().size()) + " " + wrong, &meta,
              Check::InputKind);
      }
    }
    std::vector<host::Output> outputs;
    outputs.reserve(meta.num_outputs());
    host::Status status;
    {
      const nb::gil_scoped_release release;
      status = method_->run(inputs.inputs(), &outputs, recording);
    }
    if (!status.ok()) raise(status);
    inputs.return_written();
    nb::list result;
    for (host::Output& output : outputs) result.append(to_python(output, torch, inputs.exchange()));
    return result;
  }

  std::shared_ptr<host::Method> method_;
};

class PythonProgram {
 public:
  PythonProgram(nb::handle source, nb::list external, const std::string& isa, int threads, bool map, size_t temp_bytes,
                uint64_t seed, bool trusted, nb::list listed, bool told) {
    host::Options options;
    options.isa = isa;
    options.threads = threads;
    options.temp_bytes = temp_bytes;
    options.seed = seed;
    if (trusted) options.native = NativeCode::Policy::Trusted;
    if (!told) {
      options.native = NativeCode::Policy::Verify;
      options.verify = [this](Span<const uint8_t>) { return !(refused_ = true); };
    }
    for (nb::handle item : listed) {
      const nb::bytes digest = nb::cast<nb::bytes>(item);
      ImageDigest image = {};
      if (digest.size() != sizeof(image.bytes)) throw nb::value_error("a digest has 32 bytes");
      std::memcpy(image.bytes, digest.c_str(), sizeof(image.bytes));
      options.listed.push_back(image);
      options.native = NativeCode::Policy::Listed;
    }
    host::Bytes bytes = bytes_of(source, map);
    std::vector<host::Bytes> data;
    for (nb::handle item : external) data.push_back(bytes_of(item, map));
    host::Status status;
    {
      const nb::gil_scoped_release release;
      module_ = host::Module::load(bytes, data, options, &status);
      // The file has such weights at the beginnings of lines.
      const bool in_lines = reinterpret_cast<uintptr_t>(bytes.data) % host::kHostAlignment == 0;
      if (module_ != nullptr && !in_lines && reads_lines(module_->program())) {
        const host::Bytes copy = host::copy_bytes(bytes.data, bytes.size);
        if (copy.data != nullptr) module_ = host::Module::load(copy, std::move(data), options, &status);
      }
    }
    if (module_ == nullptr) raise(status);
  }

  nb::list methods() const {
    nb::list names;
    for (uint32_t i = 0; i < module_->program().num_methods(); ++i) {
      names.append(text_of(module_->program().method_meta(i).name()));
    }
    return names;
  }

  /// (inputs, outputs, how the inputs are packed into containers, how the outputs are)
  nb::tuple signature(uint32_t index) const {
    const MethodMeta meta = module_->program().method_meta(index);
    nb::list inputs, outputs;
    for (uint32_t i = 0; i < meta.num_inputs(); ++i) {
      const Tag tag = meta.input_tag(i);
      inputs.append(tag == Tag::Tensor ? describe_tensor(meta.input_tensor(i)) : describe_scalar_input(meta, i));
    }
    for (uint32_t i = 0; i < meta.num_outputs(); ++i) {
      const Tag tag = meta.output_tag(i);
      outputs.append(tag == Tag::Tensor ? describe_tensor(meta.output_tensor(i)) : describe_value(tag));
    }
    return nb::make_tuple(inputs, outputs, text_of(meta.input_encoding()), text_of(meta.output_encoding()));
  }

  /// A method. Unless it is to be `alone`, it uses the delegates of methods that were loaded before in this way.
  PythonMethod* load_method(uint32_t index, bool alone) {
    host::Status status;
    std::shared_ptr<host::Method> method;
    {
      const nb::gil_scoped_release release;
      const std::lock_guard<std::mutex> lock(together_mutex_);
      std::vector<std::shared_ptr<host::Method>> share;
      for (const auto& other : together_) {
        auto alive = other.lock();
        if (alive != nullptr && !alone) share.push_back(std::move(alive));
      }
      method = module_->load_method(index, &status, share);
      if (method != nullptr && !alone) together_.push_back(method);
    }
    if (method == nullptr) raise(status);
    return new PythonMethod(std::move(method));
  }

  const std::string& isa() const { return module_->isa(); }
  int threads() const { return module_->threads(); }
  /// Whether a method has code for this processor that is not run since nobody said whether it may.
  bool refused() const { return refused_; }

 private:
  std::atomic<bool> refused_ = false;
  std::shared_ptr<host::Module> module_;
  std::mutex together_mutex_;
  std::vector<std::weak_ptr<host::Method>> together_;  ///< methods that share delegates
};

}  // namespace
}  // namespace etir

NB_MODULE(_native, module) {
  etir::define_language_models(module);
  using etir::PythonMethod;
  using etir::PythonProgram;
  using etir::PythonRecording;
  // A program that somebody still has at the end of the process (a daemon thread, another library's table) is no leak
  // of this module's. Tests turn the reports on.
  nb::set_leak_warnings(false);
  nb::class_<PythonProgram>(module, "Program")
      .def(nb::init<nb::handle, nb::list, const std::string&, int, bool, size_t, uint64_t, bool, nb::list, bool>())
      .def_prop_ro("methods", &PythonProgram::methods)
      .def_prop_ro("isa", &PythonProgram::isa)
      .def_prop_ro("threads", &PythonProgram::threads)
      .def_prop_ro("refused", &PythonProgram::refused)
      .def("signature", &PythonProgram::signature)
      .def("load_method", &PythonProgram::load_method, nb::arg("index"), nb::arg("alone") = false,
           nb::rv_policy::take_ownership);
  nb::class_<PythonRecording>(module, "Recording")
      .def("times", &PythonRecording::times)
      .def("etdump", &PythonRecording::etdump)
      .def_prop_ro("records", &PythonRecording::records)
      .def_prop_ro("values", &PythonRecording::values)
      .def_prop_ro("value_bytes", &PythonRecording::value_bytes)
      .def_prop_ro("dropped", &PythonRecording::dropped)
      .def_prop_ro("load_ticks", &PythonRecording::load_ticks);
  nb::class_<PythonMethod>(module, "Method")
      .def("run", nb::overload_cast<nb::handle, bool>(&PythonMethod::run))
      .def("record", &PythonMethod::record)
      .def_prop_ro("memory", &PythonMethod::memory);
  module.def("report_leaks", [](bool report) { nb::set_leak_warnings(report); });
  module.def("operators", [] {
    nb::list names;
    const auto add = [&names](const etir::KernelTable& table) {
      for (uint32_t i = 0; i < table.count; ++i) names.append(table.rows[i].name);
    };
    for (const etir::KernelTable& table : etir::host::loaded_libraries()->kernels) add(table);
    add(etir::kKernels);
    return names;
  });
  module.def("load_library", [](const std::string& path) {
    etir::host::LibraryContents contents;
    const etir::host::Status status = etir::host::load_library(path, &contents);
    if (!status.ok()) etir::raise(status);
    return nb::make_tuple(contents.operators, contents.backends);
  });
}
