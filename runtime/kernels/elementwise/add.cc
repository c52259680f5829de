// add, sub, rsub, mul: on tensors and numbers.
#include "kernels/elementwise/arithmetic.h"
#include "kernels/elementwise/operators.h"

namespace etir {

namespace {

constexpr DtypeSet kSumTypes = kRealBool | kComplex;

/// Int is what indices are computed in: it needs no way through int64, since the low 32 bits are the same.
template <typename F>
bool in_32_bits(KernelContext& ctx, const AnyOperand& a, const AnyOperand& b, int out, const F& f) {
  constexpr ScalarType kInt = ScalarType::Int;
  Tensor& result = ctx.tensor(out);
  if (!contains(kSelectedDtypes, kInt) || a.dtype() != kInt || b.dtype() != kInt || result.dtype != kInt) return false;
  elementwise<uint32_t, uint32_t, uint32_t>(ctx, result, out, {a.operand(), b.operand()}, kInt, f);
  return true;
}

/// a + sign * alpha * b. Both are rounded to the common dtype first. Bools count as 0 and 1 and the result of a sum is
/// whether it is not zero, as in torch.
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
  if (is_one && !subtract && in_32_bits(ctx, a, b, out, [](uint32_t x, uint32_t y) { return x + y; })) return;
  const bool done = dispatch_compute<kSumTypes>(common, [&](auto tag) {
    using C = typename decltype(tag)::type;
    Tensor& result = ctx.tensor(out);
    if (is_one) {
      // The most used two operators are worth loops of their own.
      if (subtract) {
        elementwise<C, C, C>(
            ctx, result, out, {a.operand(), b.operand()}, common, [](C x, C y) { return wrap_sub(x, y); }, true);
      } else {
        elementwise<C, C, C>(
            ctx, result, out, {a.operand(), b.operand()}, common, [](C x, C y) { return wrap_add(x, y); }, true);
      }
      return;
    }
    const C scale = subtract ? wrap_sub(C(0), number_as<C>(factor)) : number_as<C>(factor);
    elementwise<C, C, C>(
        ctx, result, out, {a.operand(), b.operand()}, common,
        [scale](C x, C y) { return wrap_add(x, wrap_mul(scale, y)); }, true);
  });
  if (!done) ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(a.dtype()));
}

}  // namespace

void add_out(KernelContext& ctx) { scaled_sum(ctx, 0, 1, 2, 3, false, false); }
void sub_out(KernelContext& ctx) { scaled_sum(ctx, 0, 1, 2, 3, true, false); }
void rsub_out(KernelContext& ctx) { scaled_sum(ctx, 0, 1, 2, 3, true, true); }
void mul_out(KernelContext& ctx) {
  const AnyOperand a(ctx, 0), b(ctx, 1);
  if (in_32_bits(ctx, a, b, 2, [](uint32_t x, uint32_t y) { return x * y; })) return;
  binary_in<kSumTypes>(ctx, a, b, 2, common_type(a, b), [](auto x, auto y) { return wrap_mul(x, y); });
}

}  // namespace etir
