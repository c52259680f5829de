// What a kernel is, and what it is handed: the contract between the executor and every operator's code.
//
//   #include "kernels/elementwise/add.gen.h"
//
//   void add_out(KernelContext& ctx, const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
//     ...
//   }
//
// Arguments are those of the operator's schema, by name and type, in order, results (`out`) included. generate.py
// writes the header, which declares the function and hands it the arguments: they are read from the method's values,
// whose kinds have been checked against the row's signature when the method was loaded. Dtypes, shapes and dim orders
// are the kernel's to check: it calls fail() and returns, having written nothing outside of its results. A kernel keeps
// no state, allocates nothing but temp(), and resizes its results before it writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/error.h"
#include "core/tensor.h"
#include "core/value.h"

namespace etir {

/// A bump allocator over memory that the client gave.
struct Arena {
  uint8_t* base = nullptr;
  size_t size = 0;
  size_t used = 0;
  size_t peak = 0;  ///< largest `used` so far

  /// `bytes` bytes at a multiple of `alignment` (a power of two), or null.
  void* allocate(size_t bytes, size_t alignment) {
    const uintptr_t start = reinterpret_cast<uintptr_t>(base) + used;
    const size_t padding = static_cast<size_t>((alignment - start % alignment) % alignment);
    if (padding > size - used || bytes > size - used - padding) return nullptr;
    void* result = base + used + padding;
    used += padding + bytes;
    if (used > peak) peak = used;
    return result;
  }
};

/// Runs `body(context, begin, end)` over parts of [0, n), maybe on several threads; returns when all are done.
struct ParallelFor {
  void (*run)(void* pool, int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t),
              void* body_context) = nullptr;
  void* pool = nullptr;
  int threads = 1;
};

/// Memory for tensors whose bound is not known: `allocate(context, old, bytes)` returns room for `bytes`, aligned for
/// every dtype, or null. What it returned stays valid until release(), even when `old`, where the tensor has been so
/// far (maybe null, maybe not from here), is given up: views may still refer to it. `release(context)`, which may be
/// null, is called before the method runs again and when it is unloaded.
struct DynamicAllocator {
  void* (*allocate)(void* context, void* old, size_t bytes) = nullptr;
  void* context = nullptr;
  void (*release)(void* context) = nullptr;
};

/// State of the random operators of one method (Philox counter); seeded by the client.
struct RandomState {
  uint64_t seed = 0;
  uint64_t offset = 0;
};

// Whether runs can be watched (CMake option ETIR_TRACE). Without it nothing keeps or calls an EventSink. All that is in
// one program has to be compiled with the same answer.
#ifndef ETIR_TRACE
#define ETIR_TRACE 1
#endif

/// Points of a run at which an EventSink is called. The ends of instructions have the numbers of the file format.
enum class Boundary : uint8_t {
  Begin = 0,       ///< the run begins
  KernelCall = 1,  ///< an instruction of this kind has ended
  DelegateCall = 2,
  MoveCall = 3,
  JumpFalseCall = 4,
  FreeCall = 5,
  End = 6,     ///< the run has ended
  Failed = 7,  ///< the run has ended, with an error
  Resume = 8,  ///< Method::step() goes on, some time after the instruction before
};

/// Hears of what goes on in a run, for profilers (devtools/recorder.h). Each function may be null.
struct EventSink {
  /// Operation `id` of delegate `delegate` of the method begins, or ends. What an id stands for is the backend's: a
  /// debug handle, or an instruction.
  void (*event)(void* context, uint32_t delegate, uint32_t id, bool begin) = nullptr;
  void* context = nullptr;
  /// The run is at a boundary; `instruction` is the instruction that has ended, or that comes next. The end of one is
  /// the beginning of the next: nothing lies between them but this call.
  void (*instruction)(void* context, Boundary boundary, uint32_t instruction) = nullptr;
  /// After the end of an instruction that did not fail: value `index` of the method is one that its kernel may have
  /// written, or any argument of a delegate, inputs first. Called only where `instruction` is not null.
  void (*value)(void* context, const Values& values, uint32_t index) = nullptr;
};

