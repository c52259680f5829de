// Comparisons: computed in the common dtype of both sides, the bool written in any dtype.
#include "kernels/elementwise/compare.gen.h"
#include "kernels/elementwise/operators.h"

namespace etir {

namespace {

template <DtypeSet kSet, typename F>
void compare(KernelContext& ctx, const AnyOperand& a, const AnyOperand& b, Tensor& out, const F& f) {
  const ScalarType common = common_type(a, b);
  if (b.is_number() && b.number().tag == Tag::Int && !integer_fits(b.number().payload.integer, common)) {
    return ctx.fail(Check::KernelOverflow, arguments::eq_out::other, static_cast<int64_t>(common));
  }
  if (!dispatch_compute<kSet>(common, [&](auto tag) {
        using C = typename decltype(tag)::type;
        elementwise<bool, C, C>(ctx, out, {&a.tensor(), &b.tensor()}, common, f, true);
      })) {
    refuse_dtype(ctx, a, b);
  }
}

}  // namespace

void eq_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& other, Tensor& out) {
  compare<kRealBool | kComplex>(ctx, self, other, out, [](auto a, auto b) { return a == b; });
}
void ne_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& other, Tensor& out) {
  compare<kRealBool | kComplex>(ctx, self, other, out, [](auto a, auto b) { return a != b; });
}
void lt_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& other, Tensor& out) {
  compare<kRealBool>(ctx, self, other, out, [](auto a, auto b) { return a < b; });
}
void le_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& other, Tensor& out) {
  compare<kRealBool>(ctx, self, other, out, [](auto a, auto b) { return a <= b; });
}
void gt_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& other, Tensor& out) {
  compare<kRealBool>(ctx, self, other, out, [](auto a, auto b) { return a > b; });
}
void ge_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& other, Tensor& out) {
  compare<kRealBool>(ctx, self, other, out, [](auto a, auto b) { return a >= b; });
}

}  // namespace etir
