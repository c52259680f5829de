// demo::scaled_add.out for the ExecuTorch runtime: its kernel, and its registration when the library is loaded.
#include <executorch/extension/kernel_util/make_boxed_from_unboxed_functor.h>
#include <executorch/runtime/kernel/kernel_includes.h>

namespace {

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::Error;
using executorch::runtime::KernelRuntimeContext;

Tensor& scaled_add_out(KernelRuntimeContext& ctx, const Tensor& self, const Tensor& other, double factor, Tensor& out) {
  const bool fits = self.scalar_type() == ScalarType::Float && other.scalar_type() == ScalarType::Float &&
                    out.scalar_type() == ScalarType::Float && self.sizes().equals(other.sizes());
  if (!fits || executorch::runtime::resize_tensor(out, self.sizes()) != Error::Ok) {
    ctx.fail(Error::InvalidArgument);
    return out;
  }
  const float* a = self.const_data_ptr<float>();
  const float* b = other.const_data_ptr<float>();
  float* result = out.mutable_data_ptr<float>();
  for (ssize_t i = 0; i < self.numel(); ++i) result[i] = a[i] + static_cast<float>(factor) * b[i];
  return out;
}

EXECUTORCH_LIBRARY(demo, "scaled_add.out", scaled_add_out);

}  // namespace
