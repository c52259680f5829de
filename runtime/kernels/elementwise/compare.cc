// Comparisons: computed in the common dtype of both sides, the bool written in any dtype.
#include "kernels/elementwise/operators.h"

namespace etir {

namespace {

template <DtypeSet kSet, typename F>
void compare(KernelContext& ctx, const F& f) {
  const AnyOperand a(ctx, 0), b(ctx, 1);
  const ScalarType common = common_type(a, b);
  if (b.is_number() && b.number().tag == Tag::Int && !integer_fits(b.number().payload.integer, common)) {
    return ctx.fail(Check::KernelOverflow, 1, static_cast<int64_t>(common));
  }
  if (!dispatch_compute<kSet>(common, [&](auto tag) {
        using C = typename decltype(tag)::type;
        elementwise<bool, C, C>(ctx, ctx.tensor(2), 2, {a.operand(), b.operand()}, common, f, true);
      })) {
    ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(a.dtype()));
  }
}

}  // namespace

void eq_out(KernelContext& ctx) {
  compare<kRealBool | kComplex>(ctx, [](auto a, auto b) { return a == b; });
}
void ne_out(KernelContext& ctx) {
  compare<kRealBool | kComplex>(ctx, [](auto a, auto b) { return a != b; });
}
void lt_out(KernelContext& ctx) {
  compare<kRealBool>(ctx, [](auto a, auto b) { return a < b; });
}
void le_out(KernelContext& ctx) {
  compare<kRealBool>(ctx, [](auto a, auto b) { return a <= b; });
}
void gt_out(KernelContext& ctx) {
  compare<kRealBool>(ctx, [](auto a, auto b) { return a > b; });
}
void ge_out(KernelContext& ctx) {
  compare<kRealBool>(ctx, [](auto a, auto b) { return a >= b; });
}

}  // namespace etir
