// One node while its calls are made: its operands, its result, and the type that it computes in.
//
// The datatype that a node computes in is that of its operands and its result when it is one; otherwise float, and what
// is not float is copied. Results that stand for integers are rounded as these.
#pragma once

#include "backends/xnnpack/nodes.h"
#include "backends/xnnpack/packed.h"

namespace etir {
namespace xnnpack {

// Flags of nodes. The pipeline says that dims are kept at all pools, of which the global ones alone could drop any.
constexpr uint32_t kKeepDims = 0x40, kAlignCorners = 0x8, kTransposed = 0x1;

// Largest number among attributes that are sizes: sums and products of two stay far from the end of 64 bits.
constexpr uint32_t kMostAttribute = 1u << 30;

struct Kind;

/// One node while its calls are made.
class NodeBuilder {
 public:
  NodeBuilder(Builder& builder, uint8_t* states, uint32_t index) : b(builder), states_(states), index_(index) {}

  bool read(const Kind** kind);
  uint32_t field(uint32_t slot) { return b.blob().view().get<uint32_t>(node.table, slot); }
  /// A field that is a size.
  bool size(uint32_t slot, uint32_t least, int64_t* to);
  Items list(uint32_t slot) { return b.blob().view().items(node.table, slot, 4); }
  bool bad(int64_t number) { return b.fail(Check::GraphAttribute, index_, number); }

  /// Reads operand `i`, the value that the field at `slot` names.
  bool operand(int i, uint32_t slot, bool optional = false) {
    return packed_operand(i, slot, optional) && (!have(i) || !is_packed(in[i]) || unpacked(i));
  }
  /// The same, but one that is packed stays so until unpacked().
  bool packed_operand(int i, uint32_t slot, bool optional = false);
  /// Makes operand `i`, which is packed, floats.
  bool unpacked(int i);
  /// Arguments that describe operand `i`, which is packed.
  bool packed_arguments(int i, int32_t* args);
  /// The value that the node gives, in the field at `slot`.
  bool result(uint32_t slot);
  /// Decides the type that is computed in; operands are of this type from here on.
  bool settle(bool always_float = false);
  /// What the node computes is in `out`: limits, rounds and hands it over.
  bool finish();
  int32_t temporary(const uint32_t* dims, int rank) { return b.tensor(dtype, rank, dims, Storage::Planned); }
  bool have(int i) const { return (present_ & 1u << i) != 0; }
  uint32_t flags = 0;

  Builder& b;
  Node node;
  ValueInfo in[5], out_info;
  int32_t at[5] = {};
  int32_t out = 0;
  ScalarType dtype = ScalarType::Float;

 private:
  uint8_t* states_;
  uint32_t index_;
  uint32_t present_ = 0;
  int count_ = 0;
  uint32_t out_value_ = 0;
};

/// A kind of nodes: the function that makes it, a kernel for those that have one, flags that it may have.
struct Kind {
  bool (*make)(NodeBuilder& m, const Kind& kind);
  const char* kernel;
  uint8_t flags;
  uint8_t number;
};

// (N, H, W, C) as (N, C, H, W) whose channels are innermost, and back.
int32_t as_image(NodeBuilder& m, int32_t slot, const ValueInfo& info);
void from_image(NodeBuilder& m, int32_t image, int32_t slot);

// Families of nodes. Elementwise ones and products (nodes_arithmetic.cc):
bool unary(NodeBuilder& m, const Kind& kind);
bool binary(NodeBuilder& m, const Kind& kind);
bool sum(NodeBuilder& m, const Kind& kind);
bool softmax(NodeBuilder& m, const Kind& kind);
bool gelu(NodeBuilder& m, const Kind& kind);
bool sloped(NodeBuilder& m, const Kind& kind);
bool prelu(NodeBuilder& m, const Kind& kind);
bool copy(NodeBuilder& m, const Kind& kind);
bool fully_connected(NodeBuilder& m, const Kind& kind);
bool matmul(NodeBuilder& m, const Kind& kind);
// What moves elements (nodes_shape.cc):
bool transpose(NodeBuilder& m, const Kind& kind);
bool reshape(NodeBuilder& m, const Kind& kind);
bool slice(NodeBuilder& m, const Kind& kind);
bool pad(NodeBuilder& m, const Kind& kind);
bool concatenate(NodeBuilder& m, const Kind& kind);
// What works on images (nodes_image.cc):
bool global_pool(NodeBuilder& m, const Kind& kind);
bool resize(NodeBuilder& m, const Kind& kind);
bool pooling(NodeBuilder& m, const Kind& kind);
bool convolution(NodeBuilder& m, const Kind& kind);

}  // namespace xnnpack
}  // namespace etir
