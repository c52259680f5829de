// The kinds of nodes, one row each: the family that makes it, its kernel, the flags that it may have.
#include "backends/xnnpack/node_builder.h"

namespace etir {
namespace xnnpack {

namespace {

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

}  // namespace

bool NodeBuilder::read(const Kind** kind) {
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
  NodeBuilder maker(builder, states, index);
  const Kind* kind;
  return maker.read(&kind) && kind->make(maker, *kind) && builder.blob().intact();
}

}  // namespace xnnpack
}  // namespace etir
