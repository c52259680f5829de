// The datatype that a node computes in is that of its operands and its result when it is one; otherwise float, and what
// is not float is copied. Results that stand for integers are rounded as these.
#include "backends/xnnpack/nodes.h"

#include <cmath>

#include "backends/xnnpack/calls.h"

namespace etir {
namespace xnnpack {

namespace {

// Flags of nodes. The pipeline says that dims are kept at all pools, of which the global ones alone could drop any.
constexpr uint32_t kKeepDims = 0x40, kAlignCorners = 0x8, kTransposed = 0x1;

// Largest number among attributes that are sizes: sums and products of two stay far from the end of 64 bits.
constexpr uint32_t kMostAttribute = 1u << 30;

// Dim orders of images: (N, C, H, W) with the channels innermost, and filters whose first dim is innermost.
constexpr uint8_t kChannelsLast[] = {0, 2, 3, 1};
constexpr uint8_t kFirstLast[] = {1, 2, 3, 0};
constexpr uint8_t kColumns[] = {1, 0};

struct Kind;

/// One node while its calls are made.
class Maker {
 public:
  Maker(Builder& builder, uint8_t* states, uint32_t index) : b(builder), states_(states), index_(index) {}

  bool read(const Kind** kind);
  uint32_t field(uint32_t slot) { return b.blob().view().get<uint32_t>(node.table, slot); }
  /// A field that is a size.
  bool size(uint32_t slot, uint32_t least, int64_t* to);
  Items list(uint32_t slot) { return b.blob().view().items(node.table, slot, 4); }
  bool bad(int64_t number) { return b.fail(Check::GraphAttribute, index_, number); }

