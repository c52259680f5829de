// Depthwise convolutions (one input channel in each group), computed directly.
//
// Rows of a plane are vectorized along x: a block of outputs is kept in registers while the taps go by. The input is
// copied, a band of rows at a time, into a buffer with its padding, so that it has no border; rows that are too long
// for that are read where they are. Channels-last images are vectorized along the channels.
#pragma once

#include "kernels/convolution/geometry.h"
#include "kernels/util/compute.h"
#include "kernels/util/gemm.h"

namespace etir {

/// One plane of a depthwise convolution: rows of input, weights of one output channel, rows of output.
template <typename C>
struct DepthwisePlane {
  GridDim grid[kSpatial];
  const C* input;
  int64_t in_z, in_y;  ///< strides; elements of a row are neighbors
  const C* weight;
  int64_t w_z, w_y, w_x;
  C bias;

  static constexpr int kLanes = Vector<C>::kLanes;

  /// Taps of dim d that meet position `o`: they are neighbors, as positions grow with taps.
  void range(int d, int64_t o, int64_t* begin, int64_t* end) const {
    const GridDim& g = grid[d];
    const int64_t first = o * g.scale + g.base;
    *begin = first < 0 ? std::min(g.taps, (-first + g.tap_step - 1) / g.tap_step) : 0;
    *end = first >= g.in_size ? 0 : std::min(g.taps, (g.in_size - 1 - first) / g.tap_step + 1);
  }

  C point(int64_t z, int64_t y, int64_t x) const {
    int64_t begin[kSpatial], end[kSpatial];
    range(0, z, &begin[0], &end[0]);
    range(1, y, &begin[1], &end[1]);
    range(2, x, &begin[2], &end[2]);
    C sum = bias;
    for (int64_t tz = begin[0]; tz < end[0]; ++tz) {
      for (int64_t ty = begin[1]; ty < end[1]; ++ty) {
        const C* row = row_of(z, tz, y, ty);
        const C* w = weight + tz * w_z + ty * w_y;
        for (int64_t tx = begin[2]; tx < end[2]; ++tx) {
          sum += w[tx * w_x] * row[x * grid[2].scale + grid[2].base + tx * grid[2].tap_step];
        }
      }
    }
    return sum;
  }
  const C* row_of(int64_t z, int64_t tz, int64_t y, int64_t ty) const {
    return input + (z * grid[0].scale + grid[0].base + tz * grid[0].tap_step) * in_z +
           (y * grid[1].scale + grid[1].base + ty * grid[1].tap_step) * in_y;
  }

