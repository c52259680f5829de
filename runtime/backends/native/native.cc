#include "backends/native/native.h"

#include <cstring>
#include <new>

#include "backends/native/call.h"
#include "backends/native/sha256.h"
#include "backends/reference/reference.h"
#include "executor/method.h"

namespace etir {

namespace {

constexpr uint8_t kMagic[4] = {'E', 'T', 'N', 'C'};
constexpr uint32_t kVersion = 1;
constexpr uint32_t kVersionSizes = 2;       ///< of blobs that have dims which are known at run time only
constexpr uint32_t kVersionWorkspace = 3;   ///< of blobs that work in an argument, with such dims or without
constexpr uint32_t kIsBound = 0x80000000u;  ///< in a size: it is the greatest one of such a dim
constexpr uint32_t kIsFlags = 0x40000000u;  ///< in the first size of a tensor: it has truth values, a byte each
constexpr uint32_t kHeaderSize = 64, kTensorSize = 36, kWeightSize = 16, kConstantSize = 40, kVariantSize = 56;
constexpr uint32_t kVersionSpread = 4;  ///< of blobs whose weights may have channels that go round groups
constexpr uint32_t kVersionMade = 6;    ///< of blobs that make truth values; version 5 is given some
constexpr uint32_t kWinograd = 2;       ///< in a constant's row: transformed filters of 3x3
constexpr uint32_t kSpread = 4;         ///< in a constant's row: channel n of group g is number n groups + g
constexpr uint32_t kMaxTensorRank = 8;
constexpr size_t kAlignment = 64;
/// More of anything than a program has.
constexpr uint32_t kMostRows = 1u << 20;
/// What a delegate takes for itself; the compiler counts with it (OBJECT_BYTES in backends/native/compile.py).
constexpr size_t kObjectBytes = 256;

uint32_t read_u32(const uint8_t* data) {
  return data[0] | uint32_t{data[1]} << 8 | uint32_t{data[2]} << 16 | uint32_t{data[3]} << 24;
}

/// The blob, of which everything that is read has been checked to lie inside.
struct Blob {
  const uint8_t* data = nullptr;
  uint32_t size = 0;
  uint32_t inputs = 0, outputs = 0, weights = 0, variants = 0, constants = 0;
  uint32_t sizes = 0;      ///< how many dims of inputs and outputs are known at run time only
  uint32_t workspace = 0;  ///< bytes of the last argument, in which code and kernels work; 0: there is none

