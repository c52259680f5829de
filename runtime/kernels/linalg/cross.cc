// Vector products of three-dimensional vectors that lie along one dim: linalg_cross.
#include "kernels/kernel.h"
#include "kernels/linalg/cross.gen.h"
#include "kernels/util/checks.h"
#include "kernels/util/compute.h"
#include "kernels/util/loops.h"
#include "kernels/util/vectors.h"

namespace etir {

void linalg_cross_out(KernelContext& ctx, const Tensor& self, const Tensor& other, int64_t dim, Tensor& out) {
  if (!contains(kReal | kFullComplex, self.dtype)) {
    return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  }
  for (const Tensor* tensor : {&other, static_cast<const Tensor*>(&out)}) {
    if (tensor->dtype == self.dtype) continue;
    return ctx.fail(Check::KernelDtypeMismatch, *tensor, static_cast<int64_t>(tensor->dtype));
  }
  if (self.rank == 0) return ctx.fail(Check::KernelRank, self, 0);
  if (other.rank != self.rank) return ctx.fail(Check::KernelRank, other, other.rank);
  const int axis = wrap_dim(dim, self.rank);
  if (axis < 0) return ctx.fail(Check::KernelDim, dim, self.rank);
  if (self.sizes[axis] != 3) return ctx.fail(Check::KernelShape, self, self.sizes[axis]);
  if (other.sizes[axis] != 3) return ctx.fail(Check::KernelShape, other, other.sizes[axis]);
  int64_t sizes[kMaxRank];
  if (broadcast_shapes(self, other, sizes) < 0) return ctx.fail(Check::KernelShape, other, other.sizes[0]);
  if (!ctx.resize(out, sizes, self.rank) || out.numel() == 0) return;
  if (!has_data(ctx, self) || !has_data(ctx, other) || !has_data(ctx, out)) return;
  // All dims but that of the vectors, in the result's order of memory.
  const Tensor* const operands[] = {&out, &self, &other};
  const int64_t item = static_cast<int64_t>(element_size(out.dtype));
  Loops<3> loops;
  int64_t apart[3];
  for (int k = 0; k < 3; ++k) {
    const Tensor& tensor = *operands[k];
    int64_t strides[kMaxRank] = {};
    tensor.strides(strides);
    apart[k] = strides[axis];
    loops.data[k] = static_cast<char*>(tensor.data);
    loops.rank = 0;
    for (int position = 0; position < out.rank; ++position) {
      const int d = out.order(position);
      if (d == axis) continue;
      loops.sizes[loops.rank] = sizes[d];
      loops.strides[k][loops.rank++] = tensor.sizes[d] == 1 ? 0 : strides[d] * item;
    }
  }
  loops.coalesce();
  const bool taken = dispatch<kReal | kFullComplex>(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    loops.run([&](char* const* data, const int64_t* steps, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        T* to = reinterpret_cast<T*>(data[0] + i * steps[0]);
        const T* a = reinterpret_cast<const T*>(data[1] + i * steps[1]);
        const T* b = reinterpret_cast<const T*>(data[2] + i * steps[2]);
        const auto x = [&](int c) { return to_compute(a[c * apart[1]]); };
        const auto y = [&](int c) { return to_compute(b[c * apart[2]]); };
        const auto product = [&](int c, int d) { return multiply(x(c), y(d)) - multiply(x(d), y(c)); };
        const auto first = product(1, 2), second = product(2, 0), third = product(0, 1);
        to[0] = from_compute<T>(first);
        to[apart[0]] = from_compute<T>(second);
        to[2 * apart[0]] = from_compute<T>(third);
      }
    });
  });
  if (!taken) ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
}

}  // namespace etir
