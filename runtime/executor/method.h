// A method: loaded into memory that the caller gives, and run.
//
//   Method method;
//   MethodMemory memory;
//   memory.method = Arena{bytes, size};            // meta.method_memory_size() bytes, aligned to 8
//   memory.planned = {buffers, count};             // one for each planned buffer of the file
//   memory.temp = Arena{scratch, scratch_size};
//   MethodOptions options;
//   options.kernels = {&kKernels, 1};
//   method.load(program, 0, memory, options);
//   method.set_input(0, TensorInput{...});
//   method.execute();
//   Value y = method.output(0);
//
// Nothing is allocated from anywhere else. Instructions, lists, constants, and shapes and dim orders of static tensors
// are read in place from the program's bytes.
//
// Method memory, to the byte (all sizes for the machine; 64 bit / 32 bit):
//
//   9 * values                              payload and tag of each value
//   + 32 / 20 * tensors                     sizeof(Tensor) for each value that is a tensor
//   + 16 / 8 * operators                    one resolved kernel for each entry of the operator table
//   + 24 / 12 * delegates
//   + 4 * (sum of the ranks of the tensors that are not static)
//   + inputs                                one flag each
//
// at an address that is a multiple of 8; there is no padding. Instructions take none. Delegates come on top.
//
// A method is used by one thread at a time; different methods of one program may run at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/error.h"
#include "core/span.h"
#include "core/value.h"
#include "executor/backend.h"
#include "executor/external_data.h"
#include "executor/native_code.h"
#include "executor/program.h"
#include "kernels/kernel.h"

// Where kernels for further instruction sets are loaded (platform/isa.h), an operator may have two: one for some
// element types, and one for the calls with others. Its number lies in what would be padding: method memory is what
// files say.
#if !defined(ETIR_NARROW_KERNELS)
#define ETIR_NARROW_KERNELS (UINTPTR_MAX > UINT32_MAX)
#endif

namespace etir {

/// Alignment of all memory that a method is given.
constexpr size_t kMemoryAlignment = 8;

/// What a planned buffer holds when a method is loaded.
enum class Contents : uint8_t {
  /// Anything: load() clears it.
  Unknown,
  /// All bytes are zero, as of memory that the system gives, which comes when it is touched.
  Zeros,
  /// They belong to a method that has been loaded already: load() neither clears them nor writes initial data.
  Kept,
};

/// One planned buffer. Several methods may be given one buffer, to share state.
struct PlannedBuffer {
  void* data = nullptr;
  uint64_t size = 0;
  Contents contents = Contents::Unknown;
};

/// The three kinds of memory. The bytes, and the list of planned buffers, must outlive the method.
struct MethodMemory {
  Arena method;                       ///< MethodMeta::method_memory_size() bytes, and what delegates need
  Span<const PlannedBuffer> planned;  ///< MethodMeta::num_planned_buffers() of them; a size of 0 needs no pointer
  Arena temp;                         ///< scratch of the kernels, reset after each instruction
};

/// Gives delegates memory that is freed after the method has been unloaded; null when there is none.
struct DelegateAllocator {
  void* (*allocate)(void* context, size_t bytes, size_t alignment) = nullptr;
  void* context = nullptr;
};

/// What a method uses besides memory. All that it points to must outlive the method, except for the spans' own arrays.
struct MethodOptions {
  Span<const KernelTable> kernels;           ///< looked through in order; those for too few types are passed over
  BackendTable backends;                     ///< backends by name
  Span<const ExternalData* const> external;  ///< looked through in order; must outlive the method
  ParallelFor parallel;                      ///< threads for kernels; none by default
  DynamicAllocator dynamic;                  ///< memory of tensors without a bound; null: they keep to their plan
  uint64_t seed = 0;                         ///< seed of the random operators
  uint64_t max_instructions = 10000000;      ///< instructions of one execute(); 0: no limit
  DelegateAllocator delegates;               ///< where delegates get memory when method memory has no more
  EventSink events;                          ///< hears of what goes on in runs
  NativeCode native;                         ///< whether machine code of the file is run; by default not
  ConstantSource constants;                  ///< constants that neither the file nor external data has
  /// Methods of the same program whose delegates this one uses where it has equal ones (backend, data, compile specs)
  /// and the backend lets it: those are initialized once. They must outlive this one and not run at the same time.
  Span<const Method* const> share;
  /// The same for delegates with state that methods share (Sharing::Must), and for no others.
  Span<const Method* const> share_state;
};

/// A tensor given as an input. The dim order may be null: row-major.
struct TensorInput {
  void* data = nullptr;  ///< aligned for the dtype; may be null when there are no elements
  ScalarType dtype = ScalarType::Float;
  uint8_t rank = 0;
  const int32_t* sizes = nullptr;
  const uint8_t* dim_order = nullptr;
};

class Method {
 public:
  Method() = default;
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;
  ~Method() { unload(); }

