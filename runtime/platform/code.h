// Memory that can be executed, for code of a program: never writable and executable at once.
#pragma once

#include "executor/native_code.h"

namespace etir {

/// What this machine has for code of a program, for MethodOptions::native; its policy is Refuse.
NativeCode native_code();

}  // namespace etir
