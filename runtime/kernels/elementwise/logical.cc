// Bit operations and shifts on integers and bools; logical operations on truth values of any dtype.
#include "kernels/elementwise/operators.h"

namespace etir {

namespace {

template <typename F>
void logical(KernelContext& ctx, const F& f) {
  const AnyOperand a(ctx, 0), b(ctx, 1);
  elementwise<bool, bool, bool>(ctx, ctx.tensor(2), 2, {a.operand(), b.operand()}, ScalarType::Bool, f);
}

/// Shifts look at the width of the common dtype: bits that leave it are lost, and a shift by its width or more, or by a
/// negative number, leaves none (to the right: the sign).
template <typename F>
void shift(KernelContext& ctx, const F& f) {
  const AnyOperand a(ctx, 0), b(ctx, 1);
  const ScalarType common = common_type(a, b);
  const int bits = static_cast<int>(8 * element_size(common));
  binary_in<kInts>(ctx, a, b, 2, common, [bits, f](int64_t x, int64_t y) { return f(x, y, bits); });
}

}  // namespace

void bitwise_and_out(KernelContext& ctx) {
  binary<kInts | kBool>(ctx, 0, 1, 2, [](int64_t a, int64_t b) { return a & b; });
}
void bitwise_or_out(KernelContext& ctx) {
  binary<kInts | kBool>(ctx, 0, 1, 2, [](int64_t a, int64_t b) { return a | b; });
}
void bitwise_xor_out(KernelContext& ctx) {
  binary<kInts | kBool>(ctx, 0, 1, 2, [](int64_t a, int64_t b) { return a ^ b; });
}
void bitwise_not_out(KernelContext& ctx) {
  if (ctx.tensor(0).dtype == ScalarType::Bool) {
    return unary<kBool>(ctx, 0, 1, [](int64_t x) { return static_cast<int64_t>(x == 0); });
  }
  unary<kInts>(ctx, 0, 1, [](int64_t x) { return ~x; });
}
void bitwise_left_shift_out(KernelContext& ctx) {
  shift(ctx, [](int64_t x, int64_t y, int bits) {
    const bool keeps = y >= 0 && y < bits;
    return static_cast<int64_t>(keeps ? static_cast<uint64_t>(x) << (y & 63) : 0);
  });
}
void bitwise_right_shift_out(KernelContext& ctx) {
  shift(ctx, [](int64_t x, int64_t y, int bits) {
    const bool keeps = y >= 0 && y < bits;
    return x >> (keeps ? y : 63);
  });
}

void logical_and_out(KernelContext& ctx) {
  logical(ctx, [](bool a, bool b) { return a & b; });
}
void logical_or_out(KernelContext& ctx) {
  logical(ctx, [](bool a, bool b) { return a | b; });
}
void logical_xor_out(KernelContext& ctx) {
  logical(ctx, [](bool a, bool b) { return a != b; });
}
void logical_not_out(KernelContext& ctx) {
  const AnyOperand a(ctx, 0);
  elementwise<bool, bool>(ctx, ctx.tensor(1), 1, {a.operand()}, ScalarType::Bool, [](bool x) { return !x; });
}

}  // namespace etir
