// The part of the native module that etir.llm uses.
#pragma once

#include <nanobind/nanobind.h>

namespace etir {

void define_language_models(nanobind::module_& module);

}  // namespace etir
