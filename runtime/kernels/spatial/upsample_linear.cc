// Resizing by weighted neighbors: linear in one to three dims, cubic in two.
#include "kernels/spatial/upsample.h"
#include "kernels/spatial/upsample_bytes.h"
#include "kernels/spatial/upsample_linear.gen.h"

namespace etir {
namespace {

using namespace spatial;

/// Rows of results. Positions and weights along the row are computed once for kRows rows.
template <typename T, typename A>
void run_rows(KernelContext& ctx, const Axis<A>* axes, const Frame& in, const Frame& out, const T* from, T* to) {
  const int64_t rows = out.numel() / out.size[kW];
  ctx.parallel_for(rows, max64(1, 2048 / out.size[kW]), [&](int64_t part, int64_t part_end) {
    for (int64_t begin = part; begin < part_end; begin += kRows) {
      const int64_t end = min64(part_end, begin + kRows);
      for (int64_t start = 0; start < out.size[kW]; start += kLanes) {
        const int64_t count = min64(kLanes, out.size[kW] - start);
        int64_t source[kMaxTaps][kLanes];
        A weight[kMaxTaps][kLanes];
        int taps = 0;
        for (int64_t i = 0; i < count; ++i) {
          int64_t index[kMaxTaps];
          A weights[kMaxTaps];
          taps = axes[2].taps(start + i, index, weights);
          for (int t = 0; t < taps; ++t) {
            source[t][i] = index[t] * in.stride[kW];
            weight[t][i] = weights[t];
          }
        }
        for (int64_t row = begin; row < end; ++row) {
          int64_t at[4], depth[kMaxTaps], height[kMaxTaps];
          A depth_weight[kMaxTaps], height_weight[kMaxTaps], sum[kLanes];
          unravel(row, out.size, 4, at);
          const int depths = axes[0].taps(at[kD], depth, depth_weight);
          const int heights = axes[1].taps(at[kH], height, height_weight);
          for (int64_t i = 0; i < count; ++i) sum[i] = A(0);
          for (int d = 0; d < depths; ++d) {
            for (int h = 0; h < heights; ++h) {
              const T* line = from + in.plane(at[kN], at[kC]) + depth[d] * in.stride[kD] + height[h] * in.stride[kH];
              const A line_weight = depth_weight[d] * height_weight[h];
              for (int t = 0; t < taps; ++t) {
                for (int64_t i = 0; i < count; ++i) {
                  sum[i] += line_weight * weight[t][i] * convert<A>(line[single(source[t][i])]);
                }
              }
            }
          }
          T* result = to + out.plane(at[kN], at[kC]) + at[kD] * out.stride[kD] + at[kH] * out.stride[kH] +
                      start * out.stride[kW];
          for (int64_t i = 0; i < count; ++i) result[i * out.stride[kW]] = convert<T>(sum[i]);
        }
      }
    }
  });
}

/// Positions of results, blocks of channels of each at once.
template <typename T, typename A>
void run_channels(KernelContext& ctx, const Axis<A>* axes, const Frame& in, const Frame& out, const T* from, T* to) {
  const int64_t sizes[4] = {out.size[kN], out.size[kD], out.size[kH], out.size[kW]};
  const int64_t channels = out.size[kC];
  ctx.parallel_for(out.numel() / channels, max64(1, 2048 / channels), [&](int64_t begin, int64_t end) {
    for (int64_t position = begin; position < end; ++position) {
      int64_t at[4], index[3][kMaxTaps];
      A weight[3][kMaxTaps];
      int taps[3];
      unravel(position, sizes, 4, at);
      int64_t target = at[0] * out.stride[kN];
      for (int d = 0; d < 3; ++d) {
        taps[d] = axes[d].taps(at[1 + d], index[d], weight[d]);
        target += at[1 + d] * out.stride[kD + d];
      }
      for (int64_t start = 0; start < channels; start += kLanes) {
        const int64_t count = min64(kLanes, channels - start);
        A sum[kLanes];
        for (int64_t i = 0; i < count; ++i) sum[i] = A(0);
        for (int d = 0; d < taps[0]; ++d) {
          for (int h = 0; h < taps[1]; ++h) {
            for (int w = 0; w < taps[2]; ++w) {
              const T* source = from + at[0] * in.stride[kN] + start + index[0][d] * in.stride[kD] +
                                index[1][h] * in.stride[kH] + index[2][w] * in.stride[kW];
              const A by = weight[0][d] * weight[1][h] * weight[2][w];
              for (int64_t i = 0; i < count; ++i) sum[i] += by * convert<A>(source[i]);
            }
          }
        }
        T* result = to + target + start;
        for (int64_t i = 0; i < count; ++i) result[i] = convert<T>(sum[i]);
      }
    }
  });
}

void upsample(KernelContext& ctx, const Tensor& self, const AskedSizes& asked, bool align_corners, Tensor& out,
              Filter filter) {
  const int spatial = asked.spatial;
  // Images of bytes have two dims.
  const DtypeSet types = kFloats | (spatial == 2 ? dtype_bit(ScalarType::Byte) : 0);
  if (!contains(types & kSelectedDtypes, self.dtype)) {
    return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  }
  UpsampleSizes sizes;
  int64_t in_sizes[3];
  if (!begin_upsample(ctx, self, asked, out, &sizes, in_sizes)) return;
  if (out.numel() == 0) return;
  const Frame in = frame_of(self, spatial), to = frame_of(out, spatial);
  if (self.dtype == ScalarType::Byte) {
    Axis<double> axes[3];
    make_axes(spatial, filter, sizes, in_sizes, align_corners, axes);
    return upsample_bytes(ctx, axes, in, to, self.ptr<uint8_t>(), out.ptr<uint8_t>());
  }
  dispatch<kFloats>(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = accumulate_t<T>;
    Axis<A> axes[3];
    make_axes(spatial, filter, sizes, in_sizes, align_corners, axes);
    const auto run = channels_inside(in, to) ? run_channels<T, A> : run_rows<T, A>;
    run(ctx, axes, in, to, self.ptr<T>(), out.ptr<T>());
  });
}

}  // namespace

