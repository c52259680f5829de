// Constants of 8 and 4 bits, which stay integers in memory: where they lie in the file, and calls that read them.
#pragma once

#include "backends/xnnpack/blob.h"
#include "kernels/kernel.h"

namespace etir {
namespace xnnpack {

/// Whether a value is a constant that calls read as the integers that it is.
inline bool is_packed(const ValueInfo& info) {
  return info.constant != 0 && info.scaling() != Scaling::None && kDatatypes[info.datatype].bits <= 8;
}

/// Arguments that describe packed elements, in this order: the bytes, the bytes of the scales or none, the datatype,
/// how many elements follow each other with one scale, how many scales there are, elements of a row (the last dim),
/// the integer that stands for zero, the scale for all where there are no others, whether scales are bfloat16.
constexpr int kPackedArguments = 9;

/// (packed..., to): floats of all elements.
void unpack(KernelContext& ctx);

/// Columns that linear_packed() reads in one step: 16 bytes of them.
constexpr uint32_t packed_step(uint8_t datatype) { return 128u / kDatatypes[datatype].bits; }
/// Whether linear_packed() can read a filter of two dims: each scale belongs to whole steps of a row, or to whole rows.
bool is_in_steps(const ValueInfo& filter);
/// (from, to, step): every vector (the last dim) in the order in which linear_packed() reads it.
void arrange(KernelContext& ctx);
/// (packed..., arranged, bias or none, to, rows): a fully connected layer over floats whose filter, (rows, elements of
/// a row), is multiplied as it is packed: for few vectors at a time.
void linear_packed(KernelContext& ctx);

}  // namespace xnnpack
}  // namespace etir