  /// kVectors vectors of outputs from x on, for all of which every tap of the row is inside. kScale is 1 or 2.
  template <int kVectors, int kScale>
  inline void block(int64_t z, int64_t y, const int64_t* begin, const int64_t* end, int64_t x, C* to) const {
    using V = typename Vector<C>::type;
    V acc[kVectors];
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) acc[v] = V{} + bias;
    for (int64_t tz = begin[0]; tz < end[0]; ++tz) {
      for (int64_t ty = begin[1]; ty < end[1]; ++ty) {
        const C* from = row_of(z, tz, y, ty) + x * kScale + grid[2].base;
        const C* w = weight + tz * w_z + ty * w_y;
        for (int64_t tx = 0; tx < grid[2].taps; ++tx, from += grid[2].tap_step) {
          const C factor = w[tx * w_x];
          ETIR_UNROLL
          for (int v = 0; v < kVectors; ++v) {
            if constexpr (kScale == 1) {
              acc[v] += factor * load_vector<C>(from + v * kLanes);
            } else {
              acc[v] += factor * load_every_second<C>(from + 2 * v * kLanes);
            }
          }
        }
      }
    }
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) store_vector<C>(to + v * kLanes, acc[v]);
  }

  template <int kScale>
  void interior(int64_t z, int64_t y, const int64_t* begin, const int64_t* end, int64_t x, int64_t stop, C* to) const {
    for (; x + 4 * kLanes <= stop; x += 4 * kLanes) block<4, kScale>(z, y, begin, end, x, to + x);
    for (; x < stop; x += kLanes) {
      // The last vector overlaps the one before it.
      x = std::min<int64_t>(x, stop - kLanes);
      block<1, kScale>(z, y, begin, end, x, to + x);
    }
  }

  void row(int64_t z, int64_t y, C* to) const {
    const GridDim& g = grid[2];
    int64_t low = std::min(g.count, g.base < 0 ? (-g.base + g.scale - 1) / g.scale : 0);
    const int64_t room = g.in_size - 1 - g.base - (g.taps - 1) * g.tap_step;
    int64_t high = room < 0 ? 0 : std::min(g.count, room / g.scale + 1);
    if (kLanes == 1 || g.scale > 2 || high - low < kLanes) low = high = g.count;
    for (int64_t x = 0; x < low; ++x) to[x] = point(z, y, x);
    if (low < high) {
      int64_t begin[2], end[2];
      range(0, z, &begin[0], &end[0]);
      range(1, y, &begin[1], &end[1]);
      if (g.scale == 1) {
        interior<1>(z, y, begin, end, low, high, to);
      } else {
        interior<2>(z, y, begin, end, low, high, to);
      }
    }
    for (int64_t x = high; x < g.count; ++x) to[x] = point(z, y, x);
  }

  /// Two rows of outputs of three by three taps, all of which are inside and neighbors: four rows of input.
  void rows_of_3x3(const C* from, int64_t width, int64_t count, C* first, C* second) const {
    using V = typename Vector<C>::type;
    V w[3][3];
    ETIR_UNROLL
    for (int ty = 0; ty < 3; ++ty) {
      ETIR_UNROLL
      for (int tx = 0; tx < 3; ++tx) w[ty][tx] = V{} + weight[ty * w_y + tx * w_x];
    }
    for (int64_t x = 0; x < count; x += kLanes) {
      x = std::min<int64_t>(x, count - kLanes);
      V acc[2] = {V{} + bias, V{} + bias};
      ETIR_UNROLL
      for (int row = 0; row < 4; ++row) {
        ETIR_UNROLL
        for (int tx = 0; tx < 3; ++tx) {
          const V value = load_vector<C>(from + row * width + x + tx);
          if (row < 3) acc[0] += w[row][tx] * value;
          if (row > 0) acc[1] += w[row - 1][tx] * value;
        }
      }
      store_vector<C>(first + x, acc[0]);
      store_vector<C>(second + x, acc[1]);
    }
  }

  /// One row of outputs, where reading beyond its end does no harm.
  template <int kScale>
  void whole_row(int64_t y, const int64_t* begin, const int64_t* end, C* to) const {
    const int64_t count = grid[2].count;
    int64_t x = 0;
    for (; x + 4 * kLanes <= count; x += 4 * kLanes) block<4, kScale>(0, y, begin, end, x, to + x);
    if (x + 2 * kLanes <= count) {
      block<2, kScale>(0, y, begin, end, x, to + x);
      x += 2 * kLanes;
    }
    for (; x + kLanes <= count; x += kLanes) block<1, kScale>(0, y, begin, end, x, to + x);
    if (x == count) return;
    C last[kLanes];
    block<1, kScale>(0, y, begin, end, x, last);
    std::memcpy(to + x, last, static_cast<size_t>(count - x) * sizeof(C));
  }

  /// Computes the plane from bands of rows that are copied, with their padding, into `buffer`. False when its rows are
  /// too long.
  bool padded(C* buffer, int64_t room, C* out, int64_t out_y) const {
    const GridDim &gy = grid[1], &gx = grid[2];
    if (kLanes == 1 || grid[0].count != 1 || grid[0].taps != 1 || grid[0].base != 0 || gx.scale > 2) return false;
    if (gx.count > room || gy.scale > room || (gy.taps - 1) * gy.tap_step >= room ||
        (gx.taps - 1) * gx.tap_step > room) {
      return false;
    }
    const int64_t reach = (gy.taps - 1) * gy.tap_step;
    const int64_t width = (gx.count + kLanes) * gx.scale + (gx.taps - 1) * gx.tap_step;
    if ((reach + 1) * width > room) return false;
    const int64_t band = (room / width - reach - 1) / gy.scale + 1;
    const bool is_3x3 = gy.taps == 3 && gx.taps == 3 && gy.scale == 1 && gx.scale == 1 && gy.tap_step == 1 &&
                        gx.tap_step == 1 && gx.count >= kLanes;
    DepthwisePlane plane = *this;
    plane.input = buffer;
    plane.in_y = width, plane.in_z = 0;
    plane.grid[1].base = plane.grid[2].base = 0;
    const int64_t begin[2] = {0, 0}, end[2] = {1, gy.taps};
    for (int64_t first = 0; first < gy.count; first += band, out += band * out_y) {
      const int64_t rows = std::min(band, gy.count - first);
      fill_band(buffer, width, first * gy.scale + gy.base, (rows - 1) * gy.scale + reach + 1);
      int64_t y = 0;
      for (; is_3x3 && y + 2 <= rows; y += 2) {
        plane.rows_of_3x3(buffer + y * width, width, gx.count, out + y * out_y, out + (y + 1) * out_y);
      }
      for (; y < rows; ++y) {
        if (gx.scale == 1) {
          plane.template whole_row<1>(y, begin, end, out + y * out_y);
        } else {
          plane.template whole_row<2>(y, begin, end, out + y * out_y);
        }
      }
    }
    return true;
  }

  /// Rows of input from row `y` on, which may lie outside, with zeros around them.
  void fill_band(C* to, int64_t width, int64_t y, int64_t rows) const {
    const int64_t left = std::min(width, -grid[2].base), count = std::min(grid[2].in_size, width - left);
    for (const int64_t stop = y + rows; y < stop; ++y, to += width) {
      const bool inside = y >= 0 && y < grid[1].in_size;
      for (int64_t x = 0; x < (inside ? left : width); ++x) to[x] = C(0);
      if (!inside) continue;
      copy_run(to + left, input + y * in_y, count);
      for (int64_t x = left + count; x < width; ++x) to[x] = C(0);
    }
  }
};

