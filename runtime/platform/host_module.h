// Modules and methods: programs that own what they use. The layer for servers, desktops and phones.
//
//   host::Status status;
//   auto module = host::Module::open("model.pte", &status);
//   auto method = module->load_method("forward", &status);
//   std::vector<host::Output> outputs;
//   status = method->run({host::Input::tensor(x, {2, 3})}, &outputs);   // const float* x
//
// It allocates the memory of methods, lets methods share state as the file says, keeps the file's bytes, picks the
// kernels for the processor, and may use threads. Kernels and backends of shared libraries: platform/library.h. The
// core underneath (executor/program.h, executor/method.h) does none of this and is what embedded programs use. The
// Python module, et-run and the C interface are thin layers over this one.
//
// State: a planned buffer with memory id 2 or more that several methods have in one size is one buffer, whose contents
// all of them see (so the compiler lays out shared state). The same holds for a delegate whose state methods share, as
// long as one of them is loaded. Methods that share state or a delegate never run at the same time; others may.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/data_loader.h"
#include "core/error.h"
#include "executor/external_data.h"
#include "executor/method.h"
#include "executor/program.h"
#include "platform/host_memory.h"
#include "platform/thread_pool.h"

namespace etir {

/// The table of the library etir_kernels.
extern const KernelTable kKernels;

namespace host {

/// The backends that are built in: etir's own, and what runs ExecuTorch's XNNPACK delegates.
extern const BackendTable kBackends;

struct Options {
  const KernelTable* kernels = &kKernels;  ///< those that are linked in
  std::string isa;                         ///< instruction set; empty: ETIR_ISA in the environment, or the best
  int threads = 1;                         ///< threads that one run may use
  size_t temp_bytes = 0;                   ///< most scratch memory of a method; 0: as much as the machine gives
  uint64_t seed = 0;                       ///< seed of the random operators
  BackendTable backends = kBackends;       ///< what runs delegates, besides those of loaded libraries
  /// Whether machine code of the file is run; what it stands for runs on kernels otherwise.
  NativeCode::Policy native = NativeCode::Policy::Refuse;
  std::vector<ImageDigest> listed;  ///< with NativeCode::Policy::Listed: the images that are
  /// With NativeCode::Policy::Verify: whether an image is, which this processor could run.
  std::function<bool(Span<const uint8_t> image)> verify;
};

/// One input of a run. A tensor's data are borrowed for the time of the run.
struct Input {
  Tag tag = Tag::None;  ///< None, Int, Bool, Double, String or Tensor
  Payload scalar = {};  ///< value when the tag is Int, Bool or Double
  void* data = nullptr;
  ScalarType dtype = ScalarType::Float;
  uint8_t rank = 0;
  int32_t sizes[kMaxRank] = {};
  uint8_t order[kMaxRank] = {};  ///< dims from outermost to innermost
  std::string text;              ///< value when the tag is String

  /// A row-major tensor of at most 16 dimensions.
  template <typename T>
  static Input tensor(T* data, std::initializer_list<int32_t> sizes) {
    Input input;
    input.tag = Tag::Tensor;
    input.data = const_cast<std::remove_const_t<T>*>(data);
    input.dtype = ScalarTypeOf<std::remove_const_t<T>>::value;
    for (const int32_t size : sizes) {
      input.order[input.rank] = input.rank;
      input.sizes[input.rank++] = size;
    }
    return input;
  }
};

/// One output of a run, which owns its data.
struct Output {
  Tag tag = Tag::None;
  Payload scalar = {};        ///< value when the tag is Int, Bool or Double
  std::string text;           ///< value when the tag is String
  std::vector<Output> items;  ///< elements when the value is a list
  ScalarType dtype = ScalarType::Float;
  std::vector<int32_t> sizes;
  std::vector<uint8_t> order;  ///< dims from outermost to innermost
  std::shared_ptr<void> data;  ///< elements when the tag is Tensor; null when it has none
  size_t nbytes = 0;

  /// The elements of a tensor, in the order of memory; `T` must be the C++ type of its dtype.
  template <typename T>
  const T* values() const {
    return static_cast<const T*>(data.get());
  }
};

class Method;
class Recording;

/// A loaded program with all that it needs.
class Module : public std::enable_shared_from_this<Module> {
 public:
  /// Loads a program and the external data it may need. Null, with `*status` set, when something is wrong.
  static std::shared_ptr<Module> load(Bytes program, std::vector<Bytes> external, const Options& options,
                                      Status* status);
  /// The same for a file without external data, read into memory.
  static std::shared_ptr<Module> open(const std::string& path, Status* status);

