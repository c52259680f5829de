// div with its rounding modes, floor_divide, fmod, remainder.
#include "kernels/elementwise/arithmetic.h"
#include "kernels/elementwise/operators.h"

namespace etir {

namespace {

/// Quotients cut towards zero. Those of 16-bit numbers are rounded to 16 bits before, as torch rounds them.
void div_trunc(KernelContext& ctx) {
  const AnyOperand a(ctx, 0), b(ctx, 1);
  const ScalarType common = common_type(a, b);
  const bool narrow = dispatch<kHalfFloats>(common, [&](auto tag) {
    using T = typename decltype(tag)::type;
    binary_in<kHalfFloats>(ctx, a, b, 3, common,
                           [](float x, float y) { return std::trunc(static_cast<float>(T(x / y))); });
  });
  if (narrow) return;
  ZeroDivision zero(ctx);
  binary_in<kReal>(ctx, a, b, 3, common, [division = Division{&zero}](auto x, auto y) { return division.trunc(x, y); });
}

}  // namespace

void div_out(KernelContext& ctx) {
  binary_float<kFloats | kFullComplex>(ctx, 0, 1, 2, [](auto a, auto b) { return a / b; });
}

void floor_divide_out(KernelContext& ctx) {
  ZeroDivision zero(ctx);
  binary<kReal>(ctx, 0, 1, 2, [division = Division{&zero}](auto a, auto b) { return division.floor(a, b); });
}

void div_mode_out(KernelContext& ctx) {
  const StringView mode = ctx.string(2);
  if (!ctx.has(2)) {
    binary_float<kFloats | kFullComplex>(ctx, 0, 1, 3, [](auto a, auto b) { return a / b; });
  } else if (mode == "trunc") {
    div_trunc(ctx);
  } else if (mode == "floor") {
    ZeroDivision zero(ctx);
    binary<kReal>(ctx, 0, 1, 3, [division = Division{&zero}](auto a, auto b) { return division.floor(a, b); });
  } else {
    ctx.fail(Check::KernelArgument, 2, static_cast<int64_t>(mode.size));
  }
}

void fmod_out(KernelContext& ctx) {
  ZeroDivision zero(ctx);
  binary<kReal>(ctx, 0, 1, 2, [division = Division{&zero}](auto a, auto b) { return division.fmod(a, b); }, true);
}

void remainder_out(KernelContext& ctx) {
  ZeroDivision zero(ctx);
  binary<kReal>(ctx, 0, 1, 2, [division = Division{&zero}](auto a, auto b) { return division.remainder(a, b); }, true);
}

}  // namespace etir
