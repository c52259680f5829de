// The reductions that scatter and index operators name with a string.
#pragma once

#include "kernels/util/lines.h"

namespace etir::lines {

enum class Reduction : uint8_t { None, Sum, Prod, Mean, Amax, Amin };

/// The reduction of a name; None, with the failure recorded, when there is none or the operator does not know it.
inline Reduction reduction_argument(KernelContext& ctx, const StringView& name, int position, bool sum) {
  if (sum && name == "sum") return Reduction::Sum;
  if (name == "prod") return Reduction::Prod;
  if (name == "mean") return Reduction::Mean;
  if (name == "amax") return Reduction::Amax;
  if (name == "amin") return Reduction::Amin;
  ctx.fail(Check::KernelArgument, position);
  return Reduction::None;
}

template <typename T>
inline bool is_nan(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value != value;
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return is_nan(static_cast<float>(value));
  } else {
    return false;
  }
}

/// What a reduction starts from: 0, 1, the least or the greatest value.
template <typename T>
inline T identity_of(Reduction reduction) {
  using L = std::numeric_limits<accumulate_t<T>>;
  const bool max = reduction == Reduction::Amax;
  if (reduction == Reduction::Prod) return convert<T>(1);
  if (!max && reduction != Reduction::Amin) return convert<T>(0);
  if constexpr (L::has_infinity) return T(max ? -L::infinity() : L::infinity());
  if constexpr (!L::has_infinity) return max ? L::lowest() : L::max();
}

/// One step of a reduction (of a mean, its sum). NaNs stay.
template <typename T>
inline T reduce_step(Reduction reduction, T a, T b) {
  switch (reduction) {
    case Reduction::Prod:
      return wrapping_mul(a, b);
    case Reduction::Amax:
      return is_nan(a) || static_cast<accumulate_t<T>>(a) >= static_cast<accumulate_t<T>>(b) ? a : b;
    case Reduction::Amin:
      return is_nan(a) || static_cast<accumulate_t<T>>(a) <= static_cast<accumulate_t<T>>(b) ? a : b;
    default:
      return wrapping_add(a, b);
  }
}

/// A sum of `count` values as their mean: integers round down, as in torch.
template <typename T>
inline T mean_of(T sum, int64_t count) {
  if (count <= 1) return sum;
  if constexpr (std::is_same_v<T, bool>) {
    return sum;
  } else if constexpr (std::is_integral_v<T>) {
    const int64_t value = static_cast<int64_t>(sum);
    const int64_t quotient = value / count;
    return static_cast<T>(quotient - (value % count < 0 ? 1 : 0));
  } else {
    return T(static_cast<accumulate_t<T>>(sum) / static_cast<accumulate_t<T>>(count));
  }
}

}  // namespace etir::lines
