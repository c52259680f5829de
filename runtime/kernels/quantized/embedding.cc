// Rows of a quantized table, dequantized: one, two or four elements in a byte, scales for rows or for groups in them.
#include "kernels/quantized/affine.h"
#include "kernels/quantized/embedding.gen.h"

namespace etir {
namespace {

using namespace quantized;

constexpr DtypeSet kParameterTypes = dtype_bit(ScalarType::Float) | kHalfFloats;

struct Table {
  const Tensor* weight;
  const Tensor* scales;
  const Tensor* zero_points;  ///< may be null
  int bits;
  int64_t rows, dim, groups;
};

/// Element `i` of a packed row, as a number around 0. Two bits: lowest first; four bits: high half first.
inline int unpack(const uint8_t* row, int64_t i, int bits) {
  if (bits == 4) return ((row[i >> 1] >> (i & 1 ? 0 : 4)) & 15) - 8;
  return ((row[i >> 2] >> (2 * (i & 3))) & 3) - 2;
}

float parameter(const Tensor& tensor, int64_t at) {
  float value = 0;
  dispatch<kParameterTypes>(tensor.dtype,
                            [&](auto tag) { value = convert<float>(tensor.ptr<typename decltype(tag)::type>()[at]); });
  return value;
}

/// One row of the result.
void embed(const Table& table, int64_t row, Tensor& out, int64_t at) {
  const int64_t group_size = table.dim / table.groups;
  const int64_t bytes = table.weight->sizes[1];
  const uint8_t* packed = table.weight->ptr<uint8_t>() + row * bytes;
  for (int64_t group = 0; group < table.groups; ++group) {
    const float scale = parameter(*table.scales, row * table.groups + group);
    const float zero = table.zero_points != nullptr ? parameter(*table.zero_points, row * table.groups + group) : 0.0f;
    const int64_t first = group * group_size, last = first + group_size;
    for (int64_t start = first; start < last; start += kBlock) {
      float values[kBlock];
      const int64_t count = min64(kBlock, last - start);
      if (table.bits < 8) {
        for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(unpack(packed, start + i, table.bits));
      } else if (table.weight->dtype == ScalarType::Byte) {
        for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(packed[start + i]);
      } else {
        const int8_t* from = reinterpret_cast<const int8_t*>(packed) + start;
        for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(from[i]);
      }
      for (int64_t i = 0; i < count; ++i) values[i] = (values[i] - zero) * scale;
      dispatch<kParameterTypes>(out.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        T* to = out.ptr<T>() + at + start;
        for (int64_t i = 0; i < count; ++i) to[i] = convert<T>(values[i]);
      });
    }
  }
}

int64_t index_at(const Tensor& indices, int64_t i) {
  return indices.dtype == ScalarType::Int ? indices.ptr<int32_t>()[i] : indices.ptr<int64_t>()[i];
}

/// Scales and zero points: of the table's rows, or of equal groups in them. False: failed.
bool check_parameter(KernelContext& ctx, const Tensor& tensor, const Table& table) {
  if (!contains(kParameterTypes & kSelectedDtypes, tensor.dtype)) {
    ctx.fail(Check::KernelDtype, tensor, static_cast<int64_t>(tensor.dtype));
  } else if (tensor.rank != 1 && tensor.rank != 2) {
    ctx.fail(Check::KernelRank, tensor, tensor.rank);
  } else if (tensor.sizes[0] != table.rows) {
    ctx.fail(Check::KernelShape, tensor, tensor.sizes[0]);
  } else if ((tensor.rank == 2 ? tensor.sizes[1] : 1) != table.groups || table.groups < 1 ||
             table.dim % table.groups != 0) {
    ctx.fail(Check::KernelShape, tensor, table.groups);
  } else if (!plain_order(tensor)) {
    ctx.fail(Check::KernelDimOrder, tensor);
  } else {
    return has_data(ctx, tensor);
  }
  return false;
}

void embedding(KernelContext& ctx, const Tensor& weight, const Tensor& scales, const Tensor* zero_points,
               int64_t quant_min, int64_t quant_max, const Tensor& indices, std::optional<ScalarType> dtype,
               Tensor& out, int bits) {
  using arg = arguments::embedding_byte_out;
  if (weight.dtype != ScalarType::Byte && (bits < 8 || weight.dtype != ScalarType::Char)) {
    return ctx.fail(Check::KernelDtype, weight, static_cast<int64_t>(weight.dtype));
  }
  if (weight.rank != 2) return ctx.fail(Check::KernelRank, weight, weight.rank);
  if (!plain_order(weight)) return ctx.fail(Check::KernelDimOrder, weight);
  Table table{&weight, &scales, zero_points, bits, weight.sizes[0], weight.size(1) * (8 / bits), 1};
  if (scales.rank == 2) table.groups = scales.sizes[1];
  if (!check_parameter(ctx, scales, table)) return;
  if (table.zero_points != nullptr && !check_parameter(ctx, *table.zero_points, table)) return;
  if (bits < 8) {
    const int64_t half = int64_t{1} << (bits - 1);
    if (quant_min != -half) return ctx.fail(Check::KernelArgument, arg::weight_quant_min, quant_min);
    if (quant_max != half - 1) return ctx.fail(Check::KernelArgument, arg::weight_quant_max, quant_max);
  }
  if (indices.dtype != ScalarType::Int && indices.dtype != ScalarType::Long) {
    return ctx.fail(Check::KernelDtype, indices, static_cast<int64_t>(indices.dtype));
  }
  if (!plain_order(indices)) return ctx.fail(Check::KernelDimOrder, indices);
  if (indices.rank + 1 > kMaxRank) return ctx.fail(Check::KernelRank, indices, indices.rank);
  const ScalarType wanted = dtype.value_or(scales.dtype);
  if (out.dtype != wanted || !contains(kParameterTypes & kSelectedDtypes, out.dtype)) {
    return ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  }
  int64_t sizes[kMaxRank];
  for (int d = 0; d < indices.rank; ++d) sizes[d] = indices.sizes[d];
  sizes[indices.rank] = table.dim;
  if (!ctx.resize(out, sizes, indices.rank + 1) || !has_data(ctx, weight) || !has_data(ctx, indices) ||
      !has_data(ctx, out)) {
    return;
  }
  if (!plain_order(out)) return ctx.fail(Check::KernelDimOrder, out);
  const int64_t count = indices.numel();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = index_at(indices, i);
    if (row < 0 || row >= table.rows) return ctx.fail(Check::KernelIndex, row, table.rows);
  }
  if (table.dim == 0) return;
  ctx.parallel_for(count, 4096 / table.dim + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) embed(table, index_at(indices, i), out, i * table.dim);
  });
}

}  // namespace

