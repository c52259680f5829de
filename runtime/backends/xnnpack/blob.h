// Reading an XNNPACK blob: header, FlatBuffer, constants. Every access is checked where it is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/flatbuffer_reader.h"
#include "core/span.h"
#include "executor/backend.h"

namespace etir {
namespace xnnpack {

constexpr int kMaxDims = 6;
constexpr uint32_t kInvalidId = 0xffffffffu;
constexpr uint32_t kMaxExternals = 4096;

/// How the integers of a datatype stand for numbers.
enum class Scaling : uint8_t { None, Tensor, Channel, Block, Token };

struct Datatype {
  uint8_t bits;
  Scaling scaling;
};
/// Datatypes by their numbers.
enum DatatypeNumber : uint8_t {
  kFp32 = 1,
  kFp16,
  kQint8,
  kQuint8,
  kQint32,
  kQcint8,
  kQcint32,
  kQcint4,
  kQdint8,
  kQbint4,
  kQpint8,
  kInt32,
  kPfp32,
  kBf16,
  kNumDatatypes,
};
constexpr Datatype kDatatypes[kNumDatatypes] = {
    {0, Scaling::None},    {32, Scaling::None},   {16, Scaling::None},    {8, Scaling::Tensor},  {8, Scaling::Tensor},
    {32, Scaling::Tensor}, {8, Scaling::Channel}, {32, Scaling::Channel}, {4, Scaling::Channel}, {8, Scaling::Token},
    {4, Scaling::Block},   {8, Scaling::Token},   {32, Scaling::None},    {32, Scaling::None},   {16, Scaling::None},
};

/// A table of the FlatBuffer; null where `at` is 0.
struct Table {
  uint32_t at = 0;
  uint32_t vtable = 0;
  uint16_t vtable_size = 0;
  uint16_t size = 0;
  explicit operator bool() const { return at != 0; }
};
/// Items of a vector: where the first is, and how many there are.
struct Items {
  uint32_t at = 0;
  uint32_t count = 0;
};

/// The bytes of a FlatBuffer. What lies outside of them reads as absent, and failed() says so from then on.
class View {
 public:
  View() = default;
  View(const uint8_t* base, uint32_t size) : base_(base), size_(size) {}
  bool failed() const { return failed_; }
  /// The first place where something was wrong.
  uint32_t where() const { return where_; }

  Table root() { return size_ < 8 ? broken(0) : follow(0); }
  template <typename T>
  T get(const Table& table, uint32_t slot) {
    const uint32_t at = field(table, slot, sizeof(T));
    return at == 0 ? T{} : flat::read<T>(base_ + at);
  }
  bool has(const Table& table, uint32_t slot) { return field(table, slot, 1) != 0; }
  Table table(const Table& parent, uint32_t slot) {
    const uint32_t at = field(parent, slot, 4);
    return at == 0 ? Table{} : follow(at);
  }
  Items items(const Table& parent, uint32_t slot, uint32_t item_size);
  /// An item of a vector of tables.
  Table item(const Items& items, uint32_t i) { return follow(items.at + 4 * i); }
  template <typename T>
  T number(const Items& items, uint32_t i) const {
    return flat::read<T>(base_ + items.at + sizeof(T) * i);
  }
  const uint8_t* bytes(const Items& items) const { return base_ + items.at; }
  StringView string(const Table& parent, uint32_t slot) {
    const Items found = items(parent, slot, 1);
    return {reinterpret_cast<const char*>(base_ + found.at), found.count};
  }

 private:
  Table broken(uint64_t at) {
    if (!failed_) where_ = static_cast<uint32_t>(at);
    failed_ = true;
    return {};
  }
  uint32_t field(const Table& table, uint32_t slot, uint32_t width);
  Table follow(uint32_t from);

  const uint8_t* base_ = nullptr;
  uint32_t size_ = 0;
  uint32_t where_ = 0;
  bool failed_ = false;
};

/// A value of the graph, as the file describes it.
struct ValueInfo {
  uint8_t datatype = 0;
  uint8_t rank = 0;
  uint32_t dims[kMaxDims] = {};
  uint32_t count = 0;     ///< elements, below 2^31
  uint32_t constant = 0;  ///< index among the constants; 0 for none
  uint32_t external = kInvalidId;
  uint32_t flags = 0;
  float scale = 1.0f;  ///< one for all
  int32_t zero_point = 0;
  int32_t nonbatch = 0;
  uint32_t channel = 0;
  uint32_t block = 0;
  uint32_t scale_count = 0;
  uint32_t scale_constant = 0;  ///< index among the constants; 0: the scales are in the FlatBuffer
  Items scales;

  Scaling scaling() const { return kDatatypes[datatype].scaling; }
  /// Bytes of the elements as a constant has them: rows of elements of four bits end on whole bytes.
  uint64_t nbytes() const {
    const uint64_t bits = kDatatypes[datatype].bits;
    if (bits >= 8) return count * bits / 8;
    const uint32_t last = rank == 0 ? 1 : dims[rank - 1];
    return last == 0 ? 0 : uint64_t{count / last} * ((last + 1) / 2);
  }
};
constexpr uint32_t kExternalInput = 1, kExternalOutput = 2;

/// A node: its kind, and the table with its fields.
struct Node {
  uint8_t kind = 0;
  bool clamps = false;
  uint32_t handle = 0;
  float low = 0, high = 0;
  Table table;
};

/// A blob. Functions that fail have said why to the delegate's record.
class Blob {
 public:
  explicit Blob(BackendInit& init) : init_(init) {}
  bool open();

  uint32_t num_values() const { return values_.count; }
  uint32_t num_nodes() const { return nodes_.count; }
  uint32_t num_externals() const { return num_externals_; }
  bool value(uint32_t i, ValueInfo* info);
  bool node(uint32_t i, Node* node);
  /// The bytes of constant `index`, which belongs to value `i`, of which `need` have to be there. Without `load` what
  /// is not in the blob is not asked for, and the result is not null and nothing else.
  const uint8_t* constant(uint32_t i, uint32_t index, uint64_t need, bool load);
  /// Whether values `i` is among those that the graph lists as inputs, or outputs.
  bool listed(uint32_t i, bool output);
  uint32_t num_listed(bool output) const { return output ? outputs_.count : inputs_.count; }

  View& view() { return view_; }
  bool fail(Check check, int64_t a = -1, int64_t b = -1) {
    if (!failed_) init_.fail(check, a, b);
    failed_ = true;
    return false;
  }
  /// False, with the failure recorded, when the FlatBuffer has turned out to be broken.
  bool intact();

 private:
  bool quantization(uint32_t i, const Table& holder, ValueInfo* info);

  BackendInit& init_;
  View view_;
  bool failed_ = false;
  uint32_t start_ = 0;
  const uint8_t* inline_ = nullptr;
  uint64_t inline_size_ = 0;
  uint32_t num_externals_ = 0;
  Items values_, nodes_, constants_, inputs_, outputs_;
};

}  // namespace xnnpack
}  // namespace etir
