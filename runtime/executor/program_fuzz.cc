// Fuzzing: load a program from any bytes, and execute every method of it.
//
//   clang++ -g -O1 -fsanitize=fuzzer,address,undefined ... runtime/executor/program_fuzz.cc
//   ./program_fuzz corpus/
//
// The first byte of the input says, in its bits, whether a .ptd follows (its length in three bytes, and then the file)
// and whether there is an allocator for tensors without a bound; the next two are the policy for native code: refuse,
// listed, linked, verify. Images that are listed end the process when they are run; what is asked to be mapped is such
// an image, or the process ends. Memory is given as the file asks for it, up to a
// limit, each block on its own so that the sanitizer sees the first byte beyond.
#include <cstdlib>
#include <cstring>

#include "backends/native/call.h"
#include "backends/native/native.h"
#include "backends/native/sha256.h"
#include "backends/xnnpack/xnnpack.h"
#include "executor/external_data.h"
#include "executor/method.h"
#include "executor/program.h"

namespace etir {
extern const KernelTable kKernels;
}

namespace {

using namespace etir;

// Small enough for matrix products and convolutions to come to an end soon.
constexpr uint64_t kMostMemory = 1 << 16;
constexpr uint32_t kMostBuffers = 16;
constexpr uint64_t kMostInstructions = 200;
constexpr uint64_t kMostMethodMemory = 1 << 20;

// A copy that ends where its bytes end.
struct Block {
  explicit Block(size_t size)
      : data(std::aligned_alloc(16, (size + 15) / 16 * 16 + (size == 0 ? 16 : 0))), size(size) {}
  Block(const Block&) = delete;
  ~Block() { std::free(data); }
  void* data;
  size_t size;
};

// Memory for tensors without a bound, freed when a method says so.
struct Pool {
  ~Pool() { release(this); }
  static void* allocate(void* context, void*, size_t bytes) {
    Pool& self = *static_cast<Pool*>(context);
    if (self.count == kMost || bytes > kMostMemory) return nullptr;
    return self.blocks[self.count++] = std::malloc(bytes + (bytes == 0));
  }
  static void release(void* context) {
    Pool& self = *static_cast<Pool*>(context);
    while (self.count > 0) std::free(self.blocks[--self.count]);
  }
  static constexpr int kMost = 64;
  void* blocks[kMost];
  int count = 0;
};

// Memory for delegates, freed after the method. Each block ends where what was asked for ends.
struct DelegatePool {
  ~DelegatePool() {
    while (count > 0) std::free(blocks[--count]);
  }
  static void* allocate(void* context, size_t bytes, size_t alignment) {
    DelegatePool& self = *static_cast<DelegatePool*>(context);
    if (self.count == kMost || bytes > kMostMethodMemory || alignment > 16) return nullptr;
    return self.blocks[self.count++] = std::malloc(bytes + (bytes == 0));
  }
  static constexpr int kMost = 64;
  void* blocks[kMost];
  int count = 0;
};

// Images that are listed: 64 times int3, and any contract.
constexpr size_t kIntsBytes = 64, kListedBytes = 96;
constexpr uint8_t kIntsByte = 0xcc;
constexpr size_t kMostListed = 8;

struct Listed {
  ImageDigest digests[kMostListed];
  LinkedNative linked[kMostListed];
  size_t count = 0, linked_count = 0;
};

bool is_listed(const uint8_t* data, size_t size) {
  for (size_t i = 0; size == kListedBytes && i < kIntsBytes; ++i) {
    if (data[i] != kIntsByte) return false;
  }
  return size == kListedBytes;
}

// A copy that nothing can execute is none: what the image stands for runs on kernels.
void* map_listed(Span<const uint8_t> image) {
  if (!is_listed(image.data, image.size)) std::abort();
  return nullptr;
}
void* map_verified(Span<const uint8_t>) { return nullptr; }

uint8_t sum_of(const uint8_t* data, size_t size) {
  uint8_t sum = 0;
  for (size_t i = 0; i < size; ++i) sum = static_cast<uint8_t>(sum + data[i]);
  return sum;
}

// Its arguments are what the delegate's tables say: all pointers that there are.
// Asked for the sizes of outputs, it leaves what the runtime has put there, which no tensor can have.
int32_t linked_entry(const NativeCall* call) {
  return call->inputs == nullptr || (call->outputs == nullptr && call->sizes == nullptr) ? 1 : 0;
}

uint32_t read_u32(const uint8_t* data) {
  return data[0] | uint32_t{data[1]} << 8 | uint32_t{data[2]} << 16 | uint32_t{data[3]} << 24;
}

// Functions that blobs ask for without an image, whose contract is what they ask by.
void find_linked(const uint8_t* data, size_t size, Listed& found) {
  for (size_t at = 0; at + 64 <= size; at += 4) {
    const uint8_t* const blob = data + at;
    if (std::memcmp(blob, "ETNC", 4) != 0) continue;
    uint64_t row = 64 + 36 * (uint64_t{read_u32(blob + 8)} + read_u32(blob + 12)) + 16 * uint64_t{read_u32(blob + 16)} +
                   40 * uint64_t{read_u32(blob + 24)};
    for (; row + 56 <= size - at && found.linked_count < kMostListed; row += 56) {
      if (read_u32(blob + row + 12) != 0) break;
      ImageDigest digest;
      std::memcpy(digest.bytes, blob + row + 24, sizeof(digest.bytes));
      found.linked[found.linked_count++] = {digest, digest, linked_entry};
    }
  }
}

// The images in the file that are listed, and functions that are linked.
void find_listed(const uint8_t* data, size_t size, Listed& found) {
  for (size_t at = 0; at + kListedBytes <= size && found.count < kMostListed; at += 4) {
    if (!is_listed(data + at, kListedBytes)) continue;
    ImageDigest& digest = found.digests[found.count++];
    sha256(data + at, kListedBytes, digest.bytes);
    ImageDigest contract;
    std::memcpy(contract.bytes, data + at + kIntsBytes, sizeof(contract.bytes));
    found.linked[found.linked_count++] = {digest, contract, linked_entry};
  }
  find_linked(data, size, found);
}

NativeCode native_code(uint8_t bits, const Listed& listed) {
  NativeCode native;
  native.has = [](const char* cpu, size_t size) { return sum_of(reinterpret_cast<const uint8_t*>(cpu), size) != 1; };
  native.unmap = [](void*, size_t) { std::abort(); };
  native.map = map_listed;
  switch (bits & 3) {
    case 1:
      native.policy = NativeCode::Policy::Listed;
      native.listed = {listed.digests, listed.count};
      break;
    case 2:
      native.linked = {listed.linked, listed.linked_count};
      break;
    case 3:
      native.policy = NativeCode::Policy::Verify;
      native.verify = [](void*, Span<const uint8_t> image) { return sum_of(image.data, image.size) % 2 == 0; };
      native.map = map_verified;
      break;
    default:
      break;
  }
  return native;
}

void run_method(const Program& program, uint32_t index, const ExternalData* external, uint8_t bits,
                const Listed& listed) {
  const MethodMeta meta = program.method_meta(index);
  const uint64_t needed = meta.method_memory_size();
  const uint32_t count = meta.num_planned_buffers();
  if (needed > kMostMethodMemory || count > kMostBuffers) return;
  PlannedBuffer planned[kMostBuffers];
  bool fits = true;
  for (uint32_t i = 0; i < count; ++i) fits = fits && meta.planned_buffer_size(i) <= kMostMemory;
  if (!fits) return;
  for (uint32_t i = 0; i < count; ++i) {
    planned[i].size = meta.planned_buffer_size(i);
    planned[i].data = std::malloc(static_cast<size_t>(planned[i].size) + 1);
  }
  Block memory(static_cast<size_t>(needed)), temp(1 << 16);
  DelegatePool delegates;
  {
    MethodMemory all;
    all.method.base = static_cast<uint8_t*>(memory.data);
    all.method.size = memory.size;
    all.planned = {planned, count};
    all.temp.base = static_cast<uint8_t*>(temp.data);
    all.temp.size = temp.size;
    MethodOptions options;
    options.kernels = {&kKernels, 1};
    options.max_instructions = kMostInstructions;
    const Backend backends[] = {kXnnpackBackend, kNativeBackend};
    options.backends = {backends, 2};
    options.native = native_code(static_cast<uint8_t>(bits >> 2), listed);
    options.delegates.allocate = DelegatePool::allocate;
    options.delegates.context = &delegates;
    if (external != nullptr) options.external = {&external, 1};
    Pool pool;
    if ((bits & 2) != 0) options.dynamic = {Pool::allocate, &pool, Pool::release};
    Method method;
    if (method.load(program, index, all, options) == Error::Ok) {
      for (int run = 0; run < 2; ++run) {
        for (uint32_t i = 0; i < meta.num_inputs(); ++i) {
          if (meta.input_tag(i) != Tag::Tensor) {
            method.set_input(i, meta.input_value(i));
            continue;
          }
          const TensorInfo info = meta.input_tensor(i);
          if (info.nbytes > kMostMemory) continue;
          // Inputs that are not planned are used in place: they have to outlive the run.
          static uint8_t bytes[kMostMemory] __attribute__((aligned(16)));
          std::memset(bytes, static_cast<int>(i + 1), static_cast<size_t>(info.nbytes));
          method.set_input(i, TensorInput{bytes, info.dtype, info.rank, info.sizes, info.dim_order});
        }
        method.execute();
      }
    }
  }
  for (uint32_t i = 0; i < count; ++i) std::free(planned[i].data);
}

void run_program(const uint8_t* data, size_t size, const ExternalData* external, uint8_t bits) {
  BufferDataLoader loader(data, size);
  Program program;
  if (program.load(loader) != Error::Ok) return;
  Listed listed;
  find_listed(data, size, listed);
  const uint32_t methods = program.num_methods() < 4 ? program.num_methods() : 4;
  for (uint32_t i = 0; i < methods; ++i) run_method(program, i, external, bits, listed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  size_t external_size = 0;
  if ((data[0] & 1) != 0) external_size = data[1] | size_t{data[2]} << 8 | size_t{data[3]} << 16;
  if (external_size > size - 4) external_size = 0;
  Block external_bytes(external_size), bytes(size - 4 - external_size);
  std::memcpy(external_bytes.data, data + 4, external_size);
  std::memcpy(bytes.data, data + 4 + external_size, bytes.size);
  BufferDataLoader loader(external_bytes.data, external_size);
  ExternalData external;
  const bool has_external = external_size > 0 && external.load(loader) == Error::Ok;
  run_program(static_cast<const uint8_t*>(bytes.data), bytes.size, has_external ? &external : nullptr, data[0]);
  return 0;
}
