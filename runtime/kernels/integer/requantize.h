// From int32 sums to int8 numbers: what all integer operators of a layer end with.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/integer/operands.h"
#include "kernels/kernel.h"
#include "kernels/util/arm.h"
#include "kernels/util/checks.h"
#include "kernels/util/mve.h"

namespace etir::integer {

/// y = clamp(rint(float(sum) * factor) + zero_point, low, high): half to even, the limits are put on the float, so that
/// no conversion overflows. NaN becomes `low`.
struct Output {
  int32_t zero_point, low, high;

  float least() const { return static_cast<float>(low - zero_point); }
  float most() const { return static_cast<float>(high - zero_point); }
  int8_t operator()(float value) const {
    // Adding 1.5 * 2^23 rounds a number of this size to an integer, half to even.
    constexpr float kShift = 12582912.0f;
    const float limited = value > least() ? value : least();
    const float shifted = (limited < most() ? limited : most()) + kShift;
    return static_cast<int8_t>(static_cast<int32_t>(shifted - kShift) + zero_point);
  }
};

/// Writes `count` columns: bias and factors are those of the columns.
inline void requantize_row(const int32_t* __restrict sums, const int32_t* __restrict bias,
                           const float* __restrict factors, int count, Output out, int8_t* __restrict to) {
  for (int c = 0; c < count; ++c) {
    const int32_t sum = static_cast<int32_t>(static_cast<uint32_t>(sums[c]) + static_cast<uint32_t>(bias[c]));
    to[c] = out(static_cast<float>(sum) * factors[c]);
  }
}

#if ETIR_INT8_X86
/// The same for the eight numbers of a vector, without the zero point. The lower limit comes first, since the result of
/// max is its second operand where one is NaN.
inline __m256i requantize_eight(__m256i sums, __m256 factors, __m256 least, __m256 most) {
  const __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(sums), factors);
  return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(value, least), most));
}

/// The same as requantize_row: the compiler's own code for it narrows one number at a time.
inline void requantize_row_avx2(const int32_t* sums, const int32_t* bias, const float* factors, int count,
                                const Output& out, int8_t* to) {
  const __m256 least = _mm256_set1_ps(out.least()), most = _mm256_set1_ps(out.most());
  const __m256i zero_point = _mm256_set1_epi16(static_cast<int16_t>(out.zero_point));
  const auto integers = [](const int32_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); };
  const auto eight = [&](int c) {
    const __m256i sum = _mm256_add_epi32(integers(sums + c), integers(bias + c));
    return requantize_eight(sum, _mm256_loadu_ps(factors + c), least, most);
  };
  // Numbers 0 to 3, 8 to 11, 4 to 7 and 12 to 15 from c on, in 16 bits.
  const auto sixteen = [&](int c) { return _mm256_add_epi16(_mm256_packs_epi32(eight(c), eight(c + 8)), zero_point); };
  int c = 0;
  for (; c + 32 <= count; c += 32) {
    const __m256i bytes = _mm256_packs_epi16(sixteen(c), sixteen(c + 16));
    const __m256i ordered = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + c), ordered);
  }
  for (; c + 16 <= count; c += 16) {
    const __m256i ordered = _mm256_permute4x64_epi64(sixteen(c), 0xd8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + c), bytes);
  }
  for (; c + 8 <= count; c += 8) {
    const __m256i one = eight(c);
    const __m128i halves = _mm_add_epi16(_mm_packs_epi32(_mm256_castsi256_si128(one), _mm256_extracti128_si256(one, 1)),
                                         _mm256_castsi256_si128(zero_point));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + c), _mm_packs_epi16(halves, halves));
  }
  if (c < count) requantize_row(sums + c, bias + c, factors + c, count - c, out, to + c);
}
#endif

