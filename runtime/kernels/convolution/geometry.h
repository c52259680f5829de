// What a convolution reads and writes, without its element type: checked arguments, and the grids it is made of.
//
// A convolution is one or several grids of output positions. On a grid, the input position of output position `o` and
// tap `t` is o * scale + base + t * tap_step in every dim. A plain convolution is one grid. A transposed one is a grid
// for each residue of the output position modulo the stride: on such a grid the taps that meet an input element are
// every so many taps, and no multiplication by an inserted zero remains.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/kernel.h"
#include "kernels/util/checks.h"

namespace etir {

/// Grids have three spatial dims; missing ones have size 1.
constexpr int kSpatial = 3;

struct GridDim {
  int64_t count = 1;  ///< output positions
  int64_t taps = 1;   ///< taps that meet them
  int64_t in_size = 1;
  int64_t scale = 1, base = 0, tap_step = 1;
  int64_t out_first = 0, out_step = 1;        ///< place of the grid in the output
  int64_t weight_first = 0, weight_step = 1;  ///< place of its taps in the kernel

  bool meets(int64_t o, int64_t tap) const {
    const int64_t i = o * scale + base + tap * tap_step;
    return i >= 0 && i < in_size;
  }
};

/// Strides in elements of a tensor [outer, channels, z, y, x]; of a weight, [out, in, z, y, x] however it is stored.
struct Strides {
  int64_t outer = 0, channel = 0, spatial[kSpatial] = {0, 0, 0};
};

inline Strides strides_of(const Tensor& tensor) {
  int64_t strides[kMaxRank] = {};
  tensor.strides(strides);
  Strides result;
  result.outer = strides[0];
  result.channel = strides[1];
  for (int d = 2; d < tensor.rank; ++d) result.spatial[kSpatial - tensor.rank + d] = strides[d];
  return result;
}

/// Arguments of a convolution, checked, in three spatial dims.
struct Shape {
  int spatial = 2;  ///< dims that the tensors have
  int64_t batch = 0, groups = 1;
  int64_t in_channels = 0, out_channels = 0;  ///< channels of each group
  int64_t in[kSpatial] = {1, 1, 1}, out[kSpatial] = {1, 1, 1}, kernel[kSpatial] = {1, 1, 1};
  int64_t stride[kSpatial] = {1, 1, 1}, padding[kSpatial] = {0, 0, 0}, dilation[kSpatial] = {1, 1, 1};
  bool transposed = false;

  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t out_positions() const { return out[0] * out[1] * out[2]; }
  /// The shape whose input and output are exchanged: that of the gradient of the input.
  Shape reversed() const {
    Shape s = *this;
    s.transposed = !transposed;
    std::swap(s.in_channels, s.out_channels);
    std::swap(s.in, s.out);
    return s;
  }
};

/// The arguments that say how a convolution moves, side by side in this order; the first of them is at `position`, and
/// the number of groups `groups_after` after it.
struct Movement {
  const IntList& stride;
  const IntList& padding;
  const IntList& dilation;
  bool transposed;
  const IntList& output_padding;
  int64_t groups;
  int position;
  int groups_after = 5;
};

/// Reads a list with a number for each dim, or one for all, the argument at `position`. Numbers must be in
/// [least, 2^30].
inline bool read_spatial(KernelContext& ctx, const IntList& list, int position, int spatial, int64_t least,
                         int64_t* to) {
  if (list.size() != 1 && list.size() != static_cast<size_t>(spatial)) {
    return ctx.fail(Check::KernelArgument, position, static_cast<int64_t>(list.size())), false;
  }
  for (int d = 0; d < spatial; ++d) {
    const int64_t value = list[list.size() == 1 ? 0 : d];
    if (value < least || value > (int64_t{1} << 30)) return ctx.fail(Check::KernelArgument, position, value), false;
    to[kSpatial - spatial + d] = value;
  }
  return true;
}

/// Checks shapes and movement, and fills `shape`.
inline bool read_shape(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Movement& given,
                       Shape* shape) {
  const int at = given.position;
  if (input.rank < 3 || input.rank > 2 + kSpatial) return ctx.fail(Check::KernelRank, input, input.rank), false;
  if (weight.rank != input.rank) return ctx.fail(Check::KernelRank, weight, weight.rank), false;
  Shape& s = *shape;
  s.spatial = input.rank - 2;
  s.transposed = given.transposed;
  s.groups = given.groups;
  int64_t output_padding[kSpatial] = {0, 0, 0};
  if (!read_spatial(ctx, given.stride, at, s.spatial, 1, s.stride)) return false;
  if (!read_spatial(ctx, given.padding, at + 1, s.spatial, 0, s.padding)) return false;
  if (!read_spatial(ctx, given.dilation, at + 2, s.spatial, 1, s.dilation)) return false;
  if (s.transposed && !read_spatial(ctx, given.output_padding, at + 4, s.spatial, 0, output_padding)) return false;
  const int64_t in = input.sizes[1], w0 = weight.sizes[0], w1 = weight.sizes[1];
  if (s.groups < 1 || s.groups > INT32_MAX || in % s.groups != 0) {
    return ctx.fail(Check::KernelArgument, at + given.groups_after, s.groups), false;
  }
  s.batch = input.sizes[0];
  s.in_channels = in / s.groups;
  if (s.transposed) {
    if (w0 != in) return ctx.fail(Check::KernelShape, weight, w0), false;
    s.out_channels = w1;
  } else {
    if (w1 != s.in_channels) return ctx.fail(Check::KernelShape, weight, w1), false;
    if (w0 % s.groups != 0) return ctx.fail(Check::KernelShape, weight, w0), false;
    s.out_channels = w0 / s.groups;
  }
  for (int d = kSpatial - s.spatial; d < kSpatial; ++d) {
    const int from = d + input.rank - kSpatial;
    s.in[d] = input.sizes[from];
    s.kernel[d] = weight.sizes[from];
    if (s.kernel[d] < 1) return ctx.fail(Check::KernelShape, weight, s.kernel[d]), false;
    const int64_t reach = s.dilation[d] * (s.kernel[d] - 1);
    if (s.transposed) {
      if (output_padding[d] >= std::max(s.stride[d], s.dilation[d])) {
        return ctx.fail(Check::KernelArgument, at + 4, output_padding[d]), false;
      }
      s.out[d] = (s.in[d] - 1) * s.stride[d] - 2 * s.padding[d] + reach + output_padding[d] + 1;
    } else {
      const int64_t room = s.in[d] + 2 * s.padding[d] - reach - 1;
      s.out[d] = room < 0 ? 0 : room / s.stride[d] + 1;
    }
    if (s.out[d] < 1 || s.out[d] > INT32_MAX) return ctx.fail(Check::KernelShape, weight, s.kernel[d]), false;
  }
  return true;
}

/// The sizes of the result as the tensors have them; returns the rank.
inline int result_sizes(const Shape& s, int64_t* sizes) {
  sizes[0] = s.batch;
  sizes[1] = s.out_channels * s.groups;
  for (int d = 0; d < s.spatial; ++d) sizes[2 + d] = s.out[kSpatial - s.spatial + d];
  return 2 + s.spatial;
}

/// One dim of the grid whose first output position is `phase`; `phase` is 0 for a plain convolution, and less than the
/// stride for a transposed one.
inline GridDim grid_dim(const Shape& s, int d, int64_t phase) {
  GridDim g;
  g.in_size = s.in[d];
  if (!s.transposed) {
    g.count = s.out[d], g.taps = s.kernel[d];
    g.scale = s.stride[d], g.base = -s.padding[d], g.tap_step = s.dilation[d];
    return g;
  }
  const int64_t stride = s.stride[d], dilation = s.dilation[d];
  int64_t a = stride, b = dilation;
  while (b != 0) {
    const int64_t rest = a % b;
    a = b, b = rest;
  }
  g.out_first = phase, g.out_step = stride;
  g.count = (s.out[d] - phase + stride - 1) / stride;
  g.weight_step = stride / a;
  g.tap_step = -(dilation / a);
  const int64_t start = phase + s.padding[d];
  int64_t first = 0;
  const int64_t bound = std::min(g.weight_step, s.kernel[d]);
  while (first < bound && (start - first * dilation) % stride != 0) ++first;
  g.taps = first < bound ? (s.kernel[d] - first + g.weight_step - 1) / g.weight_step : 0;
  g.weight_first = first;
  g.base = g.taps > 0 ? (start - first * dilation) / stride : 0;
  return g;
}

/// Calls `body(const GridDim (&)[3])` for the grids of a convolution.
template <typename Body>
void for_each_grid(const Shape& s, const Body& body) {
  const auto phases = [&](int d) { return s.transposed ? std::min(s.stride[d], s.out[d]) : int64_t{1}; };
  for (int64_t z = 0; z < phases(0); ++z) {
    for (int64_t y = 0; y < phases(1); ++y) {
      for (int64_t x = 0; x < phases(2); ++x) {
        const GridDim grid[kSpatial] = {grid_dim(s, 0, z), grid_dim(s, 1, y), grid_dim(s, 2, x)};
        body(grid);
      }
    }
  }
}

}  // namespace etir
