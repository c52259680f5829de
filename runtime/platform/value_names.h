// What a program calls the inputs and outputs of a method, for hosts.
//
// A file describes the containers that its inputs and outputs are packed in as JSON, the form of torch's pytrees; the
// names of values are the keys on the way to them, joined by '_': "batch_ids". runtime/python/structure.py has the same
// rules, and the format.
#pragma once

#include <string>
#include <vector>

#include "executor/program.h"

namespace etir {
namespace host {

/// A name for each input or output; an empty one where the program has none. Without a description that can be read all
/// are empty.
std::vector<std::string> input_names(const MethodMeta& meta);
std::vector<std::string> output_names(const MethodMeta& meta);

}  // namespace host
}  // namespace etir
