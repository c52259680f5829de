// add, sub, rsub, mul: on tensors and numbers.
#include "kernels/elementwise/add.gen.h"
#include "kernels/elementwise/arithmetic.h"
#include "kernels/elementwise/operators.h"

namespace etir {

namespace {

constexpr DtypeSet kSumTypes = kRealBool | kComplex;

/// Int is what indices are computed in: it needs no way through int64, since the low 32 bits are the same.
template <typename F>
bool in_32_bits(KernelContext& ctx, const AnyOperand& a, const AnyOperand& b, Tensor& out, const F& f) {
  constexpr ScalarType kInt = ScalarType::Int;
  if (!contains(kSelectedDtypes, kInt) || a.dtype() != kInt || b.dtype() != kInt || out.dtype != kInt) return false;
  elementwise<uint32_t, uint32_t, uint32_t>(ctx, out, {&a.tensor(), &b.tensor()}, kInt, f);
  return true;
}

/// a + alpha * b, or a - alpha * b. Both are rounded to the common dtype first. Bools count as 0 and 1 and the result
/// of a sum is whether it is not zero, as in torch.
void scaled_sum(KernelContext& ctx, const AnyOperand& a, const AnyOperand& b, const Scalar& alpha, Tensor& out,
                bool subtract) {
  using arg = arguments::add_out;  // those of sub and rsub are in the same places
  const ScalarType common = common_type(a, b);
  const bool subtracts_bool = subtract && (a.dtype() == ScalarType::Bool || b.dtype() == ScalarType::Bool);
  if (subtracts_bool || (alpha.is_boolean() && common != ScalarType::Bool) ||
      (alpha.is_floating() && category(common) < 2)) {
    return ctx.fail(Check::KernelArgument, subtracts_bool ? arg::other : arg::alpha, number_as<int64_t>(alpha));
  }
  if (!check_result(ctx, common, out)) return;
  const bool is_one = alpha.is_floating() ? alpha.payload.real == 1.0 : alpha.to<int64_t>() == 1;
  if (is_one && !subtract && in_32_bits(ctx, a, b, out, [](uint32_t x, uint32_t y) { return x + y; })) return;
  const bool done = dispatch_compute<kSumTypes>(common, [&](auto tag) {
    using C = typename decltype(tag)::type;
    if (is_one) {
      // The most used two operators are worth loops of their own.
      if (subtract) {
        elementwise<C, C, C>(
            ctx, out, {&a.tensor(), &b.tensor()}, common, [](C x, C y) { return wrap_sub(x, y); }, true);
      } else {
        elementwise<C, C, C>(
            ctx, out, {&a.tensor(), &b.tensor()}, common, [](C x, C y) { return wrap_add(x, y); }, true);
      }
      return;
    }
    const C scale = subtract ? wrap_sub(C(0), number_as<C>(alpha)) : number_as<C>(alpha);
    elementwise<C, C, C>(
        ctx, out, {&a.tensor(), &b.tensor()}, common, [scale](C x, C y) { return wrap_add(x, wrap_mul(scale, y)); },
        true);
  });
  if (!done) refuse_dtype(ctx, a, b);
}

}  // namespace

void add_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& other, const Scalar& alpha, Tensor& out) {
  scaled_sum(ctx, self, other, alpha, out, false);
}
void sub_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& other, const Scalar& alpha, Tensor& out) {
  scaled_sum(ctx, self, other, alpha, out, true);
}
void rsub_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& other, const Scalar& alpha, Tensor& out) {
  scaled_sum(ctx, other, self, alpha, out, true);
}
void mul_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& other, Tensor& out) {
  const AnyOperand a(self), b(other);
  if (in_32_bits(ctx, a, b, out, [](uint32_t x, uint32_t y) { return x * y; })) return;
  binary_in<kSumTypes>(ctx, a, b, out, common_type(a, b), [](auto x, auto y) { return wrap_mul(x, y); });
}

}  // namespace etir
