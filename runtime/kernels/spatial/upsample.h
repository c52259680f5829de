// How the results of resizing map to the elements of the image: along each axis, a few neighbors with their weights.
//
// The arithmetic of positions is torch's, in the same precision, because a rounding error in it can select another
// neighbor.
#pragma once

#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/spatial/frame.h"
#include "kernels/util/dispatch.h"

namespace etir::spatial {

enum class Filter { Nearest, NearestExact, Linear, Cubic };

constexpr int kMaxTaps = 4;

/// Rows of results that are worked on together: they share positions and weights, and stay in the cache.
constexpr int64_t kRows = 32;

/// `value` rounded down and clamped to [low, high]; NaN gives low.
template <typename A>
inline int64_t clamped_floor(A value, int64_t low, int64_t high) {
  if (!(value > static_cast<A>(low))) return low;
  if (value >= static_cast<A>(high)) return high;
  return static_cast<int64_t>(std::floor(value));
}

/// Weight of the neighbors of a point between two elements: Keys' cubic with A = -3/4, at distance |x| <= 1 and <= 2.
template <typename A>
inline A cubic_near(A x) {
  return ((A(1.25) * x - A(2.25)) * x) * x + A(1);
}
template <typename A>
inline A cubic_far(A x) {
  return ((A(-0.75) * x + A(3.75)) * x - A(6)) * x + A(3);
}

/// One axis. A is float or double.
template <typename A>
struct Axis {
  int64_t in = 1, out = 1;
  Filter filter = Filter::Nearest;
  bool align_corners = false;
  bool by_sizes = false;  ///< sizes that are equal or double decide for Nearest, whatever the scale (torch, in 2 dims)
  A scale = A(1);

  /// `factor` is how many times larger the result was asked to be; 0 or less when only sizes are known.
  void set(int64_t in_size, int64_t out_size, Filter kind, bool align, double factor) {
    in = in_size;
    out = out_size;
    filter = kind;
    align_corners = align;
    if (align) {
      scale = out > 1 ? static_cast<A>(in - 1) / static_cast<A>(out - 1) : A(0);
    } else {
      scale = factor > 0 ? static_cast<A>(1.0 / factor) : static_cast<A>(in) / static_cast<A>(out);
    }
  }

  /// The element that a nearest filter takes for result `o`.
  int64_t nearest(int64_t o) const {
    const float step = static_cast<float>(scale);
    if (filter == Filter::NearestExact) return clamped_floor((static_cast<float>(o) + 0.5f) * step, 0, in - 1);
    if (by_sizes && in == out) return o;
    if (by_sizes && out == 2 * in) return o >> 1;
    return clamped_floor(static_cast<float>(o) * step, 0, in - 1);
  }

  /// Elements and weights for result `o`; returns how many. An element may come more than once.
  int taps(int64_t o, int64_t* index, A* weight) const {
    if (filter == Filter::Nearest || filter == Filter::NearestExact) {
      index[0] = nearest(o);
      weight[0] = A(1);
      return 1;
    }
    A at = align_corners ? scale * static_cast<A>(o) : scale * (static_cast<A>(o) + A(0.5)) - A(0.5);
    if (filter == Filter::Linear) {
      if (in == out) {
        index[0] = o;
        weight[0] = A(1);
        return 1;
      }
      if (!(at > 0)) at = A(0);
      index[0] = clamped_floor(at, 0, in - 1);
      index[1] = index[0] + (index[0] < in - 1 ? 1 : 0);
      weight[1] = fraction(at, index[0]);
      weight[0] = A(1) - weight[1];
      return 2;
    }
    const int64_t base = clamped_floor(at, -in - 2, in - 1);
    const A x = fraction(at, base);
    weight[0] = cubic_far(x + A(1));
    weight[1] = cubic_near(x);
    weight[2] = cubic_near(A(1) - x);
    weight[3] = cubic_far(A(2) - x);
    for (int t = 0; t < 4; ++t) index[t] = max64(0, min64(base - 1 + t, in - 1));
    return 4;
  }

