// Products of floating point tensors with 8-bit weights: mixed_mm (weights k by n, a scale for each of the k rows) and
// mixed_linear (weights n by k, a scale for each row or for each group in it).
//
// Sums are kept in float on the stack.
#include "kernels/quantized/affine.h"
#include "kernels/quantized/mixed.gen.h"

namespace etir {
namespace {

using namespace quantized;

constexpr DtypeSet kTypes = dtype_set(ScalarType::Float, ScalarType::Half, ScalarType::BFloat16);
constexpr int64_t kColumns = 64;

float value_at(const Tensor& tensor, int64_t at) {
  float value = 0;
  dispatch<kTypes>(tensor.dtype,
                   [&](auto tag) { value = convert<float>(tensor.ptr<typename decltype(tag)::type>()[at]); });
  return value;
}

/// Checks dtypes, dim orders and shapes. `inner` is the dim of the weights that is summed over.
bool check(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& out, int inner) {
  if (!contains(kTypes & kSelectedDtypes, input.dtype)) {
    ctx.fail(Check::KernelDtype, input, static_cast<int64_t>(input.dtype));
    return false;
  }
  if (weight.dtype != ScalarType::Char) {
    ctx.fail(Check::KernelDtype, weight, static_cast<int64_t>(weight.dtype));
    return false;
  }
  for (const Tensor* tensor : {&input, &weight}) {
    if (tensor->rank != 2) {
      ctx.fail(Check::KernelRank, *tensor, tensor->rank);
      return false;
    }
    if (!plain_order(*tensor)) {
      ctx.fail(Check::KernelDimOrder, *tensor);
      return false;
    }
  }
  if (input.sizes[1] != weight.sizes[inner]) {
    ctx.fail(Check::KernelShape, weight, weight.sizes[inner]);
    return false;
  }
  if (!contains(kTypes & kSelectedDtypes, out.dtype)) {
    ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
    return false;
  }
  return true;
}

/// Checks scales and zero points for `rows` rows; writes how many groups each row has.
bool check_parameters(KernelContext& ctx, ScalarType dtype, const Tensor& scales, const Tensor* zero_points,
                      int64_t rows, int64_t columns, bool grouped, int64_t* groups) {
  *groups = scales.rank == 2 ? scales.sizes[1] : 1;
  for (const Tensor* tensor : {&scales, zero_points}) {
    if (tensor == nullptr) continue;
    if (tensor->dtype != dtype) {
      ctx.fail(Check::KernelDtypeMismatch, *tensor, static_cast<int64_t>(tensor->dtype));
      return false;
    }
    if (tensor->rank != 1 && (!grouped || tensor->rank != 2)) {
      ctx.fail(Check::KernelRank, *tensor, tensor->rank);
      return false;
    }
    const int64_t own = tensor->rank == 2 ? tensor->sizes[1] : 1;
    if (tensor->sizes[0] != rows || own != *groups || own < 1 || columns % own != 0) {
      ctx.fail(Check::KernelShape, *tensor, tensor->sizes[0]);
      return false;
    }
    if (!plain_order(*tensor)) {
      ctx.fail(Check::KernelDimOrder, *tensor);
      return false;
    }
    if (!has_data(ctx, *tensor)) return false;
  }
  return true;
}

bool begin(KernelContext& ctx, const Tensor& input, const Tensor& weight, Tensor& out, int64_t rows, int64_t columns) {
  const int64_t sizes[2] = {rows, columns};
  if (!ctx.resize(out, sizes, 2)) return false;
  if (!plain_order(out)) {
    ctx.fail(Check::KernelDimOrder, out);
    return false;
  }
  return has_data(ctx, input) && has_data(ctx, weight) && has_data(ctx, out);
}

void store(Tensor& out, int64_t at, const float* values, int64_t n) {
  dispatch<kTypes>(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = out.ptr<T>() + at;
    for (int64_t i = 0; i < n; ++i) to[i] = convert<T>(values[i]);
  });
}

/// Sum of products of `n` elements; eight partial sums.
float dot(const float* __restrict x, const int8_t* __restrict w, int64_t n, float zero_point) {
  constexpr int kLanes = 8;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) sums[k] += x[i + k] * (static_cast<float>(w[i + k]) - zero_point);
  }
  for (; i < n; ++i) sums[0] += x[i] * (static_cast<float>(w[i]) - zero_point);
  float total = 0;
  for (const float sum : sums) total += sum;
  return total;
}

}  // namespace

