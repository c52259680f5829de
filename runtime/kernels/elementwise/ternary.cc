// Operators of three tensors: addcmul, addcdiv, lerp.
#include <cmath>

#include "kernels/elementwise/arithmetic.h"
#include "kernels/elementwise/operators.h"
#include "kernels/elementwise/ternary.gen.h"

namespace etir {

namespace {

ScalarType common_of(const AnyOperand& a, const AnyOperand& b, const AnyOperand& c) {
  ResultType result;
  a.add_to(result);
  b.add_to(result);
  c.add_to(result);
  return result.get();
}

/// The factor of addcmul and addcdiv must not be of a higher category than the result.
bool check_factor(KernelContext& ctx, const Scalar& factor, ScalarType common) {
  if (!factor.is_floating() || category(common) >= 2) return true;
  ctx.fail(Check::KernelArgument, arguments::addcmul_out::value, number_as<int64_t>(factor));
  return false;
}

/// start + weight * (end - start), from the end that is nearer.
struct Lerp {
  template <typename T, typename W>
  T operator()(T start, T end, W weight) const {
    const T difference = end - start;
    if constexpr (detail::is_complex_v<T>) {
      return std::abs(weight) < 0.5 ? start + weight * difference : end - difference * (W(1) - weight);
    } else {
      const T from_start = start + weight * difference;
      const T from_end = end - difference * (W(1) - weight);
      return std::fabs(weight) < W(0.5) ? from_start : from_end;
    }
  }
};

}  // namespace

void addcmul_out(KernelContext& ctx, const Tensor& self, const Tensor& tensor1, const Tensor& tensor2,
                 const Scalar& value, Tensor& out) {
  const AnyOperand a(self), b(tensor1), c(tensor2);
  const ScalarType common = common_of(a, b, c);
  if (!check_factor(ctx, value, common)) return;
  const Scalar factor = value;
  ternary_in<kReal | kFullComplex>(
      ctx, a, b, c, out, common,
      [real = factor.to<double>(), integer = number_as<int64_t>(factor)](auto x, auto y, auto z) {
        using T = decltype(x);
        if constexpr (std::is_same_v<T, int64_t>) {
          return wrap_add(x, wrap_mul(integer, wrap_mul(y, z)));
        } else {
          return x + static_cast<T>(real) * y * z;
        }
      });
}

/// Integers are refused, as in torch.
void addcdiv_out(KernelContext& ctx, const Tensor& self, const Tensor& tensor1, const Tensor& tensor2,
                 const Scalar& value, Tensor& out) {
  const AnyOperand a(self), b(tensor1), c(tensor2);
  const double factor = value.to<double>();
  if (category(b.dtype()) < 2 && category(c.dtype()) < 2) {
    return ctx.fail(Check::KernelDtype, tensor1, static_cast<int64_t>(b.dtype()));
  }
  ternary_in<kFloatComplex>(ctx, a, b, c, out, common_of(a, b, c),
                            [factor](auto x, auto y, auto z) { return x + static_cast<decltype(x)>(factor) * y / z; });
}

void lerp_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& end, const Tensor& weight, Tensor& out) {
  const AnyOperand a(self), b(end), c(weight);
  ternary_in<kFloatComplex>(ctx, a, b, c, out, common_of(a, b, c), Lerp{});
}
void lerp_scalar_out(KernelContext& ctx, const Tensor& self, const Tensor& end, const Scalar& weight, Tensor& out) {
  const AnyOperand a(self), b(end);
  const double weight_value = weight.to<double>();
  binary_in<kFloatComplex>(ctx, a, b, out, common_type(a, b), [weight_value](auto x, auto y) {
    return Lerp{}(x, y, static_cast<decltype(x)>(weight_value));
  });
}

}  // namespace etir