#if ETIR_INT8_X86 && ETIR_INT8_VNNI
ETIR_VNNI inline void requantize_row_avx512(const int32_t* sums, const int32_t* bias, const float* factors, int count,
                                            const Output& out, int8_t* to) {
  const __m512 least = _mm512_set1_ps(out.least()), most = _mm512_set1_ps(out.most());
  const __m512i zero_point = _mm512_set1_epi32(out.zero_point);
  for (int c = 0; c < count; c += 16) {
    const __mmask16 some = count - c >= 16 ? 0xffff : static_cast<__mmask16>((1u << (count - c)) - 1u);
    const __m512i sum =
        _mm512_add_epi32(_mm512_maskz_loadu_epi32(some, sums + c), _mm512_maskz_loadu_epi32(some, bias + c));
    __m512 value =
        _mm512_maskz_mul_ps(some, _mm512_maskz_cvtepi32_ps(some, sum), _mm512_maskz_loadu_ps(some, factors + c));
    value = _mm512_maskz_min_ps(some, _mm512_maskz_max_ps(some, value, least), most);
    const __m512i result = _mm512_add_epi32(
        _mm512_maskz_cvt_roundps_epi32(some, value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), zero_point);
    _mm512_mask_cvtepi32_storeu_epi8(to + c, some, result);
  }
}
#endif

