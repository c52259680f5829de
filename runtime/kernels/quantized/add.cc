// The sum of two quantized tensors, quantized again.
#include "kernels/quantized/add.gen.h"
#include "kernels/quantized/affine.h"

namespace etir {
namespace {

using namespace quantized;

struct Operand {
  float scale;
  float zero_point;
};

/// Scale and zero point of an operand. False: failed.
/// The zero point is the argument at `position`.
bool read_operand(KernelContext& ctx, double scale, int64_t zero_point, int position, Operand* operand) {
  if (zero_point < INT32_MIN || zero_point > INT32_MAX) {
    ctx.fail(Check::KernelArgument, position, zero_point);
    return false;
  }
  operand->scale = static_cast<float>(scale);
  operand->zero_point = static_cast<float>(zero_point);
  return true;
}

}  // namespace

void quantized_add_out(KernelContext& ctx, const Tensor& a, double a_scale, int64_t a_zero_point,
                       int64_t /*a_quant_min*/, int64_t /*a_quant_max*/, const Tensor& b, double b_scale,
                       int64_t b_zero_point, int64_t /*b_quant_min*/, int64_t /*b_quant_max*/, double out_scale,
                       int64_t out_zero_point, int64_t out_quant_min, int64_t out_quant_max, Tensor& out) {
  using arg = arguments::quantized_add_out;
  if (b.dtype != a.dtype) return ctx.fail(Check::KernelDtypeMismatch, b, static_cast<int64_t>(b.dtype));
  if (out.dtype != a.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  if (!contains(kStored & kSelectedDtypes, a.dtype)) {
    return ctx.fail(Check::KernelDtype, a, static_cast<int64_t>(a.dtype));
  }
  Operand left, right;
  int64_t sizes[kMaxRank];
  const int64_t low = out_quant_min, high = out_quant_max, zero_point = out_zero_point;
  if (zero_point < INT32_MIN || zero_point > INT32_MAX)
    return ctx.fail(Check::KernelArgument, arg::out_zero_point, zero_point);
  if (!read_operand(ctx, a_scale, a_zero_point, arg::a_zero_point, &left) ||
      !read_operand(ctx, b_scale, b_zero_point, arg::b_zero_point, &right) ||
      !check_range(ctx, out_quant_min, out_quant_max, arg::out_quant_min, out.dtype)) {
    return;
  }
  const int rank = broadcast_shapes(a, b, sizes);
  if (rank < 0) return ctx.fail(Check::KernelShape, b, b.numel());
  if (!ctx.resize(out, sizes, rank) || !has_data(ctx, a) || !has_data(ctx, b) || !has_data(ctx, out)) {
    return;
  }
  const float inverse = 1.0f / static_cast<float>(out_scale);
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