void embedding_byte_out(KernelContext& ctx, const Tensor& weight, const Tensor& weight_scales,
                        const Tensor* weight_zero_points, int64_t weight_quant_min, int64_t weight_quant_max,
                        const Tensor& indices, Tensor& out) {
  embedding(ctx, weight, weight_scales, weight_zero_points, weight_quant_min, weight_quant_max, indices, std::nullopt,
            out, 8);
}
void embedding_byte_dtype_out(KernelContext& ctx, const Tensor& weight, const Tensor& weight_scales,
                              const Tensor* weight_zero_points, int64_t weight_quant_min, int64_t weight_quant_max,
                              const Tensor& indices, std::optional<ScalarType> dtype, Tensor& out) {
  embedding(ctx, weight, weight_scales, weight_zero_points, weight_quant_min, weight_quant_max, indices, dtype, out, 8);
}
void embedding_4bit_out(KernelContext& ctx, const Tensor& weight, const Tensor& weight_scales,
                        const Tensor* weight_zero_points, int64_t weight_quant_min, int64_t weight_quant_max,
                        const Tensor& indices, Tensor& out) {
  embedding(ctx, weight, weight_scales, weight_zero_points, weight_quant_min, weight_quant_max, indices, std::nullopt,
            out, 4);
}
void embedding_4bit_dtype_out(KernelContext& ctx, const Tensor& weight, const Tensor& weight_scales,
                              const Tensor* weight_zero_points, int64_t weight_quant_min, int64_t weight_quant_max,
                              const Tensor& indices, std::optional<ScalarType> dtype, Tensor& out) {
  embedding(ctx, weight, weight_scales, weight_zero_points, weight_quant_min, weight_quant_max, indices, dtype, out, 4);
}
void embedding_2bit_out(KernelContext& ctx, const Tensor& weight, const Tensor& weight_scales,
                        const Tensor* weight_zero_points, int64_t weight_quant_min, int64_t weight_quant_max,
                        const Tensor& indices, Tensor& out) {
  embedding(ctx, weight, weight_scales, weight_zero_points, weight_quant_min, weight_quant_max, indices, std::nullopt,
            out, 2);
}
void embedding_2bit_dtype_out(KernelContext& ctx, const Tensor& weight, const Tensor& weight_scales,
                              const Tensor* weight_zero_points, int64_t weight_quant_min, int64_t weight_quant_max,
                              const Tensor& indices, std::optional<ScalarType> dtype, Tensor& out) {
  embedding(ctx, weight, weight_scales, weight_zero_points, weight_quant_min, weight_quant_max, indices, dtype, out, 2);
}

}  // namespace etir
