// What the quantized operators share: reading blocks of elements as float, quantization parameters, and the runs of
// elements that use the same ones.
//
// Elements go through small blocks of float or int32 on the stack, so that the code grows with the number of dtypes and
// not with that of their pairs.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/kernel.h"
#include "kernels/util/checks.h"
#include "kernels/util/dispatch.h"
#include "kernels/util/loops.h"

namespace etir::quantized {

constexpr int64_t kBlock = 128;

/// Quantized types; Bits16 is read and written as UInt16.
constexpr DtypeSet kNarrow = dtype_set(ScalarType::Byte, ScalarType::Char, ScalarType::Short, ScalarType::UInt16);
constexpr DtypeSet kStored = kNarrow | dtype_bit(ScalarType::Int);

inline ScalarType stored_as(ScalarType type) { return type == ScalarType::Bits16 ? ScalarType::UInt16 : type; }

inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

/// Whether elements lie in row-major order, whatever the dim order says of dims of size 1.
inline bool plain_order(const Tensor& tensor) {
  int64_t strides[kMaxRank], expected = 1;
  tensor.strides(strides);
  for (int d = tensor.rank - 1; d >= 0; --d) {
    if (tensor.sizes[d] > 1 && strides[d] != expected) return false;
    expected *= tensor.sizes[d] > 0 ? tensor.sizes[d] : 1;
  }
  return true;
}
/// Whether two tensors of one shape have their elements in the same order.
inline bool same_order(const Tensor& a, const Tensor& b) {
  return same_dim_order(a, b) || (plain_order(a) && plain_order(b));
}

/// Smallest and largest value of a quantized type.
inline bool bounds_of(ScalarType type, int64_t* low, int64_t* high) {
  switch (type) {
    case ScalarType::Byte:
      return *low = 0, *high = UINT8_MAX, true;
    case ScalarType::Char:
      return *low = INT8_MIN, *high = INT8_MAX, true;
    case ScalarType::Short:
      return *low = INT16_MIN, *high = INT16_MAX, true;
    case ScalarType::UInt16:
    case ScalarType::Bits16:
      return *low = 0, *high = UINT16_MAX, true;
    case ScalarType::Int:
      return *low = INT32_MIN, *high = INT32_MAX, true;
    default:
      return false;
  }
}

/// Checks quant_min and quant_max, the arguments at `position` and after it, for a type. False: failed.
inline bool check_range(KernelContext& ctx, int64_t low, int64_t high, int position, ScalarType type) {
  int64_t least, most;
  if (!bounds_of(type, &least, &most) || low < least || low > high) {
    ctx.fail(Check::KernelArgument, position, low);
    return false;
  }
  if (high > most) {
    ctx.fail(Check::KernelArgument, position + 1, high);
    return false;
  }
  return true;
}

/// Elements in memory order are `outer` times `channels` times `inner`; each channel has parameters of its own.
struct Runs {
  int64_t outer = 1, channels = 1, inner = 1;
  int64_t rows() const { return outer * channels; }
};

/// Runs for parameters along `axis`.
inline Runs runs_along(const Tensor& tensor, int axis) {
  Runs runs;
  bool before = true;
  for (int position = 0; position < tensor.rank; ++position) {
    const int dim = tensor.order(position);
    if (dim == axis) {
      runs.channels = tensor.sizes[dim];
      before = false;
    } else if (before) {
      runs.outer *= tensor.sizes[dim];
    } else {
      runs.inner *= tensor.sizes[dim];
    }
  }
  return runs;
}
/// Runs for parameters of each row of the last dim.
inline Runs runs_of_rows(const Tensor& tensor) {
  Runs runs;
  runs.inner = tensor.rank > 0 ? tensor.sizes[tensor.rank - 1] : 1;
  for (int d = 0; d + 1 < tensor.rank; ++d) runs.channels *= tensor.sizes[d];
  return runs;
}

/// Where scales and zero points come from: numbers, or tensors with one element for each channel.
struct Parameters {
  double scale = 1;
  int64_t zero_point = 0;
  const Tensor* scales = nullptr;
  const Tensor* zero_points = nullptr;

  double scale_at(int64_t channel) const {
    double value = scale;
    if (scales != nullptr) {
      dispatch<kFloats>(scales->dtype, [&](auto tag) {
        value = convert<double>(scales->ptr<typename decltype(tag)::type>()[channel]);
      });
    }
    return value;
  }
  int64_t zero_point_at(int64_t channel) const {
    int64_t value = zero_point;
    if (zero_points != nullptr) {
      dispatch<kInts>(zero_points->dtype, [&](auto tag) {
        value = static_cast<int64_t>(zero_points->ptr<typename decltype(tag)::type>()[channel]);
      });
    }
    return value;
  }
};

/// Checks parameters that are tensors of `count` elements; the zero points may be absent. False: failed.
inline bool read_parameters(KernelContext& ctx, const Tensor& scales, const Tensor* zero_points, int64_t count,
                            Parameters* parameters) {
  parameters->scales = &scales;
  parameters->zero_points = zero_points;
  for (int i = 0; i < 2; ++i) {
    const Tensor* tensor = i == 0 ? parameters->scales : parameters->zero_points;
    if (tensor == nullptr) continue;
    if (!contains((i == 0 ? kFloats : kInts) & kSelectedDtypes, tensor->dtype)) {
      ctx.fail(Check::KernelDtype, *tensor, static_cast<int64_t>(tensor->dtype));
      return false;
    }
    if (tensor->numel() != count) {
      ctx.fail(Check::KernelShape, *tensor, tensor->numel());
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

/// Checks that every zero point, the argument at `position`, fits 32 bits, so that arithmetic on them cannot overflow.
/// False: failed.
inline bool check_zero_points(KernelContext& ctx, int position, const Parameters& parameters, int64_t channels) {
  if (parameters.zero_points == nullptr) channels = 1;
  for (int64_t c = 0; c < channels; ++c) {
    const int64_t value = parameters.zero_point_at(c);
    if (value < INT32_MIN || value > INT32_MAX) {
      ctx.fail(Check::KernelArgument, position, value);
      return false;
    }
  }
  return true;
}

}  // namespace etir::quantized