#if ETIR_INT8_X86 && ETIR_INT8_VNNI
/// Sixteen numbers without the zero point and the lower limit: what is too low becomes the least integer, and so does
/// NaN, which min gives back where it is the second operand. Without masks, GCC 12 warns of its own headers.
ETIR_VNNI inline __m512i requantize_sixteen(__m512i sums, __m512 factors, __m512 most) {
  constexpr __mmask16 kAll = 0xffff;
  const __m512 value = _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(kAll, sums), factors);
  return _mm512_maskz_cvt_roundps_epi32(kAll, _mm512_maskz_min_ps(kAll, most, value),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/// The same for four rows of 16 columns, whose sums are `stride` numbers apart and results `to_row`.
struct RequantizeSixteen {
  static constexpr __mmask16 kAll = 0xffff;
  __m512i bias, zero_point, low, high;
  __m512 factors, most;

  ETIR_VNNI __m512i integers(const int32_t* sums) const {
    return requantize_sixteen(_mm512_add_epi32(_mm512_loadu_si512(sums), bias), factors, most);
  }
  ETIR_VNNI void operator()(const int32_t* sums, int64_t stride, int8_t* to, int64_t to_row) const {
    const __m512i a = _mm512_packs_epi32(integers(sums), integers(sums + stride));
    const __m512i b = _mm512_packs_epi32(integers(sums + 2 * stride), integers(sums + 3 * stride));
    const __m512i bytes = _mm512_packs_epi16(_mm512_adds_epi16(a, zero_point), _mm512_adds_epi16(b, zero_point));
    const __m512i limited = _mm512_min_epi8(_mm512_max_epi8(bytes, low), high);
    // Four numbers of each row lie together.
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i rows = _mm512_maskz_permutexvar_epi32(kAll, order, limited);
    const auto at = [&](int64_t r) { return reinterpret_cast<__m128i*>(to + r * to_row); };
    _mm_storeu_si128(at(0), _mm512_maskz_extracti32x4_epi32(0xf, rows, 0));
    _mm_storeu_si128(at(1), _mm512_maskz_extracti32x4_epi32(0xf, rows, 1));
    _mm_storeu_si128(at(2), _mm512_maskz_extracti32x4_epi32(0xf, rows, 2));
    _mm_storeu_si128(at(3), _mm512_maskz_extracti32x4_epi32(0xf, rows, 3));
  }
};

ETIR_VNNI inline void requantize_block_avx512(const Block& block, const int32_t* bias, const float* factors,
                                              const Output& out, int8_t* to, int64_t to_row) {
  // Results may lie anywhere as far as the compiler knows, over all that is not a local variable, too.
  const int all_rows = block.rows, all_columns = block.columns;
  const int columns = all_rows < 4 ? 0 : all_columns / kPanel * kPanel;
  const int64_t stride = block.stride;
  const int32_t* const sums = block.sums;
  RequantizeSixteen four;
  four.zero_point = _mm512_set1_epi16(static_cast<int16_t>(out.zero_point));
  four.low = _mm512_set1_epi8(static_cast<char>(out.low)), four.high = _mm512_set1_epi8(static_cast<char>(out.high));
  four.most = _mm512_set1_ps(out.most());
  for (int c = 0; c < columns; c += kPanel) {
    four.bias = _mm512_loadu_si512(bias + c);
    four.factors = _mm512_loadu_ps(factors + c);
    // The last four rows may be some of those before, once more.
    for (int row = 0; row < all_rows; row += 4) {
      const int r = row + 4 <= all_rows ? row : all_rows - 4;
      four(sums + r * stride + c, stride, to + r * to_row + c, to_row);
    }
  }
  if (columns == all_columns) return;
  const Output limits = out;
  for (int r = 0; r < all_rows; ++r) {
    const int c = columns;
    requantize_row_avx512(sums + r * stride + c, bias + c, factors + c, all_columns - c, limits, to + r * to_row + c);
  }
}
#endif

#if ETIR_NEON
/// The same with NEON, 16 numbers at a time. What is too large becomes the largest integer and the limit in the end, in
/// 8 bits; what is too low could do the same, but NaN would be 0.
struct RequantizeNeon {
  float32x4_t least;
  int16x8_t zero_point;
  int8x16_t low, high;

  explicit RequantizeNeon(const Output& out)
      : least(vdupq_n_f32(out.least())),
        zero_point(vdupq_n_s16(static_cast<int16_t>(out.zero_point))),
        low(vdupq_n_s8(static_cast<int8_t>(out.low))),
        high(vdupq_n_s8(static_cast<int8_t>(out.high))) {}

  int32x4_t integers(int32x4_t sums, const float* factors) const {
    return vcvtnq_s32_f32(vmaxnmq_f32(vmulq_f32(vcvtq_f32_s32(sums), vld1q_f32(factors)), least));
  }
  int8x16_t operator()(const int32x4_t (&sums)[4], const float* factors) const {
    const int16x8_t a = vqmovn_high_s32(vqmovn_s32(integers(sums[0], factors)), integers(sums[1], factors + 4));
    const int16x8_t b = vqmovn_high_s32(vqmovn_s32(integers(sums[2], factors + 8)), integers(sums[3], factors + 12));
    const int8x16_t bytes = vqmovn_high_s16(vqmovn_s16(vqaddq_s16(a, zero_point)), vqaddq_s16(b, zero_point));
    return vminq_s8(vmaxq_s8(bytes, low), high);
  }
};

inline void requantize_row_neon(const int32_t* sums, const int32_t* bias, const float* factors, int count,
                                const Output& out, int8_t* to) {
  const RequantizeNeon requantize(out);
  int c = 0;
  for (; c + 16 <= count; c += 16) {
    int32x4_t all[4];
    for (int v = 0; v < 4; ++v) all[v] = vaddq_s32(vld1q_s32(sums + c + 4 * v), vld1q_s32(bias + c + 4 * v));
    vst1q_s8(to + c, requantize(all, factors + c));
  }
  if (c < count) requantize_row(sums + c, bias + c, factors + c, count - c, out, to + c);
}
#endif

#if ETIR_MVE_FLOAT
/// The same with MVE, four numbers at a time; those after the last one are switched off. Its numbers are flushed to
/// zero where they are not normal, which rounds to the same integer.
inline void requantize_row_mve(const int32_t* sums, const int32_t* bias, const float* factors, int count,
                               const Output& out, int8_t* to) {
  const float32x4_t least = vdupq_n_f32(out.least()), most = vdupq_n_f32(out.most());
  for (; count > 0; count -= 4, sums += 4, bias += 4, factors += 4, to += 4) {
    const mve_pred16_t some = vctp32q(static_cast<uint32_t>(count));
    const int32x4_t sum = vaddq_s32(vldrwq_z_s32(sums, some), vldrwq_z_s32(bias, some));
    const float32x4_t value = vmulq_f32(vcvtq_f32_s32(sum), vldrwq_z_f32(factors, some));
    // Of NaN and a number, the number.
    const int32x4_t rounded = vcvtnq_s32_f32(vminnmq_f32(vmaxnmq_f32(value, least), most));
    vstrbq_p_s32(to, vaddq_n_s32(rounded, out.zero_point), some);
  }
}
#endif

/// The same for a row, by the fastest variant.
inline void requantize(bool vnni, const int32_t* sums, const int32_t* bias, const float* factors, int count,
                       const Output& out, int8_t* to) {
#if ETIR_INT8_X86 && ETIR_INT8_VNNI
  if (vnni) return requantize_row_avx512(sums, bias, factors, count, out, to);
#endif
  (void)vnni;
#if ETIR_INT8_X86
  requantize_row_avx2(sums, bias, factors, count, out, to);
#elif ETIR_NEON
  requantize_row_neon(sums, bias, factors, count, out, to);
#elif ETIR_MVE_FLOAT
  requantize_row_mve(sums, bias, factors, count, out, to);
#else
  requantize_row(sums, bias, factors, count, out, to);
#endif
}

/// Writes a block of a product: bias and factors are those of its columns, rows of results are `to_row` numbers apart.
inline void requantize(bool vnni, const Block& block, const int32_t* bias, const float* factors, const Output& out,
                       int8_t* to, int64_t to_row) {
#if ETIR_INT8_X86 && ETIR_INT8_VNNI
  if (vnni) return requantize_block_avx512(block, bias, factors, out, to, to_row);
#endif
  for (int r = 0; r < block.rows; ++r) {
    requantize(vnni, block.row_sums(r), bias, factors, block.columns, out, to + r * to_row);
  }
}

/// What becomes of all sums of a product, for variants that finish them in registers: int8 numbers in rows of `to_row`.
/// Bias and factors are those of columns; `row_bias`, if it is not null, is added as well, modulo 2^32.
struct Requantized {
  const int32_t* bias;
  const float* factors;
  int8_t* to;
  int64_t to_row;
  Output output;
  const uint32_t* row_bias = nullptr;
};

/// Asks what takes the blocks of a product for what becomes of them; false if only it knows.
template <typename Store>
auto read_requantized(const Store& store, Requantized* to, int) -> decltype(store.read_requantized(to)) {
  return store.read_requantized(to);
}
template <typename Store>
bool read_requantized(const Store&, Requantized*, long) {
  return false;
}

inline bool use_vnni() {
#if ETIR_INT8_X86 && ETIR_INT8_VNNI
  return has_vnni();
#else
  return false;
#endif
}

// --- checks ---

/// Whether elements of a constant lie in row-major order; records the failure. Dims of size 1 do not count.
inline bool check_rows(KernelContext& ctx, const Tensor& tensor) {
  if (tensor.numel() == 0) return true;
  int64_t strides[kMaxRank], expected = 1;
  tensor.strides(strides);
  for (int d = tensor.rank - 1; d >= 0; --d) {
    if (tensor.sizes[d] > 1 && strides[d] != expected) return ctx.fail(Check::KernelDimOrder, tensor), false;
    expected *= tensor.sizes[d] > 0 ? tensor.sizes[d] : 1;
  }
  return true;
}

/// Whether a tensor is one of `rank` dims of the dtype, row-major, with data; records the failure.
inline bool check_constant(KernelContext& ctx, const Tensor& tensor, ScalarType dtype, int rank) {
  if (tensor.dtype != dtype) return ctx.fail(Check::KernelDtype, tensor, static_cast<int64_t>(tensor.dtype)), false;
  if (tensor.rank != rank) return ctx.fail(Check::KernelRank, tensor, tensor.rank), false;
  return check_rows(ctx, tensor) && has_data(ctx, tensor);
}

inline bool check_dtype(KernelContext& ctx, const Tensor& tensor, ScalarType dtype) {
  if (tensor.dtype == dtype) return true;
  return ctx.fail(Check::KernelDtype, tensor, static_cast<int64_t>(tensor.dtype)), false;
}

inline bool check_size(KernelContext& ctx, const Tensor& tensor, int dim, int64_t size) {
  if (tensor.sizes[dim] == size) return true;
  return ctx.fail(Check::KernelShape, tensor, tensor.sizes[dim]), false;
}

/// The arguments zero_point, low and high, side by side from `position` on, as int8 numbers; records the failure.
inline bool read_output(KernelContext& ctx, int64_t zero_point, int64_t low, int64_t high, int position, Output* out) {
  if (zero_point < -128 || zero_point > 127) return ctx.fail(Check::KernelArgument, position, zero_point), false;
  if (low < -128 || low > 127) return ctx.fail(Check::KernelArgument, position + 1, low), false;
  if (high < low || high > 127) return ctx.fail(Check::KernelArgument, position + 2, high), false;
  *out = {static_cast<int32_t>(zero_point), static_cast<int32_t>(low), static_cast<int32_t>(high)};
  return true;
}

}  // namespace etir::integer
