// Linear layers on int8: static (int8 in, int8 or float out), and dynamic (float in and out, each row quantized on the
// way).
//
//   int8_linear           y = clamp(rint(float(sum_k (x[k] + 128) w[k] + bias) * factor) + zero_point, low, high)
//   int8_float_linear     y = float(sum_k (x[k] + 128) w[k] + bias) * factor
//   int8_dynamic_linear   y = float(sum_k (q[k] + 128) w[k] - (z + 128) * column_sum) * (s * scale) + bias
//
// where s and z are those of the row by the formula of quantized_decomposed::choose_qparams_per_token_asymmetric, and
// q = clamp(rint(x * (1/s) + z)) as quantize_per_token has it. Weights are packed (tile.h); the bias of static ones
// has -(128 + z) times the sum of a column's weights in it, z the zero point of the input.
#include "kernels/integer/dequantize.h"
#include "kernels/integer/linear.gen.h"
#include "kernels/integer/product.h"
#include "kernels/integer/results.h"

namespace etir {
namespace {

using namespace integer;

constexpr int kMostDepth = 66311;  // 255 * 127 times that is less than 2^31

/// Checks packed weights [panels, quads, 16, 4] for `columns` columns of `depth` numbers.
bool check_weight(KernelContext& ctx, const Tensor& weight, int64_t columns, int64_t depth) {
  return check_constant(ctx, weight, ScalarType::Char, 4) && check_size(ctx, weight, 0, panels_of(columns)) &&
         check_size(ctx, weight, 1, quads_of(depth)) && check_size(ctx, weight, 2, kPanel) &&
         check_size(ctx, weight, 3, kQuad);
}

/// Rows and depth of an input of at least one dim, and the result's shape.
bool begin(KernelContext& ctx, const Tensor& input, int64_t columns, Tensor& out, int64_t* rows, int64_t* depth) {
  if (input.rank < 1) return ctx.fail(Check::KernelRank, input, input.rank), false;
  if (!check_rows(ctx, input)) return false;
  int64_t sizes[kMaxRank];
  *rows = 1;
  for (int d = 0; d + 1 < input.rank; ++d) *rows *= sizes[d] = input.sizes[d];
  *depth = input.sizes[input.rank - 1];
  sizes[input.rank - 1] = columns;
  if (*depth > kMostDepth) return ctx.fail(Check::KernelShape, input, *depth), false;
  return ctx.resize(out, sizes, input.rank) && check_rows(ctx, out) && has_data(ctx, input) && has_data(ctx, out);
}

/// The layer of integers, whose results are int8 numbers, or float32 without an `output`.
void static_linear(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& bias,
                   const Tensor& factors, const Output* output, Tensor& out) {
  if (!check_dtype(ctx, input, ScalarType::Char) ||
      !check_dtype(ctx, out, output != nullptr ? ScalarType::Char : ScalarType::Float) ||
      !check_constant(ctx, bias, ScalarType::Int, 1) || !check_constant(ctx, factors, ScalarType::Float, 1) ||
      !check_size(ctx, factors, 0, bias.sizes[0])) {
    return;
  }
  const int64_t columns = bias.sizes[0];
  int64_t rows, depth;
  if (!begin(ctx, input, columns, out, &rows, &depth) || !check_weight(ctx, weight, columns, depth)) return;
  const Results results = {bias.ptr<int32_t>(), factors.ptr<float>(), columns, output, out};
  multiply(ctx, MatrixRows{input.ptr<int8_t>(), rows, depth}, Weights{weight.ptr<int8_t>(), columns, depth},
           StoreResults{results});
}

}  // namespace

void int8_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& bias,
                     const Tensor& factors, int64_t zero_point, int64_t low, int64_t high, Tensor& out) {
  Output output;
  if (!read_output(ctx, zero_point, low, high, arguments::int8_linear_out::zero_point, &output)) return;
  static_linear(ctx, input, weight, bias, factors, &output, out);
}

void int8_float_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& bias,
                           const Tensor& factors, Tensor& out) {
  static_linear(ctx, input, weight, bias, factors, nullptr, out);
}

void int8_dynamic_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& column_sums,
                             const Tensor& scales, const Tensor* bias, Tensor& out) {
  if (!check_dtype(ctx, input, ScalarType::Float) || !check_dtype(ctx, out, ScalarType::Float) ||
      !check_constant(ctx, column_sums, ScalarType::Int, 1) || !check_constant(ctx, scales, ScalarType::Float, 1) ||
      !check_size(ctx, scales, 0, column_sums.sizes[0])) {
    return;
  }
  const int64_t columns = column_sums.sizes[0];
  if (bias != nullptr && (!check_constant(ctx, *bias, ScalarType::Float, 1) || !check_size(ctx, *bias, 0, columns))) {
    return;
  }
  int64_t rows, depth;
  if (!begin(ctx, input, columns, out, &rows, &depth) || !check_weight(ctx, weight, columns, depth)) return;
  if (rows == 0 || columns == 0) return;
  // Rows as integers, with room up to whole fours, and what they were quantized with.
  const int64_t row_bytes = quads_of(depth) * kQuad;
  int8_t* numbers = ctx.temp_array<int8_t>(rows * row_bytes);
  RowScale* row_scales = ctx.temp_array<RowScale>(rows);
  if (numbers == nullptr || row_scales == nullptr) return;
  ctx.parallel_for(rows, 4096 / (depth + 1) + 1, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      row_scales[r] = quantize_row(input.ptr<float>() + r * depth, depth, numbers + r * row_bytes);
      std::memset(numbers + r * row_bytes + depth, 0, static_cast<size_t>(row_bytes - depth));
    }
  });
  const bool vnni = use_vnni();
  const ColumnTerms terms = {column_sums.ptr<int32_t>(), scales.ptr<float>(),
                             bias == nullptr ? nullptr : bias->ptr<float>()};
  float* to = out.ptr<float>();
  multiply(ctx, MatrixRows{numbers, rows, row_bytes}, Weights{weight.ptr<int8_t>(), columns, row_bytes},
           [&](const Block& block) {
             dequantize(vnni, block, row_scales + block.row, terms.from(block.column),
                        to + block.row * columns + block.column, columns);
           });
}

}  // namespace etir
