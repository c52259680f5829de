// How the results of resizing map to the elements of the image: along each axis, a few neighbours with their weights.
//
// The arithmetic of positions is torch's, in the same precision, because a rounding error in it can select another
// neighbour.
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

/// Weight of the neighbours of a point between two elements: Keys' cubic with A = -3/4, at distance |x| <= 1 and <= 2.
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

/// Where the arguments of a resizing operator are; -1 for those that it does not have.
struct UpsampleArgs {
  int spatial;
  Filter filter;
  int align;   ///< align_corners
  int scales;  ///< the first of `spatial` optional floats, or a list of floats when `vec`
  bool vec;    ///< sizes are optional, scales come as a list
  int result;
};

struct UpsampleSizes {
  int64_t sizes[3];   ///< of the result, `spatial` of them
  double factors[3];  ///< asked for; 0 where unknown
};

inline bool read_upsample(KernelContext& ctx, const UpsampleArgs& args, int size_arg, const int64_t* in_sizes,
                          UpsampleSizes* result) {
  const int spatial = args.spatial;
  const bool has_sizes = ctx.has(size_arg);
  if (args.vec && has_sizes == ctx.has(args.scales)) {
    ctx.fail(Check::KernelArgument, size_arg, has_sizes);
    return false;
  }
  if (has_sizes) {
    const IntList list = ctx.int_list(size_arg);
    if (list.size() != static_cast<size_t>(spatial)) {
      ctx.fail(Check::KernelArgument, size_arg, static_cast<int64_t>(list.size()));
      return false;
    }
    for (int d = 0; d < spatial; ++d) {
      result->sizes[d] = list[d];
      result->factors[d] = args.vec ? 0 : ctx.real_or(args.scales + d, 0);
    }
  } else {
    const DoubleList list = ctx.double_list(args.scales);
    if (list.size() != static_cast<size_t>(spatial)) {
      ctx.fail(Check::KernelArgument, args.scales, static_cast<int64_t>(list.size()));
      return false;
    }
    for (int d = 0; d < spatial; ++d) {
      const double size = static_cast<double>(in_sizes[d]) * list[d];
      result->factors[d] = list[d];
      result->sizes[d] = size >= 1 && size <= INT32_MAX ? static_cast<int64_t>(size) : 0;
    }
  }
  for (int d = 0; d < spatial; ++d) {
    if (result->sizes[d] < 1 || result->sizes[d] > INT32_MAX) {
      ctx.fail(Check::KernelArgument, has_sizes ? size_arg : args.scales, result->sizes[d]);
      return false;
    }
  }
  return true;
}

/// Sets up the three axes; absent ones stay of size 1.
template <typename A>
inline void make_axes(const UpsampleArgs& args, const UpsampleSizes& sizes, const int64_t* in_sizes, bool align,
                      Axis<A>* axes) {
  for (int d = 0; d < args.spatial; ++d) {
    Axis<A>& axis = axes[3 - args.spatial + d];
    axis.set(in_sizes[d], sizes.sizes[d], args.filter, align, sizes.factors[d]);
    axis.by_sizes = args.spatial == 2;
  }
}

/// The checks that every resizing operator begins with; gives the result its shape. False: failed.
inline bool begin_upsample(KernelContext& ctx, const UpsampleArgs& args, UpsampleSizes* sizes, int64_t* in_sizes) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(args.result);
  if (!check_frame(ctx, 0, self, args.spatial, true) || !check_dtype(ctx, args.result, out, self.dtype)) return false;
  for (int d = 0; d < args.spatial; ++d) {
    in_sizes[d] = self.sizes[2 + d];
    if (in_sizes[d] < 1) {
      ctx.fail(Check::KernelShape, 0, in_sizes[d]);
      return false;
    }
  }
  return read_upsample(ctx, args, 1, in_sizes, sizes) && resize_spatial(ctx, out, self, args.spatial, sizes->sizes) &&
         check_data(ctx, args.result, out);
}

}  // namespace etir::spatial
