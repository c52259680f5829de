// A graph as a list of calls of kernels, made when a delegate is loaded and run by executing one call after the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/xnnpack/blob.h"
#include "executor/backend.h"
#include "kernels/kernel.h"

namespace etir {
namespace xnnpack {

/// One call; `args` are indices of Graph::values, after their count.
struct Call {
  KernelFunction function;
  const int32_t* args;
  uint32_t node;
};

/// An input or output: the tensor that takes the argument `position` of a call of the delegate.
struct External {
  uint32_t position;
  uint32_t value;
};

/// What execute() needs. All of it is in memory that BackendInit gave.
struct Graph {
  Values values = {};
  const Call* calls = nullptr;
  uint32_t num_calls = 0;
  const External* inputs = nullptr;
  const External* outputs = nullptr;
  uint32_t num_inputs = 0, num_outputs = 0;
  const uint32_t* handles = nullptr;  ///< debug handles of the nodes
  size_t scratch_bytes = 0;           ///< temporary memory of the values between nodes
};

/// Reads and checks the delegate's blob, and makes its calls. An error when something is wrong, which the record of
/// `init` describes.
Error load_graph(BackendInit& init, Graph* graph);

}  // namespace xnnpack
}  // namespace etir