  /// Reads operand `i`, the value that the field at `slot` names.
  bool operand(int i, uint32_t slot, bool optional = false);
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
  bool (*make)(Maker& m, const Kind& kind);
  const char* kernel;
  uint8_t flags;
  uint8_t number;
};

bool Maker::size(uint32_t slot, uint32_t least, int64_t* to) {
  const uint32_t value = field(slot);
  if (value < least || value > kMostAttribute) return bad(value);
  *to = value;
  return true;
}

bool Maker::operand(int i, uint32_t slot, bool optional) {
  const uint32_t value = field(slot);
  if (optional && value == kInvalidId) return true;
  if (value >= b.blob().num_values() || states_[value] != kKnown) {
    return b.fail(Check::GraphOperand, index_, value);
  }
  if (!b.blob().value(value, &in[i])) return false;
  at[i] = static_cast<int32_t>(value);
  present_ |= 1u << i;
  count_ = i + 1 > count_ ? i + 1 : count_;
  return true;
}

bool Maker::result(uint32_t slot) {
  const uint32_t value = field(slot);
  if (value >= b.blob().num_values() || states_[value] == kKnown) return b.fail(Check::GraphResult, index_, value);
  if (!b.blob().value(value, &out_info)) return false;
  states_[value] = kKnown;
  out_value_ = value;
  out = static_cast<int32_t>(value);
  return true;
}

bool Maker::settle(bool always_float) {
  dtype = held_as(out_info);
  for (int i = 0; i < count_; ++i) {
    if (have(i) && held_as(in[i]) != dtype) always_float = true;
  }
  if (always_float || dtype == ScalarType::Int) dtype = ScalarType::Float;
  for (int i = 0; i < count_; ++i) {
    if (!have(i) || held_as(in[i]) == dtype) continue;
    const int32_t copy = temporary(in[i].dims, in[i].rank);
    if (!b.call("aten::_to_copy.out", {at[i], b.boolean(false), b.none(), copy})) return false;
    at[i] = copy;
  }
  if (held_as(out_info) != dtype) out = temporary(out_info.dims, out_info.rank);
  return true;
}

bool Maker::finish() {
  const int32_t value = static_cast<int32_t>(out_value_);
  if (node.clamps) b.call(limit, {out, out, b.real(node.low), b.real(node.high)});
  if (out != value && !b.call("aten::_to_copy.out", {out, b.boolean(false), b.none(), value})) return false;
  if (is_scaled(out_info)) {
    b.call(round_to_scale, {value, value, b.real(out_info.scale), b.integer(out_info.zero_point),
                            b.integer(lowest(out_info.datatype)), b.integer(highest(out_info.datatype))});
  } else if (out_info.scaling() == Scaling::Token) {
    b.call(round_by_token, {value, value, b.integer(out_info.nonbatch)});
  }
  return b.blob().intact();
}

// --- aliases --------------------------------------------------------------------------------------------------------

// (N, H, W, C) as (N, C, H, W) whose channels are innermost, and back.
int32_t as_image(Maker& m, int32_t slot, const ValueInfo& info) {
  const uint32_t dims[] = {info.dims[0], info.dims[3], info.dims[1], info.dims[2]};
  const int32_t result = m.b.alias_of(slot, 4, dims, kChannelsLast);
  m.b.call(alias, {slot, result, m.b.integer(0), m.b.integer(3), m.b.integer(1), m.b.integer(2)});
  return result;
}
void from_image(Maker& m, int32_t image, int32_t slot) {
  m.b.call(alias, {image, slot, m.b.integer(0), m.b.integer(2), m.b.integer(3), m.b.integer(1)});
}

// --- families -------------------------------------------------------------------------------------------------------

bool unary(Maker& m, const Kind& kind) {
  if (!m.operand(0, 0) || !m.result(1) || !m.settle()) return false;
  return m.b.call(kind.kernel, {m.at[0], m.out}) && m.finish();
}

bool binary(Maker& m, const Kind& kind) {
  if (!m.operand(0, 0) || !m.operand(1, 1) || !m.result(2) || !m.settle()) return false;
  return m.b.call(kind.kernel, {m.at[0], m.at[1], m.out}) && m.finish();
}

// add and sub, whose kernels have a factor.
bool sum(Maker& m, const Kind& kind) {
  if (!m.operand(0, 0) || !m.operand(1, 1) || !m.result(2) || !m.settle()) return false;
  return m.b.call(kind.kernel, {m.at[0], m.at[1], m.b.integer(1), m.out}) && m.finish();
}

bool softmax(Maker& m, const Kind& kind) {
  if (!m.operand(0, 0) || !m.result(1) || !m.settle()) return false;
  return m.b.call(kind.kernel, {m.at[0], m.b.integer(-1), m.b.boolean(false), m.out}) && m.finish();
}

bool gelu(Maker& m, const Kind& kind) {
  if (!m.operand(0, 0) || !m.result(1) || !m.settle()) return false;
  return m.b.call(kind.kernel, {m.at[0], m.b.text("none"), m.out}) && m.finish();
}

bool sloped(Maker& m, const Kind& kind) {
  const float slope = m.b.blob().view().get<float>(m.node.table, 0);
  if (!m.operand(0, 1) || !m.result(2) || !m.settle()) return false;
  const int32_t factor = m.b.real(slope);
  if (kind.number == 25) return m.b.call(kind.kernel, {m.at[0], factor, m.out}) && m.finish();
  const int32_t one = m.b.real(1.0);
  return m.b.call(kind.kernel, {m.at[0], factor, one, one, m.out}) && m.finish();
}

// max(x, 0) + slope * min(x, 0)
bool prelu(Maker& m, const Kind&) {
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
bool copy(Maker& m, const Kind&) {
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
    b.call(round_by_token, {m.at[0], out, b.integer(m.out_info.nonbatch)});
    return b.blob().intact();
  }
  return b.call("aten::_to_copy.out", {m.at[0], b.boolean(false), b.none(), out}) && m.finish();
}

bool fully_connected(Maker& m, const Kind& kind) {
  if (!m.operand(0, 0) || !m.operand(1, 1) || !m.operand(2, 2, true) || !m.result(3) || !m.settle()) return false;
  if (m.in[1].rank != 2) return m.b.fail(Check::GraphDims, m.at[1], m.in[1].rank);
  int32_t filter = m.at[1];
  if ((m.flags & kTransposed) != 0) {
    const uint32_t dims[] = {m.in[1].dims[1], m.in[1].dims[0]};
    filter = m.b.alias_of(filter, 2, dims, kColumns);
    m.b.call(alias, {m.at[1], filter, m.b.integer(1), m.b.integer(0)});
  }
  return m.b.call(kind.kernel, {m.at[0], filter, m.have(2) ? m.at[2] : m.b.none(), m.out}) && m.finish();
}

bool matmul(Maker& m, const Kind& kind) {
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

bool transpose(Maker& m, const Kind& kind) {
  if (!m.operand(0, 2) || !m.result(3) || !m.settle()) return false;
  const Items perm = m.list(1);
  if (perm.count != m.field(0) || perm.count != m.in[0].rank) return m.bad(perm.count);
  int64_t dims[kMaxDims];
  for (uint32_t d = 0; d < perm.count; ++d) dims[d] = m.b.blob().view().number<uint32_t>(perm, d);
  return m.b.call(kind.kernel, {m.at[0], m.b.integers(dims, m.in[0].rank), m.out}) && m.finish();
}

bool reshape(Maker& m, const Kind& kind) {
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

bool slice(Maker& m, const Kind& kind) {
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

bool pad(Maker& m, const Kind& kind) {
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

bool concatenate(Maker& m, const Kind& kind) {
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

bool global_pool(Maker& m, const Kind& kind) {
  if (!m.operand(0, 0) || !m.result(1) || !m.settle()) return false;
  if (m.in[0].rank != 4) return m.b.fail(Check::GraphDims, m.at[0], m.in[0].rank);
  const int64_t dims[] = {1, 2};
  const bool keep = (m.flags & kKeepDims) != 0;
  return m.b.call(kind.kernel, {m.at[0], m.b.integers(dims, 2), m.b.boolean(keep), m.b.none(), m.out}) && m.finish();
}

bool resize(Maker& m, const Kind& kind) {
  int64_t sizes[2];
  if (!m.size(0, 1, &sizes[0]) || !m.size(1, 1, &sizes[1])) return false;
  if (!m.operand(0, 2) || !m.result(3) || !m.settle()) return false;
  Builder& b = m.b;
  for (const ValueInfo* info : {&m.in[0], &m.out_info}) {
    if (info->rank != 4) return b.fail(Check::GraphDims, m.at[0], info->rank);
  }
  const int32_t from = as_image(m, m.at[0], m.in[0]), to = as_image(m, m.out, m.out_info);
  const int32_t corners = b.boolean((m.flags & kAlignCorners) != 0);
  if (!b.call(kind.kernel, {from, b.integers(sizes, 2), corners, b.none(), b.none(), to})) return false;
  from_image(m, to, m.out);
  return m.finish();
}

// Padding (top, right, bottom, left), then six numbers for height and width.
bool pooling(Maker& m, const Kind& kind) {
  const bool indices = kind.number == 21;
  int64_t fields[10] = {0, 0, 0, 0, 1, 1, 1, 1, 1, 1};
  for (uint32_t i = 0; i < (indices ? 6 : 10); ++i) {
    if (!m.size(i, i < 4 ? 0 : 1, &fields[i])) return false;
  }
  if (indices) fields[6] = fields[4], fields[7] = fields[5];
  // Padding as wide as the window would give windows without an element.
  for (int i = 0; i < 4; ++i) {
    const int d = i % 2 == 0 ? 0 : 1;
    if (fields[i] > (fields[4 + d] - 1) * fields[8 + d]) return m.bad(fields[i]);
  }
  Builder& b = m.b;
  const uint32_t first = indices ? 6 : 10;
  if (!m.operand(0, first)) return false;
  int32_t at = 0;
  ValueInfo index_info;
  if (indices) {
    if (!m.result(8)) return false;
    index_info = m.out_info;
    at = m.out;
    if (held_as(index_info) != ScalarType::Int) return b.fail(Check::GraphDatatype, at, index_info.datatype);
  }
  if (!m.result(first + 1) || !m.settle(true)) return false;
  for (const ValueInfo* info : {&m.in[0], &m.out_info, indices ? &index_info : &m.out_info}) {
    if (info->rank != 4) return b.fail(Check::GraphDims, m.at[0], info->rank);
  }
  const int32_t mode = b.integer(indices ? kArgMaxPool : kind.number == 11 ? kAveragePool : kMaxPool);
  int32_t args[14] = {m.at[0], m.out, indices ? at : b.none(), mode};
  for (int i = 0; i < 10; ++i) args[4 + i] = b.integer(fields[i]);
  b.call(pool, args, 14);
  return m.finish();
}

// --- convolutions ---------------------------------------------------------------------------------------------------

struct Convolution {
  int64_t padding[4];  // top, right, bottom, left
  int64_t kernel[2], stride[2], dilation[2];
  int64_t in_channels, out_channels, groups;  // channels of each group
  int64_t adjustment[2];
};

// The filter as torch's weight, over the elements as they lie. Its dims here are those of XNNPACK: (O, H, W, I) for
// convolutions, where a transposed one has the outputs of all groups in O; (1, H, W, C * M) for depthwise ones.
bool filter_of(Maker& m, const Kind& kind, const Convolution& c, int32_t* filter) {
  const ValueInfo& info = m.in[1];
  Builder& b = m.b;
  const bool depthwise = kind.number == 13, transposed = kind.number == 39;
  const uint64_t outputs = static_cast<uint64_t>(c.out_channels * c.groups);
  const uint64_t expected[] = {depthwise ? 1 : outputs, static_cast<uint64_t>(c.kernel[0]),
                               static_cast<uint64_t>(c.kernel[1]),
                               depthwise ? outputs : static_cast<uint64_t>(c.in_channels)};
  if (info.rank != 4) return b.fail(Check::GraphDims, m.at[1], info.rank);
  for (int d = 0; d < 4; ++d) {
    if (info.dims[d] != expected[d]) return b.fail(Check::GraphDims, m.at[1], info.dims[d]);
  }
  const uint32_t height = info.dims[1], width = info.dims[2];
  if (!depthwise && !transposed) return *filter = as_image(m, m.at[1], info), true;
  if (depthwise || c.groups == 1) {
    const uint32_t dims[] = {info.dims[3], info.dims[0], height, width};
    *filter = b.alias_of(m.at[1], 4, dims, kFirstLast);
    b.call(alias, {m.at[1], *filter, b.integer(3), b.integer(0), b.integer(1), b.integer(2)});
    return true;
  }
  // Groups come first on either side, outputs and inputs of each change places.
  const uint32_t groups = static_cast<uint32_t>(c.groups), outs = info.dims[0] / groups, ins = info.dims[3];
  const uint32_t split[] = {groups, outs, height, width, ins}, moved[] = {groups, ins, height, width, outs};
  const uint32_t dims[] = {groups * ins, height, width, outs};
  const int64_t sizes[] = {groups, outs, height, width, ins}, perm[] = {0, 4, 2, 3, 1};
  const int32_t parts = m.temporary(split, 5), swapped = m.temporary(moved, 5);
  if (!b.call("aten::view_copy.out", {m.at[1], b.integers(sizes, 5), parts}) ||
      !b.call("aten::permute_copy.out", {parts, b.integers(perm, 5), swapped})) {
    return false;
  }
  const int64_t flat[] = {dims[0], dims[1], dims[2], dims[3]};
  const int32_t whole = m.temporary(dims, 4);
  if (!b.call("aten::view_copy.out", {swapped, b.integers(flat, 4), whole})) return false;
  ValueInfo made;
  for (int d = 0; d < 4; ++d) made.dims[d] = dims[d];
  *filter = as_image(m, whole, made);
  return true;
}

bool convolution(Maker& m, const Kind& kind) {
  Convolution c;
  const bool transposed = kind.number == 39;
  for (uint32_t i = 0; i < 4; ++i) {
    if (!m.size(i, 0, &c.padding[i])) return false;
  }
  for (uint32_t i = 0; i < 2; ++i) {
    if (!m.size(4 + i, 1, &c.kernel[i]) || !m.size(6 + i, 1, &c.stride[i]) || !m.size(8 + i, 1, &c.dilation[i]) ||
        !m.size(13 + i, 0, &c.adjustment[i])) {
      return false;
    }
    if (!transposed && c.adjustment[i] != 0) return m.bad(c.adjustment[i]);
  }
  if (!m.size(10, 1, &c.in_channels) || !m.size(11, 1, &c.out_channels) || !m.size(12, 1, &c.groups)) return false;
  if (!m.operand(0, 15) || !m.operand(1, 16) || !m.operand(2, 17, true) || !m.result(18) || !m.settle()) return false;
  Builder& b = m.b;
  for (const ValueInfo* info : {&m.in[0], &m.out_info}) {
    if (info->rank != 4) return b.fail(Check::GraphDims, m.at[0], info->rank);
  }
  if (kind.number == 13 && c.in_channels != 1) return m.bad(c.in_channels);
  int32_t filter = 0;
  if (!filter_of(m, kind, c, &filter)) return false;

  const bool even = c.padding[0] == c.padding[2] && c.padding[1] == c.padding[3];
  ValueInfo input = m.in[0], wide = m.out_info;
  int32_t from = m.at[0], to = m.out;
  int64_t padding[] = {c.padding[0], c.padding[3]};
  if (!even) {
    // Padding that differs from side to side is a step of its own: before the convolution, or cut off after it.
    padding[0] = padding[1] = 0;
    ValueInfo& grown = transposed ? wide : input;
    for (int d = 0; d < 2; ++d) {
      const uint64_t size =
          grown.dims[1 + d] + static_cast<uint64_t>(c.padding[d == 0 ? 0 : 3] + c.padding[d == 0 ? 2 : 1]);
      if (size > INT32_MAX) return b.fail(Check::GraphDims, m.at[0], static_cast<int64_t>(size));
      grown.dims[1 + d] = static_cast<uint32_t>(size);
    }
    uint64_t count = 1;
    for (int d = 0; d < 4; ++d) {
      if (grown.dims[d] != 0 && (count *= grown.dims[d]) > INT32_MAX)
        return b.fail(Check::GraphDims, m.at[0], grown.dims[d]);
    }
    const int32_t more = m.temporary(grown.dims, 4);
    if (transposed) {
      to = more;
    } else {
      const int64_t sides[] = {0, 0, c.padding[3], c.padding[1], c.padding[0], c.padding[2], 0, 0};
      if (!b.call("aten::constant_pad_nd.out", {from, b.integers(sides, 8), b.real(0.0), more})) return false;
      from = more;
    }
  }
  const int32_t image = as_image(m, from, input), result = as_image(m, to, wide);
  const int32_t bias = m.have(2) ? m.at[2] : b.none();
  if (!b.call(kind.kernel,
              {image, filter, bias, b.integers(c.stride, 2), b.integers(padding, 2), b.integers(c.dilation, 2),
               b.boolean(transposed), b.integers(c.adjustment, 2), b.integer(c.groups), result})) {
    return false;
  }
  from_image(m, result, to);
  if (to == m.out) return m.finish();
  uint32_t dims[kMaxDims];
  for (int d = 0; d < 4; ++d) dims[d] = wide.dims[d];
  dims[1] = m.out_info.dims[1];
  const int32_t rows = m.temporary(dims, 4);
  const auto end = [&](int64_t cut) { return cut == 0 ? b.none() : b.integer(-cut); };
  return b.call("aten::slice_copy.Tensor_out",
                {to, b.integer(1), b.integer(c.padding[0]), end(c.padding[2]), b.integer(1), rows}) &&
         b.call("aten::slice_copy.Tensor_out",
                {rows, b.integer(2), b.integer(c.padding[3]), end(c.padding[1]), b.integer(1), m.out}) &&
         m.finish();
}

// --- the kinds ------------------------------------------------------------------------------------------------------

constexpr Kind kKinds[] = {
    {nullptr, nullptr, 0, 0},
    {sum, "aten::add.out", 0, 1},
    {fully_connected, "aten::linear.out", kTransposed, 2},
    {softmax, "aten::_softmax.out", 0, 3},
    {unary, "aten::sigmoid.out", 0, 4},
    {transpose, "aten::permute_copy.out", 0, 5},
    {copy, nullptr, 0, 6},
    {convolution, "aten::convolution.out", 0, 7},
    {binary, "aten::div.out", 0, 8},
    {resize, "aten::upsample_bilinear2d.out", kAlignCorners, 9},
    {pad, "aten::constant_pad_nd.out", 0, 10},
    {pooling, nullptr, kKeepDims, 11},
    {binary, "aten::minimum.out", 0, 12},
    {convolution, "aten::convolution.out", 0, 13},
    {pooling, nullptr, kKeepDims, 14},
    {binary, "aten::mul.out", 0, 15},
    {sum, "aten::sub.out", 0, 16},
    {unary, "aten::floor.out", 0, 17},
    {copy, nullptr, 0, 18},
    {global_pool, "aten::mean.out", kKeepDims, 19},
    {reshape, "aten::view_copy.out", 0, 20},
    {pooling, nullptr, kKeepDims, 21},
    {unary, "aten::sqrt.out", 0, 22},
    {unary, "aten::ceil.out", 0, 23},
    {unary, "aten::hardswish.out", 0, 24},
    {sloped, "aten::leaky_relu.out", 0, 25},
    {binary, "aten::maximum.out", 0, 26},
    {unary, "aten::neg.out", 0, 27},
    {unary, "aten::square.out", 0, 28},
    {sloped, "aten::elu.out", 0, 29},
    {unary, "aten::abs.out", 0, 30},
    {prelu, nullptr, 0, 31},
    {concatenate, "aten::cat.out", 0, 32},
    {concatenate, "aten::cat.out", 0, 33},
    {concatenate, "aten::cat.out", 0, 34},
    {slice, "aten::slice_copy.Tensor_out", 0, 35},
    {nullptr, nullptr, 0, 36},  // ExecuTorch's runtime has no scaled_dot_product_attention either
    {matmul, "aten::matmul.out", kTransposed, 37},
    {concatenate, "aten::cat.out", 0, 38},
    {convolution, "aten::convolution.out", 0, 39},
    {unary, "aten::rsqrt.out", 0, 40},
    {unary, "aten::log.out", 0, 41},
    {gelu, "aten::gelu.out", 0, 42},
    {unary, "aten::tanh.out", 0, 43},
    {unary, "aten::exp.out", 0, 44},
    {unary, "aten::sin.out", 0, 45},
    {copy, nullptr, 0, 46},
    {unary, "aten::cos.out", 0, 47},
};
constexpr uint32_t kNumKinds = sizeof(kKinds) / sizeof(kKinds[0]);

// Where a kind has its flags.
uint32_t flags_slot(const Kind& kind) {
  if (kind.make == unary || kind.make == softmax || kind.make == gelu || kind.make == copy ||
      kind.make == global_pool) {
    return 2;
  }
  if (kind.make == fully_connected || kind.make == transpose || kind.make == reshape || kind.make == resize) return 4;
  if (kind.make == convolution) return 19;
  if (kind.make == pooling) return kind.number == 21 ? 9 : 12;
  if (kind.make == concatenate) return 6;
  if (kind.make == slice || kind.make == pad) return 5;
  return 3;
}

bool Maker::read(const Kind** kind) {
  if (!b.blob().node(index_, &node)) return false;
  if (node.kind >= kNumKinds || kKinds[node.kind].make == nullptr) {
    return b.fail(Check::GraphNode, index_, node.kind);
  }
  *kind = &kKinds[node.kind];
  flags = field(flags_slot(**kind));
  if ((flags & ~uint32_t{(*kind)->flags}) != 0) return bad(flags);
  b.set_handle(index_, node.handle);
  return true;
}

}  // namespace

ScalarType held_as(const ValueInfo& info) {
  switch (info.datatype) {
    case kFp16:
      return ScalarType::Half;
    case kBf16:
      return ScalarType::BFloat16;
    case kInt32:
      return ScalarType::Int;
    default:
      return ScalarType::Float;
  }
}

bool add_node(Builder& builder, uint8_t* states, uint32_t index) {
  Maker maker(builder, states, index);
  const Kind* kind;
  return maker.read(&kind) && kind->make(maker, *kind) && builder.blob().intact();
}

}  // namespace xnnpack
}  // namespace etir