void upsample_linear1d_out(KernelContext& ctx, const Tensor& self, const IntList& output_size, bool align_corners,
                           std::optional<double> scales, Tensor& out) {
  upsample(ctx, self, {output_size, scales}, align_corners, out, Filter::Linear);
}
void upsample_bilinear2d_out(KernelContext& ctx, const Tensor& self, const IntList& output_size, bool align_corners,
                             std::optional<double> scales_h, std::optional<double> scales_w, Tensor& out) {
  upsample(ctx, self, {output_size, scales_h, scales_w}, align_corners, out, Filter::Linear);
}
void upsample_bilinear2d_vec_out(KernelContext& ctx, const Tensor& input, std::optional<IntList> output_size,
                                 bool align_corners, std::optional<DoubleList> scale_factors, Tensor& out) {
  upsample(ctx, input, {output_size, scale_factors, arguments::upsample_bilinear2d_vec_out::scale_factors},
           align_corners, out, Filter::Linear);
}
void upsample_trilinear3d_out(KernelContext& ctx, const Tensor& self, const IntList& output_size, bool align_corners,
                              std::optional<double> scales_d, std::optional<double> scales_h,
                              std::optional<double> scales_w, Tensor& out) {
  upsample(ctx, self, {output_size, scales_d, scales_h, scales_w}, align_corners, out, Filter::Linear);
}
void upsample_bicubic2d_out(KernelContext& ctx, const Tensor& self, const IntList& output_size, bool align_corners,
                            std::optional<double> scales_h, std::optional<double> scales_w, Tensor& out) {
  upsample(ctx, self, {output_size, scales_h, scales_w}, align_corners, out, Filter::Cubic);
}

}  // namespace etir
