// Delegates of a method: found, initialized or shared, and ended.
#include <cstring>

#include "executor/method.h"
#include "executor/slots.h"

namespace etir {

namespace {

bool equal(StringView a, StringView b) {
  return a.size == b.size && (a.size == 0 || std::memcmp(a.data, b.data, a.size) == 0);
}

// In the place of a delegate's data: it belongs to another method.
constexpr char kShared = 0;

// Whether two delegates of one program are the same: backend, data and compile specs.
bool same_delegate(const flat::Table& a, const flat::Table& b) {
  const flat::Table data_a = a.table(slot::kProcessed), data_b = b.table(slot::kProcessed);
  if (data_a.get<uint8_t>(slot::kReferenceLocation) != data_b.get<uint8_t>(slot::kReferenceLocation) ||
      data_a.get<uint32_t>(slot::kReferenceIndex) != data_b.get<uint32_t>(slot::kReferenceIndex) ||
      !equal(a.string(slot::kDelegateId), b.string(slot::kDelegateId))) {
    return false;
  }
  const flat::Vector specs_a = a.vector(slot::kSpecs), specs_b = b.vector(slot::kSpecs);
  if (specs_a.count() != specs_b.count()) return false;
  for (uint32_t i = 0; i < specs_a.count(); ++i) {
    for (uint32_t slot = 0; slot < 2; ++slot) {  // key and value
      if (!equal(specs_a.table(i).string(slot), specs_b.table(i).string(slot))) return false;
    }
  }
  return true;
}

}  // namespace

Result<Span<const uint8_t>> BackendInit::named_data(StringView key) const {
  const Result<Span<const uint8_t>> own = method_.program_->named_data(key);
  if (own.ok() || own.error() != Error::NotFound) return own;
  for (const ExternalData* external : options_.external) {
    const Result<uint32_t> found = external->find(key);
    if (!found.ok()) continue;
    const ExternalData::Entry entry = external->entry(*found);
    const uint8_t* data = external->data(entry, 16);
    if (data == nullptr) return Error::AccessFailed;
    return Span<const uint8_t>{data, static_cast<size_t>(entry.nbytes)};
  }
  return Error::NotFound;
}

void* BackendInit::allocate(size_t bytes, size_t alignment) {
  void* memory = method_.memory_.allocate(bytes, alignment);
  if (memory != nullptr || options_.delegates.allocate == nullptr) return memory;
  return options_.delegates.allocate(options_.delegates.context, bytes, alignment);
}

void* BackendInit::scratch(size_t bytes, size_t alignment) const {
  Arena start = method_.temp_;
  start.used = 0;
  return start.allocate(bytes, alignment);
}

Span<uint8_t> BackendInit::argument(uint32_t i) const {
  const Tensor* found = nullptr;
  for (uint32_t c = 0; c < method_.chains_.count(); ++c) {
    const flat::Vector instructions = method_.chains_.table(c).vector(slot::kInstructions);
    for (uint32_t k = 0; k < instructions.count(); ++k) {
      const flat::Table instruction = instructions.table(k);
      const auto type = static_cast<InstructionType>(instruction.get<uint8_t>(slot::kInstructionType));
      const flat::Table call = instruction.table(slot::kInstructionTable);
      if (type != InstructionType::DelegateCall || call.get<uint32_t>(0) != index) continue;
      const flat::Vector args = call.vector(1);
      const int32_t value = i < args.count() ? args.get<int32_t>(i) : 0;
      if (i >= args.count() || method_.values_.tags[value] != Tag::Tensor) return {};
      const Tensor* tensor = method_.values_.payloads[value].tensor;
      if (found != nullptr && found != tensor) return {};
      found = tensor;
    }
  }
  const bool fixed = found != nullptr && found->data != nullptr && found->dynamism == Dynamism::Static &&
                     (found->flags & Tensor::kFlagConstant) == 0;
  return fixed ? Span<uint8_t>{static_cast<uint8_t*>(found->data), found->nbytes()} : Span<uint8_t>{};
}

void Method::end_delegates() {
  for (uint32_t i = 0; i < num_delegates_; ++i) {
    const Delegate& delegate = delegates_[i];
    if (delegate.processed == &kShared) continue;
    if (delegate.backend->destroy != nullptr) delegate.backend->destroy(delegate.handle);
    if (delegate.processed != nullptr) program_->loader_->release(delegate.processed);
  }
  num_delegates_ = 0;
}

const Method::Delegate* Method::find_shared(const flat::Table& table, const Backend& backend,
                                            const MethodOptions& options) const {
  if (backend.shareable == nullptr) return nullptr;
  const size_t count = options.share.size;
  for (size_t k = 0; k < count + options.share_state.size; ++k) {
    const Method* other = k < count ? options.share[k] : options.share_state[k - count];
    if (other->program_ != program_) continue;
    const flat::Vector delegates = other->plan_.vector(slot::kDelegates);
    for (uint32_t i = 0; i < other->num_delegates_; ++i) {
      const Delegate& delegate = other->delegates_[i];
      if (delegate.backend == &backend && same_delegate(table, delegates.table(i)) &&
          backend.shareable(delegate.handle) >= (k < count ? Sharing::May : Sharing::Must)) {
        return &delegate;
      }
    }
  }
  return nullptr;
}

bool Method::uses_delegates_of(const Method& other) const {
  for (uint32_t i = 0; i < num_delegates_; ++i) {
    if (delegates_[i].processed != &kShared) continue;
    for (uint32_t k = 0; k < other.num_delegates_; ++k) {
      const Delegate& owned = other.delegates_[k];
      if (owned.processed != &kShared && owned.backend == delegates_[i].backend &&
          owned.handle == delegates_[i].handle) {
        return true;
      }
    }
  }
  return false;
}

Error Method::init_delegates(const MethodOptions& options) {
  const flat::Vector delegates = plan_.vector(slot::kDelegates);
  for (uint32_t i = 0; i < delegates.count(); ++i) {
    const flat::Table table = delegates.table(i);
    const Backend* backend = nullptr;
    const StringView id = table.string(slot::kDelegateId);
    for (uint32_t k = 0; k < options.backends.count && backend == nullptr; ++k) {
      if (id == options.backends.rows[k].name) backend = &options.backends.rows[k];
    }
    if (backend == nullptr) return fail(Check::BackendMissing, i);
    if (backend->available != nullptr && !backend->available()) return fail(Check::BackendUnavailable, i);
    const Delegate* shared = find_shared(table, *backend, options);
    if (shared != nullptr) {
      delegates_[i] = {backend, shared->handle, &kShared};
      ++num_delegates_;
      continue;
    }
    BackendInit init(*this, options);
    init.method = meta().name();
    init.index = i;
    init.specs_ = table.vector(slot::kSpecs);
    const flat::Table reference = table.table(slot::kProcessed);
    const uint32_t index = reference.get<uint32_t>(slot::kReferenceIndex);
    Delegate& delegate = delegates_[i];
    delegate = {backend, nullptr, nullptr};
    if (reference.get<uint8_t>(slot::kReferenceLocation) == 0) {
      const flat::Vector data = program_->root_.vector(slot::kInlineDelegateData).table(index).vector(0);
      if (data.at != nullptr) init.processed = {data.items(), data.count()};
    } else {
      const uint64_t size = program_->segments_.table(index).get<uint64_t>(slot::kSegmentSize);
      if (size > 0) {
        const uint8_t* data = program_->load_segment(index, 0, size, 16);
        if (data == nullptr) return fail(Check::FileRead, 0, static_cast<int64_t>(size));
        init.processed = {data, static_cast<size_t>(size)};
        delegate.processed = data;
      }
    }
    const Error error = backend->init(init, &delegate.handle);
    if (error != Error::Ok) {
      if (delegate.processed != nullptr) program_->loader_->release(delegate.processed);
      if (init.record_.check != Check::None) return fail(init.record_.check, init.record_.a, init.record_.b);
      return fail(Check::BackendInit, i, static_cast<int64_t>(error));
    }
    ++num_delegates_;
  }
  return Error::Ok;
}

}  // namespace etir
