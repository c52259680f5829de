// Nodes that compute with numbers: elementwise ones, softmax, and products of matrices.
#include <cmath>

#include "backends/xnnpack/calls.h"
#include "backends/xnnpack/node_builder.h"

namespace etir {
namespace xnnpack {

namespace {

constexpr uint8_t kColumns[] = {1, 0};

// Vectors for which the filter of a fully connected layer is read as it is packed; for more, floats of all of it are
// made in temporary memory first, and multiplied by the kernel.
constexpr uint32_t kFewVectors = 16;

// Trailing dims that share a scale in a value with scales of its own. XNNPACK makes a fully connected layer of a
// convolution of single pixels, so that what one of these reads has a scale for each pixel.
int64_t dims_of_token(NodeBuilder& m) {
  if (m.out_info.rank != 4 || m.out_info.nonbatch != 3) return m.out_info.nonbatch;
  static constexpr uint8_t kOnes[] = {4, 5, 6, 7, 12};
  Blob& blob = m.b.blob();
  for (uint32_t i = 0; i < blob.num_nodes(); ++i) {
    Node node;
    if (!blob.node(i, &node)) break;
    const auto field = [&](uint32_t slot) { return blob.view().get<uint32_t>(node.table, slot); };
    if (node.kind != 7 || field(15) != static_cast<uint32_t>(m.out)) continue;
    bool single = true;
    for (uint32_t slot = 0; slot < 4; ++slot) single = single && field(slot) == 0;
    for (const uint8_t slot : kOnes) single = single && field(slot) == 1;
    return single ? 1 : m.out_info.nonbatch;
  }
  return m.out_info.nonbatch;
}

}  // namespace

bool unary(NodeBuilder& m, const Kind& kind) {
  if (!m.operand(0, 0) || !m.result(1) || !m.settle()) return false;
  return m.b.call(kind.kernel, {m.at[0], m.out}) && m.finish();
}

bool binary(NodeBuilder& m, const Kind& kind) {
  if (!m.operand(0, 0) || !m.operand(1, 1) || !m.result(2) || !m.settle()) return false;
  return m.b.call(kind.kernel, {m.at[0], m.at[1], m.out}) && m.finish();
}

// add and sub, whose kernels have a factor.
bool sum(NodeBuilder& m, const Kind& kind) {
  if (!m.operand(0, 0) || !m.operand(1, 1) || !m.result(2) || !m.settle()) return false;
  return m.b.call(kind.kernel, {m.at[0], m.at[1], m.b.integer(1), m.out}) && m.finish();
}

bool softmax(NodeBuilder& m, const Kind& kind) {
  if (!m.operand(0, 0) || !m.result(1) || !m.settle()) return false;
  return m.b.call(kind.kernel, {m.at[0], m.b.integer(-1), m.b.boolean(false), m.out}) && m.finish();
}

bool gelu(NodeBuilder& m, const Kind& kind) {
  if (!m.operand(0, 0) || !m.result(1) || !m.settle()) return false;
  return m.b.call(kind.kernel, {m.at[0], m.b.text("none"), m.out}) && m.finish();
}

bool sloped(NodeBuilder& m, const Kind& kind) {
  const float slope = m.b.blob().view().get<float>(m.node.table, 0);
  if (!m.operand(0, 1) || !m.result(2) || !m.settle()) return false;
  const int32_t factor = m.b.real(slope);
  if (kind.number == 25) return m.b.call(kind.kernel, {m.at[0], factor, m.out}) && m.finish();
  const int32_t one = m.b.real(1.0);
  return m.b.call(kind.kernel, {m.at[0], factor, one, one, m.out}) && m.finish();
}

// max(x, 0) + slope * min(x, 0)
bool prelu(NodeBuilder& m, const Kind&) {
  if (!m.operand(0, 0) || !m.operand(1, 1) || !m.result(2) || !m.settle()) return false;
  Builder& b = m.b;
  const int32_t low = b.real(-INFINITY), zero = b.real(0.0), high = b.real(INFINITY);
  const int32_t below = m.temporary(m.in[0].dims, m.in[0].rank), above = m.temporary(m.in[0].dims, m.in[0].rank);
  const int32_t product = m.temporary(m.out_info.dims, m.out_info.rank);
  b.call(limit, {m.at[0], below, low, zero});
  b.call(limit, {m.at[0], above, zero, high});
  return b.call("aten::mul.out", {below, m.at[1], product}) &&
         b.call("aten::add.out", {above, product, b.integer(1), m.out}) && m.finish();
}

// clamp, copy and convert: what finish() does with the result is all that they are.
bool copy(NodeBuilder& m, const Kind&) {
  if (!m.operand(0, 0) || !m.result(1)) return false;
  Builder& b = m.b;
  const int32_t out = m.out;
  m.dtype = held_as(m.out_info);
  const bool floats = m.dtype == ScalarType::Float && held_as(m.in[0]) == ScalarType::Float;
  // From float to float the first step reads the operand itself.
  if (floats && m.node.clamps) {
    m.node.clamps = false;
    b.call(limit, {m.at[0], out, b.real(m.node.low), b.real(m.node.high)});
    return m.finish();
  }
  if (floats && is_scaled(m.out_info)) {
    b.call(round_to_scale, {m.at[0], out, b.real(m.out_info.scale), b.integer(m.out_info.zero_point),
                            b.integer(lowest(m.out_info.datatype)), b.integer(highest(m.out_info.datatype))});
    return b.blob().intact();
  }
  if (floats && m.out_info.scaling() == Scaling::Token) {
    b.call(round_by_token, {m.at[0], out, b.integer(dims_of_token(m))});
    return b.blob().intact();
  }
  return b.call("aten::_to_copy.out", {m.at[0], b.boolean(false), b.none(), out}) && m.finish();
}

bool fully_connected(NodeBuilder& m, const Kind& kind) {
  if (!m.operand(0, 0) || !m.packed_operand(1, 1) || !m.operand(2, 2, true) || !m.result(3) || !m.settle()) {
    return false;
  }
  if (m.in[1].rank != 2) return m.b.fail(Check::GraphDims, m.at[1], m.in[1].rank);
  const ValueInfo& image = m.in[0];
  if (is_packed(m.in[1])) {
    const bool few = image.rank > 0 && uint64_t{image.count} <= uint64_t{kFewVectors} * image.dims[image.rank - 1];
    const bool fits = !m.have(2) || (m.in[2].rank == 1 && m.in[2].count == m.in[1].dims[0]);
    if (few && fits && is_in_steps(m.in[1]) && m.flags == 0 && m.dtype == ScalarType::Float) {
      int32_t args[kPackedArguments + 4];
      if (!m.packed_arguments(1, args)) return false;
      const int32_t arranged = m.temporary(image.dims, image.rank);
      m.b.call(arrange, {m.at[0], arranged, m.b.integer(packed_step(m.in[1].datatype))});
      int32_t* more = args + kPackedArguments;
      more[0] = arranged, more[1] = m.have(2) ? m.at[2] : m.b.none(), more[2] = m.out;
      more[3] = m.b.integer(m.in[1].dims[0]);
      m.b.call(linear_packed, args, kPackedArguments + 4);
      return m.finish();
    }
    if (!m.unpacked(1)) return false;
  }
  int32_t filter = m.at[1];
  if ((m.flags & kTransposed) != 0) {
    const uint32_t dims[] = {m.in[1].dims[1], m.in[1].dims[0]};
    filter = m.b.alias_of(filter, 2, dims, kColumns);
    m.b.call(alias, {m.at[1], filter, m.b.integer(1), m.b.integer(0)});
  }
  return m.b.call(kind.kernel, {m.at[0], filter, m.have(2) ? m.at[2] : m.b.none(), m.out}) && m.finish();
}

bool matmul(NodeBuilder& m, const Kind& kind) {
  if (!m.operand(0, 0) || !m.operand(1, 1) || !m.result(2) || !m.settle()) return false;
  int32_t right = m.at[1];
  const int rank = m.in[1].rank;
  if ((m.flags & kTransposed) != 0) {
    if (rank < 2) return m.b.fail(Check::GraphDims, m.at[1], rank);
    uint32_t dims[kMaxDims];
    int64_t perm[kMaxDims];
    for (int d = 0; d < rank; ++d) {
      perm[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
      dims[d] = m.in[1].dims[perm[d]];
    }
    right = m.temporary(dims, rank);
    if (!m.b.call("aten::permute_copy.out", {m.at[1], m.b.integers(perm, rank), right})) return false;
  }
  return m.b.call(kind.kernel, {m.at[0], right, m.out}) && m.finish();
}

}  // namespace xnnpack
}  // namespace etir