/// Outputs of kVectors vectors of channels of a channels-last image at one position; `weight` has rows of `width`.
template <typename C, int kVectors>
inline void depthwise_channels(const GridDim* grid, const int64_t* at, const C* input, const int64_t* in,
                               const C* weight, int width, const C* bias, C* to) {
  using V = typename Vector<C>::type;
  constexpr int kLanes = Vector<C>::kLanes;
  V acc[kVectors];
  ETIR_UNROLL
  for (int v = 0; v < kVectors; ++v) acc[v] = load_vector<C>(bias + v * kLanes);
  for (int64_t tz = 0; tz < grid[0].taps; ++tz) {
    if (!grid[0].meets(at[0], tz)) continue;
    for (int64_t ty = 0; ty < grid[1].taps; ++ty) {
      if (!grid[1].meets(at[1], ty)) continue;
      const C* row = input + (at[0] * grid[0].scale + grid[0].base + tz * grid[0].tap_step) * in[0] +
                     (at[1] * grid[1].scale + grid[1].base + ty * grid[1].tap_step) * in[1];
      const C* w = weight + (tz * grid[1].taps + ty) * grid[2].taps * width;
      for (int64_t tx = 0; tx < grid[2].taps; ++tx, w += width) {
        const int64_t x = at[2] * grid[2].scale + grid[2].base + tx * grid[2].tap_step;
        if (x < 0 || x >= grid[2].in_size) continue;
        ETIR_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          acc[v] += load_vector<C>(w + v * kLanes) * load_vector<C>(row + x * in[2] + v * kLanes);
        }
      }
    }
  }
  ETIR_UNROLL
  for (int v = 0; v < kVectors; ++v) store_vector<C>(to + v * kLanes, acc[v]);
}

/// A depthwise convolution whose elements are computed in their own type.
template <typename C>
struct Depthwise {
  const Shape& shape;
  GridDim grid[kSpatial];
  const C* input;
  Strides in;
  const C* weight;
  Strides w;
  int64_t group_stride;
  const C* bias;  ///< elements of type C; null: no bias
  C* output;
  Strides out;

  static constexpr int kLanes = Vector<C>::kLanes;
  static constexpr int kBuffer = ETIR_SMALL_STACK ? 256 : 2048;
  static constexpr int kWidth = 4 * kLanes;
  static constexpr int kTaps = ETIR_SMALL_STACK ? 25 : 128;

  int64_t channels() const { return shape.groups * shape.out_channels; }
  C bias_of(int64_t c) const { return bias == nullptr ? C(0) : bias[c]; }

