// The reference delegate: runs a program inside of a delegate by the kernels of the method around it.
//
// Its blob is a program of one method (backends/reference/blob.py has the format). Inputs and outputs of that method
// are the tensors of the call: nothing is copied. Its activations are in temporary memory, which delegates share as
// they run one after the other; its values, and the mutable buffers that it owns, are in the memory of the method
// around it.
#pragma once

#include "executor/backend.h"

namespace etir {

extern const Backend kReferenceBackend;

}  // namespace etir
