// Sampling of images at given coordinates, in two and three dims.
//
// Coordinates of a short block of a row become elements with weights once, and then serve all channels.
#include <cmath>
#include <cstdint>

#include "kernels/spatial/grid_sampler.gen.h"
#include "kernels/spatial/upsample.h"

namespace etir {
namespace {

using namespace spatial;

enum class Mode { Bilinear = 0, Nearest = 1, Bicubic = 2 };
enum class Padding { Zeros = 0, Border = 1, Reflection = 2 };

constexpr int kBlock = 16;
constexpr int kMaxPoints = 16;  // 4 * 4 neighbors of bicubic, 2 * 2 * 2 of trilinear

template <typename A>
A reflected(A x, A low, A span) {
  if (!(span > 0)) return A(0);
  x = std::fabs(x - low);
  const A extra = std::fmod(x, span);
  const A flips = std::floor(x / span);
  return (std::fmod(flips, A(2)) == A(0) ? extra : span - extra) + low;
}

struct Sampling {
  Mode mode;
  Padding padding;
  bool align;

  /// From [-1, 1] to elements.
  template <typename A>
  A unnormalize(A x, int64_t size) const {
    return align ? (x + A(1)) / A(2) * static_cast<A>(size - 1) : ((x + A(1)) * static_cast<A>(size) - A(1)) / A(2);
  }
  template <typename A>
  A pad(A x, int64_t size) const {
    if (padding == Padding::Zeros) return x;
    if (padding == Padding::Reflection) {
      x = align ? reflected(x, A(0), static_cast<A>(size - 1)) : reflected(x, A(-0.5), static_cast<A>(size));
    }
    const A last = static_cast<A>(size - 1);
    return !(x > 0) ? A(0) : x < last ? x : last;
  }

