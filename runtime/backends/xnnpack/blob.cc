#include "backends/xnnpack/blob.h"

#include <cmath>

#include "core/count.h"

namespace etir {
namespace xnnpack {

namespace {

// The header: zeros, magic, its length, place and size of the FlatBuffer, place and size of the constants.
constexpr uint32_t kHeaderSize = 30;
constexpr char kMagic[] = "XH00";
constexpr char kIdentifiers[2][5] = {"XN00", "XN01"};

// Slots of the tables.
enum GraphSlot : uint8_t {
  kNodes = 1,
  kValues = 2,
  kNumExternals = 3,
  kInputIds = 4,
  kOutputIds = 5,
  kConstants = 8,
};
enum TensorSlot : uint8_t { kDatatype, kRank, kDims, kConstant, kExternal, kFlags, kId };

// Unions: a type, and a table in the slot after it.
constexpr uint8_t kPlainTensor = 1, kQuantizedTensor = 2;
constexpr uint8_t kPerChannel = 1, kPerTensor = 2, kPerToken = 3, kPerBlock = 4;

}  // namespace

uint32_t View::field(const Table& table, uint32_t slot, uint32_t width) {
  if (!table || failed_) return 0;
  const uint32_t position = 4 + 2 * slot;
  if (position + 2 > table.vtable_size) return 0;
  const uint32_t offset = flat::read<uint16_t>(base_ + table.vtable + position);
  if (offset == 0) return 0;
  if (offset < 4 || offset + width > table.size) return broken(table.at), 0;
  return table.at + offset;
}

Table View::follow(uint32_t from) {
  const uint64_t at = uint64_t{from} + flat::read<uint32_t>(base_ + from);
  if (failed_ || at == from || at % 4 != 0 || at + 4 > size_) return broken(from);
  const int64_t vtable = static_cast<int64_t>(at) - flat::read<int32_t>(base_ + at);
  if (vtable < 0 || vtable % 2 != 0 || vtable + 4 > size_) return broken(at);
  Table table;
  table.at = static_cast<uint32_t>(at);
  table.vtable = static_cast<uint32_t>(vtable);
  table.vtable_size = flat::read<uint16_t>(base_ + vtable);
  table.size = flat::read<uint16_t>(base_ + vtable + 2);
  if (table.vtable_size < 4 || vtable + table.vtable_size > size_ || table.size < 4 || at + table.size > size_) {
    return broken(at);
  }
  return table;
}

Items View::items(const Table& parent, uint32_t slot, uint32_t item_size) {
  const uint32_t from = field(parent, slot, 4);
  if (from == 0) return {};
  const uint64_t at = uint64_t{from} + flat::read<uint32_t>(base_ + from);
  if (at == from || at % 4 != 0 || at + 4 > size_) return broken(from), Items{};
  const uint64_t count = flat::read<uint32_t>(base_ + at);
  if (count * item_size > size_ - at - 4) return broken(at), Items{};
  return {static_cast<uint32_t>(at + 4), static_cast<uint32_t>(count)};
}

bool Blob::intact() {
  return !view_.failed() || fail(Check::BackendData, init_.index, int64_t{start_} + view_.where());
}

bool Blob::open() {
  const Span<const uint8_t> data = init_.processed;
  if (data.size < kHeaderSize || std::memcmp(data.data + 4, kMagic, 4) != 0) {
    return fail(Check::BackendData, init_.index, 4);
  }
  const uint32_t length = flat::read<uint16_t>(data.data + 8);
  start_ = flat::read<uint32_t>(data.data + 10);
  const uint64_t size = flat::read<uint32_t>(data.data + 14);
  const uint64_t constants = flat::read<uint32_t>(data.data + 18);
  inline_size_ = flat::read<uint64_t>(data.data + 22);
  if (length < kHeaderSize) return fail(Check::BackendData, init_.index, 8);
  if (start_ < length || start_ + size > data.size || size < 8 || size > INT32_MAX) {
    return fail(Check::BackendData, init_.index, 10);
  }
  if (inline_size_ != 0 && (constants > data.size || inline_size_ > data.size - constants)) {
    return fail(Check::BackendData, init_.index, 18);
  }
  inline_ = data.data + (inline_size_ == 0 ? 0 : constants);
  const uint8_t* base = data.data + start_;
  if (std::memcmp(base + 4, kIdentifiers[0], 4) != 0 && std::memcmp(base + 4, kIdentifiers[1], 4) != 0) {
    return fail(Check::BackendData, init_.index, int64_t{start_} + 4);
  }
  view_ = View(base, static_cast<uint32_t>(size));
  const Table root = view_.root();
  nodes_ = view_.items(root, kNodes, 4);
  values_ = view_.items(root, kValues, 4);
  num_externals_ = view_.get<uint32_t>(root, kNumExternals);
  inputs_ = view_.items(root, kInputIds, 4);
  outputs_ = view_.items(root, kOutputIds, 4);
  constants_ = view_.items(root, kConstants, 4);
  if (!intact()) return false;
  if (num_externals_ > kMaxExternals || inputs_.count + uint64_t{outputs_.count} > num_externals_) {
    return fail(Check::GraphExternal, -1, num_externals_);
  }
  return true;
}

bool Blob::listed(uint32_t i, bool output) {
  const Items& ids = output ? outputs_ : inputs_;
  for (uint32_t k = 0; k < ids.count; ++k) {
    if (view_.number<uint32_t>(ids, k) == i) return true;
  }
  return false;
}

bool Blob::value(uint32_t i, ValueInfo* info) {
  *info = ValueInfo{};
  const Table holder = view_.item(values_, i);
  const uint8_t type = view_.get<uint8_t>(holder, 0);
  Table tensor = view_.table(holder, 1), quantized;
  if (type == kQuantizedTensor) {
    quantized = tensor;
    tensor = view_.table(quantized, 0);
  } else if (type != kPlainTensor) {
    return fail(Check::GraphDatatype, i, 0);
  }
  const int16_t datatype = view_.get<int16_t>(tensor, kDatatype);
  const uint32_t rank = view_.get<uint32_t>(tensor, kRank);
  const Items dims = view_.items(tensor, kDims, 4);
  info->constant = view_.get<uint32_t>(tensor, kConstant);
  info->external = view_.get<uint32_t>(tensor, kExternal);
  info->flags = view_.get<uint32_t>(tensor, kFlags);
  if (!intact()) return false;
  if (datatype < 1 || datatype >= kNumDatatypes) return fail(Check::GraphDatatype, i, datatype);
  info->datatype = static_cast<uint8_t>(datatype);
  // Nodes name values by their ids, which are their places in the list.
  if (!tensor || view_.get<uint32_t>(tensor, kId) != i) return fail(Check::BackendData, init_.index, tensor.at);
  if (rank > kMaxDims || dims.count != rank) return fail(Check::GraphDims, i, rank);
  info->rank = static_cast<uint8_t>(rank);
  uint64_t count = 1;
  bool empty = false;
  for (uint32_t d = 0; d < rank; ++d) {
    const uint32_t dim = view_.number<uint32_t>(dims, d);
    info->dims[d] = dim;
    empty = empty || dim == 0;
    if (dim > INT32_MAX || (dim != 0 && (!multiply_count(count, dim) || count > INT32_MAX))) {
      return fail(Check::GraphDims, i, dim);
    }
  }
  info->count = empty ? 0 : static_cast<uint32_t>(count);
  if (info->external != kInvalidId && info->external >= num_externals_) {
    return fail(Check::GraphExternal, i, info->external);
  }
  return quantization(i, quantized, info);
}

bool Blob::quantization(uint32_t i, const Table& holder, ValueInfo* info) {
  static constexpr uint8_t kTypes[] = {0, kPerTensor, kPerChannel, kPerBlock, kPerToken};
  const uint8_t type = view_.get<uint8_t>(holder, 1);
  const Table table = view_.table(holder, 2);
  if (!intact()) return false;
  const Scaling scaling = info->scaling();
  if (type != kTypes[static_cast<int>(scaling)] || (type != 0 && !table)) return fail(Check::GraphScales, i, type);
  switch (scaling) {
    case Scaling::None:
      return true;
    case Scaling::Tensor: {
      info->scale = view_.get<float>(table, 0);
      info->zero_point = view_.get<int32_t>(table, 1);
      const int32_t low = info->datatype == kQint8 ? -128 : 0, high = info->datatype == kQint8    ? 127
                                                                      : info->datatype == kQuint8 ? 255
                                                                                                  : 0;
      if (!std::isfinite(info->scale) || info->scale <= 0.0f) return fail(Check::GraphScales, i, -1);
      if (info->zero_point < low || info->zero_point > high) return fail(Check::GraphScales, i, info->zero_point);
      return intact();
    }
    case Scaling::Token:
      info->nonbatch = view_.get<int32_t>(table, 0);
      if (info->nonbatch < 0 || info->nonbatch > info->rank) return fail(Check::GraphScales, i, info->nonbatch);
      return intact();
    case Scaling::Channel:
    case Scaling::Block:
      break;
  }
  const bool blocks = scaling == Scaling::Block;
  const int32_t channel = view_.get<int32_t>(table, 1);
  if (channel < 0 || channel >= info->rank) return fail(Check::GraphScales, i, channel);
  info->channel = static_cast<uint32_t>(channel);
  info->scales = view_.items(table, 0, 4);
  info->scale_constant = view_.get<uint32_t>(table, blocks ? 4 : 2);
  uint64_t expected = info->dims[channel];
  if (blocks) {
    const int32_t block = view_.get<int32_t>(table, 2);
    const uint32_t last = info->dims[info->rank - 1];
    if (block < 1 || info->rank != 2 || channel != 0 || last % static_cast<uint32_t>(block) != 0) {
      return fail(Check::GraphScales, i, block);
    }
    info->block = static_cast<uint32_t>(block);
    expected = info->count / info->block;
  }
  info->scale_count = info->scale_constant != 0 ? view_.get<uint32_t>(table, blocks ? 5 : 3) : info->scales.count;
  if (!intact()) return false;
  if (info->scale_count != expected) return fail(Check::GraphScales, i, info->scale_count);
  return true;
}

bool Blob::node(uint32_t i, Node* node) {
  *node = Node{};
  const Table holder = view_.item(nodes_, i);
  node->kind = view_.get<uint8_t>(holder, 0);
  node->table = view_.table(holder, 1);
  node->handle = view_.get<uint32_t>(holder, 2);
  const Table bounds = view_.table(holder, 3);
  if (!intact()) return false;
  if (!node->table) return fail(Check::GraphNode, i, node->kind);
  if (!bounds) return true;
  node->low = view_.get<float>(bounds, 0);
  node->high = view_.get<float>(bounds, 1);
  if (!(node->low <= node->high)) return fail(Check::GraphAttribute, i, 0);
  node->clamps = node->low != -INFINITY || node->high != INFINITY;
  return intact();
}

const uint8_t* Blob::constant(uint32_t i, uint32_t index, uint64_t need, bool load) {
  static constexpr uint64_t kNothing = 0;
  if (index >= constants_.count) return fail(Check::GraphConstant, i, index), nullptr;
  const Table entry = view_.item(constants_, index);
  const uint64_t offset = view_.get<uint64_t>(entry, 0), size = view_.get<uint64_t>(entry, 1);
  const bool named = view_.has(entry, 2);
  const StringView key = view_.string(entry, 2);
  if (!intact()) return nullptr;
  if (size < need) return fail(Check::GraphConstantSize, i, static_cast<int64_t>(need)), nullptr;
  if (named && key.size > 0) {
    if (!load || need == 0) return reinterpret_cast<const uint8_t*>(&kNothing);
    const Result<Span<const uint8_t>> found = init_.named_data(key);
    if (!found.ok()) return fail(Check::GraphConstant, i, index), nullptr;
    if (found->size < need) return fail(Check::GraphConstantSize, i, static_cast<int64_t>(need)), nullptr;
    return found->data;
  }
  if (offset > inline_size_ || need > inline_size_ - offset) {
    return fail(Check::GraphConstantSize, i, static_cast<int64_t>(need)), nullptr;
  }
  if (need == 0) return reinterpret_cast<const uint8_t*>(&kNothing);
  return inline_ + offset;
}

}  // namespace xnnpack
}  // namespace etir