/// A number (Scalar, int, float or bool) among the arguments of a primitive operator: its position, of which
/// KernelContext reads it. These operators take a few instructions each; to hand on where a number is costs none.
enum class ScalarArgument : int {};
/// Where a primitive operator puts its number: a place that the program made for a value of one kind.
enum class ScalarResult : int {};

class KernelContext {
 public:
  KernelContext(Values& values, const int32_t* args, Arena& temp, ErrorRecord& error)
      : values_(values), args_(args), temp_(temp), error_(error) {}

  // --- arguments, by their position in the schema: for generated code and for delegates ---
  Tag tag(int i) const { return values_.tags[args_[i]]; }
  Tensor& tensor(int i) const { return *payload(i).tensor; }
  int64_t integer(int i) const { return payload(i).integer; }
  bool boolean(int i) const { return payload(i).boolean; }
  /// A float argument; ints and bools in its place are converted, as in Python.
  double real(int i) const { return scalar(i).to<double>(); }
  Scalar scalar(int i) const { return Scalar{tag(i), payload(i)}; }
  TensorOrScalar tensor_or_scalar(int i) const { return TensorOrScalar(tag(i), payload(i)); }
  ScalarType dtype(int i) const { return static_cast<ScalarType>(payload(i).integer); }
  IntList int_list(int i) const { return IntList(payload(i).vector, values_.payloads); }
  DoubleList double_list(int i) const { return DoubleList(payload(i).vector); }
  BoolList bool_list(int i) const { return BoolList(payload(i).vector); }
  TensorList tensor_list(int i) const { return TensorList(payload(i).vector, values_); }
  StringView string(int i) const {
    const uint8_t* vector = payload(i).vector;
    return StringView{reinterpret_cast<const char*>(vector) + 4, detail::vector_count(vector)};
  }

  // --- numbers of primitive operators ---
  Tag tag(ScalarArgument argument) const { return tag(static_cast<int>(argument)); }
  Scalar scalar(ScalarArgument argument) const { return scalar(static_cast<int>(argument)); }
  double real(ScalarArgument argument) const { return real(static_cast<int>(argument)); }
  /// One that the schema has as an int.
  int64_t integer(ScalarArgument argument) const { return integer(static_cast<int>(argument)); }
  /// The kind that there is a place for.
  Tag tag(ScalarResult result) const { return tag(static_cast<int>(result)); }
  void set(ScalarResult result, int64_t value) { values_.payloads[args_[static_cast<int>(result)]].integer = value; }
  void set(ScalarResult result, double value) { values_.payloads[args_[static_cast<int>(result)]].real = value; }
  /// A value of the result's kind.
  void set(ScalarResult result, const Scalar& value) {
    values_.payloads[args_[static_cast<int>(result)]] = value.payload;
  }
  void set(ScalarResult result, bool value) { values_.payloads[args_[static_cast<int>(result)]].boolean = value; }

  // --- the same for arguments that may be None ---
  /// Null where the argument is None.
  Tensor* optional_tensor(int i) const { return has(i) ? payload(i).tensor : nullptr; }
#define ETIR_OPTIONAL(type, accessor)                                \
  std::optional<type> optional_##accessor(int i) const {             \
    return has(i) ? std::optional<type>(accessor(i)) : std::nullopt; \
  }
  ETIR_OPTIONAL(int64_t, integer)
  ETIR_OPTIONAL(bool, boolean)
  ETIR_OPTIONAL(double, real)
  ETIR_OPTIONAL(Scalar, scalar)
  ETIR_OPTIONAL(ScalarType, dtype)
  ETIR_OPTIONAL(IntList, int_list)
  ETIR_OPTIONAL(DoubleList, double_list)
  ETIR_OPTIONAL(BoolList, bool_list)
  ETIR_OPTIONAL(TensorList, tensor_list)
  ETIR_OPTIONAL(StringView, string)
