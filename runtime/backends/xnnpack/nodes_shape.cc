// Nodes that move elements and compute nothing.
#include "backends/xnnpack/calls.h"
#include "backends/xnnpack/node_builder.h"

namespace etir {
namespace xnnpack {

bool transpose(NodeBuilder& m, const Kind& kind) {
  if (!m.operand(0, 2) || !m.result(3) || !m.settle()) return false;
  const Items perm = m.list(1);
  if (perm.count != m.field(0) || perm.count != m.in[0].rank) return m.bad(perm.count);
  int64_t dims[kMaxDims];
  for (uint32_t d = 0; d < perm.count; ++d) dims[d] = m.b.blob().view().number<uint32_t>(perm, d);
  return m.b.call(kind.kernel, {m.at[0], m.b.integers(dims, m.in[0].rank), m.out}) && m.finish();
}

bool reshape(NodeBuilder& m, const Kind& kind) {
  if (!m.operand(0, 2) || !m.result(3) || !m.settle()) return false;
  const Items shape = m.list(1);
  if (shape.count != m.field(0) || shape.count != m.out_info.rank) return m.bad(shape.count);
  int64_t sizes[kMaxDims];
  for (uint32_t d = 0; d < shape.count; ++d) {
    const uint32_t size = m.b.blob().view().number<uint32_t>(shape, d);
    sizes[d] = size == 0 ? -1 : int64_t{size};
  }
  return m.b.call(kind.kernel, {m.at[0], m.b.integers(sizes, m.out_info.rank), m.out}) && m.finish();
}

bool slice(NodeBuilder& m, const Kind& kind) {
  if (!m.operand(0, 3) || !m.result(4) || !m.settle()) return false;
  Builder& b = m.b;
  const Items offsets = m.list(1), sizes = m.list(2);
  const int rank = m.in[0].rank;
  if (offsets.count != m.field(0) || offsets.count != m.in[0].rank || sizes.count != offsets.count) {
    return m.bad(offsets.count);
  }
  if (m.out_info.rank != rank) return b.fail(Check::GraphDims, m.at[0], rank);
  // Dims of which all is wanted are left out, unless they all are.
  int last = rank - 1;
  uint32_t offset[kMaxDims], size[kMaxDims];
  bool whole[kMaxDims];
  for (int d = 0; d < rank; ++d) {
    offset[d] = b.blob().view().number<uint32_t>(offsets, static_cast<uint32_t>(d));
    size[d] = b.blob().view().number<uint32_t>(sizes, static_cast<uint32_t>(d));
    if (offset[d] > kMostAttribute || size[d] > kMostAttribute) return m.bad(offset[d]);
    whole[d] = offset[d] == 0 && size[d] == 0;
  }
  while (last > 0 && whole[last]) --last;
  if (rank == 0) return b.call("aten::view_copy.out", {m.at[0], b.integers(nullptr, 0), m.out}) && m.finish();
  uint32_t dims[kMaxDims];
  for (int d = 0; d < rank; ++d) dims[d] = m.in[0].dims[d];
  int32_t from = m.at[0];
  for (int d = 0; d <= last; ++d) {
    if (whole[d] && d < last) continue;
    // A slice of torch's ends where the dim does; here that is an error.
    dims[d] = m.out_info.dims[d];
    const int32_t to = d == last ? m.out : m.temporary(dims, rank);
    const int32_t end = size[d] == 0 ? b.none() : b.integer(int64_t{offset[d]} + size[d]);
    if (size[d] != 0) b.call(has_room, {from, b.integer(d), end});
    if (!b.call(kind.kernel, {from, b.integer(d), b.integer(offset[d]), end, b.integer(1), to})) return false;
    from = to;
  }
  return m.finish();
}

bool pad(NodeBuilder& m, const Kind& kind) {
  const float value = m.b.blob().view().get<float>(m.node.table, 2);
  if (!m.operand(0, 3) || !m.result(4) || !m.settle()) return false;
  const Items before = m.list(0), after = m.list(1);
  const int rank = m.in[0].rank;
  if (before.count != m.in[0].rank || after.count != before.count) return m.bad(before.count);
  int64_t paddings[2 * kMaxDims];
  for (int d = 0; d < rank; ++d) {
    const uint32_t i = static_cast<uint32_t>(rank - 1 - d);
    paddings[2 * d] = m.b.blob().view().number<uint32_t>(before, i);
    paddings[2 * d + 1] = m.b.blob().view().number<uint32_t>(after, i);
    if (paddings[2 * d] > kMostAttribute || paddings[2 * d + 1] > kMostAttribute) return m.bad(paddings[2 * d]);
  }
  return m.b.call(kind.kernel, {m.at[0], m.b.integers(paddings, 2 * rank), m.b.real(value), m.out}) && m.finish();
}

bool concatenate(NodeBuilder& m, const Kind& kind) {
  static constexpr uint8_t kSlots[] = {1, 2, 3, 4, 7};
  const int count = kind.number == 38 ? 5 : kind.number - 30;
  for (int i = 0; i < count; ++i) {
    if (!m.operand(i, kSlots[i])) return false;
  }
  if (!m.result(5) || !m.settle()) return false;
  const uint32_t axis = m.field(0);
  if (axis >= m.out_info.rank) return m.bad(axis);
  return m.b.call(kind.kernel, {m.b.tensors(m.at, count), m.b.integer(axis), m.out}) && m.finish();
}

}  // namespace xnnpack
}  // namespace etir
