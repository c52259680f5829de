// The native delegate: machine code that the compiler made for a part of a program (backends/native/blob.py has the
// format).
//
// Code is run only where the options of the method allow it (executor/native_code.h); else, and on a processor that no
// variant is for, the same part of the program runs on kernels, with the weights unpacked once.
#pragma once

#include "executor/backend.h"

namespace etir {

extern const Backend kNativeBackend;

}  // namespace etir
