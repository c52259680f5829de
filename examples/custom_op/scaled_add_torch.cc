// demo::scaled_add for PyTorch: what eager runs and what torch.export sees. The out variant is what a runtime calls.
#include <ATen/ops/add.h>
#include <torch/library.h>

namespace {

at::Tensor scaled_add(const at::Tensor& self, const at::Tensor& other, double factor) {
  return at::add(self, other, factor);
}

at::Tensor& scaled_add_out(const at::Tensor& self, const at::Tensor& other, double factor, at::Tensor& out) {
  return at::add_out(out, self, other, factor);
}

}  // namespace

TORCH_LIBRARY(demo, library) {
  library.def("scaled_add(Tensor self, Tensor other, float factor) -> Tensor");
  library.def("scaled_add.out(Tensor self, Tensor other, float factor, *, Tensor(a!) out) -> Tensor(a!)");
}

// Composed of operators of torch that say what shapes come out, so that exporting needs nothing else.
TORCH_LIBRARY_IMPL(demo, CompositeExplicitAutograd, library) {
  library.impl("scaled_add", &scaled_add);
  library.impl("scaled_add.out", &scaled_add_out);
}