#undef ETIR_OPTIONAL

  // --- what a kernel may ask for ---
  /// Gives a result its shape. False, with the failure recorded, when the buffer is too small or the shape is fixed.
  bool resize(Tensor& out, const int64_t* sizes, int rank);
  bool resize_like(Tensor& out, const Tensor& other);
  /// Scratch memory until the kernel returns. Null, with the failure recorded, when there is not enough.
  void* temp(size_t bytes, size_t alignment = 16);
  template <typename T>
  T* temp_array(int64_t count) {
    return static_cast<T*>(temp(static_cast<size_t>(count) * sizeof(T)));
  }
  /// Runs `body(begin, end)` over [0, n), in parts of at least `grain`, possibly on several threads.
  template <typename Body>
  void parallel_for(int64_t n, int64_t grain, const Body& body) {
    if (parallel.run == nullptr || n <= grain) {
      body(int64_t{0}, n);
      return;
    }
    parallel.run(
        parallel.pool, n, grain,
        [](void* context, int64_t begin, int64_t end) { (*static_cast<const Body*>(context))(begin, end); },
        const_cast<Body*>(&body));
  }

  /// Records the first failure; a kernel that failed returns at once.
  void fail(Check check, int64_t a = -1, int64_t b = -1);
  /// The same for a check whose first number is an argument: one that is a tensor, or the list that has it. A tensor
  /// that is several arguments is named by the first of them, one that is none by the first list of tensors. Others are
  /// named by their position, `arguments::add_out::alpha`.
  void fail(Check check, const Tensor& argument, int64_t b = -1);
  bool failed() const { return error_.check != Check::None; }

  ParallelFor parallel;
  DynamicAllocator dynamic;
  RandomState* random = nullptr;
#if ETIR_TRACE
  EventSink events;
#endif

  // --- for delegates that call kernels ---
  /// What temp() gives memory of; what a kernel took is free again when `used` is what it was.
  Arena& temp_memory() { return temp_; }
  /// Other arguments: indices of values, after their count.
  void set_arguments(const int32_t* args) { args_ = args; }

  // --- what a delegate may say ---
  /// Whether anybody wants to hear of events.
#if ETIR_TRACE
  bool watched() const { return events.event != nullptr; }
  /// Operation `id` of the delegate begins or ends.
  void event(uint32_t id, bool begin) {
    if (watched()) events.event(events.context, delegate_, id, begin);
  }
#else
  static constexpr bool watched() { return false; }
  static void event(uint32_t, bool) {}
#endif

 private:
  friend class Method;  // one context serves all instructions of a run: only the arguments change
  void set_args(const int32_t* args) { args_ = args; }
  bool has(int i) const { return tag(i) != Tag::None; }
  const Payload& payload(int i) const { return values_.payloads[args_[i]]; }
  int position(const Tensor& argument) const;

  Values& values_;
  const int32_t* args_;  // the items of a vector of the file: their count comes before them
  Arena& temp_;
  ErrorRecord& error_;
  uint32_t delegate_ = 0;
};

using KernelFunction = void (*)(KernelContext&);

/// One row of a kernel table.
///
/// `signature` has one letter for each argument: T tensor, I int, D float, B bool, N number (Scalar), S string, L int
/// list, F float list, O bool list, V tensor list, W list of optional tensors, G generator, of which a program has
/// none; lower case when it may be None. Results follow '>' (T or V). A row whose signature ends in '!' is a primitive:
/// its result is its last argument and there is no slot for a returned value.
struct Kernel {
  const char* name;  ///< "aten::add.out": namespace, name, overload
  KernelFunction function;
  const char* signature;
  /// Arguments that the kernel writes, results included, one bit each: the executor refuses constants there.
  uint32_t writes = 0;
  /// Element types that its tensors may have in this build (a selective one), one bit for each number.
  uint32_t dtypes = 0xffffffffu;
};

/// Rows in the order of their names (strcmp), so that a name is found by bisection. A constant in flash.
struct KernelTable {
  const Kernel* rows;
  uint32_t count;
};

/// The row of a name, or null.
const Kernel* find_kernel(const KernelTable& table, const char* name, size_t size);

}  // namespace etir