  /// Loads method `index` of a program. Planned buffers (those without `keep`) are filled with zeros and the file's
  /// initial data. On failure the method is not loaded, and error_record() says why; it may be loaded again.
  Error load(const Program& program, uint32_t index, const MethodMemory& memory, const MethodOptions& options);
  /// Ends delegates and forgets the memory.
  void unload();
  bool loaded() const { return program_ != nullptr; }

  /// Gives input `i` a tensor: its dtype, rank, sizes (up to the bound where they are not static) and dim order must be
  /// those of the file; dim orders may differ in dims of size 1. A planned input is copied now; any other is used in
  /// place (and written, if the program mutates it): `data` must live until the input is set again or the method ends.
  /// Inputs stay set from run to run, except for those without a bound, which have to be set before each.
  Error set_input(uint32_t i, const TensorInput& tensor);
  /// Gives input `i` a number (or nothing, Tag::None): it must be the one that the program was compiled for, doubles
  /// within 1e-4 + 1e-5 * |x|. Inputs that are not tensors need not be set: there is but one value that they can have.
  Error set_input(uint32_t i, const Value& number);
  /// The same for a text.
  Error set_input(uint32_t i, StringView text);
  /// Lets output `i`, a tensor that is not planned and not constant, be written into the caller's memory, `nbytes` of
  /// it, until it is set again. Outputs whose shape is not static may have fewer bytes than their bound.
  Error set_output_data(uint32_t i, void* data, size_t nbytes);

  /// Runs from the first to the last instruction; every input that is a tensor must have been set once. After a failure
  /// error_record() says where and why; the method can be run again, from the start, with the numbers it began with
  /// (what kernels wrote to state stays written).
  Error execute();
  /// Runs one instruction. EndOfMethod when there is none left: reset() then.
  Error step();
  /// Back to the first instruction, at any time.
  Error reset();

  uint32_t num_inputs() const { return inputs_.count(); }
  uint32_t num_outputs() const { return outputs_.count(); }
  /// Output `i` < num_outputs(). Tensors belong to the method: valid until the next call that is not const.
  Value output(uint32_t i) const { return value(outputs_.get<int32_t>(i)); }
  Value input(uint32_t i) const { return value(inputs_.get<int32_t>(i)); }
  /// Any value, by its index in the file.
  Value value(uint32_t i) const { return {values_.tags[i], values_.payloads[i]}; }
  /// Values that are lists or strings.
  IntList int_list(const Value& value) const { return IntList(value.payload.vector, values_.payloads); }
  TensorList tensor_list(const Value& value) const { return TensorList(value.payload.vector, values_); }
  static DoubleList double_list(const Value& value) { return DoubleList(value.payload.vector); }
  static BoolList bool_list(const Value& value) { return BoolList(value.payload.vector); }
  static StringView string(const Value& value) { return flat::Vector{value.payload.vector}.string(); }

  /// What went wrong in the last call that failed.
  const ErrorRecord& error_record() const { return record_; }
  MethodMeta meta() const { return MethodMeta(plan_, index_); }
  /// Whether this method uses a delegate that `other` has initialized.
  bool uses_delegates_of(const Method& other) const;
  /// Bytes of method memory in use, and the most of temporary memory that was ever in use.
  size_t method_memory_used() const { return memory_.used; }
  size_t temp_memory_peak() const { return temp_.peak; }
  /// The table of all values, which output(i) and value(i) read.
  const Values& values() const { return values_; }
  /// Index in it of output `i` < num_outputs().
  uint32_t output_index(uint32_t i) const { return outputs_.get<uint32_t>(i); }
  /// Index, in the method, of the instruction that comes next.
  uint32_t next_instruction() const { return chain_start_ + next_; }
  /// Tells another sink of what goes on, from the next run on.
#if ETIR_TRACE
  void watch(const EventSink& events) { events_ = events; }
#else
  void watch(const EventSink&) {}
#endif
  /// Other temporary memory, from the next instruction on. For delegates that run a method of their own.
  void set_temp(const Arena& temp) { temp_ = temp; }
  RandomState& random() { return random_; }

