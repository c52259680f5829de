// Products of floating point tensors with 8-bit weights: mixed_mm (weights k by n, a scale for each of the k rows) and
// mixed_linear (weights n by k, a scale for each row or for each group in it).
//
// Sums are kept in float on the stack.
#include "kernels/quantized/affine.h"

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
bool check(KernelContext& ctx, int out_arg, int inner) {
  const Tensor& input = ctx.tensor(0);
  const Tensor& weight = ctx.tensor(1);
  const Tensor& out = ctx.tensor(out_arg);
  if (!contains(kTypes & kSelectedDtypes, input.dtype)) {
    ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(input.dtype));
    return false;
  }
  if (weight.dtype != ScalarType::Char) {
    ctx.fail(Check::KernelDtype, 1, static_cast<int64_t>(weight.dtype));
    return false;
  }
  for (int i = 0; i < 2; ++i) {
    if (ctx.tensor(i).rank != 2) {
      ctx.fail(Check::KernelRank, i, ctx.tensor(i).rank);
      return false;
    }
    if (!plain_order(ctx.tensor(i))) {
      ctx.fail(Check::KernelDimOrder, i);
      return false;
    }
  }
  if (input.sizes[1] != weight.sizes[inner]) {
    ctx.fail(Check::KernelShape, 1, weight.sizes[inner]);
    return false;
  }
  if (!contains(kTypes & kSelectedDtypes, out.dtype)) {
    ctx.fail(Check::KernelDtype, out_arg, static_cast<int64_t>(out.dtype));
    return false;
  }
  return true;
}

/// Checks scales and zero points (arguments 2 and 3) for `rows` rows; writes how many groups each row has.
bool check_parameters(KernelContext& ctx, int64_t rows, int64_t columns, bool grouped, int64_t* groups) {
  const Tensor& scales = ctx.tensor(2);
  *groups = scales.rank == 2 ? scales.sizes[1] : 1;
  for (int arg = 2; arg < 4; ++arg) {
    const Tensor* tensor = ctx.optional_tensor(arg);
    if (tensor == nullptr) continue;
    if (tensor->dtype != ctx.tensor(0).dtype) {
      ctx.fail(Check::KernelDtypeMismatch, arg, static_cast<int64_t>(tensor->dtype));
      return false;
    }
    if (tensor->rank != 1 && (!grouped || tensor->rank != 2)) {
      ctx.fail(Check::KernelRank, arg, tensor->rank);
      return false;
    }
    const int64_t own = tensor->rank == 2 ? tensor->sizes[1] : 1;
    if (tensor->sizes[0] != rows || own != *groups || own < 1 || columns % own != 0) {
      ctx.fail(Check::KernelShape, arg, tensor->sizes[0]);
      return false;
    }
    if (!plain_order(*tensor)) {
      ctx.fail(Check::KernelDimOrder, arg);
      return false;
    }
    if (!check_data(ctx, arg, *tensor)) return false;
  }
  return true;
}

bool begin(KernelContext& ctx, int out_arg, int64_t rows, int64_t columns) {
  Tensor& out = ctx.tensor(out_arg);
  const int64_t sizes[2] = {rows, columns};
  if (!ctx.resize(out, sizes, 2)) return false;
  if (!plain_order(out)) {
    ctx.fail(Check::KernelDimOrder, out_arg);
    return false;
  }
  return check_data(ctx, 0, ctx.tensor(0)) && check_data(ctx, 1, ctx.tensor(1)) && check_data(ctx, out_arg, out);
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

void mixed_mm_out(KernelContext& ctx) {
  if (!check(ctx, 4, 0)) return;
  const Tensor& input = ctx.tensor(0);
  const Tensor& weight = ctx.tensor(1);
  const Tensor& scales = ctx.tensor(2);
  const Tensor* zero_points = ctx.optional_tensor(3);
  Tensor& out = ctx.tensor(4);
  const int64_t m = input.sizes[0], k = input.sizes[1], n = weight.sizes[1];
  int64_t groups;
  if (out.dtype != input.dtype) return ctx.fail(Check::KernelDtypeMismatch, 4, static_cast<int64_t>(out.dtype));
  if (!check_parameters(ctx, k, n, false, &groups) || !begin(ctx, 4, m, n) || m == 0 || n == 0) return;
  const int64_t blocks = (n + kColumns - 1) / kColumns;
  ctx.parallel_for(m * blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t row = task / blocks, column = task % blocks * kColumns;
      const int64_t count = min64(kColumns, n - column);
      float sums[kColumns] = {};
      for (int64_t i = 0; i < k; ++i) {
        const float x = value_at(input, row * k + i) * value_at(scales, i);
        const float zero = zero_points != nullptr ? value_at(*zero_points, i) : 0.0f;
        const int8_t* w = weight.ptr<int8_t>() + i * n + column;
        for (int64_t j = 0; j < count; ++j) sums[j] += x * (static_cast<float>(w[j]) - zero);
      }
      store(out, row * n + column, sums, count);
    }
  });
}

void mixed_linear_out(KernelContext& ctx) {
  if (!check(ctx, 5, 1)) return;
  const Tensor& input = ctx.tensor(0);
  const Tensor& weight = ctx.tensor(1);
  const Tensor& scales = ctx.tensor(2);
  const Tensor* zero_points = ctx.optional_tensor(3);
  Tensor& out = ctx.tensor(5);
  const int64_t m = input.sizes[0], k = input.sizes[1], n = weight.sizes[0];
  int64_t groups;
  if (out.dtype != ctx.dtype_or(4, input.dtype)) {
    return ctx.fail(Check::KernelDtypeMismatch, 5, static_cast<int64_t>(out.dtype));
  }
  if (!check_parameters(ctx, n, k, true, &groups) || !begin(ctx, 5, m, n) || m == 0 || n == 0) return;
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
            sums[j] += dot(x, w, length, zero) * value_at(scales, parameter);
          }
        }
      }
      store(out, row * n + column, sums, count);
    }
  });
}

}  // namespace etir
