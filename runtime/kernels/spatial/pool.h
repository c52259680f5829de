// Windows of pooling: their arguments, where they lie, and the loops over them.
//
// Work is done on lanes: up to kLanes results at once, which are either neighbors in a row or channels of one position
// (channels_last). For each tap of the window the lanes take their elements in one counted loop, which vectorizes; the
// bounds of the image become bounds of that loop.
#pragma once

#include "kernels/spatial/frame.h"

namespace etir::spatial {

struct PoolAxis {
  int64_t in, out, kernel, stride, pad, dilation;

  /// Taps [first, last) of the window of result `o` that lie inside the image.
  void taps(int64_t o, int64_t* first, int64_t* last) const {
    const int64_t start = o * stride - pad;
    *first = start >= 0 ? 0 : ceil_div(-start, dilation);
    *last = min64(kernel, floor_div(in - 1 - start, dilation) + 1);
  }
};

struct Pool {
  int spatial;
  PoolAxis axis[3];  ///< depth, height, width; absent ones are all 1
};

/// Reads a list of 1 or `spatial` numbers in [low, 2^31) into `to[3 - spatial ..]`. An empty list keeps what is there.
/// The list is the argument at `position`.
inline bool read_axes(KernelContext& ctx, const IntList& list, int position, int spatial, int64_t low,
                      bool may_be_empty, int64_t* to) {
  if (list.empty() && may_be_empty) return true;
  if (list.size() != 1 && list.size() != static_cast<size_t>(spatial)) {
    ctx.fail(Check::KernelArgument, position, static_cast<int64_t>(list.size()));
    return false;
  }
  for (int d = 0; d < spatial; ++d) {
    const int64_t value = list[list.size() == 1 ? 0 : d];
    if (value < low || value > INT32_MAX) {
      ctx.fail(Check::KernelArgument, position, value);
      return false;
    }
    to[3 - spatial + d] = value;
  }
  return true;
}

/// The arguments of pooling operators, side by side in this order; the first of them is at `position`.
struct PoolArguments {
  const IntList& kernel_size;
  const IntList& stride;
  const IntList& padding;
  const IntList* dilation;  ///< null for operators without
  bool ceil_mode;
  int position;
};

/// Reads the arguments of pooling and computes the result's sizes.
inline bool read_pool(KernelContext& ctx, const Tensor& in, int spatial, const PoolArguments& given, Pool* pool) {
  const int at = given.position;
  const bool ceil_mode = given.ceil_mode;
  int64_t kernel[3] = {1, 1, 1}, pad[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};
  if (!read_axes(ctx, given.kernel_size, at, spatial, 1, false, kernel)) return false;
  int64_t stride[3] = {kernel[0], kernel[1], kernel[2]};
  if (!read_axes(ctx, given.stride, at + 1, spatial, 1, true, stride)) return false;
  if (!read_axes(ctx, given.padding, at + 2, spatial, 0, false, pad)) return false;
  if (given.dilation != nullptr && !read_axes(ctx, *given.dilation, at + 3, spatial, 1, false, dilation)) return false;
  pool->spatial = spatial;
  const Frame frame = frame_of(in, spatial);
  for (int d = 0; d < 3; ++d) {
    PoolAxis& axis = pool->axis[d];
    axis = PoolAxis{frame.size[kD + d], 0, kernel[d], stride[d], pad[d], dilation[d]};
    const int64_t extent = dilation[d] * (kernel[d] - 1) + 1;
    if (2 * pad[d] > extent) {
      ctx.fail(Check::KernelArgument, at + 2, pad[d]);
      return false;
    }
    const int64_t span = axis.in + 2 * pad[d] - extent;
    axis.out = floor_div(span + (ceil_mode ? stride[d] - 1 : 0), stride[d]) + 1;
    if (ceil_mode && (axis.out - 1) * stride[d] >= axis.in + pad[d]) --axis.out;
    if (axis.in < 1 || axis.out < 1) {
      ctx.fail(Check::KernelShape, in, axis.in);
      return false;
    }
  }
  // Positions in an image are kept in 32 bits.
  if (frame.size[kD] * frame.size[kH] > INT32_MAX || frame.size[kD] * frame.size[kH] * frame.size[kW] > INT32_MAX) {
    ctx.fail(Check::KernelShape, in, frame.size[kD]);
    return false;
  }
  return true;
}

/// The result's sizes.
inline void pool_sizes(const Pool& pool, int64_t* sizes) {
  for (int d = 0; d < pool.spatial; ++d) sizes[d] = pool.axis[3 - pool.spatial + d].out;
}

/// Results that are computed at once: `count` of them, from position `at` on (n, c, d, h, w in the result's frame).
struct Block {
  int64_t at[5];
  int64_t count;
  bool channels;     ///< lanes are channels, else neighbors in a row
  int64_t step_out;  ///< elements from lane to lane in the result
};

/// Calls `tap(lane, count, offset, step, index, index_step)` for every tap of the windows of a block: lanes
/// [lane, lane + count) take the elements at `offset + i * step`, which are number `index + i * index_step` of their
/// image.
template <typename Tap>
inline void walk_taps(const Pool& pool, const Frame& in, const Block& block, const Tap& tap) {
  const PoolAxis& depth = pool.axis[0];
  const PoolAxis& height = pool.axis[1];
  const PoolAxis& width = pool.axis[2];
  int64_t d0, d1, h0, h1, w0, w1;
  depth.taps(block.at[kD], &d0, &d1);
  height.taps(block.at[kH], &h0, &h1);
  const int64_t first = block.at[kW], last = block.channels ? first + 1 : first + block.count;
  {
    // Taps that are inside the image for any lane.
    int64_t unused;
    width.taps(last - 1, &w0, &unused);
    width.taps(first, &unused, &w1);
  }
  const int64_t plane = in.plane(block.at[kN], block.at[kC]);
  for (int64_t kd = d0; kd < d1; ++kd) {
    const int64_t id = block.at[kD] * depth.stride - depth.pad + kd * depth.dilation;
    for (int64_t kh = h0; kh < h1; ++kh) {
      const int64_t ih = block.at[kH] * height.stride - height.pad + kh * height.dilation;
      const int64_t row = plane + id * in.stride[kD] + ih * in.stride[kH];
      const int64_t row_index = (id * in.size[kH] + ih) * in.size[kW];
      for (int64_t kw = w0; kw < w1; ++kw) {
        const int64_t shift = kw * width.dilation - width.pad;
        if (block.channels) {
          const int64_t iw = first * width.stride + shift;
          tap(int64_t{0}, block.count, row + iw * in.stride[kW], in.stride[kC], row_index + iw, int64_t{0});
          continue;
        }
        const int64_t from = max64(first, ceil_div(-shift, width.stride));
        const int64_t to = min64(last, floor_div(in.size[kW] - 1 - shift, width.stride) + 1);
        if (from >= to) continue;
        const int64_t iw = from * width.stride + shift;
        tap(from - first, to - from, row + iw * in.stride[kW], width.stride * in.stride[kW], row_index + iw,
            width.stride);
      }
    }
  }
}

/// Calls `body(block, offset in out)` for all blocks of results, perhaps on several threads.
template <typename Body>
inline void for_blocks(KernelContext& ctx, const Pool& pool, const Frame& in, const Frame& out, const Body& body) {
  const bool channels = channels_inside(in, out);
  // Where windows are further apart than the image is wide, blocks of rows would walk taps in vain.
  const int64_t lanes = !channels && pool.axis[2].stride > in.size[kW] ? 1 : kLanes;
  const int64_t row_sizes[4] = {out.size[kN], channels ? out.size[kD] : out.size[kC],
                                channels ? out.size[kH] : out.size[kD], channels ? out.size[kW] : out.size[kH]};
  const int64_t length = channels ? out.size[kC] : out.size[kW];
  const int64_t rows = row_sizes[0] * row_sizes[1] * row_sizes[2] * row_sizes[3];
  const int64_t grain = max64(1, 4096 / max64(1, length));
  ctx.parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t index[4];
      unravel(row, row_sizes, 4, index);
      for (int64_t start = 0; start < length; start += lanes) {
        Block block;
        block.channels = channels;
        block.count = min64(lanes, length - start);
        block.step_out = channels ? 1 : out.stride[kW];
        block.at[kN] = index[0];
        block.at[kC] = channels ? start : index[1];
        block.at[kD] = channels ? index[1] : index[2];
        block.at[kH] = channels ? index[2] : index[3];
        block.at[kW] = channels ? index[3] : start;
        int64_t offset = 0;
        for (int d = 0; d < 5; ++d) offset += block.at[d] * out.stride[d];
        body(block, offset);
      }
    }
  });
}

}  // namespace etir::spatial