  const etir::Program& program() const { return program_; }
  /// The instruction set of the kernels in use.
  const std::string& isa() const { return isa_; }
  int threads() const { return pool_.threads(); }
  /// Loads a method. Each call makes one that is independent of the others, but for shared state, and for delegates of
  /// the methods in `share`: those that are equal and that their backend lets others use are initialized once.
  std::shared_ptr<Method> load_method(uint32_t index, Status* status,
                                      const std::vector<std::shared_ptr<Method>>& share = {});
  std::shared_ptr<Method> load_method(const std::string& name, Status* status,
                                      const std::vector<std::shared_ptr<Method>>& share = {});
  /// What an instruction does: the name of its operator, "delegate NAME", "move", "jump" or "free".
  std::string instruction_label(uint32_t method, uint32_t instruction) const;
  /// Where an instruction of a method is: its chain, and its index in that. (-1, -1) when there is no such instruction.
  struct Place {
    int32_t chain, instruction;
  };
  Place place(uint32_t method, uint32_t instruction) const;
  /// The program's bytes.
  const Bytes& bytes() const { return bytes_; }

 private:
  friend class Method;
  struct External;
  struct SharedBuffer {
    uint64_t size = 0;
    std::shared_ptr<void> data;
  };

  Module(Bytes bytes, const Options& options);
  void find_shared();
  bool fill_shared();
  bool uses_shared(const MethodMeta& meta) const;

  const Bytes bytes_;
  const Options options_;
  BufferDataLoader loader_;
  std::vector<std::unique_ptr<External>> external_;
  etir::Program program_;
  std::vector<KernelTable> kernels_;  ///< looked through in order
  std::vector<Backend> backends_;
  std::string isa_;
  ThreadPool pool_;
  std::mutex loading_;                         ///< guards loaded_ and the contents of shared_ while methods are loaded
  std::vector<std::weak_ptr<Method>> loaded_;  ///< methods in the order of loading
  std::mutex shared_in_use_;                   ///< held while a method with shared buffers runs
  std::map<uint32_t, SharedBuffer> shared_;    ///< shared buffers by index of the planned buffer
};

class Method {
 public:
  ~Method();
  MethodMeta meta() const { return module_->program().method_meta(index_); }
  const std::shared_ptr<Module>& module() const { return module_; }
  /// Runs the method with one input for each of its inputs. `recording`, when given, hears of what goes on
  /// (devtools/recording.h). Any thread may call; calls of one method wait for each other.
  Status run(const std::vector<Input>& inputs, std::vector<Output>* outputs, Recording* recording = nullptr);
  /// When loading began and ended, on the clock of recordings.
  std::pair<uint64_t, uint64_t> load_ticks() const { return load_ticks_; }

  /// Bytes: method memory; planned memory by buffer; the most temporary memory that a run has used.
  size_t method_bytes() const { return method_bytes_ + delegate_bytes_; }
  std::vector<uint64_t> planned_bytes() const;
  /// Planned memory itself, which holds the state between runs: for those that save it while no run goes on. What
  /// several methods share is in the lists of all of them.
  const std::vector<PlannedBuffer>& planned() const { return buffers_; }
  size_t temp_bytes() const { return method_.temp_memory_peak(); }

 private:
  friend class Module;
  struct Block {
    std::shared_ptr<void> data;
    size_t size;
  };
  Method(std::shared_ptr<Module> module, uint32_t index) : module_(std::move(module)), index_(index) {}
  Error load(bool with_shared, const std::vector<std::shared_ptr<Method>>& share = {},
             const std::vector<std::shared_ptr<Method>>& all = {});
  Status failure(const ErrorRecord& record) const;
  Error set_input(uint32_t i, const Input& input);
  Status run_locked(const std::vector<Input>& inputs, std::vector<Output>* outputs, Recording* recording);
  bool offer_outputs();
  Error execute(Recording* recording);
  Output read(const Value& value);
  static void* allocate_delegate(void* context, size_t bytes, size_t alignment);
  static void* allocate_dynamic(void* context, void* old, size_t bytes);
  static void release_dynamic(void* context);

  std::shared_ptr<Module> module_;
  uint32_t index_;
  std::mutex in_use_;
  std::vector<std::shared_ptr<Method>> owners_;  ///< owners of delegates that this one uses, in the order of loading
  bool shares_ = false;
  std::pair<uint64_t, uint64_t> load_ticks_;
  size_t method_bytes_ = 0;
  size_t delegate_bytes_ = 0;
  std::shared_ptr<void> method_memory_;
  std::vector<std::shared_ptr<void>> planned_;
  std::vector<PlannedBuffer> buffers_;  ///< what method_ knows of planned_: it reads them again before each run
  std::shared_ptr<void> temp_;
  std::vector<Block> offered_;                    ///< memory that outputs were given in this run
  std::vector<Block> dynamic_;                    ///< memory of tensors without a bound
  std::vector<std::shared_ptr<void>> delegates_;  ///< memory of delegates
  etir::Method method_;
};

}  // namespace host
}  // namespace etir
