// add, sub, rsub, mul: on tensors and numbers.
#include "kernels/elementwise/arithmetic.h"
#include "kernels/elementwise/operators.h"

namespace etir {

namespace {

constexpr DtypeSet kTaken = kRealBool | kFullComplex;

/// a + sign * alpha * b. Bools count as 0 and 1 and the result of a sum is whether it is not zero, as in torch.
void scaled_sum(KernelContext& ctx, int self, int other, int alpha, int out, bool subtract, bool reverse) {
  const AnyOperand a(ctx, reverse ? other : self), b(ctx, reverse ? self : other);
  const ScalarType common = common_type(a, b);
  const Scalar factor = ctx.scalar(alpha);
  const bool subtracts_bool = subtract && (a.dtype() == ScalarType::Bool || b.dtype() == ScalarType::Bool);
  if (subtracts_bool || (factor.is_boolean() && common != ScalarType::Bool) ||
      (factor.is_floating() && category(common) < 2)) {
    return ctx.fail(Check::KernelArgument, subtracts_bool ? other : alpha, number_as<int64_t>(factor));
  }
  if (!check_result(ctx, common, out)) return;
  const bool is_one = factor.is_floating() ? factor.payload.real == 1.0 : factor.to<int64_t>() == 1;
  const bool done = dispatch_compute<kTaken>(common, [&](auto tag) {
    using C = typename decltype(tag)::type;
    Tensor& result = ctx.tensor(out);
    if (is_one) {
      // The most used two operators are worth loops of their own.
      if (subtract) {
        elementwise<C, C, C>(ctx, result, out, {a.operand(), b.operand()}, common,
                             [](C x, C y) { return wrap_sub(x, y); });
      } else {
        elementwise<C, C, C>(ctx, result, out, {a.operand(), b.operand()}, common,
                             [](C x, C y) { return wrap_add(x, y); });
      }
      return;
    }
    const C scale = subtract ? wrap_sub(C(0), number_as<C>(factor)) : number_as<C>(factor);
    elementwise<C, C, C>(ctx, result, out, {a.operand(), b.operand()}, common,
                         [scale](C x, C y) { return wrap_add(x, wrap_mul(scale, y)); });
  });
  if (!done) ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(a.dtype()));
}

}  // namespace

void add_out(KernelContext& ctx) { scaled_sum(ctx, 0, 1, 2, 3, false, false); }
void sub_out(KernelContext& ctx) { scaled_sum(ctx, 0, 1, 2, 3, true, false); }
void rsub_out(KernelContext& ctx) { scaled_sum(ctx, 0, 1, 2, 3, true, true); }
void mul_out(KernelContext& ctx) {
  binary<kTaken>(ctx, 0, 1, 2, [](auto a, auto b) { return wrap_mul(a, b); });
}

}  // namespace etir
