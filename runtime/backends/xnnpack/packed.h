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
/// (packed..., from, bias or none, to, rows): a fully connected layer over floats whose filter, (rows, elements of a
/// row), is unpacked piece by piece on the stack: for few vectors at a time.
void linear_packed(KernelContext& ctx);

}  // namespace xnnpack
}  // namespace etir
