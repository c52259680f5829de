// Checks that kernels of all families make of their arguments.
#pragma once

#include "kernels/kernel.h"

namespace etir {

/// Whether a tensor that has elements has memory; records the failure.
inline bool has_data(KernelContext& ctx, const Tensor& tensor) {
  if (tensor.data != nullptr || tensor.numel() == 0) return true;
  ctx.fail(Check::KernelNoData, tensor);
  return false;
}

}  // namespace etir
