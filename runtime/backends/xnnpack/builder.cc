#include "backends/xnnpack/builder.h"

#include <cstring>
#include <new>

#include "executor/method.h"

namespace etir {
namespace xnnpack {

namespace {

constexpr uint64_t kAlignment = 16;
constexpr uint32_t kNobody = 0xffffffffu;
// More tensors than this that live at once are put one after the other, without a search for gaps.
constexpr uint32_t kMostLiving = 2048;

constexpr uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void Builder::begin(uint32_t num_values) {
  num_slots_ = num_values;
  num_tensors_ = num_calls_ = num_inputs_ = num_outputs_ = 0;
  num_words_ = constant_bytes_ = 0;
  node_ = 0;
}

int32_t Builder::number(Tag tag, Payload payload) {
  const uint32_t slot = num_slots_++;
  if (!counting_) {
    payloads_[slot] = payload;
    tags_[slot] = tag;
  }
  return static_cast<int32_t>(slot);
}

int32_t Builder::integer(int64_t value) {
  Payload payload;
  payload.integer = value;
  return number(Tag::Int, payload);
}

int32_t Builder::real(double value) {
  Payload payload;
  payload.real = value;
  return number(Tag::Double, payload);
}

int32_t Builder::boolean(bool value) {
  Payload payload = {};
  payload.boolean = value;
  return number(Tag::Bool, payload);
}

int32_t* Builder::take_words(uint32_t count) {
  int32_t* result = counting_ ? nullptr : words_ + num_words_;
  num_words_ += count;
  return result;
}

int32_t Builder::text(const char* value) {
  const uint32_t size = static_cast<uint32_t>(std::strlen(value));
  int32_t* words = take_words(1 + (size + 3) / 4);
  if (words != nullptr) {
    std::memcpy(words, &size, 4);
    std::memcpy(words + 1, value, size);
  }
  Payload payload;
  payload.vector = reinterpret_cast<const uint8_t*>(words);
  return number(Tag::String, payload);
}

int32_t Builder::integers(const int64_t* values, int count) {
  int32_t* words = take_words(static_cast<uint32_t>(1 + 2 * count));
  if (words != nullptr) words[0] = count;
  for (int i = 0; i < count; ++i) {
    const int64_t item = integer(values[i]);
    if (words != nullptr) std::memcpy(words + 1 + 2 * i, &item, 8);
  }
  Payload payload;
  payload.vector = reinterpret_cast<const uint8_t*>(words);
  return number(Tag::IntList, payload);
}

int32_t Builder::tensors(const int32_t* values, int count) {
  int32_t* words = take_words(static_cast<uint32_t>(1 + count));
  if (words != nullptr) {
    words[0] = count;
    std::memcpy(words + 1, values, static_cast<size_t>(count) * 4);
  }
  Payload payload;
  payload.vector = reinterpret_cast<const uint8_t*>(words);
  return number(Tag::TensorList, payload);
}

void Builder::set_tensor(uint32_t slot, ScalarType dtype, int rank, const uint32_t* dims, Storage::Kind kind,
                         const uint8_t* order) {
  const uint32_t index = num_tensors_++;
  int32_t* sizes = take_words(static_cast<uint32_t>(rank));
  if (counting_) return;
  uint32_t count = 1;
  for (int d = 0; d < rank; ++d) {
    sizes[d] = static_cast<int32_t>(dims[d]);
    count *= dims[d];
  }
  Tensor& tensor = *new (tensors_ + index) Tensor{};
  tensor.sizes = sizes;
  tensor.dim_order = order;
  tensor.dtype = dtype;
  tensor.rank = static_cast<uint8_t>(rank);
  tensor.dynamism = kind == Storage::Constant ? Dynamism::Static : Dynamism::Bound;
  tensor.flags = kind == Storage::Constant ? Tensor::kFlagConstant : 0;
  tensor.capacity = count;
  tags_[slot] = Tag::Tensor;
  payloads_[slot].tensor = &tensor;
  storage_[index] = {uint64_t{count} * element_size(dtype), 0, kNobody, 0, kNobody, index, kind};
}

int32_t Builder::tensor(ScalarType dtype, int rank, const uint32_t* dims, Storage::Kind kind, const uint8_t* order) {
  const int32_t slot = none();
  set_tensor(static_cast<uint32_t>(slot), dtype, rank, dims, kind, order);
  return slot;
}

void Builder::define(uint32_t i, ScalarType dtype, int rank, const uint32_t* dims, Storage::Kind kind) {
  set_tensor(i, dtype, rank, dims, kind, nullptr);
}

int32_t Builder::alias_of(int32_t base, int rank, const uint32_t* dims, const uint8_t* order) {
  const ScalarType dtype = counting_ ? ScalarType::Float : payloads_[base].tensor->dtype;
  const int32_t slot = tensor(dtype, rank, dims, Storage::Alias, order);
  if (!counting_) storage_[tensor_at(slot)].base = tensor_at(base);
  return slot;
}

void Builder::set_data(int32_t slot, const void* data) {
  if (!counting_) payloads_[slot].tensor->data = const_cast<void*>(data);
}

uint8_t* Builder::constant_memory(uint64_t bytes) {
  uint8_t* result = counting_ ? nullptr : constants_ + constant_bytes_;
  constant_bytes_ += aligned(bytes);
  return result;
}

void Builder::touch(int32_t slot) {
  if (tags_[slot] == Tag::TensorList) {
    const uint8_t* vector = payloads_[slot].vector;
    for (uint32_t i = 0; i < flat::read<uint32_t>(vector); ++i) touch(flat::read<int32_t>(vector + 4 + 4 * i));
  }
  if (tags_[slot] != Tag::Tensor) return;
  uint32_t index = tensor_at(slot);
  while (storage_[index].base != index) index = storage_[index].base;
  Storage& storage = storage_[index];
  if (storage.first == kNobody) storage.first = num_calls_ - 1;
  storage.last = num_calls_ - 1;
}

void Builder::call(KernelFunction function, const int32_t* args, int count) {
  const uint32_t index = num_calls_++;
  int32_t* words = take_words(static_cast<uint32_t>(1 + count));
  if (counting_) return;
  words[0] = count;
  std::memcpy(words + 1, args, static_cast<size_t>(count) * 4);
  calls_[index] = {function, words + 1, node_};
  for (int i = 0; i < count; ++i) touch(args[i]);
}

bool Builder::call(const char* kernel, const int32_t* args, int count) {
  if (counting_) return call(KernelFunction{nullptr}, args, count), true;
  DtypeSet dtypes = 0;
  for (int i = 0; i < count; ++i) {
    if (tags_[args[i]] == Tag::Tensor) dtypes |= dtype_bit(payloads_[args[i]].tensor->dtype);
  }
  for (const KernelTable& table : init_.options().kernels) {
    const Kernel* row = find_kernel(table, kernel, std::strlen(kernel));
    if (row == nullptr || (dtypes & ~row->dtypes) != 0) continue;
    call(row->function, args, count);
    return true;
  }
  return fail(Check::GraphKernel, node_, static_cast<int64_t>(dtypes));
}

void Builder::input(uint32_t position, int32_t slot) {
  const uint32_t i = num_inputs_++;
  if (!counting_) inputs_[i] = {position, static_cast<uint32_t>(slot)};
}

void Builder::output(uint32_t position, int32_t slot) {
  const uint32_t i = num_outputs_++;
  if (!counting_) outputs_[i] = {position, static_cast<uint32_t>(slot)};
}

bool Builder::allocate(uint32_t num_nodes) {
  if (num_slots_ > INT32_MAX || num_words_ > INT32_MAX) return fail(Check::BackendMemory, init_.index, INT32_MAX);
  uint64_t bytes = 0;
  const auto part = [&](uint64_t count, size_t size) {
    const uint64_t at = bytes;
    bytes += aligned(count * size);
    return at;
  };
  const uint64_t constants = part(constant_bytes_, 1), payloads = part(num_slots_, sizeof(Payload));
  const uint64_t tensors = part(num_tensors_, sizeof(Tensor)), calls = part(num_calls_, sizeof(Call));
  const uint64_t words = part(num_words_, 4), inputs = part(num_inputs_, sizeof(External));
  const uint64_t outputs = part(num_outputs_, sizeof(External)), handles = part(num_nodes + uint64_t{1}, 4);
  const uint64_t tags = part(num_slots_, 1);
  const uint64_t storage = aligned(uint64_t{num_tensors_} * sizeof(Storage)) + uint64_t{num_calls_} * 4;
  uint8_t* memory =
      bytes > SIZE_MAX ? nullptr : static_cast<uint8_t*>(init_.allocate(static_cast<size_t>(bytes), kAlignment));
  if (memory == nullptr) return fail(Check::BackendMemory, init_.index, static_cast<int64_t>(bytes));
  storage_ = storage > SIZE_MAX ? nullptr : static_cast<Storage*>(init_.scratch(static_cast<size_t>(storage)));
  if (storage_ == nullptr) return fail(Check::BackendMemory, init_.index, static_cast<int64_t>(storage));
  constants_ = memory + constants;
  payloads_ = reinterpret_cast<Payload*>(memory + payloads);
  tensors_ = reinterpret_cast<Tensor*>(memory + tensors);
  calls_ = reinterpret_cast<Call*>(memory + calls);
  words_ = reinterpret_cast<int32_t*>(memory + words);
  inputs_ = reinterpret_cast<External*>(memory + inputs);
  outputs_ = reinterpret_cast<External*>(memory + outputs);
  handles_ = reinterpret_cast<uint32_t*>(memory + handles);
  tags_ = reinterpret_cast<Tag*>(memory + tags);
  for (uint32_t i = 0; i < num_slots_; ++i) {
    payloads_[i].integer = 0;
    tags_[i] = Tag::None;
  }
  graph_.values = {payloads_, tags_, num_slots_};
  graph_.calls = calls_, graph_.num_calls = num_calls_;
  graph_.inputs = inputs_, graph_.num_inputs = num_inputs_;
  graph_.outputs = outputs_, graph_.num_outputs = num_outputs_;
  graph_.handles = handles_;
  counting_ = false;
  return true;
}

// Each tensor gets the first gap that is large enough when the call that writes it comes. Those that live are a list in
// the order of their places.
bool Builder::plan() {
  uint32_t* starts = reinterpret_cast<uint32_t*>(reinterpret_cast<uint8_t*>(storage_) +
                                                 aligned(uint64_t{num_tensors_} * sizeof(Storage)));
  for (uint32_t i = 0; i < num_calls_; ++i) starts[i] = kNobody;
  for (uint32_t i = num_tensors_; i-- > 0;) {
    Storage& storage = storage_[i];
    if (storage.kind != Storage::Planned || storage.first == kNobody) continue;
    storage.next = starts[storage.first];
    starts[storage.first] = i;
  }
  uint64_t peak = 0;
  uint32_t living = kNobody, num_living = 0;
  for (uint32_t now = 0; now < num_calls_; ++now) {
    uint64_t top = 0;
    for (uint32_t* link = &living; *link != kNobody;) {
      Storage& storage = storage_[*link];
      if (storage.last < now) {
        *link = storage.next;
        --num_living;
      } else {
        top = storage.offset + aligned(storage.bytes);
        link = &storage.next;
      }
    }
    for (uint32_t i = starts[now]; i != kNobody;) {
      Storage& storage = storage_[i];
      const uint32_t next = storage.next;
      uint64_t end = 0;
      uint32_t* link = &living;
      for (; *link != kNobody; link = &storage_[*link].next) {
        const Storage& other = storage_[*link];
        if (num_living <= kMostLiving && other.offset - end >= storage.bytes) break;
        end = other.offset + aligned(other.bytes);
      }
      storage.offset = end;
      storage.next = *link;
      *link = i;
      ++num_living;
      const uint64_t stop = end + aligned(storage.bytes);
      top = stop > top ? stop : top;
      i = next;
    }
    peak = top > peak ? top : peak;
  }
  // The tables are gone once the plan's memory is asked for: it is the same. Places move to the tensors first.
  for (uint32_t i = 0; i < num_tensors_; ++i) {
    const Storage& storage = storage_[i];
    if (storage.kind != Storage::Planned) continue;
    // One that no call uses has no place; an address that is never read stands for it.
    tensors_[i].data = reinterpret_cast<void*>(static_cast<uintptr_t>(storage.first == kNobody ? 0 : storage.offset));
    tensors_[i].flags = Tensor::kFlagUser;
  }
  graph_.scratch_bytes = static_cast<size_t>(peak);
  uint8_t* base = peak > SIZE_MAX ? nullptr : static_cast<uint8_t*>(init_.scratch(graph_.scratch_bytes, kAlignment));
  if (base == nullptr && peak > 0) return fail(Check::BackendMemory, init_.index, static_cast<int64_t>(peak));
  for (uint32_t i = 0; i < num_tensors_; ++i) {
    if (tensors_[i].flags != Tensor::kFlagUser) continue;
    tensors_[i].flags = 0;
    tensors_[i].data = base + reinterpret_cast<uintptr_t>(tensors_[i].data);
  }
  return true;
}

}  // namespace xnnpack
}  // namespace etir
