// The sum of two quantized tensors, quantized again.
#include "kernels/quantized/affine.h"

namespace etir {
namespace {

using namespace quantized;

struct Operand {
  float scale;
  float zero_point;
};

/// Scale and zero point of the operand whose scale is argument `arg`. False: failed.
bool read_operand(KernelContext& ctx, int arg, Operand* operand) {
  const int64_t zero_point = ctx.integer(arg + 1);
  if (zero_point < INT32_MIN || zero_point > INT32_MAX) {
    ctx.fail(Check::KernelArgument, arg + 1, zero_point);
    return false;
  }
  operand->scale = static_cast<float>(ctx.real(arg));
  operand->zero_point = static_cast<float>(zero_point);
  return true;
}

}  // namespace

void quantized_add_out(KernelContext& ctx) {
  const Tensor& a = ctx.tensor(0);
  const Tensor& b = ctx.tensor(5);
  Tensor& out = ctx.tensor(14);
  if (b.dtype != a.dtype) return ctx.fail(Check::KernelDtypeMismatch, 5, static_cast<int64_t>(b.dtype));
  if (out.dtype != a.dtype) return ctx.fail(Check::KernelDtypeMismatch, 14, static_cast<int64_t>(out.dtype));
  if (!contains(kStored & kSelectedDtypes, a.dtype)) {
    return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(a.dtype));
  }
  Operand left, right;
  int64_t low, high, sizes[kMaxRank];
  const int64_t zero_point = ctx.integer(11);
  if (zero_point < INT32_MIN || zero_point > INT32_MAX) return ctx.fail(Check::KernelArgument, 11, zero_point);
  if (!read_operand(ctx, 1, &left) || !read_operand(ctx, 6, &right) || !read_range(ctx, 12, out.dtype, &low, &high)) {
    return;
  }
  const int rank = broadcast_shapes(a, b, sizes);
  if (rank < 0) return ctx.fail(Check::KernelShape, 5, b.numel());
  if (!ctx.resize(out, sizes, rank) || !check_data(ctx, 0, a) || !check_data(ctx, 5, b) || !check_data(ctx, 14, out)) {
    return;
  }
  const float inverse = 1.0f / static_cast<float>(ctx.real(10));
  const Tensor* const operands[] = {&out, &a, &b};
  const auto loops = make_loops<3>(operands);
  if (loops.numel() == 0) return;
  dispatch<kStored>(a.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    // Rounding needs float alone where the values are of 16 bits at most.
    using A = std::conditional_t<sizeof(T) < 4, float, double>;
    const A least = static_cast<A>(low), most = static_cast<A>(high), offset = static_cast<A>(zero_point);
    ctx.parallel_for(loops.rows(), 4096 / loops.inner() + 1, [&](int64_t begin, int64_t end) {
      loops.run(begin, end, [&](char* const* data, const int64_t* steps, int64_t n) {
        const char* x = data[1];
        const char* y = data[2];
        char* to = data[0];
        for (int64_t i = 0; i < n; ++i) {
          const float p =
              (static_cast<float>(*reinterpret_cast<const T*>(x + i * steps[1])) - left.zero_point) * left.scale;
          const float q =
              (static_cast<float>(*reinterpret_cast<const T*>(y + i * steps[2])) - right.zero_point) * right.scale;
          A value = static_cast<A>(std::nearbyint((p + q) * inverse)) + offset;
          value = value > least ? value : least;
          value = value < most ? value : most;
          *reinterpret_cast<T*>(to + i * steps[0]) = static_cast<T>(value);
        }
      });
    });
  });
}

}  // namespace etir