  /// What an entry of the operator table was resolved to.
  struct Operator {
    const Kernel* kernel;
    uint8_t arguments;  // without the trailing slot for what the kernel returns
    bool trailing;      // whether there is such a slot
    int8_t returned;    // the argument whose handle goes there when it is another value; -1 when the slot is a list
#if ETIR_NARROW_KERNELS
    uint32_t narrow;  // one more than the row in narrow_rows_ of what is faster for fewer element types; 0: nothing is
#endif
  };
  struct Delegate {
    const Backend* backend;
    void* handle;
    const void* processed;  // to be released; kShared for a delegate of another method
  };

 private:
  friend class BackendInit;
  enum class State : uint8_t { Idle, Running, Finished };

  // fail() is for what a call refuses; note() for what ends a run, which is not over before its record is whole.
  Error fail(Check check, int64_t a = -1, int64_t b = -1);
  void note(Check check, int64_t a = -1, int64_t b = -1);
#ifdef ETIR_LOG
  void log() const;
#else
  void log() const {}
#endif
  Error load_all(const MethodMemory& memory, const MethodOptions& options);
  Error take_memory(const MethodMemory& memory);
  Error check_planned();
  Error init_values(const MethodOptions& options);
  Error init_tensor(uint32_t index, const flat::Table& table, Tensor& tensor, const MethodOptions& options);
  Error init_external(uint32_t index, const flat::Table& table, Tensor& tensor, const MethodOptions& options);
  void place(const flat::Table& table, Tensor& tensor) const;
  Error resolve_operators(const MethodOptions& options);
  void bind_operator(Operator& op, const Kernel& kernel);
  Error check_calls(const Span<const KernelTable>& tables);
  Error check_call(const flat::Table& call, const Span<const KernelTable>& tables);
  Error init_delegates(const MethodOptions& options);
  void end_delegates();
  const Delegate* find_shared(const flat::Table& table, const Backend& backend, const MethodOptions& options) const;
  void restore(bool numbers);
  Error prepare();
  Error begin();
  Error run(uint64_t limit, bool single);
#if ETIR_NARROW_KERNELS
  void keep_narrow(Operator& op, const Operator& before, const Span<const KernelTable>& tables);
#endif
  int find_left_out(int32_t index, DtypeSet dtypes) const;
  const Kernel& kernel_of(const Operator& op, const int32_t* args) const;
  int written_constant(const Kernel& kernel, const int32_t* args) const;
  void call_kernel(KernelContext& ctx, int32_t index, const int32_t* args);
  void call_delegate(KernelContext& ctx, const flat::Table& call);
  bool condition(uint32_t index);
#if ETIR_TRACE
  bool watched() const { return events_.instruction != nullptr; }
  void at(Boundary boundary) const;
  void ended(Boundary boundary, const flat::Table& fields) const;
#else
  static constexpr bool watched() { return false; }
  static void at(Boundary) {}
  static void ended(Boundary, const flat::Table&) {}
#endif
  Error check_shape(uint32_t i, const TensorInput& given, const Tensor& tensor);
  bool varies(uint32_t i);

  const Program* program_ = nullptr;
  flat::Table plan_;
  uint32_t index_ = 0;
  flat::Vector inputs_, outputs_, chains_;
  Values values_ = {};
  Tensor* tensors_ = nullptr;
  Operator* operators_ = nullptr;
#if ETIR_NARROW_KERNELS
  const Kernel* narrow_rows_ = nullptr;  // of the one table that they are from
#endif
  Delegate* delegates_ = nullptr;
  int32_t* sizes_ = nullptr;  // of the tensors that are not static; during load, of those that are still to come
  uint8_t* input_set_ = nullptr;
  uint32_t num_delegates_ = 0;  // that have been initialized
  Arena memory_, temp_;
  Span<const PlannedBuffer> planned_;
  ParallelFor parallel_;
  DynamicAllocator dynamic_;
  RandomState random_;
#if ETIR_TRACE
  EventSink events_;
#endif
  uint64_t max_instructions_ = 0;
  ErrorRecord record_;

  State state_ = State::Idle;
  bool check_writes_ = false;  // whether a run can come to write a constant
  bool handles_move_ = false;  // whether a run can change what tensor values refer to
  bool has_unbound_ = false;
  uint32_t chain_ = 0, next_ = 0, chain_start_ = 0;  // chain_start_: instructions in the chains before this one
};

}  // namespace etir