void mixed_mm_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& weight_scales,
                  const Tensor* weight_zero_points, Tensor& out) {
  if (!check(ctx, input, weight, out, 0)) return;
  const Tensor* const zero_points = weight_zero_points;
  const int64_t m = input.sizes[0], k = input.sizes[1], n = weight.sizes[1];
  int64_t groups;
  if (out.dtype != input.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  if (!check_parameters(ctx, input.dtype, weight_scales, weight_zero_points, k, n, false, &groups) ||
      !begin(ctx, input, weight, out, m, n) || m == 0 || n == 0)
    return;
  const int64_t blocks = (n + kColumns - 1) / kColumns;
  ctx.parallel_for(m * blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t row = task / blocks, column = task % blocks * kColumns;
      const int64_t count = min64(kColumns, n - column);
      float sums[kColumns] = {};
      for (int64_t i = 0; i < k; ++i) {
        const float x = value_at(input, row * k + i) * value_at(weight_scales, i);
        const float zero = zero_points != nullptr ? value_at(*zero_points, i) : 0.0f;
        const int8_t* w = weight.ptr<int8_t>() + i * n + column;
        for (int64_t j = 0; j < count; ++j) sums[j] += x * (static_cast<float>(w[j]) - zero);
      }
      store(out, row * n + column, sums, count);
    }
  });
}

void mixed_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& weight_scales,
                      const Tensor* weight_zero_points, std::optional<ScalarType> dtype, Tensor& out) {
  if (!check(ctx, input, weight, out, 1)) return;
  const Tensor* const zero_points = weight_zero_points;
  const int64_t m = input.sizes[0], k = input.sizes[1], n = weight.sizes[0];
  int64_t groups;
  if (out.dtype != dtype.value_or(input.dtype)) {
    return ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  }
  if (!check_parameters(ctx, input.dtype, weight_scales, weight_zero_points, n, k, true, &groups) ||
      !begin(ctx, input, weight, out, m, n) || m == 0 || n == 0)
    return;
  const int64_t group_size = k / groups;
  const int64_t blocks = (n + kColumns - 1) / kColumns;
  ctx.parallel_for(m * blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t row = task / blocks, column = task % blocks * kColumns;
      const int64_t count = min64(kColumns, n - column);
      float sums[kColumns] = {};
      for (int64_t group = 0; group < groups; ++group) {
        for (int64_t start = 0; start < group_size; start += kBlock) {
          // A piece of the input row as float, for all columns of the block.
          float x[kBlock];
          const int64_t length = min64(kBlock, group_size - start), at = group * group_size + start;
          dispatch<kTypes>(input.dtype, [&](auto tag) {
            const auto* from = input.ptr<typename decltype(tag)::type>() + row * k + at;
            for (int64_t i = 0; i < length; ++i) x[i] = convert<float>(from[i]);
          });
          for (int64_t j = 0; j < count; ++j) {
            const int64_t parameter = (column + j) * groups + group;
            const float zero = zero_points != nullptr ? value_at(*zero_points, parameter) : 0.0f;
            const int8_t* w = weight.ptr<int8_t>() + (column + j) * k + at;
            sums[j] += dot(x, w, length, zero) * value_at(weight_scales, parameter);
          }
        }
      }
      store(out, row * n + column, sums, count);
    }
  });
}

}  // namespace etir
