// A program file: loaded, and checked as a whole.
//
//   BufferDataLoader loader(bytes, size);
//   Program program;
//   ErrorRecord record;
//   if (program.load(loader, &record) != Error::Ok) ...
//   MethodMeta meta = *program.method_meta("forward");
//
// load() checks everything that the file says: headers, tables, segments, and for each method all values, plans, lists,
// instructions and jumps. What it accepts can be executed without further checks of the file; only the kernels, which
// are not in the file, are checked when a method is loaded. The file stays where the loader put it: nothing is copied.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/data_loader.h"
#include "core/error.h"
#include "core/flatbuffer_reader.h"
#include "core/span.h"
#include "core/tensor.h"
#include "core/value.h"

namespace etir {

class Method;

/// What the file says about a tensor. Pointers are into the program's bytes.
struct TensorInfo {
  ScalarType dtype = ScalarType::Byte;
  uint8_t rank = 0;
  Dynamism dynamism = Dynamism::Static;
  bool planned = false;   ///< it has a place in a planned buffer: inputs are copied in, outputs cannot be repointed
  bool constant = false;  ///< its data are in the file, or external, and are not written
  const int32_t* sizes = nullptr;  ///< sizes; upper bounds where the tensor is not static
  const uint8_t* dim_order = nullptr;
  uint64_t nbytes = 0;  ///< bytes of a tensor of these `sizes`
  StringView name;      ///< fully qualified name, where the file has one
};

/// A value: what it is, and its payload, to be read by kind.
struct Value {
  Tag tag = Tag::None;
  Payload payload = {};
};

/// What is known about a method without loading it. A view: the Program must outlive it.
class MethodMeta {
 public:
  MethodMeta() = default;
  MethodMeta(const flat::Table& plan, uint32_t index) : plan_(plan), index_(index) {}

  StringView name() const;
  uint32_t index() const { return index_; }

  uint32_t num_inputs() const;
  Tag input_tag(uint32_t i) const;
  /// Only where the tag is Tensor.
  TensorInfo input_tensor(uint32_t i) const;
  /// The number that an input of kind Int, Bool or Double was compiled for; the only one that it takes.
  Value input_value(uint32_t i) const;

  uint32_t num_outputs() const;
  Tag output_tag(uint32_t i) const;
  TensorInfo output_tensor(uint32_t i) const;

  /// The planned buffers that a caller has to give; buffer i is the file's memory id i + 1.
  uint32_t num_planned_buffers() const;
  uint64_t planned_buffer_size(uint32_t i) const;

  /// How inputs and outputs are packed into containers: strings that the runtime does not read.
  StringView input_encoding() const;
  StringView output_encoding() const;

  uint32_t num_values() const;
  Tag value_tag(uint32_t i) const;
  TensorInfo value_tensor(uint32_t i) const;
  uint32_t num_instructions() const;
  /// Whether an input that is a number may be another one than it was while the program was compiled.
  bool input_varies(uint32_t i) const;
  /// The text that is the last argument of an instruction; empty where it has none.
  StringView instruction_text(uint32_t i) const;
  uint32_t num_operators() const;
  /// Name ("aten::add") and overload ("out", or empty) of an operator.
  StringView operator_name(uint32_t i) const;
  StringView operator_overload(uint32_t i) const;
  uint32_t num_delegates() const;
  StringView delegate_id(uint32_t i) const;

  /// Bytes of method memory that Method::load takes, to the byte, for this machine (executor/method.h has the formula).
  /// Delegates may ask for more.
  uint64_t method_memory_size() const;

 private:
  friend class Method;
  flat::Table value(uint32_t i) const;  // the table in the union
  int32_t input_index(uint32_t i) const;
  int32_t output_index(uint32_t i) const;

  flat::Table plan_;
  uint32_t index_ = 0;
};

class Program {
 public:
  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  /// Reads and checks a file. `loader` must outlive the program, which must outlive its methods. Bytes must be aligned
  /// to 8 (loaders that choose an address see to it). On failure the program is empty and may be loaded again; `record`
  /// (optional) says what is wrong. A loaded program does not change: any number of threads may use it at once.
  Error load(DataLoader& loader, ErrorRecord* record = nullptr);

  uint32_t num_methods() const { return plans_.count(); }
  /// A view of method `index` < num_methods().
  MethodMeta method_meta(uint32_t index) const { return MethodMeta(plans_.table(index), index); }
  /// A view of the method with a name; NotFound when there is none.
  Result<MethodMeta> method_meta(StringView name) const;
  Result<MethodMeta> method_meta(const char* name) const { return method_meta(StringView{name, std::strlen(name)}); }

  /// Data that the file keeps by name, for delegates. The bytes live as long as the loader. NotFound, AccessFailed.
  Result<Span<const uint8_t>> named_data(StringView key) const;
  uint32_t num_named_data() const { return named_data_.count(); }
  StringView named_data_key(uint32_t i) const { return named_data_.table(i).string(0); }

 private:
  friend class Method;
  friend class BackendInit;
  class Validator;

  Error load_checked(DataLoader& loader, ErrorRecord& record);
  void clear();
  // The bytes of a part of a segment; null when they cannot be read.
  const uint8_t* load_segment(uint32_t index, uint64_t offset, uint64_t size, size_t alignment) const;
  const uint8_t* constant(uint32_t index) const { return constants_ + constant_offsets_.get<uint64_t>(index); }

  DataLoader* loader_ = nullptr;
  const uint8_t* base_ = nullptr;
  uint64_t segment_base_ = 0;
  flat::Table root_;
  flat::Vector plans_;
  flat::Vector segments_;
  flat::Vector named_data_;
  const uint8_t* constants_ = nullptr;
  uint64_t constants_size_ = 0;
  flat::Vector constant_offsets_;
  flat::Vector mutable_offsets_;
  uint32_t mutable_segment_ = 0;
};

}  // namespace etir
