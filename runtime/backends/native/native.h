// The native delegate: machine code that the compiler made for a part of a program (backends/native/blob.py has the
// format).
//
// Code is run only where the options of the method allow it (executor/native_code.h); else, and on a processor that no
// variant is for, the same part of the program runs on kernels, with the weights unpacked once.
#pragma once

#include "executor/backend.h"

namespace etir {

extern const Backend kNativeBackend;
/// The same without kernels for code that is refused: for programs whose code is linked (et-compile --native-c), which
/// have none to fall back on. A build that registers this one links no reference delegate.
extern const Backend kLinkedNativeBackend;

}  // namespace etir