  uint32_t at(uint32_t offset) const { return read_u32(data + offset); }
  bool holds(uint32_t offset, uint32_t count) const { return offset <= size && count <= size - offset; }
  Span<const uint8_t> bytes(uint32_t row) const { return {data + at(row), at(row + 4)}; }
  uint32_t tensor_row(uint32_t i) const { return kHeaderSize + kTensorSize * i; }
  uint32_t weight_row(uint32_t i) const { return tensor_row(inputs + outputs) + kWeightSize * i; }
  uint32_t constant_row(uint32_t i) const { return weight_row(weights) + kConstantSize * i; }
  uint32_t variant_row(uint32_t i) const { return constant_row(constants) + kVariantSize * i; }
  uint32_t tensor_rank(uint32_t i) const { return at(tensor_row(i)); }
  /// Whatever the version says, which no contract has: code takes no tensor of as many floats as the bit would be.
  bool has_flags(uint32_t i) const { return tensor_rank(i) > 0 && (at(tensor_row(i) + 4) & kIsFlags) != 0; }
  uint32_t tensor_size(uint32_t i, uint32_t d) const {
    const uint32_t size = at(tensor_row(i) + 4 + 4 * d);
    return d == 0 && has_flags(i) ? size & ~kIsFlags : size;
  }
};

/// One delegate.
struct Native {
  Blob blob;
  NativeEntry entry = nullptr;  ///< null: the fallback runs
  const void** pointers = nullptr;
  int64_t* sizes = nullptr;  ///< dims of inputs and outputs that are known at run time only, in order
  size_t arena_bytes = 0;
  void* code = nullptr;
  size_t code_bytes = 0;
  void (*unmap)(void* code, size_t size) = nullptr;
  Span<uint8_t> workspace;           ///< where the argument is that code and kernels work in
  const Backend* kernels = nullptr;  ///< what runs the fallback; null where there is none
  void* fallback = nullptr;
};
static_assert(sizeof(Native) <= kObjectBytes, "the compiler counts with kObjectBytes");

/// Checks the blob; the byte where it is wrong, or 0.
uint32_t first_error(Blob& blob, Span<const uint8_t> given) {
  if (given.size < kHeaderSize || given.size > UINT32_MAX / 2) return 1;
  blob.data = given.data;
  blob.size = static_cast<uint32_t>(given.size);
  uint32_t* const counts[] = {&blob.inputs, &blob.outputs, &blob.weights, &blob.variants, &blob.constants};
  for (uint32_t i = 0; i < 5; ++i) {
    *counts[i] = blob.at(8 + 4 * i);
    if (*counts[i] > kMostRows) return 8 + 4 * i;
  }
  const uint64_t rows = uint64_t{kTensorSize} * (blob.inputs + blob.outputs) + uint64_t{kWeightSize} * blob.weights +
                        uint64_t{kConstantSize} * blob.constants + uint64_t{kVariantSize} * blob.variants;
  if (rows > blob.size - kHeaderSize) return 8;
  if (!blob.holds(blob.at(32), blob.at(36))) return 32;
  if (blob.at(4) >= kVersionWorkspace) {
    blob.workspace = blob.at(40);
    if (blob.workspace < blob.at(28)) return 40;
  }
  for (uint32_t i = 0; i < blob.inputs + blob.outputs; ++i) {
    const uint32_t row = blob.tensor_row(i);
    if (blob.at(row) > kMaxTensorRank) return row;
    uint64_t count = 1;
    for (uint32_t d = 0; d < blob.at(row); ++d) {
      uint32_t size = blob.tensor_size(i, d);
      if ((size & kIsBound) != 0 && blob.at(4) != kVersion) {
        size &= ~kIsBound;
        ++blob.sizes;
      }
      if (size == 0 || size > INT32_MAX) return row;
      count *= size;
      if (count > INT32_MAX) return row;
    }
  }
  for (uint32_t i = 0; i < blob.weights; ++i) {
    const uint32_t row = blob.weight_row(i);
    if (!blob.holds(blob.at(row), blob.at(row + 4)) || blob.at(row + 8) % 4 != 0) return row;
  }
  for (uint32_t i = 0; i < blob.constants; ++i) {
    const uint32_t row = blob.constant_row(i);
    const uint32_t weight = blob.at(row + 8), panel = blob.at(row + 12);
    if (!blob.holds(blob.at(row), blob.at(row + 4)) || weight >= blob.weights) return row;
    const bool is_spread = (blob.at(row + 24) & kSpread) != 0;
    if (is_spread && (blob.at(4) < kVersionSpread || blob.at(row + 36) == 0 || blob.at(row + 36) > 1u << 15))
      return row;
    if (is_spread && panel == 0 && blob.at(blob.weight_row(weight) + 8) / 4 % blob.at(row + 36) != 0) return row;
    if (panel == 0) continue;
    const uint64_t k = blob.at(row + 16), n = blob.at(row + 20);
    const uint32_t rows = blob.at(row + 28), columns = blob.at(row + 32);
    if (panel > 1u << 20 || k == 0 || n == 0 || k > 1u << 30 || n > 1u << 30 || rows > 1u << 16) return row;
    const uint64_t groups = blob.at(row + 36);
    if (rows > 0 && (columns == 0 || k % columns != 0 || groups == 0 || groups > 1u << 15)) return row;
    const bool is_winograd = (blob.at(row + 24) & kWinograd) != 0;
    if ((is_winograd && rows > 0) || (is_spread && rows == 0)) return row;
    const uint64_t width = (n + panel - 1) / panel * panel;
    const uint64_t count = is_winograd ? 16 : rows > 0 ? rows * groups : 1;
    // A weight has less than 2^32 bytes, so that none of the products is too large for 64 bits.
    const uint64_t most = UINT32_MAX;
    if (width * k > most || width * k * count > most || width * k * count * 4 != blob.at(blob.weight_row(weight) + 8)) {
      return row;
    }
  }
  for (uint32_t i = 0; i < blob.variants; ++i) {
    const uint32_t row = blob.variant_row(i);
    if (!blob.holds(blob.at(row), blob.at(row + 4)) || !blob.holds(blob.at(row + 8), blob.at(row + 12))) return row;
    // Linked code has no image, and no entry in it.
    if (blob.at(row + 16) >= blob.at(row + 12) && blob.at(row + 12) > 0) return row;
  }
  return 0;
}

bool same(const uint8_t* digest, const ImageDigest& other) { return std::memcmp(digest, other.bytes, 32) == 0; }

/// The digest of the tables that the code of a variant relies on (`contract` in backends/native/blob.py): the sizes of
/// arguments, weights and the arena, and where it is entered. An image ends with it, and beside linked code it lies in
/// the client's program. So whoever trusts code trusts these, too, and other tables do not make it touch other memory.
ImageDigest contract_of(const Blob& blob, uint32_t variant) {
  Sha256 tables;
  tables.add(blob.data + 8, 8);
  tables.add(blob.data + 28, 4);
  tables.add(blob.data + variant + 16, 4);
  tables.add(blob.data + blob.tensor_row(0), size_t{kTensorSize} * (blob.inputs + blob.outputs));
  for (uint32_t i = 0; i < blob.weights; ++i) tables.add(blob.data + blob.weight_row(i) + 8, 4);
  ImageDigest digest;
  tables.end(digest.bytes);
  return digest;
}

bool made_for(const ImageDigest& contract, Span<const uint8_t> image) {
  return image.size >= 32 && same(image.data + image.size - 32, contract);
}

/// Whether an image may be run.
bool allowed(const NativeCode& native, Span<const uint8_t> image, const uint8_t* said) {
  switch (native.policy) {
    case NativeCode::Policy::Trusted:
      return true;
    case NativeCode::Policy::Verify:
      return native.verify != nullptr && native.verify(native.context, image);
    case NativeCode::Policy::Listed: {
      uint8_t digest[32];
      sha256(image.data, image.size, digest);
      if (std::memcmp(digest, said, 32) != 0) return false;
      for (const ImageDigest& listed : native.listed) {
        if (same(digest, listed)) return true;
      }
      return false;
    }
    default:
      return false;
  }
}

/// Finds code for this processor that may be run. Variants are in the order of preference.
void choose(Native& self, const NativeCode& native) {
  const Blob& blob = self.blob;
  for (uint32_t i = 0; i < blob.variants && self.entry == nullptr; ++i) {
    const uint32_t row = blob.variant_row(i);
    for (const LinkedNative& linked : native.linked) {
      if (!same(blob.data + row + 24, linked.digest)) continue;
      if (same(linked.contract.bytes, contract_of(blob, row))) self.entry = linked.entry;
    }
  }
  if (native.policy == NativeCode::Policy::Refuse || native.has == nullptr || native.map == nullptr) return;
  for (uint32_t i = 0; i < blob.variants && self.entry == nullptr; ++i) {
    const uint32_t row = blob.variant_row(i);
    const Span<const uint8_t> name = blob.bytes(row), image = blob.bytes(row + 8);
    if (image.size == 0) continue;
    if (!native.has(reinterpret_cast<const char*>(name.data), name.size)) continue;
    if (!made_for(contract_of(blob, row), image) || !allowed(native, image, blob.data + row + 24)) continue;
    void* code = native.map(image);
    if (code == nullptr) continue;
    self.code = code;
    self.code_bytes = image.size;
    self.unmap = native.unmap;
    const uintptr_t entry = reinterpret_cast<uintptr_t>(code) + blob.at(row + 16);
    self.entry = reinterpret_cast<NativeEntry>(entry);
  }
}

/// What the fallback asks for its weights.
struct Constants {
  BackendInit* init;
  const Native* self;
  bool no_memory = false;
};

/// Filters [n, k, 3, 3] from those of Winograd's F(2x2, 3x3): the 16 numbers G g G' of each, a matrix [k, n] in panels
/// for each number (backends/native/winograd.py).
void restore_filters(const float* packed, uint32_t panel, uint32_t k, uint32_t n, float* to) {
  const size_t width = (size_t{n} + panel - 1) / panel * panel;
  for (size_t out = 0; out < n; ++out) {
    for (size_t c = 0; c < k; ++c) {
      double rows[3][4];
      for (size_t x = 0; x < 4; ++x) {
        double column[4];
        for (size_t y = 0; y < 4; ++y) {
          column[y] = packed[(4 * y + x) * width * k + out / panel * panel * k + c * panel + out % panel];
        }
        rows[0][x] = column[0], rows[1][x] = column[1] - column[2], rows[2][x] = column[3];
      }
      for (const double(&row)[4] : rows) {
        *to++ = static_cast<float>(row[0]);
        *to++ = static_cast<float>(row[1] - row[2]);
        *to++ = static_cast<float>(row[3]);
      }
    }
  }
}

const void* find_constant(void* context, const char* name, size_t name_size, size_t nbytes) {
  Constants& constants = *static_cast<Constants*>(context);
  const Blob& blob = constants.self->blob;
  for (uint32_t i = 0; i < blob.constants; ++i) {
    const uint32_t row = blob.constant_row(i);
    const Span<const uint8_t> found = blob.bytes(row);
    if (found.size != name_size || std::memcmp(found.data, name, name_size) != 0) continue;
    const uint32_t weight = blob.at(row + 8), panel = blob.at(row + 12), k = blob.at(row + 16), n = blob.at(row + 20);
    const float* packed = static_cast<const float*>(constants.self->pointers[weight]);
    const uint32_t rows = blob.at(row + 28), columns = blob.at(row + 32), groups = blob.at(row + 36);
    const bool is_winograd = (blob.at(row + 24) & kWinograd) != 0, is_spread = (blob.at(row + 24) & kSpread) != 0;
    const uint32_t count = is_winograd ? 9 : rows > 0 ? rows * groups : 1;
    const size_t floats = panel == 0 ? blob.at(blob.weight_row(weight) + 8) / sizeof(float) : size_t{k} * n * count;
    if (nbytes != floats * sizeof(float)) return nullptr;
    if (panel == 0 && !is_spread) return packed;
    float* plain = static_cast<float*>(constants.init->allocate(nbytes, 16));
    if (plain == nullptr) {
      constants.no_memory = true;
      return nullptr;
    }
    if (is_winograd) {
      restore_filters(packed, panel, k, n, plain);
      return plain;
    }
    if (panel == 0) {
      for (size_t i = 0; i < floats; ++i) plain[i] = packed[i % groups * (floats / groups) + i / groups];
      return plain;
    }
    const bool transposed = (blob.at(row + 24) & ~kSpread) != 0;
    if (rows > 0) {
      const size_t channels = k / columns, width = (size_t{n} + panel - 1) / panel * panel;
      const size_t outer = transposed ? n : channels, inner = transposed ? channels : n;
      for (size_t row_of = 0; row_of < groups * outer; ++row_of) {
        const size_t place = is_spread ? row_of % outer * groups + row_of / outer : row_of;
        float* to = plain + place * inner * rows * columns;
        for (size_t i = 0; i < inner; ++i) {
          const size_t group = row_of / outer, o = row_of % outer;
          const size_t out = transposed ? o : i, c = transposed ? i : o;
          for (size_t y = 0; y < rows; ++y) {
            const float* from = packed + (group * rows + y) * width * k + out / panel * panel * k + out % panel;
            for (size_t x = 0; x < columns; ++x) *to++ = from[(x * channels + c) * panel];
          }
        }
      }
      return plain;
    }
    for (size_t column = 0; column < n; ++column) {
      const float* from = packed + column / panel * panel * k + column % panel;
      for (size_t r = 0; r < k; ++r) plain[transposed ? column * k + r : r * n + column] = from[r * panel];
    }
    return plain;
  }
  return nullptr;
}

Error load_fallback(BackendInit& init, Native& self) {
  const Blob& blob = self.blob;
  Constants constants = {&init, &self};
  const Span<const uint8_t> whole = init.processed;
  init.processed = {blob.data + blob.at(32), blob.at(36)};
  init.constants = {find_constant, &constants};
  init.activations = self.workspace;
  const Error error = self.kernels->init(init, &self.fallback);
  init.processed = whole;
  init.constants = {};
  init.activations = {};
  if (error != Error::Ok && constants.no_memory) return init.fail(Check::BackendMemory, init.index, 0);
  return error;
}

/// Loads what runs where no code does. A pointer, so that a program which links code has none of it.
using LoadFallback = Error (*)(BackendInit& init, Native& self);

Error load(BackendInit& init, Native& self, LoadFallback fallback) {
  Blob& blob = self.blob;
  if (const uint32_t where = first_error(blob, init.processed)) return init.fail(Check::BackendData, init.index, where);
  const size_t count = size_t{blob.weights} + blob.inputs + blob.outputs;
  self.pointers = static_cast<const void**>(init.allocate(sizeof(void*) * count + 1, alignof(void*)));
  if (self.pointers == nullptr) {
    return init.fail(Check::BackendMemory, init.index, static_cast<int64_t>(sizeof(void*) * count));
  }
  for (uint32_t i = 0; i < blob.weights; ++i) {
    const uint32_t row = blob.weight_row(i);
    const Span<const uint8_t> key = blob.bytes(row);
    const Result<Span<const uint8_t>> data = init.named_data({reinterpret_cast<const char*>(key.data), key.size});
    const bool fits = data.ok() && data->size == blob.at(row + 8) && reinterpret_cast<uintptr_t>(data->data) % 4 == 0;
    if (!fits) return init.fail(Check::BackendData, init.index, row);
    self.pointers[i] = data->data;
  }
  if (blob.sizes > 0) {
    self.sizes = static_cast<int64_t*>(init.allocate(sizeof(int64_t) * blob.sizes, alignof(int64_t)));
    if (self.sizes == nullptr) return init.fail(Check::BackendMemory, init.index, int64_t{8} * blob.sizes);
  }
  self.arena_bytes = blob.at(28);
  if (blob.workspace > 0) {
    self.workspace = init.argument(blob.inputs + blob.outputs);
    if (self.workspace.size < blob.workspace) return init.fail(Check::BackendData, init.index, 40);
  }
  choose(self, init.options().native);
  if (self.entry != nullptr) return Error::Ok;
  if (fallback == nullptr || blob.at(36) == 0) {
    return init.fail(Check::NativeMissing, init.index, init.options().native.linked.size);
  }
  return fallback(init, self);
}

void native_destroy(void* handle) {
  Native& self = *static_cast<Native*>(handle);
  if (self.fallback != nullptr) self.kernels->destroy(self.fallback);
  if (self.code != nullptr && self.unmap != nullptr) self.unmap(self.code, self.code_bytes);
  self.~Native();
}

Error init_with(const Backend* kernels, LoadFallback fallback, BackendInit& init, void** handle) {
  const Span<const uint8_t> blob = init.processed;
  if (blob.size < kHeaderSize || std::memcmp(blob.data, kMagic, sizeof(kMagic)) != 0) {
    return init.fail(Check::BackendData, init.index, 0);
  }
  const uint32_t version = read_u32(blob.data + 4);
  if (version < kVersion || version > kVersionMade) return init.fail(Check::BackendVersion, version, kVersion);
  void* memory = init.allocate(kObjectBytes, alignof(Native));
  if (memory == nullptr) return init.fail(Check::BackendMemory, init.index, kObjectBytes);
  Native* self = new (memory) Native;
  self->kernels = kernels;
  const Error error = load(init, *self, fallback);
  if (error != Error::Ok) {
    native_destroy(self);
    return error;
  }
  *handle = self;
  return Error::Ok;
}

Error native_init(BackendInit& init, void** handle) {
  return init_with(&kReferenceBackend, load_fallback, init, handle);
}
Error linked_init(BackendInit& init, void** handle) { return init_with(nullptr, nullptr, init, handle); }

/// Whether argument `i` is what the code was made for: its sizes, or up to the bounds of those that differ by call.
bool fits(KernelContext& ctx, const Blob& blob, uint32_t i) {
  if (ctx.tag(static_cast<int>(i)) != Tag::Tensor) return false;
  const Tensor& tensor = ctx.tensor(static_cast<int>(i));
  const ScalarType dtype = blob.has_flags(i) ? ScalarType::Bool : ScalarType::Float;
  if (tensor.dtype != dtype || tensor.rank != blob.tensor_rank(i) || !tensor.is_row_major()) return false;
  for (int d = 0; d < tensor.rank; ++d) {
    const uint32_t size = static_cast<uint32_t>(tensor.sizes[d]),
                   wanted = blob.tensor_size(i, static_cast<uint32_t>(d));
    const bool is_bound = (wanted & kIsBound) != 0;
    if (is_bound ? size > (wanted & ~kIsBound) : size != wanted) return false;
  }
  const bool is_output = i >= blob.inputs;
  if (tensor.data == nullptr && (blob.sizes == 0 || tensor.numel() > 0)) return false;
  return !(is_output && (tensor.flags & Tensor::kFlagConstant) != 0);
}

/// Gives outputs the sizes that the code computes from those of the inputs. The code returns another number than 0
/// where the sizes are not related as they were when it was made.
Error resize_outputs(Native& self, KernelContext& ctx, NativeCall& call) {
  const Blob& blob = self.blob;
  uint32_t next = 0;
  for (uint32_t i = 0; i < blob.inputs; ++i) {
    const Tensor& tensor = ctx.tensor(static_cast<int>(i));
    for (uint32_t d = 0; d < blob.tensor_rank(i); ++d) {
      if ((blob.tensor_size(i, d) & kIsBound) != 0) self.sizes[next++] = tensor.sizes[d];
    }
  }
  for (uint32_t left = next; left < blob.sizes; ++left) self.sizes[left] = -1;
  void* const* const outputs = call.outputs;
  call.sizes = self.sizes;
  call.outputs = nullptr;
  const int32_t status = self.entry(&call);
  call.outputs = outputs;
  if (status != 0) {
    ctx.fail(Check::BackendExecute, 0, status);
    return Error::InvalidArgument;
  }
  for (uint32_t i = blob.inputs; i < blob.inputs + blob.outputs; ++i) {
    const int at = static_cast<int>(i);
    const uint32_t rank = blob.tensor_rank(i);
    if (ctx.tag(at) != Tag::Tensor || ctx.tensor(at).rank != rank) {
      ctx.fail(Check::BackendArguments, i, static_cast<int64_t>(ctx.tag(at)));
      return Error::InvalidProgram;
    }
    int64_t sizes[kMaxTensorRank];
    for (uint32_t d = 0; d < rank; ++d) {
      sizes[d] = blob.tensor_size(i, d);
      if ((blob.tensor_size(i, d) & kIsBound) != 0) sizes[d] = self.sizes[next++];
    }
    if (!ctx.resize(ctx.tensor(at), sizes, static_cast<int>(rank))) return Error::InvalidArgument;
  }
  return Error::Ok;
}

// Who listens hears of every step of the code: each is one call of `run`.
struct Watch {
  KernelContext* ctx;
  ParallelFor parallel;
  uint32_t step;
};

void run_watched(void* pool, int64_t count, int64_t grain, void (*part)(void*, int64_t, int64_t), void* given) {
  Watch& watch = *static_cast<Watch*>(pool);
  watch.ctx->event(watch.step, true);
  if (watch.parallel.run == nullptr) {
    part(given, 0, count);
  } else {
    watch.parallel.run(watch.parallel.pool, count, grain, part, given);
  }
  watch.ctx->event(watch.step++, false);
}

// The kernels in place of the code: their instructions are not steps of it, and nobody is told of them.
Error execute_fallback(Native& self, KernelContext& ctx, uint32_t count) {
#if ETIR_TRACE
  const EventSink events = ctx.events;
  ctx.events = {};
  const Error error = self.kernels->execute(self.fallback, ctx, count);
  ctx.events = events;
  return error;
#else
  return self.kernels->execute(self.fallback, ctx, count);
#endif
}

Error native_execute(void* handle, KernelContext& ctx, uint32_t count) {
  Native& self = *static_cast<Native*>(handle);
  const Blob& blob = self.blob;
  if (blob.workspace > 0 && count > 0) --count;
  if (self.entry == nullptr) return execute_fallback(self, ctx, count);
  if (count != blob.inputs + blob.outputs) {
    ctx.fail(Check::BackendArguments, count, int64_t{blob.inputs} + blob.outputs);
    return Error::InvalidProgram;
  }
  const void** arguments = self.pointers + blob.weights;
  NativeCall call = {};
  call.inputs = arguments;
  call.outputs = const_cast<void* const*>(arguments + blob.inputs);
  for (uint32_t i = 0; i < count; ++i) {
    if (blob.sizes > 0 && i == blob.inputs) {
      const Error error = resize_outputs(self, ctx, call);
      if (error != Error::Ok) return error;
    }
    if (!fits(ctx, blob, i)) {
      ctx.fail(Check::BackendArguments, i, static_cast<int64_t>(ctx.tag(static_cast<int>(i))));
      return Error::InvalidProgram;
    }
    arguments[i] = ctx.tensor(static_cast<int>(i)).data;
  }
  void* arena = self.workspace.data;
  if (arena == nullptr && self.arena_bytes > 0) arena = ctx.temp(self.arena_bytes, kAlignment);
  if (self.arena_bytes > 0 && arena == nullptr) return Error::MemoryAllocationFailed;
  call.weights = self.pointers;
  call.arena = static_cast<uint8_t*>(arena);
  call.pool = ctx.parallel.pool;
  call.run = ctx.parallel.run;
  Watch watch{&ctx, ctx.parallel, 0};
  if (ctx.watched()) {
    call.pool = &watch;
    call.run = run_watched;
  }
  const int32_t status = self.entry(&call);
  if (status == 0) return Error::Ok;
  ctx.fail(Check::BackendExecute, 0, status);
  return Error::Internal;
}

}  // namespace

const Backend kNativeBackend = {"EtirNativeBackend", nullptr, native_init, native_execute, native_destroy};
const Backend kLinkedNativeBackend = {"EtirNativeBackend", nullptr, linked_init, native_execute, native_destroy};

}  // namespace etir
