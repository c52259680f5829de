#include "backends/xnnpack/graph.h"

#include <cstring>

#include "backends/xnnpack/builder.h"
#include "backends/xnnpack/calls.h"
#include "backends/xnnpack/nodes.h"
#include "backends/xnnpack/packed.h"

namespace etir {
namespace xnnpack {

namespace {

// Floats from the integers of 32 bits of a bias.
void dequantize(const ValueInfo& info, const uint8_t* data, const uint8_t* scales, float* to) {
  uint32_t inner = 1, channels = 1;
  if (info.scaling() == Scaling::Channel) {
    for (uint32_t d = info.channel + 1; d < info.rank; ++d) inner *= info.dims[d];
    channels = info.dims[info.channel];
  }
  for (uint32_t i = 0; i < info.count; ++i) {
    const float scale = scales == nullptr ? info.scale : flat::read<float>(scales + 4 * size_t{i / inner % channels});
    to[i] = static_cast<float>(flat::read<int32_t>(data + 4 * size_t{i})) * scale;
  }
}

class Loader {
 public:
  Loader(BackendInit& init, Graph* graph) : init_(init), blob_(init), builder_(init, blob_), graph_(graph) {}

  bool load() {
    if (!blob_.open()) return false;
    states_ = static_cast<uint8_t*>(init_.allocate(blob_.num_values() + size_t{1}, 1));
    if (states_ == nullptr) return blob_.fail(Check::BackendMemory, init_.index, blob_.num_values() + int64_t{1});
    if (!make() || !builder_.allocate(blob_.num_nodes()) || !make() || !builder_.plan()) return false;
    *graph_ = builder_.graph();
    return true;
  }

 private:
  // All calls, once to count and once to write.
  bool make() {
    const uint32_t count = blob_.num_values();
    builder_.begin(count);
    std::memset(states_, kUnknown, count);
    std::memset(taken_, 0, sizeof(taken_));
    uint32_t found[2] = {0, 0};
    for (uint32_t i = 0; i < count; ++i) {
      ValueInfo info;
      if (!blob_.value(i, &info)) return false;
      const bool input = (info.flags & kExternalInput) != 0, output = (info.flags & kExternalOutput) != 0;
      const bool external = info.external != kInvalidId;
      if (external != (input || output) || (input && output) || (external && info.constant != 0)) {
        return blob_.fail(Check::GraphExternal, i, info.external);
      }
      if (external) {
        uint8_t& byte = taken_[info.external / 8];
        const uint8_t bit = static_cast<uint8_t>(1u << info.external % 8);
        if ((byte & bit) != 0 || !blob_.listed(i, output)) return blob_.fail(Check::GraphExternal, i, info.external);
        byte |= bit;
        ++found[output];
      }
      if (!(info.constant != 0 ? constant(i, info) : variable(i, info, input, external))) return false;
    }
    for (const bool output : {false, true}) {
      if (found[output] != blob_.num_listed(output)) return blob_.fail(Check::GraphExternal, -1, found[output]);
    }
    for (uint32_t i = 0; i < blob_.num_nodes(); ++i) {
      if (!add_node(builder_, states_, i)) return false;
    }
    for (uint32_t i = 0; i < count && found[1] > 0; ++i) {
      ValueInfo info;
      if (!blob_.value(i, &info)) return false;
      if (info.external != kInvalidId && (info.flags & kExternalOutput) != 0 && !output(i, info)) return false;
    }
    return true;
  }

  bool constant(uint32_t i, const ValueInfo& info) {
    const uint8_t* data = blob_.constant(i, info.constant, info.nbytes(), !builder_.counting());
    if (data == nullptr) return false;
    states_[i] = kKnown;
    const int32_t slot = static_cast<int32_t>(i);
    const Scaling scaling = info.scaling();
    if (scaling != Scaling::Token && is_packed(info)) {
      const uint32_t bytes = static_cast<uint32_t>(info.nbytes());
      builder_.define(i, ScalarType::Byte, 1, &bytes, Storage::Constant);
      builder_.set_data(slot, data);
      return true;
    }
    builder_.define(i, held_as(info), info.rank, info.dims, Storage::Constant);
    if (scaling == Scaling::Token) return blob_.fail(Check::GraphDatatype, i, info.datatype);
    if (scaling == Scaling::None) {
      if (reinterpret_cast<uintptr_t>(data) % element_size(held_as(info)) != 0) {
        return blob_.fail(Check::GraphConstant, i, info.constant);
      }
      builder_.set_data(slot, data);
      return true;
    }
    const uint8_t* scales = nullptr;
    if (info.scale_constant != 0) {
      scales = blob_.constant(i, info.scale_constant, uint64_t{info.scale_count} * 4, !builder_.counting());
      if (scales == nullptr) return false;
    } else if (scaling != Scaling::Tensor) {
      scales = blob_.view().bytes(info.scales);
    }
    float* to = reinterpret_cast<float*>(builder_.constant_memory(uint64_t{info.count} * sizeof(float)));
    if (to != nullptr) dequantize(info, data, scales, to);
    builder_.set_data(slot, to);
    return true;
  }

  bool variable(uint32_t i, const ValueInfo& info, bool input, bool external) {
    const Scaling scaling = info.scaling();
    const bool possible = info.datatype != kQint32 && scaling != Scaling::Channel && scaling != Scaling::Block &&
                          !(external && scaling == Scaling::Token);
    if (!possible) return blob_.fail(Check::GraphDatatype, i, info.datatype);
    const bool outside = external && !is_scaled(info);
    builder_.define(i, held_as(info), info.rank, info.dims, outside ? Storage::Outside : Storage::Planned);
    if (!input) return true;
    states_[i] = kKnown;
    int32_t slot = static_cast<int32_t>(i);
    if (is_scaled(info)) {
      slot = integers(info);
      builder_.call(from_integers,
                    {slot, static_cast<int32_t>(i), builder_.real(info.scale), builder_.integer(info.zero_point)});
    }
    builder_.input(info.external, slot);
    return true;
  }

  bool output(uint32_t i, const ValueInfo& info) {
    if (states_[i] != kKnown) return blob_.fail(Check::GraphOutput, i);
    int32_t slot = static_cast<int32_t>(i);
    if (is_scaled(info)) {
      slot = integers(info);
      builder_.call(to_integers,
                    {static_cast<int32_t>(i), slot, builder_.real(info.scale), builder_.integer(info.zero_point),
                     builder_.integer(lowest(info.datatype)), builder_.integer(highest(info.datatype))});
    }
    builder_.output(info.external, slot);
    return true;
  }

  // The tensor outside of the graph whose integers a value stands for.
  int32_t integers(const ValueInfo& info) {
    const ScalarType dtype = info.datatype == kQint8 ? ScalarType::Char : ScalarType::Byte;
    return builder_.tensor(dtype, info.rank, info.dims, Storage::Outside);
  }

  BackendInit& init_;
  Blob blob_;
  Builder builder_;
  Graph* graph_;
  uint8_t* states_ = nullptr;
  uint8_t taken_[kMaxExternals / 8];
};

}  // namespace

Error load_graph(BackendInit& init, Graph* graph) {
  Loader loader(init, graph);
  return loader.load() ? Error::Ok : Error::DelegateInvalidCompatibility;
}

}  // namespace xnnpack
}  // namespace etir
