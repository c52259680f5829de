// Makes the calls of a graph: numbers, lists, tensors, and their memory.
//
// A graph is made twice: the first time everything is counted and nothing written, the second time in memory of the
// right size. Code that makes nodes does not see the difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "backends/xnnpack/blob.h"
#include "backends/xnnpack/graph.h"

namespace etir {
namespace xnnpack {

/// Where the elements of a tensor are, and from which call to which.
struct Storage {
  enum Kind : uint8_t { Planned, Constant, Outside, Alias };
  uint64_t bytes;
  uint64_t offset;
  uint32_t first, last;
  uint32_t next;  ///< in a list of those that begin with one call, then of those that live
  uint32_t base;  ///< tensor whose memory an alias has
  Kind kind;
};

class Builder {
 public:
  Builder(BackendInit& init, Blob& blob) : init_(init), blob_(blob) {}

  // Slots of values; the first ones are the graph's own.
  int32_t none() { return number(Tag::None, {}); }
  int32_t integer(int64_t value);
  int32_t real(double value);
  int32_t boolean(bool value);
  int32_t text(const char* value);
  int32_t integers(const int64_t* values, int count);
  int32_t tensors(const int32_t* values, int count);
  /// A tensor of at most these dims. `order` (its dims from outermost to innermost) must last; null: row-major.
  int32_t tensor(ScalarType dtype, int rank, const uint32_t* dims, Storage::Kind kind, const uint8_t* order = nullptr);
  /// One over the elements of another, whose dim i is dim perm[i] of that one: call alias() before it is used.
  int32_t alias_of(int32_t base, int rank, const uint32_t* dims, const uint8_t* order);
  /// The data of a constant tensor.
  void set_data(int32_t slot, const void* data);
  /// Memory for constants, null while counting.
  uint8_t* constant_memory(uint64_t bytes);

  /// A call of a kernel. False, with the failure recorded, when the method has none of that name for these dtypes.
  bool call(const char* kernel, const int32_t* args, int count);
  bool call(const char* kernel, std::initializer_list<int32_t> args) {
    return call(kernel, args.begin(), static_cast<int>(args.size()));
  }
  void call(KernelFunction function, const int32_t* args, int count);
  void call(KernelFunction function, std::initializer_list<int32_t> args) {
    call(function, args.begin(), static_cast<int>(args.size()));
  }
  void input(uint32_t position, int32_t slot);
  void output(uint32_t position, int32_t slot);

  /// The second time from here on. False, with the failure recorded, when there is not enough memory.
  bool allocate(uint32_t num_nodes);
  /// Gives the tensors that are planned their places.
  bool plan();

  bool counting() const { return counting_; }
  Blob& blob() { return blob_; }
  Graph& graph() { return graph_; }
  void set_handle(uint32_t node, uint32_t handle) {
    if (!counting_) handles_[node] = handle;
    node_ = node;
  }
  bool fail(Check check, int64_t a = -1, int64_t b = -1) { return blob_.fail(check, a, b); }
  uint32_t node() const { return node_; }
  /// Starts over: value `i` of the graph is slot `i`.
  void begin(uint32_t num_values);
  /// Gives value `i` a tensor.
  void define(uint32_t i, ScalarType dtype, int rank, const uint32_t* dims, Storage::Kind kind);

 private:
  int32_t number(Tag tag, Payload payload);
  void set_tensor(uint32_t slot, ScalarType dtype, int rank, const uint32_t* dims, Storage::Kind kind,
                  const uint8_t* order);
  int32_t* take_words(uint32_t count);
  uint32_t tensor_at(int32_t slot) const { return static_cast<uint32_t>(payloads_[slot].tensor - tensors_); }
  void touch(int32_t slot);

  BackendInit& init_;
  Blob& blob_;
  Graph graph_;
  bool counting_ = true;
  uint32_t node_ = 0;
  uint32_t num_slots_ = 0, num_tensors_ = 0, num_calls_ = 0, num_inputs_ = 0, num_outputs_ = 0;
  uint64_t num_words_ = 0, constant_bytes_ = 0;

  Payload* payloads_ = nullptr;
  Tag* tags_ = nullptr;
  Tensor* tensors_ = nullptr;
  Call* calls_ = nullptr;
  int32_t* words_ = nullptr;
  External *inputs_ = nullptr, *outputs_ = nullptr;
  uint32_t* handles_ = nullptr;
  uint8_t* constants_ = nullptr;
  Storage* storage_ = nullptr;  // in temporary memory, until plan() is done
};

}  // namespace xnnpack
}  // namespace etir
