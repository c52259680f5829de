// Resizing by copying the nearest element, in one to three dims. Only bytes move, so code is shared by element size.
#include "kernels/spatial/upsample.h"
#include "kernels/spatial/upsample_nearest.gen.h"

namespace etir {
namespace {

using namespace spatial;

/// Rows of results. The source positions of a block of a row are computed once for kRows rows.
template <typename T>
void run_rows(KernelContext& ctx, const Axis<float>* axes, const Frame& in, const Frame& out, const T* from, T* to) {
  const int64_t rows = out.numel() / out.size[kW];
  ctx.parallel_for(rows, max64(1, 8192 / out.size[kW]), [&](int64_t part, int64_t part_end) {
    for (int64_t begin = part; begin < part_end; begin += kRows) {
      const int64_t end = min64(part_end, begin + kRows);
      for (int64_t start = 0; start < out.size[kW]; start += kLanes) {
        const int64_t count = min64(kLanes, out.size[kW] - start);
        int64_t source[kLanes];
        for (int64_t i = 0; i < count; ++i) source[i] = axes[2].nearest(start + i) * in.stride[kW];
        for (int64_t row = begin; row < end; ++row) {
          int64_t at[4];
          unravel(row, out.size, 4, at);
          const T* line = from + in.plane(at[kN], at[kC]) + axes[0].nearest(at[kD]) * in.stride[kD] +
                          axes[1].nearest(at[kH]) * in.stride[kH];
          T* result = to + out.plane(at[kN], at[kC]) + at[kD] * out.stride[kD] + at[kH] * out.stride[kH] +
                      start * out.stride[kW];
          if (out.stride[kW] == 1) {
            for (int64_t i = 0; i < count; ++i) result[i] = line[single(source[i])];
          } else {
            for (int64_t i = 0; i < count; ++i) result[i * out.stride[kW]] = line[single(source[i])];
          }
        }
      }
    }
  });
}

/// Positions of results, all channels of each at once.
template <typename T>
void run_channels(KernelContext& ctx, const Axis<float>* axes, const Frame& in, const Frame& out, const T* from,
                  T* to) {
  const int64_t sizes[4] = {out.size[kN], out.size[kD], out.size[kH], out.size[kW]};
  const int64_t channels = out.size[kC];
  ctx.parallel_for(out.numel() / channels, max64(1, 8192 / channels), [&](int64_t begin, int64_t end) {
    for (int64_t position = begin; position < end; ++position) {
      int64_t at[4];
      unravel(position, sizes, 4, at);
      int64_t source = at[0] * in.stride[kN], target = at[0] * out.stride[kN];
      for (int d = 0; d < 3; ++d) {
        source += axes[d].nearest(at[1 + d]) * in.stride[kD + d];
        target += at[1 + d] * out.stride[kD + d];
      }
      std::memcpy(to + target, from + source, static_cast<size_t>(channels) * sizeof(T));
    }
  });
}

void upsample_nearest(KernelContext& ctx, const Tensor& self, const AskedSizes& asked, Tensor& out, Filter filter) {
  const int spatial = asked.spatial;
  constexpr DtypeSet kTypes = kFloats | dtype_bit(ScalarType::Byte);
  if (!contains(kTypes & kSelectedDtypes, self.dtype)) {
    return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  }
  UpsampleSizes sizes;
  int64_t in_sizes[3];
  if (!begin_upsample(ctx, self, asked, out, &sizes, in_sizes)) return;
  if (out.numel() == 0) return;
  Axis<float> axes[3];
  make_axes(spatial, filter, sizes, in_sizes, false, axes);
  const Frame in = frame_of(self, spatial), to = frame_of(out, spatial);
  dispatch_size(element_size(self.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto run = channels_inside(in, to) ? run_channels<T> : run_rows<T>;
    run(ctx, axes, in, to, self.ptr<T>(), out.ptr<T>());
  });
}

}  // namespace

void upsample_nearest1d_out(KernelContext& ctx, const Tensor& self, const IntList& output_size,
                            std::optional<double> scales, Tensor& out) {
  upsample_nearest(ctx, self, {output_size, scales}, out, Filter::Nearest);
}
void upsample_nearest2d_out(KernelContext& ctx, const Tensor& self, const IntList& output_size,
                            std::optional<double> scales_h, std::optional<double> scales_w, Tensor& out) {
  upsample_nearest(ctx, self, {output_size, scales_h, scales_w}, out, Filter::Nearest);
}
void upsample_nearest3d_out(KernelContext& ctx, const Tensor& self, const IntList& output_size,
                            std::optional<double> scales_d, std::optional<double> scales_h,
                            std::optional<double> scales_w, Tensor& out) {
  upsample_nearest(ctx, self, {output_size, scales_d, scales_h, scales_w}, out, Filter::Nearest);
}
void upsample_nearest2d_vec_out(KernelContext& ctx, const Tensor& input, std::optional<IntList> output_size,
                                std::optional<DoubleList> scale_factors, Tensor& out) {
  upsample_nearest(ctx, input, {output_size, scale_factors, arguments::upsample_nearest2d_vec_out::scale_factors}, out,
                   Filter::Nearest);
}
void upsample_nearest_exact1d_out(KernelContext& ctx, const Tensor& self, const IntList& output_size,
                                  std::optional<double> scales, Tensor& out) {
  upsample_nearest(ctx, self, {output_size, scales}, out, Filter::NearestExact);
}
void upsample_nearest_exact2d_out(KernelContext& ctx, const Tensor& self, const IntList& output_size,
                                  std::optional<double> scales_h, std::optional<double> scales_w, Tensor& out) {
  upsample_nearest(ctx, self, {output_size, scales_h, scales_w}, out, Filter::NearestExact);
}
void upsample_nearest_exact3d_out(KernelContext& ctx, const Tensor& self, const IntList& output_size,
                                  std::optional<double> scales_d, std::optional<double> scales_h,
                                  std::optional<double> scales_w, Tensor& out) {
  upsample_nearest(ctx, self, {output_size, scales_d, scales_h, scales_w}, out, Filter::NearestExact);
}

}  // namespace etir
