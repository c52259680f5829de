// Nodes on images: pools, resizing, and convolutions of all kinds.
#include "backends/xnnpack/calls.h"
#include "backends/xnnpack/node_builder.h"

namespace etir {
namespace xnnpack {

bool global_pool(NodeBuilder& m, const Kind& kind) {
  if (!m.operand(0, 0) || !m.result(1) || !m.settle()) return false;
  if (m.in[0].rank != 4) return m.b.fail(Check::GraphDims, m.at[0], m.in[0].rank);
  const int64_t dims[] = {1, 2};
  const bool keep = (m.flags & kKeepDims) != 0;
  return m.b.call(kind.kernel, {m.at[0], m.b.integers(dims, 2), m.b.boolean(keep), m.b.none(), m.out}) && m.finish();
}

bool resize(NodeBuilder& m, const Kind& kind) {
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
bool pooling(NodeBuilder& m, const Kind& kind) {
  const bool indices = kind.number == 21;
  int64_t fields[10] = {0, 0, 0, 0, 1, 1, 1, 1, 1, 1};
  // An average pool has no dilation: ExecuTorch writes 0 there, and XNNPACK does not read it.
  const bool average = kind.number == 11;
  for (uint32_t i = 0; i < (indices ? 6u : average ? 8u : 10u); ++i) {
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
  const int32_t mode = b.integer(indices ? kArgMaxPool : average ? kAveragePool : kMaxPool);
  int32_t args[14] = {m.at[0], m.out, indices ? at : b.none(), mode};
  for (int i = 0; i < 10; ++i) args[4 + i] = b.integer(fields[i]);
  b.call(pool, args, 14);
  return m.finish();
}

// --- convolutions ---------------------------------------------------------------------------------------------------

namespace {

// Dim order of filters whose first dim is innermost.
constexpr uint8_t kFirstLast[] = {1, 2, 3, 0};

struct Convolution {
  int64_t padding[4];  // top, right, bottom, left
  int64_t kernel[2], stride[2], dilation[2];
  int64_t in_channels, out_channels, groups;  // channels of each group
  int64_t adjustment[2];
};

// The filter as torch's weight, over the elements as they lie. Its dims here are those of XNNPACK: (O, H, W, I) for
// convolutions, where a transposed one has the outputs of all groups in O; (1, H, W, C * M) for depthwise ones.
bool filter_of(NodeBuilder& m, const Kind& kind, const Convolution& c, int32_t* filter) {
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

}  // namespace

bool convolution(NodeBuilder& m, const Kind& kind) {
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

}  // namespace xnnpack
}  // namespace etir
