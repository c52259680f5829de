#include "backends/xnnpack/node_builder.h"

#include "backends/xnnpack/calls.h"

namespace etir {
namespace xnnpack {

namespace {

// Dim order of images: (N, C, H, W) with the channels innermost.
constexpr uint8_t kChannelsLast[] = {0, 2, 3, 1};

}  // namespace

bool NodeBuilder::size(uint32_t slot, uint32_t least, int64_t* to) {
  const uint32_t value = field(slot);
  if (value < least || value > kMostAttribute) return bad(value);
  *to = value;
  return true;
}

bool NodeBuilder::packed_operand(int i, uint32_t slot, bool optional) {
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

bool NodeBuilder::packed_arguments(int i, int32_t* args) {
  const ValueInfo& info = in[i];
  const Scaling scaling = info.scaling();
  const uint32_t value = static_cast<uint32_t>(at[i]), last = info.rank == 0 ? 1 : info.dims[info.rank - 1];
  const bool in_buffer = info.scale_constant != 0, halves = in_buffer && scaling == Scaling::Block;
  const uint32_t size = info.scale_count * (halves ? 2 : 4);
  int64_t inner = info.count, channels = 1;
  int32_t scales = b.none();
  if (scaling != Scaling::Tensor) {
    const uint8_t* data = in_buffer ? b.blob().constant(value, info.scale_constant, size, !b.counting())
                                    : b.blob().view().bytes(info.scales);
    if (data == nullptr) return false;
    scales = b.tensor(ScalarType::Byte, 1, &size, Storage::Constant);
    b.set_data(scales, data);
    inner = info.block;
    if (scaling == Scaling::Channel) {
      inner = 1;
      for (uint32_t d = info.channel + 1; d < info.rank; ++d) inner *= info.dims[d];
    }
    channels = info.scale_count;
  }
  const int32_t zero = kDatatypes[info.datatype].bits == 4 ? 8 : info.zero_point;
  const int32_t made[kPackedArguments] = {
      at[i],           scales,          b.integer(info.datatype), b.integer(inner), b.integer(channels),
      b.integer(last), b.integer(zero), b.real(info.scale),       b.boolean(halves)};
  for (int k = 0; k < kPackedArguments; ++k) args[k] = made[k];
  return true;
}

bool NodeBuilder::unpacked(int i) {
  int32_t args[kPackedArguments + 1];
  if (!packed_arguments(i, args)) return false;
  at[i] = args[kPackedArguments] = b.tensor(ScalarType::Float, in[i].rank, in[i].dims, Storage::Planned);
  b.call(unpack, args, kPackedArguments + 1);
  return true;
}

bool NodeBuilder::result(uint32_t slot) {
  const uint32_t value = field(slot);
  if (value >= b.blob().num_values() || states_[value] == kKnown) return b.fail(Check::GraphResult, index_, value);
  if (!b.blob().value(value, &out_info)) return false;
  states_[value] = kKnown;
  out_value_ = value;
  out = static_cast<int32_t>(value);
  return true;
}

bool NodeBuilder::settle(bool always_float) {
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

bool NodeBuilder::finish() {
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

int32_t as_image(NodeBuilder& m, int32_t slot, const ValueInfo& info) {
  const uint32_t dims[] = {info.dims[0], info.dims[3], info.dims[1], info.dims[2]};
  const int32_t result = m.b.alias_of(slot, 4, dims, kChannelsLast);
  m.b.call(alias, {slot, result, m.b.integer(0), m.b.integer(3), m.b.integer(1), m.b.integer(2)});
  return result;
}
void from_image(NodeBuilder& m, int32_t image, int32_t slot) {
  m.b.call(alias, {image, slot, m.b.integer(0), m.b.integer(2), m.b.integer(3), m.b.integer(1)});
}

}  // namespace xnnpack
}  // namespace etir
