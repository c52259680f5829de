// The XNNPACK delegate: runs the graph that ExecuTorch's XNNPACK backend, or etir's, wrote into a program.
//
// The graph is read where it lies (blob.h), checked, and made into a list of calls of the kernels that the method
// around it has, found by name (graph.cc): nothing of XNNPACK is linked in, and no kernel that the build does not have
// already. Values that are quantized are held as the floats that their integers stand for, rounded and limited as the
// integers would be; weights that are quantized become floats once, when the delegate is loaded. Sizes follow from
// those of the inputs in each run, within the dims of the file.
//
// Memory: what the list of calls takes, and weights that are not floats, from the method's; values between nodes from
// the temporary memory, planned when the delegate is loaded, below what kernels take for themselves.
#pragma once

#include "executor/backend.h"

namespace etir {

extern const Backend kXnnpackBackend;

}  // namespace etir
