// Bit operations and shifts on integers and bools; logical operations on truth values of any dtype.
#include "kernels/elementwise/logical.gen.h"
#include "kernels/elementwise/operators.h"

namespace etir {

namespace {

template <typename F>
void logical(KernelContext& ctx, const Tensor& a, const Tensor& b, Tensor& out, const F& f) {
  elementwise<bool, bool, bool>(ctx, out, {&a, &b}, ScalarType::Bool, f);
}

/// Shifts look at the width of the common dtype: bits that leave it are lost, and a shift by its width or more, or by a
/// negative number, leaves none (to the right: the sign).
template <typename F>
void shift(KernelContext& ctx, const AnyOperand& a, const AnyOperand& b, Tensor& out, const F& f) {
  const ScalarType common = common_type(a, b);
  const int bits = static_cast<int>(8 * element_size(common));
  binary_in<kInts>(ctx, a, b, out, common, [bits, f](int64_t x, int64_t y) { return f(x, y, bits); });
}

}  // namespace

void bitwise_and_out(KernelContext& ctx, const TensorOrScalar& self, const TensorOrScalar& other, Tensor& out) {
  binary<kInts | kBool>(ctx, self, other, out, [](int64_t a, int64_t b) { return a & b; });
}
void bitwise_or_out(KernelContext& ctx, const TensorOrScalar& self, const TensorOrScalar& other, Tensor& out) {
  binary<kInts | kBool>(ctx, self, other, out, [](int64_t a, int64_t b) { return a | b; });
}
void bitwise_xor_out(KernelContext& ctx, const TensorOrScalar& self, const TensorOrScalar& other, Tensor& out) {
  binary<kInts | kBool>(ctx, self, other, out, [](int64_t a, int64_t b) { return a ^ b; });
}
void bitwise_not_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (self.dtype == ScalarType::Bool) {
    return unary<kBool>(ctx, self, out, [](int64_t x) { return static_cast<int64_t>(x == 0); });
  }
  unary<kInts>(ctx, self, out, [](int64_t x) { return ~x; });
}
void bitwise_left_shift_out(KernelContext& ctx, const TensorOrScalar& self, const TensorOrScalar& other, Tensor& out) {
  shift(ctx, self, other, out, [](int64_t x, int64_t y, int bits) {
    const bool keeps = y >= 0 && y < bits;
    return static_cast<int64_t>(keeps ? static_cast<uint64_t>(x) << (y & 63) : 0);
  });
}
void bitwise_right_shift_out(KernelContext& ctx, const TensorOrScalar& self, const TensorOrScalar& other, Tensor& out) {
  shift(ctx, self, other, out, [](int64_t x, int64_t y, int bits) {
    const bool keeps = y >= 0 && y < bits;
    return x >> (keeps ? y : 63);
  });
}

void logical_and_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  logical(ctx, self, other, out, [](bool a, bool b) { return a & b; });
}
void logical_or_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  logical(ctx, self, other, out, [](bool a, bool b) { return a | b; });
}
void logical_xor_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  logical(ctx, self, other, out, [](bool a, bool b) { return a != b; });
}
void logical_not_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  elementwise<bool, bool>(ctx, out, {&self}, ScalarType::Bool, [](bool x) { return !x; });
}

}  // namespace etir
