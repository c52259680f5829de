// Operators on int8 numbers that are no product: sums, element-wise products, tables, means of images.
//
//   int8_add     y = clamp(((a a_multiplier + b b_multiplier + bias + 2^(shift-1)) >> shift) + zero_point, low, high)
//   int8_mul     y = clamp(rint(float((a - a_zero_point) (b - b_zero_point)) * factor) + zero_point, low, high)
//   int8_lookup  y = table[x + 128]
//   int8_mean    y = clamp(rint(float(sum over the image (x - input_zero_point)) * factor) + zero_point, low, high)
//
// The sum is in fixed point: its two factors have about twenty bits, and one rounding, half up, ends it.
#include "kernels/integer/elementwise.gen.h"
#include "kernels/integer/lookup_avx2.h"
#include "kernels/integer/requantize.h"
#include "kernels/integer/sum.h"

namespace etir {
namespace {

using namespace integer;

/// Whether the operands are int8 of one shape and dim order, and so is the result, which is given that shape.
bool begin(KernelContext& ctx, const Tensor& a, const Tensor& b, Tensor& out) {
  for (const Tensor* tensor : {&a, &b, static_cast<const Tensor*>(&out)}) {
    if (!check_dtype(ctx, *tensor, ScalarType::Char)) return false;
  }
  if (!same_shape(a, b)) return ctx.fail(Check::KernelShape, b, b.numel()), false;
  if (!same_dim_order(a, b)) return ctx.fail(Check::KernelDimOrder, b), false;
  if (!ctx.resize_like(out, a)) return false;
  if (!same_dim_order(a, out)) return ctx.fail(Check::KernelDimOrder, out), false;
  return has_data(ctx, a) && has_data(ctx, b) && has_data(ctx, out);
}

constexpr int64_t kGrain = 16384;

// Loops stand outside of the functions that threads run: the compiler has to know that results overlap nothing.

void mul_run(const int8_t* __restrict x, const int8_t* __restrict y, int64_t count, int32_t za, int32_t zb,
             float factor, Output out, int8_t* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = out(static_cast<float>((x[i] - za) * (y[i] - zb)) * factor);
}

/// What is written may be what is read.
void lookup_run(const int8_t* x, const int8_t* entries, int64_t count, int8_t* to) {
#if ETIR_INT8_X86
  look_up_avx2(x, entries, count, to);
#else
  for (int64_t i = 0; i < count; ++i) to[i] = entries[x[i]];
#endif
}

void add_pixel(const int8_t* __restrict pixel, int64_t step, int count, uint32_t* __restrict sums) {
  if (step == 1) {
    for (int c = 0; c < count; ++c) sums[c] += static_cast<uint32_t>(pixel[c]);
  } else {
    for (int c = 0; c < count; ++c) sums[c] += static_cast<uint32_t>(pixel[c * step]);
  }
}

}  // namespace

void int8_add_out(KernelContext& ctx, const Tensor& a, const Tensor& b, int64_t a_multiplier, int64_t b_multiplier,
                  int64_t bias, int64_t shift, int64_t zero_point, int64_t low, int64_t high, Tensor& out) {
  using arg = arguments::int8_add_out;
  Output output;
  // 128 times two multipliers of this size and a bias of 2^30 are less than 2^31.
  constexpr int64_t kMost = int64_t{1} << 21;
  if (a_multiplier < -kMost || a_multiplier > kMost) {
    return ctx.fail(Check::KernelArgument, arg::a_multiplier, a_multiplier);
  }
  if (b_multiplier < -kMost || b_multiplier > kMost) {
    return ctx.fail(Check::KernelArgument, arg::b_multiplier, b_multiplier);
  }
  if (bias < -(int64_t{1} << 30) || bias > int64_t{1} << 30) return ctx.fail(Check::KernelArgument, arg::bias, bias);
  if (shift < 1 || shift > 28) return ctx.fail(Check::KernelArgument, arg::shift, shift);
  if (!read_output(ctx, zero_point, low, high, arg::zero_point, &output) || !begin(ctx, a, b, out)) return;
  const int bits = static_cast<int>(shift);
  const FixedSum sum = {static_cast<int32_t>(a_multiplier),
                        static_cast<int32_t>(b_multiplier),
                        static_cast<int32_t>(bias) + (1 << (bits - 1)),
                        output.low - output.zero_point,
                        output.high - output.zero_point,
                        output.zero_point,
                        bits};
  const bool vnni = use_vnni();
  ctx.parallel_for(a.numel(), kGrain, [&](int64_t first, int64_t last) {
    add_run(vnni, a.ptr<int8_t>() + first, b.ptr<int8_t>() + first, last - first, sum, out.ptr<int8_t>() + first);
  });
}

void int8_mul_out(KernelContext& ctx, const Tensor& a, const Tensor& b, int64_t a_zero_point, int64_t b_zero_point,
                  double factor, int64_t zero_point, int64_t low, int64_t high, Tensor& out) {
  using arg = arguments::int8_mul_out;
  Output output;
  if (a_zero_point < -128 || a_zero_point > 127)
    return ctx.fail(Check::KernelArgument, arg::a_zero_point, a_zero_point);
  if (b_zero_point < -128 || b_zero_point > 127)
    return ctx.fail(Check::KernelArgument, arg::b_zero_point, b_zero_point);
  if (!read_output(ctx, zero_point, low, high, arg::zero_point, &output) || !begin(ctx, a, b, out)) return;
  const int32_t za = static_cast<int32_t>(a_zero_point), zb = static_cast<int32_t>(b_zero_point);
  const float scale = static_cast<float>(factor);
  ctx.parallel_for(a.numel(), kGrain, [&](int64_t first, int64_t last) {
    mul_run(a.ptr<int8_t>() + first, b.ptr<int8_t>() + first, last - first, za, zb, scale, output,
            out.ptr<int8_t>() + first);
  });
}

void int8_lookup_out(KernelContext& ctx, const Tensor& input, const Tensor& table, Tensor& out) {
  if (!check_constant(ctx, table, ScalarType::Char, 1) || !check_size(ctx, table, 0, 256) ||
      !begin(ctx, input, input, out)) {
    return;
  }
  const int8_t* entries = table.ptr<int8_t>() + 128;
  ctx.parallel_for(input.numel(), kGrain, [&](int64_t first, int64_t last) {
    lookup_run(input.ptr<int8_t>() + first, entries, last - first, out.ptr<int8_t>() + first);
  });
}

void int8_mean_out(KernelContext& ctx, const Tensor& input, int64_t input_zero_point, bool keepdim, double factor,
                   int64_t zero_point, int64_t low, int64_t high, Tensor& out) {
  using arg = arguments::int8_mean_out;
  Output output;
  if (input_zero_point < -128 || input_zero_point > 127) {
    return ctx.fail(Check::KernelArgument, arg::input_zero_point, input_zero_point);
  }
  if (!check_dtype(ctx, input, ScalarType::Char) || !check_dtype(ctx, out, ScalarType::Char) ||
      !read_output(ctx, zero_point, low, high, arg::zero_point, &output)) {
    return;
  }
  if (input.rank != 4) return ctx.fail(Check::KernelRank, input, input.rank);
  int64_t strides[kMaxRank] = {};
  input.strides(strides);
  const int64_t channels = input.sizes[1], height = input.sizes[2], width = input.sizes[3];
  const int64_t sizes[4] = {input.sizes[0], channels, 1, 1};
  if (!ctx.resize(out, sizes, keepdim ? 4 : 2) || !has_data(ctx, input) || !has_data(ctx, out)) return;
  // Where dims of size 1 are does not matter.
  int64_t out_strides[kMaxRank] = {};
  out.strides(out_strides);
  const float scale = static_cast<float>(factor);
  const uint32_t zeros = static_cast<uint32_t>(input_zero_point) * static_cast<uint32_t>(height * width);
  ctx.parallel_for(input.sizes[0], 1, [&](int64_t first, int64_t last) {
    constexpr int kBlock = 256;
    for (int64_t image = first; image < last; ++image) {
      for (int64_t begin_channel = 0; begin_channel < channels; begin_channel += kBlock) {
        const int count = static_cast<int>(std::min<int64_t>(kBlock, channels - begin_channel));
        uint32_t sums[kBlock] = {};
        const int8_t* from = input.ptr<int8_t>() + image * strides[0] + begin_channel * strides[1];
        for (int64_t y = 0; y < height; ++y) {
          for (int64_t x = 0; x < width; ++x) {
            add_pixel(from + y * strides[2] + x * strides[3], strides[1], count, sums);
          }
        }
        for (int c = 0; c < count; ++c) {
          const float sum = static_cast<float>(static_cast<int32_t>(sums[c] - zeros));
          out.ptr<int8_t>()[image * out_strides[0] + (begin_channel + c) * out_strides[1]] = output(sum * scale);
        }
      }
    }
  });
}

}  // namespace etir
