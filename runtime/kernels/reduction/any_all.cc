// Whether any or all elements are not zero (NaN is not), and how many are.
#include "kernels/reduction/any_all.gen.h"
#include "kernels/util/reduce.h"
#include "kernels/util/reduce_args.h"
#include "kernels/util/reduce_ops.h"

namespace etir {
namespace {

template <typename Op>
void test(KernelContext& ctx, const Tensor& self, uint32_t mask, bool keepdim, Tensor& out) {
  Source<bool> source;
  Sink<bool> sink;
  if (!make_source(self, &source)) return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  if (!contains(dtype_set(ScalarType::Bool, ScalarType::Byte), out.dtype)) {
    return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  }
  if (!has_data(ctx, self) || !resize_reduced(ctx, out, self, mask, keepdim)) return;
  if (!make_sink(out, &sink)) return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  reduce(ctx, make_reduce_plan(self, mask, out), source, sink, Op(), [](bool value) { return value; });
}

template <typename Op>
void test_dim(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& out) {
  uint32_t mask;
  if (one_dim(ctx, dim, self, &mask)) test<Op>(ctx, self, mask, keepdim, out);
}
/// An empty list of dims reduces nothing: each element is tested by itself.
template <typename Op>
void test_dims(KernelContext& ctx, const Tensor& self, const std::optional<IntList>& dim, bool keepdim, Tensor& out) {
  uint32_t mask;
  if (dim_mask(ctx, dim, arguments::any_dims_out::dim, self, 0, &mask)) test<Op>(ctx, self, mask, keepdim, out);
}

/// 1 for what is not zero.
template <typename From>
void load_nonzero(int64_t* to, const void* from, int64_t n) {
  const From* __restrict in = static_cast<const From*>(from);
  for (int64_t i = 0; i < n; ++i) to[i] = convert_element<bool>(in[i]);
}

void count(KernelContext& ctx, const Tensor& self, uint32_t mask, Tensor& out) {
  Source<int64_t> source;
  Sink<int64_t> sink;
  source.data = static_cast<const char*>(self.data);
  source.bytes = element_size(self.dtype);
  dispatch<kLoadable<bool>>(self.dtype, [&](auto tag) { source.load = load_nonzero<typename decltype(tag)::type>; });
  if (source.load == nullptr) return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  if (!make_sink<int64_t, dtype_bit(ScalarType::Long)>(out, &sink)) {
    return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  }
  if (!has_data(ctx, self) || !resize_reduced(ctx, out, self, mask, false)) return;
  sink.data = static_cast<char*>(out.data);
  reduce(ctx, make_reduce_plan(self, mask, out), source, sink, SumOp<int64_t>(), [](int64_t n) { return n; });
}

}  // namespace

void any_dim_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& out) {
  test_dim<AnyOp>(ctx, self, dim, keepdim, out);
}
void any_dims_out(KernelContext& ctx, const Tensor& self, std::optional<IntList> dim, bool keepdim, Tensor& out) {
  test_dims<AnyOp>(ctx, self, dim, keepdim, out);
}
void any_all_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  test<AnyOp>(ctx, self, all_dims(self), false, out);
}
void all_dim_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& out) {
  test_dim<AllOp>(ctx, self, dim, keepdim, out);
}
void all_dims_out(KernelContext& ctx, const Tensor& self, std::optional<IntList> dim, bool keepdim, Tensor& out) {
  test_dims<AllOp>(ctx, self, dim, keepdim, out);
}
void all_all_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  test<AllOp>(ctx, self, all_dims(self), false, out);
}

void count_nonzero_out(KernelContext& ctx, const Tensor& self, std::optional<int64_t> dim, Tensor& out) {
  uint32_t mask = all_dims(self);
  if (dim.has_value() && !one_dim(ctx, *dim, self, &mask)) return;
  count(ctx, self, mask, out);
}
void count_nonzero_dims_out(KernelContext& ctx, const Tensor& self, const IntList& dim, Tensor& out) {
  uint32_t mask;
  if (dim_mask(ctx, dim, arguments::count_nonzero_dims_out::dim, self, &mask)) count(ctx, self, mask, out);
}

}  // namespace etir
