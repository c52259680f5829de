// Vector norms over dims: norm and linalg_vector_norm. Complex numbers are loaded as their sizes.
#include <cmath>

#include "kernels/reduction/norm.gen.h"
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
void norm_as(KernelContext& ctx, const Tensor& self, uint32_t mask, double p, const Tensor& out) {
  Source<T> in;
  Sink<T> sink;
  if (!norm_source<T>(self, &in)) return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  if (!make_sink<T, kFloats>(out, &sink)) {
    return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  }
  const ReducePlan plan = make_reduce_plan(self, mask, out);
  with_norm<T>(p, [&](const auto& op, const auto& finish) { reduce(ctx, plan, in, sink, op, finish); });
}

/// `dims_index` < 0: all dims. `dtype_index` < 0: the result has the dtype of self, or that of its parts.
void norm(KernelContext& ctx, const Tensor& self, double p, uint32_t mask, bool keepdim,
          std::optional<ScalarType> asked, Tensor& out) {
  const ScalarType dtype = out.dtype;
  if (dtype != asked.value_or(part_of(self.dtype))) {
    return ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(dtype));
  }
  if (!is_floating(self.dtype) && !is_complex(self.dtype))
    return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  if (p < 0 || std::isinf(p)) {
    // These have no value for an empty set.
    for (int d = 0; d < self.rank; ++d) {
      if (((mask >> d) & 1u) && self.sizes[d] == 0) return ctx.fail(Check::KernelShape, self, 0);
    }
  }
  if (!has_data(ctx, self) || !resize_reduced(ctx, out, self, mask, keepdim)) return;
  if (dtype == ScalarType::Double || self.dtype == ScalarType::ComplexDouble)
    return norm_as<double>(ctx, self, mask, p, out);
  norm_as<float>(ctx, self, mask, p, out);
}

double exponent(const std::optional<Scalar>& p) { return p.has_value() ? p->to<double>() : 2.0; }

}  // namespace

void norm_dims_out(KernelContext& ctx, const Tensor& self, std::optional<Scalar> p, const IntList& dim, bool keepdim,
                   Tensor& out) {
  uint32_t mask;
  if (!dim_mask(ctx, dim, arguments::norm_dims_out::dim, self, &mask)) return;
  norm(ctx, self, exponent(p), mask, keepdim, std::nullopt, out);
}
void norm_dims_dtype_out(KernelContext& ctx, const Tensor& self, std::optional<Scalar> p, const IntList& dim,
                         bool keepdim, ScalarType dtype, Tensor& out) {
  uint32_t mask;
  if (!dim_mask(ctx, dim, arguments::norm_dims_dtype_out::dim, self, &mask)) return;
  norm(ctx, self, exponent(p), mask, keepdim, dtype, out);
}
void norm_all_out(KernelContext& ctx, const Tensor& self, const Scalar& p, Tensor& out) {
  norm(ctx, self, p.to<double>(), all_dims(self), false, std::nullopt, out);
}
void norm_all_dtype_out(KernelContext& ctx, const Tensor& self, std::optional<Scalar> p, ScalarType dtype,
                        Tensor& out) {
  norm(ctx, self, exponent(p), all_dims(self), false, dtype, out);
}
void linalg_vector_norm_out(KernelContext& ctx, const Tensor& self, const Scalar& ord, std::optional<IntList> dim,
                            bool keepdim, std::optional<ScalarType> dtype, Tensor& out) {
  uint32_t mask;
  if (!dim_mask(ctx, dim, arguments::linalg_vector_norm_out::dim, self, &mask)) return;
  norm(ctx, self, ord.to<double>(), mask, keepdim, dtype, out);
}

}  // namespace etir
