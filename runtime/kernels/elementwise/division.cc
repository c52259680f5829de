// div with its rounding modes, floor_divide, fmod, remainder.
#include "kernels/elementwise/arithmetic.h"
#include "kernels/elementwise/division.gen.h"
#include "kernels/elementwise/operators.h"

namespace etir {

namespace {

/// Quotients cut towards zero. Those of 16-bit numbers are rounded to 16 bits before, as torch rounds them.
void div_trunc(KernelContext& ctx, const AnyOperand& a, const AnyOperand& b, Tensor& out) {
  const ScalarType common = common_type(a, b);
  const bool narrow = dispatch<kHalfFloats>(common, [&](auto tag) {
    using T = typename decltype(tag)::type;
    binary_in<kHalfFloats>(ctx, a, b, out, common,
                           [](float x, float y) { return std::trunc(static_cast<float>(T(x / y))); });
  });
  if (narrow) return;
  ZeroDivision zero(ctx);
  binary_in<kReal>(ctx, a, b, out, common,
                   [division = Division{&zero}](auto x, auto y) { return division.trunc(x, y); });
}

}  // namespace

void div_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& other, Tensor& out) {
  binary_float<kFloats | kFullComplex>(ctx, self, other, out, [](auto a, auto b) { return a / b; });
}

void floor_divide_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& other, Tensor& out) {
  ZeroDivision zero(ctx);
  binary<kReal>(ctx, self, other, out, [division = Division{&zero}](auto a, auto b) { return division.floor(a, b); });
}

void div_mode_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& other,
                  std::optional<StringView> rounding_mode, Tensor& out) {
  if (!rounding_mode.has_value()) {
    binary_float<kFloats | kFullComplex>(ctx, self, other, out, [](auto a, auto b) { return a / b; });
  } else if (*rounding_mode == "trunc") {
    div_trunc(ctx, self, other, out);
  } else if (*rounding_mode == "floor") {
    ZeroDivision zero(ctx);
    binary<kReal>(ctx, self, other, out, [division = Division{&zero}](auto a, auto b) { return division.floor(a, b); });
  } else {
    ctx.fail(Check::KernelArgument, arguments::div_mode_out::rounding_mode, static_cast<int64_t>(rounding_mode->size));
  }
}

void fmod_out(KernelContext& ctx, const Tensor& self, const TensorOrScalar& other, Tensor& out) {
  ZeroDivision zero(ctx);
  binary<kReal>(
      ctx, self, other, out, [division = Division{&zero}](auto a, auto b) { return division.fmod(a, b); }, true);
}

void remainder_out(KernelContext& ctx, const TensorOrScalar& self, const TensorOrScalar& other, Tensor& out) {
  ZeroDivision zero(ctx);
  binary<kReal>(
      ctx, self, other, out, [division = Division{&zero}](auto a, auto b) { return division.remainder(a, b); }, true);
}

}  // namespace etir