  /// Planes [begin, end), counted over images and channels.
  void planes(int64_t begin, int64_t end) const {
    C buffer[kBuffer];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / channels(), c = i % channels(), group = c / shape.out_channels;
      DepthwisePlane<C> plane;
      for (int d = 0; d < kSpatial; ++d) plane.grid[d] = grid[d];
      plane.input = input + n * in.outer + group * in.channel;
      plane.in_z = in.spatial[0], plane.in_y = in.spatial[1];
      plane.weight = weight + group * group_stride + c % shape.out_channels * w.outer;
      plane.w_z = w.spatial[0], plane.w_y = w.spatial[1], plane.w_x = w.spatial[2];
      plane.bias = bias_of(c);
      C* to = output + n * out.outer + c * out.channel;
      if (plane.padded(buffer, kBuffer, to, out.spatial[1])) continue;
      for (int64_t z = 0; z < shape.out[0]; ++z) {
        for (int64_t y = 0; y < shape.out[1]; ++y) plane.row(z, y, to + z * out.spatial[0] + y * out.spatial[1]);
      }
    }
  }

  int64_t blocks() const { return (channels() + kWidth - 1) / kWidth; }
  /// Blocks [begin, end) of channels, counted over images.
  void channel_blocks(int64_t begin, int64_t end) const {
    C rows[kTaps * kWidth], more[kWidth];
    for (int64_t i = begin; i < end; ++i) {
      // A last block of less than a vector starts earlier, and overlaps the one before it.
      const int64_t n = i / blocks(), c = std::min<int64_t>(i % blocks() * kWidth, channels() - kLanes);
      const int count = static_cast<int>(std::min<int64_t>(kWidth, channels() - c));
      for (int j = 0; j < count; ++j) {
        more[j] = bias_of(c + j);
        C* to = rows + j;
        const C* from = weight + (c + j) * group_stride;
        for (int64_t z = 0; z < shape.kernel[0]; ++z) {
          for (int64_t y = 0; y < shape.kernel[1]; ++y) {
            for (int64_t x = 0; x < shape.kernel[2]; ++x, to += kWidth) {
              *to = from[z * w.spatial[0] + y * w.spatial[1] + x * w.spatial[2]];
            }
          }
        }
      }
      const C* image = input + n * in.outer + c;
      C* result = output + n * out.outer + c;
      int64_t at[kSpatial];
      for (at[0] = 0; at[0] < shape.out[0]; ++at[0]) {
        for (at[1] = 0; at[1] < shape.out[1]; ++at[1]) {
          for (at[2] = 0; at[2] < shape.out[2]; ++at[2]) {
            C* to = result + at[0] * out.spatial[0] + at[1] * out.spatial[1] + at[2] * out.spatial[2];
            if (count == kWidth) {
              depthwise_channels<C, 4>(grid, at, image, in.spatial, rows, kWidth, more, to);
              continue;
            }
            for (int j = 0; j < count; j += kLanes) {
              j = std::min(j, count - kLanes);
              depthwise_channels<C, 1>(grid, at, image + j, in.spatial, rows + j, kWidth, more + j, to + j);
            }
          }
        }
      }
    }
  }
};

/// Computes a depthwise convolution, or returns false where the layout or the dtype is not one of those above.
template <typename T>
bool convolve_depthwise(KernelContext& ctx, const Shape& s, const T* input, const Strides& in, const T* weight,
                        const Strides& w, int64_t group_stride, const Tensor* bias, T* output, const Strides& out) {
  if constexpr (!is_own_compute_v<T>) {
    return false;
  } else {
    using C = compute_t<T>;
    if (s.transposed || s.in_channels != 1 || s.groups == 1) return false;
    if (bias != nullptr && bias->dtype != ScalarTypeOf<T>::value) return false;
    const Depthwise<C> job = {s,
                              {grid_dim(s, 0, 0), grid_dim(s, 1, 0), grid_dim(s, 2, 0)},
                              reinterpret_cast<const C*>(input),
                              in,
                              reinterpret_cast<const C*>(weight),
                              w,
                              group_stride,
                              bias == nullptr ? nullptr : static_cast<const C*>(bias->data),
                              reinterpret_cast<C*>(output),
                              out};
    const int64_t work = s.out_positions() * std::min<int64_t>(s.taps(), 1 << 16);
    if ((in.spatial[2] == 1 || s.in[2] == 1) && (out.spatial[2] == 1 || s.out[2] == 1)) {
      ctx.parallel_for(s.batch * job.channels(), (1 << 16) / work + 1,
                       [&](int64_t begin, int64_t end) { job.planes(begin, end); });
      return true;
    }
    if (Vector<C>::kLanes == 1 || in.channel != 1 || out.channel != 1 || s.out_channels != 1) return false;
    if (job.channels() < Vector<C>::kLanes || s.taps() > Depthwise<C>::kTaps) return false;
    ctx.parallel_for(s.batch * job.blocks(), (1 << 16) / work / Depthwise<C>::kWidth + 1,
                     [&](int64_t begin, int64_t end) { job.channel_blocks(begin, end); });
    return true;
  }
}

}  // namespace etir
