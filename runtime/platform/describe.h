// Error records as text, for hosts: the sentence of core/checks.def with its numbers and names filled in.
#pragma once

#include <string>

#include "core/error.h"
#include "core/scalar_type.h"
#include "core/value.h"

namespace etir {

/// Name of a check ("InputDtype") and of a category ("InvalidType"); "?" for numbers that are none.
const char* check_name(Check check);
const char* error_name(Error error);

/// Name of an element type as torch and NumPy spell it: "float32", "bfloat16"; "?" for numbers that are none.
const char* dtype_name(ScalarType dtype);

/// Name of a kind of value: "int", "tensor", "list of ints".
const char* kind_name(Tag tag);

/// What happened, in a sentence without a full stop. `op` is the name of the operator, where it is known.
std::string describe(const ErrorRecord& record, const std::string& op);

/// Whether the first number of a failed check is a delegate's index.
bool names_delegate(Check check);

}  // namespace etir
