// Linear layers and products of matrices of ExecuTorch's library for Cortex-M.
#include "kernels/cortex_m/fixed_point.h"
#include "kernels/cortex_m/products.gen.h"

namespace etir {

using namespace cortex_m;

void cortex_m_quantized_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weights, const Tensor* bias,
                                   const Tensor* kernel_sum, int64_t input_offset, int64_t filter_offset,
                                   int64_t output_offset, const IntList& requantize_multipliers,
                                   const IntList& requantize_shifts, int64_t activation_max, int64_t activation_min,
                                   Tensor& out) {
  using arg = arguments::cortex_m_quantized_linear_out;
  Factor factor;
  Limits limits;
  if (requantize_multipliers.size() < 1) return ctx.fail(Check::KernelArgument, arg::requantize_multipliers, 0);
  if (requantize_shifts.size() < 1) return ctx.fail(Check::KernelArgument, arg::requantize_shifts, 0);
  if (!check_dtype(ctx, input, ScalarType::Char) || !check_dtype(ctx, out, ScalarType::Char) ||
      !check_constant(ctx, weights, ScalarType::Char, 2) || !check_offset(ctx, input_offset, arg::input_offset) ||
      !check_offset(ctx, filter_offset, arg::filter_offset) ||
      !read_factor(ctx, requantize_multipliers[0], requantize_shifts[0], arg::requantize_shifts, &factor) ||
      !read_limits(ctx, output_offset, arg::output_offset, activation_min, arg::activation_min, activation_max,
                   arg::activation_max, &limits)) {
    return;
  }
  if (input.rank < 1) return ctx.fail(Check::KernelRank, input, input.rank);
  const int64_t columns = weights.sizes[0], depth = weights.sizes[1];
  for (const Tensor* tensor : {bias, kernel_sum}) {
    if (tensor == nullptr) continue;
    if (!check_dtype(ctx, *tensor, ScalarType::Int) || !check_rows(ctx, *tensor) || !has_data(ctx, *tensor)) return;
    if (tensor->numel() != columns) return ctx.fail(Check::KernelShape, *tensor, tensor->numel());
  }
  int64_t sizes[kMaxRank], rows = 1;
  for (int d = 0; d + 1 < input.rank; ++d) rows *= sizes[d] = input.sizes[d];
  sizes[input.rank - 1] = columns;
  if (!check_size(ctx, input, input.rank - 1, depth) || !check_rows(ctx, input) ||
      !ctx.resize(out, sizes, input.rank) || !check_rows(ctx, out) || !has_data(ctx, input) || !has_data(ctx, out) ||
      out.numel() == 0) {
    return;
  }
  // The sums of weights and offsets are in kernel_sum, where it is given, and so is the bias.
  const int32_t* more = kernel_sum != nullptr ? kernel_sum->ptr<int32_t>()
                        : bias != nullptr     ? bias->ptr<int32_t>()
                                              : nullptr;
  const int32_t offset = kernel_sum != nullptr ? 0 : static_cast<int32_t>(input_offset);
  ctx.parallel_for(rows * columns, 65536 / (depth + 1) + 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int8_t* x = input.ptr<int8_t>() + i / columns * depth;
      int64_t sum = dot(x, offset, weights.ptr<int8_t>() + i % columns * depth, depth);
      for (int64_t k = 0; filter_offset != 0 && k < depth; ++k) sum += (x[k] + offset) * filter_offset;
      out.ptr<int8_t>()[i] = limits(factor(more == nullptr ? sum : sum + more[i % columns]));
    }
  });
}

void cortex_m_quantized_batch_matmul_out(KernelContext& ctx, const Tensor& lhs, int64_t lhs_zero_point,
                                         const Tensor& rhs_transposed, int64_t rhs_zero_point,
                                         int64_t output_zero_point, int64_t output_multiplier, int64_t output_shift,
                                         const Tensor& scratch, Tensor& out) {
  using arg = arguments::cortex_m_quantized_batch_matmul_out;
  (void)scratch;
  Factor factor;
  if (!check_dtype(ctx, out, ScalarType::Char) || !check_offset(ctx, lhs_zero_point, arg::lhs_zero_point) ||
      !check_offset(ctx, rhs_zero_point, arg::rhs_zero_point) ||
      !check_offset(ctx, output_zero_point, arg::output_zero_point) ||
      !read_factor(ctx, output_multiplier, output_shift, arg::output_shift, &factor)) {
    return;
  }
  for (const Tensor* tensor : {&lhs, &rhs_transposed}) {
    if (tensor->rank != 3) return ctx.fail(Check::KernelRank, *tensor, tensor->rank);
    if (!check_dtype(ctx, *tensor, ScalarType::Char) || !check_rows(ctx, *tensor) || !has_data(ctx, *tensor)) return;
  }
  const int64_t batch = lhs.sizes[0], rows = lhs.sizes[1], depth = lhs.sizes[2], columns = rhs_transposed.sizes[1];
  const int64_t sizes[3] = {batch, rows, columns};
  if (!check_size(ctx, rhs_transposed, 0, batch) || !check_size(ctx, rhs_transposed, 2, depth) ||
      !ctx.resize(out, sizes, 3) || !check_rows(ctx, out) || !has_data(ctx, out) || out.numel() == 0) {
    return;
  }
  const Limits limits = {static_cast<int32_t>(output_zero_point), -128, 127};
  const int32_t offset = static_cast<int32_t>(lhs_zero_point);
  ctx.parallel_for(batch * rows, 65536 / (depth * columns + 1) + 1, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int8_t* x = lhs.ptr<int8_t>() + row * depth;
      const int8_t* matrix = rhs_transposed.ptr<int8_t>() + row / rows * columns * depth;
      int64_t less = 0;
      for (int64_t k = 0; k < depth; ++k) less += (x[k] + offset) * rhs_zero_point;
      for (int64_t c = 0; c < columns; ++c) {
        out.ptr<int8_t>()[row * columns + c] = limits(factor(dot(x, offset, matrix + c * depth, depth) + less));
      }
    }
  });
}

}  // namespace etir
