#include "platform/host_module.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backends/native/native.h"
#include "backends/reference/reference.h"
#include "backends/xnnpack/xnnpack.h"
#include "devtools/recording.h"
#include "platform/code.h"
#include "platform/describe.h"
#include "platform/isa.h"
#include "platform/library.h"

namespace etir {
namespace host {

namespace {

const Backend kBuiltIn[] = {kReferenceBackend, kXnnpackBackend, kNativeBackend};

/// Temporary memory is address space until a kernel touches it.
constexpr size_t kTempReserve = sizeof(void*) == 8 ? size_t{1} << 32 : size_t{1} << 26;

Status failed_check(const ErrorRecord& record) {
  Status status;
  status.record = record;
  status.error = record.error();
  status.message = describe(record, "");
  return status;
}

std::string text(StringView view) { return view.data == nullptr ? std::string() : std::string(view.data, view.size); }

std::string operator_label(const MethodMeta& meta, uint32_t index) {
  if (index >= meta.num_operators()) return "";
  const std::string overload = text(meta.operator_overload(index));
  return text(meta.operator_name(index)) + (overload.empty() ? "" : "." + overload);
}

// Slots of the program's tables: program.fbs.
constexpr uint32_t kPlans = 1, kChains = 5, kInstructions = 2, kKind = 0, kCall = 1, kIndex = 0;

flat::Vector chains_of(const Bytes& bytes, uint32_t method) {
  const uint8_t* base = static_cast<const uint8_t*>(bytes.data);
  const flat::Table root{base + flat::read<uint32_t>(base)};
  return root.vector(kPlans).table(method).vector(kChains);
}

/// Folder of the program or library that this code is in.
std::string own_folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return ".";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

}  // namespace

const BackendTable kBackends = {kBuiltIn, sizeof(kBuiltIn) / sizeof(kBuiltIn[0])};

// --- programs -------------------------------------------------------------------------------------------------------

struct Module::External {
  explicit External(Bytes bytes) : bytes(std::move(bytes)), loader(this->bytes.data, this->bytes.size) {}
  const Bytes bytes;
  BufferDataLoader loader;
  ExternalData data;
};

Module::Module(Bytes bytes, const Options& options)
    : bytes_(std::move(bytes)), options_(options), loader_(bytes_.data, bytes_.size), pool_(options.threads) {}

std::shared_ptr<Module> Module::load(Bytes program, std::vector<Bytes> external, const Options& options,
                                     Status* status) {
  if (program.data == nullptr) {
    if (status->ok()) *status = refusal(Error::AccessFailed, "no program was given");
    return nullptr;
  }
  std::shared_ptr<Module> result(new Module(std::move(program), options));
  std::string wanted = options.isa;
  const char* variable = std::getenv("ETIR_ISA");
  if (wanted.empty() && variable != nullptr) wanted = variable;
  const IsaKernels kernels = select_kernels(*options.kernels, own_folder(), wanted);
  if (kernels.table == nullptr) {
    const char* why = processor_has(wanted) ? "this installation has no kernels for" : "this processor does not have";
    *status =
        refusal(Error::NotSupported, std::string(why) + " the instruction set '" + wanted +
                                         "'; leave ETIR_ISA unset, and no isa in the call, for the best that there is");
    return nullptr;
  }
  // Libraries' kernels before the built-in ones, those for the processor before those for any; backends likewise.
  const std::shared_ptr<const Libraries> libraries = loaded_libraries();
  result->kernels_ = libraries->kernels;
  if (kernels.table != options.kernels) result->kernels_.push_back(*kernels.table);
  result->kernels_.push_back(*options.kernels);
  result->isa_ = kernels.isa;
  result->backends_ = libraries->backends;
  result->backends_.insert(result->backends_.end(), options.backends.rows,
                           options.backends.rows + options.backends.count);
  ErrorRecord record;
  if (result->program_.load(result->loader_, &record) != Error::Ok) {
    *status = failed_check(record);
    return nullptr;
  }
  for (Bytes& bytes : external) {
    auto loaded = std::make_unique<External>(std::move(bytes));
    if (loaded->data.load(loaded->loader, &record) != Error::Ok) {
      *status = failed_check(record);
      return nullptr;
    }
    result->external_.push_back(std::move(loaded));
  }
  result->find_shared();
  return result;
}

std::shared_ptr<Module> Module::open(const std::string& path, Status* status) {
  return load(read_file(path, status), {}, Options(), status);
}

void Module::find_shared() {
  std::map<uint32_t, std::map<uint64_t, int>> users;  // planned buffer to size to methods that have it so
  for (uint32_t m = 0; m < program_.num_methods(); ++m) {
    const MethodMeta meta = program_.method_meta(m);
    for (uint32_t i = 1; i < meta.num_planned_buffers(); ++i) {
      if (meta.planned_buffer_size(i) > 0) ++users[i][meta.planned_buffer_size(i)];
    }
  }
  for (const auto& [buffer, sizes] : users) {
    if (sizes.size() == 1 && sizes.begin()->second > 1) shared_[buffer].size = sizes.begin()->first;
  }
}

bool Module::uses_shared(const MethodMeta& meta) const {
  for (const auto& [buffer, shared] : shared_) {
    if (buffer < meta.num_planned_buffers() && meta.planned_buffer_size(buffer) > 0) return true;
  }
  return false;
}

/// Makes the shared buffers, once, with the initial data of all methods. Each method is loaded on its own for that: it
/// leaves its initial data, and zeros where it has none, so that the contents join bit by bit.
bool Module::fill_shared() {
  for (auto& [buffer, shared] : shared_) {
    if (shared.data != nullptr) return true;
    shared.data = allocate_zeros(shared.size);
    if (shared.data == nullptr) return false;
  }
  for (uint32_t m = 0; m < program_.num_methods(); ++m) {
    if (!uses_shared(program_.method_meta(m))) continue;
    Method method(shared_from_this(), m);
    // A method that cannot be loaded here cannot be loaded at all, which its user is told then.
    if (method.load(false) != Error::Ok) continue;
    for (auto& [buffer, shared] : shared_) {
      if (buffer >= method.planned_.size() || method.planned_[buffer] == nullptr) continue;
      unsigned char* to = static_cast<unsigned char*>(shared.data.get());
      const unsigned char* from = static_cast<const unsigned char*>(method.planned_[buffer].get());
      for (size_t i = 0; i < shared.size; ++i) to[i] = static_cast<unsigned char>(to[i] | from[i]);
    }
  }
  return true;
}

std::shared_ptr<Method> Module::load_method(uint32_t index, Status* status,
                                            const std::vector<std::shared_ptr<Method>>& share) {
  if (index >= program_.num_methods()) {
    ErrorRecord record;
    record.check = Check::MethodIndex;
    record.a = index;
    record.b = program_.num_methods();
    *status = failed_check(record);
    return nullptr;
  }
  const std::lock_guard<std::mutex> loading(loading_);
  std::shared_ptr<Method> method(new Method(shared_from_this(), index));
  if (uses_shared(method->meta()) && !fill_shared()) {
    *status = refusal(Error::MemoryAllocationFailed, "the machine has no memory left for the state that methods share");
    return nullptr;
  }
  loaded_.erase(std::remove_if(loaded_.begin(), loaded_.end(), [](auto& other) { return other.expired(); }),
                loaded_.end());
  std::vector<std::shared_ptr<Method>> all;
  for (const auto& other : loaded_) {
    if (auto alive = other.lock()) all.push_back(std::move(alive));
  }
  if (method->load(true, share, all) != Error::Ok) {
    const ErrorRecord record = method->method_.error_record();
    *status = record.check != Check::None
                  ? method->failure(record)
                  : refusal(Error::MemoryAllocationFailed, "the machine has no memory left for the method");
    return nullptr;
  }
  loaded_.push_back(method);
  return method;
}

std::shared_ptr<Method> Module::load_method(const std::string& name, Status* status,
                                            const std::vector<std::shared_ptr<Method>>& share) {
  const Result<MethodMeta> meta = program_.method_meta(StringView{name.data(), name.size()});
  if (meta.ok()) return load_method(meta->index(), status, share);
  std::string names;
  for (uint32_t m = 0; m < program_.num_methods(); ++m) {
    names += (m == 0 ? "" : ", ") + text(program_.method_meta(m).name());
  }
  *status = refusal(Error::NotFound, "the program has no method '" + name + "'; it has " + names);
  return nullptr;
}

Module::Place Module::place(uint32_t method, uint32_t instruction) const {
  const flat::Vector chains = chains_of(bytes_, method);
  for (uint32_t c = 0; c < chains.count(); ++c) {
    const uint32_t count = chains.table(c).vector(kInstructions).count();
    if (instruction < count) return {static_cast<int32_t>(c), static_cast<int32_t>(instruction)};
    instruction -= count;
  }
  return {-1, -1};
}

std::string Module::instruction_label(uint32_t method, uint32_t instruction) const {
  const Place place = this->place(method, instruction);
  if (place.chain < 0) return "";
  const flat::Vector instructions =
      chains_of(bytes_, method).table(static_cast<uint32_t>(place.chain)).vector(kInstructions);
  const flat::Table row = instructions.table(static_cast<uint32_t>(place.instruction));
  const int32_t index = row.table(kCall).get<int32_t>(kIndex);
  const MethodMeta meta = program_.method_meta(method);
  switch (row.get<uint8_t>(kKind)) {
    case 1:
      return operator_label(meta, static_cast<uint32_t>(index));
    case 2:
      return "delegate " + text(meta.delegate_id(static_cast<uint32_t>(index)));
    case 3:
      return "move";
    case 4:
      return "jump";
    default:
      return "free";
  }
}

// --- methods --------------------------------------------------------------------------------------------------------

Method::~Method() { method_.unload(); }

/// Error Internal, without a record, when the machine has no memory left. `share` are methods whose delegates it may
/// use, `all` those whose delegates with shared state it has to use.
Error Method::load(bool with_shared, const std::vector<std::shared_ptr<Method>>& share,
                   const std::vector<std::shared_ptr<Method>>& all) {
  const MethodMeta meta = this->meta();
  load_ticks_.first = nanoseconds();
  method_bytes_ = meta.method_memory_size();
  method_memory_ = allocate_aligned(method_bytes_);
  size_t temp_size = 0;
  temp_ = reserve_memory(module_->options_.temp_bytes != 0 ? module_->options_.temp_bytes : kTempReserve, &temp_size);
  if (method_memory_ == nullptr || temp_ == nullptr) return Error::Internal;
  buffers_.resize(meta.num_planned_buffers());
  planned_.resize(buffers_.size());
  for (uint32_t i = 0; i < buffers_.size(); ++i) {
    const uint64_t size = meta.planned_buffer_size(i);
    if (size == 0) continue;
    const auto shared = module_->shared_.find(i);
    const bool is_shared = with_shared && shared != module_->shared_.end();
    shares_ = shares_ || is_shared;
    planned_[i] = is_shared         ? shared->second.data
                  : size > SIZE_MAX ? nullptr
                                    : allocate_zeros(static_cast<size_t>(size));
    if (planned_[i] == nullptr) return Error::Internal;
    buffers_[i].data = planned_[i].get();
    buffers_[i].size = size;
    buffers_[i].contents = is_shared ? Contents::Kept : Contents::Zeros;
  }
  std::vector<const ExternalData*> external;
  for (const auto& item : module_->external_) external.push_back(&item->data);
  MethodMemory memory;
  memory.method.base = static_cast<uint8_t*>(method_memory_.get());
  memory.method.size = method_bytes_;
  memory.temp.base = static_cast<uint8_t*>(temp_.get());
  memory.temp.size = temp_size;
  memory.planned = {buffers_.data(), buffers_.size()};
  MethodOptions options;
  options.kernels = {module_->kernels_.data(), module_->kernels_.size()};
  options.external = {external.data(), external.size()};
  options.parallel = module_->pool_.parallel_for();
  options.dynamic.allocate = allocate_dynamic;
  options.dynamic.release = release_dynamic;
  options.dynamic.context = this;
  options.seed = module_->options_.seed;
  options.native = native_code();
  options.native.policy = module_->options_.native;
  options.native.listed = {module_->options_.listed.data(), module_->options_.listed.size()};
  using Verify = decltype(Options::verify);
  if (module_->options_.verify) {
    options.native.context = const_cast<Verify*>(&module_->options_.verify);
    options.native.verify = [](void* context, Span<const uint8_t> image) {
      return (*static_cast<const Verify*>(context))(image);
    };
  }
  options.backends = {module_->backends_.data(), static_cast<uint32_t>(module_->backends_.size())};
  options.delegates.allocate = allocate_delegate;
  options.delegates.context = this;
  std::vector<const etir::Method*> may, must;
  for (const auto& other : share) may.push_back(&other->method_);
  for (const auto& other : all) must.push_back(&other->method_);
  options.share = {may.data(), may.size()};
  options.share_state = {must.data(), must.size()};
  const Error error = method_.load(module_->program(), index_, memory, options);
  load_ticks_.second = nanoseconds();
  for (const auto& other : all) {
    if (error == Error::Ok && method_.uses_delegates_of(other->method_)) owners_.push_back(other);
  }
  return error;
}

Status Method::failure(const ErrorRecord& record) const {
  Status status;
  const MethodMeta meta = this->meta();
  status.record = record;
  status.error = record.error();
  status.method = text(meta.name());
  if (record.op >= 0) status.op = operator_label(meta, static_cast<uint32_t>(record.op));
  status.message = describe(record, status.op);
  if (record.check == Check::ExternalMissing || record.check == Check::ExternalMismatch) {
    status.message += " ('" + text(meta.value_tensor(static_cast<uint32_t>(record.a)).name) + "')";
  }
  if (record.check == Check::InputSizes || record.check == Check::InputNumbers ||
      record.check == Check::ProgramAssertion) {
    status.message += ": " + text(meta.instruction_text(static_cast<uint32_t>(record.instruction)));
  }
  if (names_delegate(record.check) && record.a >= 0 && record.a < meta.num_delegates()) {
    status.message += " ('" + text(meta.delegate_id(static_cast<uint32_t>(record.a))) + "')";
  }
  return status;
}

std::vector<uint64_t> Method::planned_bytes() const {
  std::vector<uint64_t> sizes;
  const MethodMeta meta = this->meta();
  for (uint32_t i = 0; i < meta.num_planned_buffers(); ++i) sizes.push_back(meta.planned_buffer_size(i));
  return sizes;
}

void* Method::allocate_delegate(void* context, size_t bytes, size_t alignment) {
  Method& self = *static_cast<Method*>(context);
  std::shared_ptr<void> data = alignment <= kHostAlignment ? allocate_aligned(bytes) : nullptr;
  if (data == nullptr) return nullptr;
  self.delegates_.push_back(data);
  self.delegate_bytes_ += bytes;
  return data.get();
}

void* Method::allocate_dynamic(void* context, void* old, size_t bytes) {
  Method& self = *static_cast<Method*>(context);
  size_t size = bytes;
  for (const Block& block : self.dynamic_) {
    if (block.data.get() != old) continue;
    if (block.size >= bytes) return old;
    // A tensor that grows step by step leaves blocks that are together no larger than the last.
    size = std::max(bytes, 2 * block.size);
  }
  std::shared_ptr<void> data = allocate_aligned(size);
  if (data == nullptr) return nullptr;
  self.dynamic_.push_back({data, size});
  return data.get();
}

void Method::release_dynamic(void* context) { static_cast<Method*>(context)->dynamic_.clear(); }

Status Method::run(const std::vector<Input>& inputs, std::vector<Output>* outputs, Recording* recording) {
  // Always in the order of loading, so that no two runs wait for each other.
  std::vector<std::unique_lock<std::mutex>> owners;
  for (const auto& owner : owners_) owners.emplace_back(owner->in_use_);
  const std::lock_guard<std::mutex> lock(in_use_);
  if (!shares_) return run_locked(inputs, outputs, recording);
  const std::lock_guard<std::mutex> shared(module_->shared_in_use_);
  return run_locked(inputs, outputs, recording);
}

Error Method::set_input(uint32_t i, const Input& input) {
  switch (input.tag) {
    case Tag::Tensor:
      return method_.set_input(i, TensorInput{input.data, input.dtype, input.rank, input.sizes, input.order});
    case Tag::String:
      return method_.set_input(i, StringView{input.text.data(), input.text.size()});
    default:
      return method_.set_input(i, Value{input.tag, input.scalar});
  }
}

Status Method::run_locked(const std::vector<Input>& inputs, std::vector<Output>* outputs, Recording* recording) {
  const uint32_t count = method_.num_inputs();
  if (inputs.size() != count) {
    ErrorRecord record;
    record.method = static_cast<int32_t>(index_);
    record.check = inputs.size() < count ? Check::InputNotSet : Check::InputNumber;
    record.a = std::min<int64_t>(static_cast<int64_t>(inputs.size()), count);
    record.b = count;
    return failure(record);
  }
  method_.reset();
  for (uint32_t i = 0; i < count; ++i) {
    if (set_input(i, inputs[i]) != Error::Ok) return failure(method_.error_record());
  }
  if (!offer_outputs()) return refusal(Error::MemoryAllocationFailed, "the machine has no memory left for the outputs");
  if (execute(recording) != Error::Ok) return failure(method_.error_record());
  outputs->clear();
  for (uint32_t i = 0; i < method_.num_outputs(); ++i) {
    outputs->push_back(read(method_.output(i)));
    const Output& output = outputs->back();
    if (output.tag == Tag::Tensor && output.nbytes > 0 && output.data == nullptr) {
      return refusal(Error::InvalidState, "output " + std::to_string(i) + " has no data");
    }
  }
  // The outputs are copies: what was allocated for this run is not kept until the next one.
  if (!dynamic_.empty()) method_.reset();
  return {};
}

/// Gives outputs that are not planned memory to be written to, which then becomes the caller's. False without memory.
bool Method::offer_outputs() {
  offered_.clear();
  const MethodMeta meta = this->meta();
  for (uint32_t i = 0; i < method_.num_outputs(); ++i) {
    const Value value = method_.output(i);
    if (value.tag != Tag::Tensor) continue;
    const TensorInfo info = meta.output_tensor(i);
    if (info.planned || info.constant || info.dynamism == Dynamism::Unbound) continue;
    // An input that is handed through has its memory, and so has an output that is there twice.
    bool given = false;
    const auto look = [&](const Value& other) {
      given = given || (other.tag == Tag::Tensor && other.payload.tensor == value.payload.tensor);
    };
    for (uint32_t j = 0; j < method_.num_inputs(); ++j) look(method_.input(j));
    for (uint32_t j = 0; j < i; ++j) look(method_.output(j));
    if (given || info.nbytes > SIZE_MAX) continue;
    std::shared_ptr<void> data = allocate_aligned(static_cast<size_t>(info.nbytes));
    if (data == nullptr) return false;
    if (method_.set_output_data(i, data.get(), static_cast<size_t>(info.nbytes)) == Error::Ok) {
      offered_.push_back({std::move(data), static_cast<size_t>(info.nbytes)});
    }
  }
  return true;
}

Error Method::execute(Recording* recording) {
  if (recording == nullptr) return method_.execute();
  Recorder& recorder = recording->recorder();
  method_.watch(recorder.sink());
  const Error error = method_.execute();
  method_.watch({});
  if (error != Error::Ok || !recording->keeps_values() || recorder.dropped() > 0 || recorder.count() == 0) {
    return error;
  }
  for (uint32_t i = 0; i < method_.num_outputs(); ++i) {
    recording->keep(recorder.count() - 1, method_.values(), method_.output_index(i), true);
  }
  return error;
}

Output Method::read(const Value& value) {
  Output output;
  output.tag = value.tag;
  output.scalar = value.payload;
  const auto number = [&output](Tag tag, const Payload& payload) {
    Output item;
    item.tag = tag;
    item.scalar = payload;
    output.items.push_back(item);
  };
  switch (value.tag) {
    case Tag::Tensor: {
      const Tensor& tensor = *value.payload.tensor;
      output.dtype = tensor.dtype;
      output.sizes.assign(tensor.sizes, tensor.sizes + tensor.rank);
      for (int position = 0; position < tensor.rank; ++position) {
        output.order.push_back(static_cast<uint8_t>(tensor.order(position)));
      }
      output.nbytes = tensor.nbytes();
      if (output.nbytes == 0 || tensor.data == nullptr) break;
      for (Block& block : offered_) {
        if (block.data != nullptr && block.data.get() == tensor.data) output.data = std::move(block.data);
      }
      if (output.data == nullptr) {
        output.data = allocate_aligned(output.nbytes);
        if (output.data != nullptr) std::memcpy(output.data.get(), tensor.data, output.nbytes);
      }
      break;
    }
    case Tag::String:
      output.text = text(etir::Method::string(value));
      break;
    case Tag::IntList: {
      const IntList list = method_.int_list(value);
      for (size_t i = 0; i < list.size(); ++i) {
        Payload payload;
        payload.integer = list[i];
        number(Tag::Int, payload);
      }
      break;
    }
    case Tag::DoubleList: {
      const DoubleList list = etir::Method::double_list(value);
      for (size_t i = 0; i < list.size(); ++i) {
        Payload payload;
        payload.real = list[i];
        number(Tag::Double, payload);
      }
      break;
    }
    case Tag::BoolList: {
      const BoolList list = etir::Method::bool_list(value);
      for (size_t i = 0; i < list.size(); ++i) {
        Payload payload = {};
        payload.boolean = list[i];
        number(Tag::Bool, payload);
      }
      break;
    }
    case Tag::TensorList:
    case Tag::OptionalTensorList: {
      const TensorList list = method_.tensor_list(value);
      for (size_t i = 0; i < list.size(); ++i) {
        Value item;
        if (list.get(i) != nullptr) {
          item.tag = Tag::Tensor;
          item.payload.tensor = list.get(i);
        }
        output.items.push_back(read(item));
      }
      break;
    }
    default:
      break;
  }
  return output;
}

}  // namespace host
}  // namespace etir
