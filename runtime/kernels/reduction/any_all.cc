// Whether any or all elements are not zero (NaN is not), and how many are.
#include "kernels/util/reduce.h"
#include "kernels/util/reduce_args.h"
#include "kernels/util/reduce_ops.h"

namespace etir {
namespace {

template <typename Op>
void test(KernelContext& ctx, uint32_t mask, bool keepdim, int out_index) {
  const Tensor& self = ctx.tensor(0);
  const Tensor& out = ctx.tensor(out_index);
  Source<bool> source;
  Sink<bool> sink;
  if (!make_source(self, &source)) return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
  if (!contains(dtype_set(ScalarType::Bool, ScalarType::Byte), out.dtype)) {
    return ctx.fail(Check::KernelDtype, out_index, static_cast<int64_t>(out.dtype));
  }
  if (!require_data(ctx, 0) || !resize_reduced(ctx, out_index, self, mask, keepdim)) return;
  if (!make_sink(out, &sink)) return ctx.fail(Check::KernelDtype, out_index, static_cast<int64_t>(out.dtype));
  reduce(ctx, make_reduce_plan(self, mask, out), source, sink, Op(), [](bool value) { return value; });
}

template <typename Op>
void test_dim(KernelContext& ctx) {
  uint32_t mask;
  if (one_dim(ctx, ctx.integer(1), ctx.tensor(0), &mask)) test<Op>(ctx, mask, ctx.boolean(2), 3);
}
/// An empty list of dims reduces nothing: each element is tested by itself.
template <typename Op>
void test_dims(KernelContext& ctx) {
  uint32_t mask;
  if (dim_mask(ctx, 1, ctx.tensor(0), 0, &mask)) test<Op>(ctx, mask, ctx.boolean(2), 3);
}

/// 1 for what is not zero.
template <typename From>
void load_nonzero(int64_t* to, const void* from, int64_t n) {
  const From* __restrict in = static_cast<const From*>(from);
  for (int64_t i = 0; i < n; ++i) to[i] = convert_element<bool>(in[i]);
}

void count(KernelContext& ctx, uint32_t mask, int out_index) {
  const Tensor& self = ctx.tensor(0);
  const Tensor& out = ctx.tensor(out_index);
  Source<int64_t> source;
  Sink<int64_t> sink;
  source.data = static_cast<const char*>(self.data);
  source.bytes = element_size(self.dtype);
  dispatch<kLoadable<bool>>(self.dtype, [&](auto tag) { source.load = load_nonzero<typename decltype(tag)::type>; });
  if (source.load == nullptr) return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
  if (!make_sink<int64_t, dtype_bit(ScalarType::Long)>(out, &sink)) {
    return ctx.fail(Check::KernelDtype, out_index, static_cast<int64_t>(out.dtype));
  }
  if (!require_data(ctx, 0) || !resize_reduced(ctx, out_index, self, mask, false)) return;
  sink.data = static_cast<char*>(out.data);
  reduce(ctx, make_reduce_plan(self, mask, out), source, sink, SumOp<int64_t>(), [](int64_t n) { return n; });
}

}  // namespace

void any_dim_out(KernelContext& ctx) { test_dim<AnyOp>(ctx); }
void any_dims_out(KernelContext& ctx) { test_dims<AnyOp>(ctx); }
void any_all_out(KernelContext& ctx) { test<AnyOp>(ctx, all_dims(ctx.tensor(0)), false, 1); }
void all_dim_out(KernelContext& ctx) { test_dim<AllOp>(ctx); }
void all_dims_out(KernelContext& ctx) { test_dims<AllOp>(ctx); }
void all_all_out(KernelContext& ctx) { test<AllOp>(ctx, all_dims(ctx.tensor(0)), false, 1); }

void count_nonzero_out(KernelContext& ctx) {
  uint32_t mask = all_dims(ctx.tensor(0));
  if (ctx.has(1) && !one_dim(ctx, ctx.integer(1), ctx.tensor(0), &mask)) return;
  count(ctx, mask, 2);
}
void count_nonzero_dims_out(KernelContext& ctx) {
  uint32_t mask;
  if (dim_mask(ctx, 1, ctx.tensor(0), &mask)) count(ctx, mask, 2);
}

}  // namespace etir
