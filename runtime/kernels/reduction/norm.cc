// Vector norms over dims: norm and linalg_vector_norm. Complex numbers are loaded as their sizes.
#include <cmath>

#include "kernels/reduction/norm_ops.h"
#include "kernels/util/promote.h"
#include "kernels/util/reduce_args.h"

namespace etir {
namespace {

template <typename T, typename C>
void load_sizes(T* to, const void* from, int64_t n) {
  const C* in = static_cast<const C*>(from);
  for (int64_t i = 0; i < n; ++i) {
    const auto z = convert_element<std::complex<T>>(in[i]);
    to[i] = std::hypot(z.real(), z.imag());
  }
}

/// Elements, or their sizes if they are complex. False for other dtypes.
template <typename T>
bool norm_source(const Tensor& self, Source<T>* source) {
  if (!is_complex(self.dtype)) return make_source<T, kFloats>(self, source);
  source->data = static_cast<const char*>(self.data);
  source->bytes = element_size(self.dtype);
  return dispatch<kComplex>(self.dtype, [&](auto tag) { source->load = load_sizes<T, typename decltype(tag)::type>; });
}

template <typename T>
void norm_as(KernelContext& ctx, uint32_t mask, double p, int out_index) {
  const Tensor& self = ctx.tensor(0);
  const Tensor& out = ctx.tensor(out_index);
  Source<T> in;
  Sink<T> sink;
  if (!norm_source<T>(self, &in)) return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
  if (!make_sink<T, kFloats>(out, &sink)) {
    return ctx.fail(Check::KernelDtype, out_index, static_cast<int64_t>(out.dtype));
  }
  const ReducePlan plan = make_reduce_plan(self, mask, out);
  with_norm<T>(p, [&](const auto& op, const auto& finish) { reduce(ctx, plan, in, sink, op, finish); });
}

/// `dims_index` < 0: all dims. `dtype_index` < 0: the result has the dtype of self, or that of its parts.
void norm(KernelContext& ctx, double p, int dims_index, bool keepdim, int dtype_index, int out_index) {
  const Tensor& self = ctx.tensor(0);
  uint32_t mask = all_dims(self);
  if (dims_index >= 0 && !dim_mask(ctx, dims_index, self, &mask)) return;
  const ScalarType dtype = ctx.tensor(out_index).dtype;
  const int64_t wanted =
      dtype_index >= 0 && ctx.has(dtype_index) ? ctx.integer(dtype_index) : static_cast<int64_t>(part_of(self.dtype));
  if (static_cast<int64_t>(dtype) != wanted) {
    return ctx.fail(Check::KernelDtypeMismatch, out_index, static_cast<int64_t>(dtype));
  }
  if (!is_floating(self.dtype) && !is_complex(self.dtype))
    return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
  if (p < 0 || std::isinf(p)) {
    // These have no value for an empty set.
    for (int d = 0; d < self.rank; ++d) {
      if (((mask >> d) & 1u) && self.sizes[d] == 0) return ctx.fail(Check::KernelShape, 0, 0);
    }
  }
  if (!require_data(ctx, 0) || !resize_reduced(ctx, out_index, self, mask, keepdim)) return;
  if (dtype == ScalarType::Double || self.dtype == ScalarType::ComplexDouble)
    return norm_as<double>(ctx, mask, p, out_index);
  norm_as<float>(ctx, mask, p, out_index);
}

}  // namespace

void norm_dims_out(KernelContext& ctx) { norm(ctx, ctx.real_or(1, 2), 2, ctx.boolean(3), -1, 4); }
void norm_dims_dtype_out(KernelContext& ctx) { norm(ctx, ctx.real_or(1, 2), 2, ctx.boolean(3), 4, 5); }
void norm_all_out(KernelContext& ctx) { norm(ctx, ctx.real(1), -1, false, -1, 2); }
void norm_all_dtype_out(KernelContext& ctx) { norm(ctx, ctx.real_or(1, 2), -1, false, 2, 3); }
void linalg_vector_norm_out(KernelContext& ctx) { norm(ctx, ctx.real(1), 2, ctx.boolean(3), 4, 5); }

}  // namespace etir