  /// Neighbors along one axis: element (-1: outside) and weight. Returns how many.
  template <typename A>
  int taps(A coordinate, int64_t size, int64_t* index, A* weight) const {
    const A x = unnormalize(coordinate, size);
    const auto inside = [&](A at) {
      return at >= A(0) && at <= static_cast<A>(size - 1) ? static_cast<int64_t>(at) : int64_t{-1};
    };
    if (mode == Mode::Nearest) {
      index[0] = inside(std::nearbyint(pad(x, size)));
      weight[0] = A(1);
      return 1;
    }
    if (mode == Mode::Bilinear) {
      const A at = pad(x, size);
      const A low = std::floor(at);
      index[0] = inside(low);
      index[1] = inside(low + A(1));
      weight[1] = at - low;
      weight[0] = low + A(1) - at;
      return 2;
    }
    const A low = std::floor(x);
    const A t = x - low;
    weight[0] = cubic_far(t + A(1));
    weight[1] = cubic_near(t);
    weight[2] = cubic_near(A(1) - t);
    weight[3] = cubic_far(A(2) - t);
    for (int k = 0; k < 4; ++k) index[k] = inside(pad(low + static_cast<A>(k - 1), size));
    return 4;
  }
};

/// All neighbors of one result. Returns how many.
template <typename A>
int neighbors(const Sampling& sampling, const Frame& in, const A* coordinates, int spatial, int64_t (*offset)[kBlock],
              A (*weight)[kBlock], int64_t lane) {
  int64_t index[3][kMaxTaps] = {};
  A weights[3][kMaxTaps];
  int taps[3] = {1, 1, 1};
  weights[0][0] = A(1);
  // The last dim's coordinate comes first.
  for (int d = 0; d < spatial; ++d) {
    taps[2 - d] = sampling.taps(coordinates[d], in.size[kW - d], index[2 - d], weights[2 - d]);
  }
  int count = 0;
  for (int d = 0; d < taps[0]; ++d) {
    for (int h = 0; h < taps[1]; ++h) {
      for (int w = 0; w < taps[2]; ++w, ++count) {
        const bool inside = index[0][d] >= 0 && index[1][h] >= 0 && index[2][w] >= 0;
        offset[count][lane] =
            !inside ? -1 : index[0][d] * in.stride[kD] + index[1][h] * in.stride[kH] + index[2][w] * in.stride[kW];
        weight[count][lane] = weights[0][d] * weights[1][h] * weights[2][w];
      }
    }
  }
  return count;
}

template <typename T>
void run(KernelContext& ctx, const Sampling& sampling, int spatial, const Tensor& input, const Tensor& grid,
         Tensor& out) {
  using A = accumulate_t<T>;
  const Frame in = frame_of(input, spatial), to = frame_of(out, spatial);
  int64_t grid_strides[kMaxRank];
  grid.strides(grid_strides);
  // Of the grid's dims n, (d,) h, w; the coordinates lie in its last dim.
  const int64_t grid_depth = spatial == 3 ? grid_strides[1] : 0;
  const int64_t grid_height = grid_strides[spatial - 1], grid_width = grid_strides[spatial];
  const int64_t row_sizes[3] = {to.size[kN], to.size[kD], to.size[kH]};
  const int64_t width = to.size[kW], channels = to.size[kC];
  const bool inner_channels = channels_inside(in, to);
  ctx.parallel_for(
      row_sizes[0] * row_sizes[1] * row_sizes[2], max64(1, 1024 / (width * channels)), [&](int64_t begin, int64_t end) {
        int64_t offset[kMaxPoints][kBlock];
        A weight[kMaxPoints][kBlock];
        for (int64_t row = begin; row < end; ++row) {
          int64_t at[3];
          unravel(row, row_sizes, 3, at);
          const T* places = grid.ptr<T>() + at[0] * grid_strides[0] + at[1] * grid_depth + at[2] * grid_height;
          const T* from = input.ptr<T>() + at[0] * in.stride[kN];
          T* result = out.ptr<T>() + at[0] * to.stride[kN] + at[1] * to.stride[kD] + at[2] * to.stride[kH];
          for (int64_t start = 0; start < width; start += kBlock) {
            const int64_t count = min64(kBlock, width - start);
            int points = 0;
            for (int64_t i = 0; i < count; ++i) {
              A coordinates[3];
              for (int d = 0; d < spatial; ++d) {
                coordinates[d] = convert<A>(places[(start + i) * grid_width + d * grid_strides[spatial + 1]]);
              }
              points = neighbors(sampling, in, coordinates, spatial, offset, weight, i);
            }
            T* target = result + start * to.stride[kW];
            if (inner_channels) {
              for (int64_t i = 0; i < count; ++i) {
                for (int64_t c = 0; c < channels; c += kLanes) {
                  const int64_t lanes = min64(kLanes, channels - c);
                  A sum[kLanes];
                  for (int64_t k = 0; k < lanes; ++k) sum[k] = A(0);
                  for (int p = 0; p < points; ++p) {
                    if (offset[p][i] < 0) continue;
                    const T* source = from + offset[p][i] + c;
                    const A by = weight[p][i];
                    for (int64_t k = 0; k < lanes; ++k) sum[k] += by * convert<A>(source[k]);
                  }
                  for (int64_t k = 0; k < lanes; ++k) target[i * to.stride[kW] + c + k] = convert<T>(sum[k]);
                }
              }
              continue;
            }
            for (int64_t c = 0; c < channels; ++c) {
              const T* source = from + c * in.stride[kC];
              for (int64_t i = 0; i < count; ++i) {
                A sum(0);
                for (int p = 0; p < points; ++p) {
                  if (offset[p][i] >= 0) sum += weight[p][i] * convert<A>(source[single(offset[p][i])]);
                }
                target[c * to.stride[kC] + i * to.stride[kW]] = convert<T>(sum);
              }
            }
          }
        }
      });
}

void grid_sampler(KernelContext& ctx, const Tensor& input, const Tensor& grid, int64_t mode, int64_t padding,
                  bool align_corners, Tensor& out, int spatial) {
  using arg = arguments::grid_sampler_2d_out;
  if (!check_frame(ctx, input, spatial, true) || !check_frame(ctx, grid, spatial, true) ||
      !check_dtype(ctx, grid, input.dtype) || !check_dtype(ctx, out, input.dtype)) {
    return;
  }
  if (mode < 0 || mode > (spatial == 2 ? 2 : 1)) return ctx.fail(Check::KernelArgument, arg::interpolation_mode, mode);
  if (padding < 0 || padding > 2) return ctx.fail(Check::KernelArgument, arg::padding_mode, padding);
  if (grid.sizes[0] != input.sizes[0]) return ctx.fail(Check::KernelShape, grid, grid.sizes[0]);
  if (grid.sizes[spatial + 1] != spatial) return ctx.fail(Check::KernelShape, grid, grid.sizes[spatial + 1]);
  int64_t sizes[3];
  for (int d = 0; d < spatial; ++d) {
    if (input.sizes[2 + d] < 1) return ctx.fail(Check::KernelShape, input, input.sizes[2 + d]);
    sizes[d] = grid.sizes[1 + d];
  }
  if (!resize_spatial(ctx, out, input, spatial, sizes) || !has_data(ctx, out)) return;
  const Sampling sampling{static_cast<Mode>(mode), static_cast<Padding>(padding), align_corners};
  const bool known = dispatch<kFloats>(input.dtype, [&](auto tag) {
    if (out.numel() > 0) run<typename decltype(tag)::type>(ctx, sampling, spatial, input, grid, out);
  });
  if (!known) ctx.fail(Check::KernelDtype, input, static_cast<int64_t>(input.dtype));
}

}  // namespace

void grid_sampler_2d_out(KernelContext& ctx, const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                         int64_t padding_mode, bool align_corners, Tensor& out) {
  grid_sampler(ctx, input, grid, interpolation_mode, padding_mode, align_corners, out, 2);
}
void grid_sampler_3d_out(KernelContext& ctx, const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                         int64_t padding_mode, bool align_corners, Tensor& out) {
  grid_sampler(ctx, input, grid, interpolation_mode, padding_mode, align_corners, out, 3);
}

}  // namespace etir
