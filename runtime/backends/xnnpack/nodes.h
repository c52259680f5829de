// Nodes of a graph as calls: one function for each family of nodes, one row for each kind.
#pragma once

#include "backends/xnnpack/builder.h"

namespace etir {
namespace xnnpack {

/// Of each value: whether there is something to read yet.
enum State : uint8_t { kUnknown, kKnown };

/// Makes the calls of node `index`. False, with the failure recorded.
bool add_node(Builder& builder, uint8_t* states, uint32_t index);

/// How a value is held: the type of its elements.
ScalarType held_as(const ValueInfo& info);
/// Whether its elements are integers of 8 bits with one scale.
inline bool is_scaled(const ValueInfo& info) { return info.datatype == kQint8 || info.datatype == kQuint8; }
constexpr int32_t lowest(uint8_t datatype) { return datatype == kQuint8 ? 0 : -128; }
constexpr int32_t highest(uint8_t datatype) { return datatype == kQuint8 ? 255 : 127; }

}  // namespace xnnpack
}  // namespace etir
