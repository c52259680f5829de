// Softmax of rows of int8 numbers of ExecuTorch's library for Cortex-M, in fixed point, to the bits of CMSIS-NN.
//
// The exponential and the reciprocal are those of gemmlowp (https://github.com/google/gemmlowp, fixedpoint.h): e^x of a
// number below 0 is a polynomial on [-1/4, 0] times a constant for each binary digit of what is left, and 1 / (1 + x)
// three steps of Newton's method. Numbers below 0 have 5 bits before the point, sums 12, all others none.
#include "kernels/cortex_m/fixed_point.h"
#include "kernels/cortex_m/softmax.gen.h"

namespace etir {
namespace {

using namespace cortex_m;

constexpr int32_t kMost = 0x7fffffff, kLeast = -kMost - 1;
constexpr int kSumBits = 12;  ///< of sums before the point

/// The product of two numbers below one, rounded half up.
int32_t product(int32_t a, int32_t b) {
  if (a == kLeast && b == kLeast) return kMost;
  return static_cast<int32_t>((int64_t{a} * b + (int64_t{1} << 30)) >> 31);
}

/// value / 2^bits, rounded half away from zero; bits are 0 to 31.
int32_t halved(int32_t value, int bits) {
  const int64_t mask = (int64_t{1} << bits) - 1, rest = value & mask;
  const int32_t whole = static_cast<int32_t>(int64_t{value} >> bits);
  return whole + (rest > (mask >> 1) + (whole < 0) ? 1 : 0);
}

/// value * 2^bits, or the number at the end of the range.
int32_t doubled(int32_t value, int bits) {
  const int64_t wide = int64_t{value} << bits;
  return static_cast<int32_t>(wide > kMost ? kMost : wide < kLeast ? kLeast : wide);
}

/// e^value, of a number with 5 bits before the point that is not above 0, as one without.
int32_t exponential(int32_t value) {
  if (value == 0) return kMost;
  constexpr int kQuarter = 24;  // the bit of 1/4
  // e^(-2^k) for k from -2 to 4.
  constexpr int32_t kDigits[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
  constexpr int32_t kEighth = 1895147668, kThird = 715827883;  // e^(-1/8) and 1/3
  const int32_t within = (value & ((1 << kQuarter) - 1)) - (1 << kQuarter), rest = within - value;
  // Around -1/8: 1 + x + x^2/2 + x^3/6 + x^4/24.
  const int32_t x = within * 32 + (1 << 28), x2 = product(x, x);
  const int32_t higher = product(halved(product(x2, x2), 2) + product(x2, x), kThird);
  int32_t result = kEighth + product(kEighth, x + halved(higher + x2, 1));
  for (int i = 0; i < 7; ++i) {
    if ((rest >> (kQuarter + i) & 1) != 0) result = product(result, kDigits[i]);
  }
  return result;
}

/// 1 / (1 + value), of numbers below one.
int32_t reciprocal(int32_t value) {
  // Of half of 1 + value, from a line that is close to it on the interval.
  const int64_t sum = int64_t{value} + kMost;
  const int32_t half = static_cast<int32_t>((sum + (sum >= 0 ? 1 : -1)) / 2);
  constexpr int32_t kFirst = 1515870810, kSlope = -1010580540;  // 48/17 and -32/17, with 2 bits before the point
  int32_t x = kFirst + product(half, kSlope);
  for (int i = 0; i < 3; ++i) x += doubled(product(x, (1 << 29) - product(half, x)), 2);
  return doubled(x, 1);
}

int8_t largest(const int8_t* from, int64_t count) {
  int8_t most = from[0];
  for (int64_t i = 1; i < count; ++i) most = from[i] > most ? from[i] : most;
  return most;
}

}  // namespace

void cortex_m_softmax_out(KernelContext& ctx, const Tensor& input, int64_t dim, int64_t input_zero_point,
                          int64_t output_zero_point, int64_t input_multiplier, int64_t input_shift, int64_t diff_min,
                          Tensor& out) {
  using arg = arguments::cortex_m_softmax_out;
  (void)input_zero_point;  // what a number is below the largest does not depend on it
  if (!check_dtype(ctx, input, ScalarType::Char) || !check_dtype(ctx, out, ScalarType::Char)) return;
  if (input.rank < 1) return ctx.fail(Check::KernelRank, input, input.rank);
  if (dim != -1 && dim != input.rank - 1) return ctx.fail(Check::KernelArgument, arg::dim, dim);
  if (output_zero_point != -128) return ctx.fail(Check::KernelArgument, arg::output_zero_point, output_zero_point);
  if (input_multiplier < 0 || input_multiplier > kMost) {
    return ctx.fail(Check::KernelArgument, arg::input_multiplier, input_multiplier);
  }
  if (input_shift < 0 || input_shift > 30) return ctx.fail(Check::KernelArgument, arg::input_shift, input_shift);
  // Differences down to there have 32 bits when they are shifted.
  if (diff_min > 0 || diff_min < kLeast || (diff_min < -255 ? -255 : diff_min) * (int64_t{1} << input_shift) < kLeast) {
    return ctx.fail(Check::KernelArgument, arg::diff_min, diff_min);
  }
  if (!check_rows(ctx, input) || !ctx.resize_like(out, input) || !check_rows(ctx, out) || !has_data(ctx, input) ||
      !has_data(ctx, out) || input.numel() == 0) {
    return;
  }
  const int64_t depth = input.sizes[input.rank - 1], rows = input.numel() / depth;
  // A row of more numbers has sums beyond 12 bits.
  if (depth >= (int64_t{1} << kSumBits)) return ctx.fail(Check::KernelShape, input, depth);
  const int32_t multiplier = static_cast<int32_t>(input_multiplier), factor = int32_t{1} << input_shift;
  ctx.parallel_for(rows, 1024 / depth + 1, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int8_t* from = input.ptr<int8_t>() + row * depth;
      int8_t* to = out.ptr<int8_t>() + row * depth;
      const int32_t most = largest(from, depth);
      const auto power = [&](int32_t below) { return exponential(product(below * factor, multiplier)); };
      int32_t sum = 0;
      for (int64_t i = 0; i < depth; ++i) {
        const int32_t below = from[i] - most;
        if (below >= diff_min) sum += halved(power(below), kSumBits);
      }
      int headroom = 0;
      while (headroom < 31 && (static_cast<uint32_t>(sum) << headroom & 0x80000000u) == 0) ++headroom;
      const uint32_t shifted = (static_cast<uint32_t>(sum) << headroom) ^ 0x80000000u;
      const int32_t scale = reciprocal(static_cast<int32_t>(shifted));
      const int bits = kSumBits - headroom + 23;
      for (int64_t i = 0; i < depth; ++i) {
        const int32_t below = from[i] - most;
        int32_t share = 0;  // also where it is less than a half, whatever the number
        if (below >= diff_min && bits <= 31) share = halved(product(scale, power(below)), bits);
        to[i] = static_cast<int8_t>(share > 255 ? 127 : share - 128);
      }
    }
  });
}

}  // namespace etir
