// Vector products of three-dimensional vectors that lie along one dim: linalg_cross.
#include "kernels/kernel.h"
#include "kernels/util/compute.h"
#include "kernels/util/loops.h"
#include "kernels/util/vectors.h"

namespace etir {

void linalg_cross_out(KernelContext& ctx) {
  const Tensor &self = ctx.tensor(0), &other = ctx.tensor(1), &out = ctx.tensor(3);
  if (!contains(kReal | kFullComplex, self.dtype)) {
    return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
  }
  for (const int i : {1, 3}) {
    const ScalarType dtype = ctx.tensor(i).dtype;
    if (dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, i, static_cast<int64_t>(dtype));
  }
  if (self.rank == 0) return ctx.fail(Check::KernelRank, 0, 0);
  if (other.rank != self.rank) return ctx.fail(Check::KernelRank, 1, other.rank);
  const int dim = wrap_dim(ctx.integer(2), self.rank);
  if (dim < 0) return ctx.fail(Check::KernelDim, ctx.integer(2), self.rank);
  if (self.sizes[dim] != 3) return ctx.fail(Check::KernelShape, 0, self.sizes[dim]);
  if (other.sizes[dim] != 3) return ctx.fail(Check::KernelShape, 1, other.sizes[dim]);
  int64_t sizes[kMaxRank];
  if (broadcast_shapes(self, other, sizes) < 0) return ctx.fail(Check::KernelShape, 1, other.sizes[0]);
  if (!ctx.resize(ctx.tensor(3), sizes, self.rank) || out.numel() == 0) return;
  for (const int i : {0, 1, 3}) {
    if (ctx.tensor(i).data == nullptr) return ctx.fail(Check::KernelNoData, i);
  }
  // All dims but that of the vectors, in the result's order of memory.
  const Tensor* const operands[] = {&out, &self, &other};
  const int64_t item = static_cast<int64_t>(element_size(out.dtype));
  Loops<3> loops;
  int64_t apart[3];
  for (int k = 0; k < 3; ++k) {
    const Tensor& tensor = *operands[k];
    int64_t strides[kMaxRank] = {};
    tensor.strides(strides);
    apart[k] = strides[dim];
    loops.data[k] = static_cast<char*>(tensor.data);
    loops.rank = 0;
    for (int position = 0; position < out.rank; ++position) {
      const int d = out.order(position);
      if (d == dim) continue;
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
  if (!taken) ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
}

}  // namespace etir