 private:
  static A fraction(A at, int64_t base) {
    const A x = at - static_cast<A>(base);
    return !(x > 0) ? A(0) : x < A(1) ? x : A(1);
  }
};

/// The sizes that a resizing operator is asked for: numbers, and maybe the factors that they come from, or factors
/// alone. Refers to the operator's arguments: each operator reads its own, and what they have in common is here once.
struct AskedSizes {
  int spatial;
  const IntList* sizes;                                 ///< null: as scale_factors says
  const DoubleList* scale_factors = nullptr;            ///< must not come together with sizes
  int factors_position = -1;                            ///< position of scale_factors among the arguments
  const std::optional<double>* factors[3] = {nullptr};  ///< that come with sizes, if any do

  template <typename... Factors>
  AskedSizes(const IntList& output_size, const Factors&... given)
      : spatial(sizeof...(Factors)), sizes(&output_size), factors{&given...} {}
  AskedSizes(const std::optional<IntList>& output_size, const std::optional<DoubleList>& given, int position)
      : spatial(2),
        sizes(output_size ? &*output_size : nullptr),
        scale_factors(given ? &*given : nullptr),
        factors_position(position) {}
};

/// Where output_size is among the arguments of every resizing operator.
constexpr int kOutputSize = 1;

struct UpsampleSizes {
  int64_t sizes[3];   ///< `spatial` sizes of the result
  double factors[3];  ///< asked for; 0 where unknown
};

inline bool read_upsample(KernelContext& ctx, const AskedSizes& asked, const int64_t* in_sizes, UpsampleSizes* result) {
  const int spatial = asked.spatial;
  const bool has_sizes = asked.sizes != nullptr;
  if (has_sizes == (asked.scale_factors != nullptr)) {
    ctx.fail(Check::KernelArgument, kOutputSize, has_sizes);
    return false;
  }
  const int position = has_sizes ? kOutputSize : asked.factors_position;
  const size_t count = has_sizes ? asked.sizes->size() : asked.scale_factors->size();
  if (count != static_cast<size_t>(spatial)) {
    ctx.fail(Check::KernelArgument, position, static_cast<int64_t>(count));
    return false;
  }
  for (int d = 0; d < spatial; ++d) {
    if (has_sizes) {
      result->sizes[d] = (*asked.sizes)[d];
      result->factors[d] = asked.factors[d] != nullptr ? asked.factors[d]->value_or(0) : 0;
    } else {
      const double factor = (*asked.scale_factors)[d], size = static_cast<double>(in_sizes[d]) * factor;
      result->factors[d] = factor;
      result->sizes[d] = size >= 1 && size <= INT32_MAX ? static_cast<int64_t>(size) : 0;
    }
    if (result->sizes[d] < 1 || result->sizes[d] > INT32_MAX) {
      ctx.fail(Check::KernelArgument, position, result->sizes[d]);
      return false;
    }
  }
  return true;
}

/// Sets up the three axes; absent ones stay of size 1.
template <typename A>
inline void make_axes(int spatial, Filter filter, const UpsampleSizes& sizes, const int64_t* in_sizes, bool align,
                      Axis<A>* axes) {
  for (int d = 0; d < spatial; ++d) {
    Axis<A>& axis = axes[3 - spatial + d];
    axis.set(in_sizes[d], sizes.sizes[d], filter, align, sizes.factors[d]);
    axis.by_sizes = spatial == 2;
  }
}

/// The checks that every resizing operator begins with; gives the result its shape. False: failed.
inline bool begin_upsample(KernelContext& ctx, const Tensor& self, const AskedSizes& asked, Tensor& out,
                           UpsampleSizes* sizes, int64_t* in_sizes) {
  if (!check_frame(ctx, self, asked.spatial, true) || !check_dtype(ctx, out, self.dtype)) return false;
  for (int d = 0; d < asked.spatial; ++d) {
    in_sizes[d] = self.sizes[2 + d];
    if (in_sizes[d] < 1) {
      ctx.fail(Check::KernelShape, self, in_sizes[d]);
      return false;
    }
  }
  return read_upsample(ctx, asked, in_sizes, sizes) && resize_spatial(ctx, out, self, asked.spatial, sizes->sizes) &&
         has_data(ctx, out);
}

}  // namespace etir::spatial
