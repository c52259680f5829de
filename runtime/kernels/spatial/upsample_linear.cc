// Resizing by weighted neighbors: linear in one to three dims, cubic in two.
//
// A row of results is a weighted sum of a few lines of the image, each of which is resized along the row: what gathers
// is done once for a line, however many rows it is a part of.
#include "kernels/spatial/upsample.h"
#include "kernels/spatial/upsample_bytes.h"
#include "kernels/spatial/upsample_linear.gen.h"
#include "kernels/util/vectors.h"

namespace etir {
namespace {

using namespace spatial;

#if ETIR_SMALL_STACK
constexpr int64_t kColumns = kLanes;
#else
constexpr int64_t kColumns = 4 * kLanes;  ///< of a row at a time: what is computed for a row is shared by them
#endif
constexpr int kMostLines = 4;  ///< that a row of results is made of: two of each of two depths, or four of a cubic

/// to[i] = the sum of by[k] * from[k][i].
template <int kCount, typename T, typename A, typename S>
void blend(const A* by, const S* const* from, int64_t count, T* __restrict to) {
  const S* at[kCount];
  A weight[kCount];
  ETIR_UNROLL
  for (int k = 0; k < kCount; ++k) at[k] = from[k], weight[k] = by[k];
  for (int64_t i = 0; i < count; ++i) {
    A sum = weight[0] * convert<A>(at[0][i]);
    ETIR_UNROLL
    for (int k = 1; k < kCount; ++k) sum += weight[k] * convert<A>(at[k][i]);
    to[i] = convert<T>(sum);
  }
}

/// The same for up to kMost terms: 1, 2, 4, 8 or 16.
template <int kMost, typename T, typename A, typename S>
void blend_some(int terms, const A* by, const S* const* from, int64_t count, T* to) {
  if constexpr (kMost > 1) {
    if (terms < kMost) return blend_some<kMost / 2>(terms, by, from, count, to);
  }
  blend<kMost>(by, from, count, to);
}

/// Rows of results in order: where each is, and which elements along depth and height it is made of.
template <typename A>
struct RowTaps {
  const Axis<A>* axes;
  const int64_t* sizes;  ///< images, channels, depths and heights of results
  int64_t at[4];
  int64_t depth[kMaxTaps], height[kMaxTaps];
  A depth_weight[kMaxTaps], height_weight[kMaxTaps];
  int depths, heights;

  RowTaps(const Axis<A>* of, const int64_t* counts, int64_t row) : axes(of), sizes(counts) {
    unravel(row, sizes, 4, at);
    find();
  }
  void next() {
    for (int d = 3; d >= 0 && ++at[d] == sizes[d]; --d) at[d] = 0;
    find();
  }

 private:
  void find() {
    depths = axes[0].taps(at[kD], depth, depth_weight);
    heights = axes[1].taps(at[kH], height, height_weight);
  }
};

/// The elements along the row that some columns of results are made of.
template <typename A>
struct ColumnTaps {
  int64_t source[kMaxTaps][kColumns];
  A weight[kMaxTaps][kColumns];
  int taps = 0;

  ColumnTaps(const Axis<A>& axis, int64_t start, int64_t count, int64_t stride) {
    for (int64_t i = 0; i < count; ++i) {
      int64_t index[kMaxTaps];
      A weights[kMaxTaps];
      taps = axis.taps(start + i, index, weights);
      for (int t = 0; t < taps; ++t) source[t][i] = index[t] * stride, weight[t][i] = weights[t];
    }
  }

  /// The columns of a line of the image.
  template <typename T>
  void resize(const T* line, int64_t count, A* __restrict to) const {
    for (int64_t i = 0; i < count; ++i) to[i] = weight[0][i] * convert<A>(line[single(source[0][i])]);
    for (int t = 1; t < taps; ++t) {
      for (int64_t i = 0; i < count; ++i) to[i] += weight[t][i] * convert<A>(line[single(source[t][i])]);
    }
  }
};

/// Lines of an image, resized along the row: those that the last rows of results were made of. Rows that follow each
/// other share lines, and a line is resized, which gathers, once for all of them.
template <typename A>
class ResizedLines {
 public:
  /// Where the line `number` of the image is, and whether it is there already; no line of `wanted` makes room for it.
  A* find(int64_t number, const int64_t* wanted, int count, bool* is_there) {
    int free = 0;
    for (int slot = 0; slot < kMostLines; ++slot) {
      if (numbers_[slot] == number) return *is_there = true, lines_[slot];
      bool needed = false;
      for (int i = 0; i < count; ++i) needed = needed || numbers_[slot] == wanted[i];
      if (!needed) free = slot;
    }
    numbers_[free] = number;
    *is_there = false;
    return lines_[free];
  }

 private:
  int64_t numbers_[kMostLines] = {-1, -1, -1, -1};
  A lines_[kMostLines][kColumns];
};

/// Rows of results, some columns at a time: lines are resized along the row, then weighted.
template <typename T, typename A>
void run_rows(KernelContext& ctx, const Axis<A>* axes, const Frame& in, const Frame& out, const T* from, T* to) {
  const int64_t rows = out.numel() / out.size[kW], step = out.stride[kW];
  ctx.parallel_for(rows, max64(1, 2048 / out.size[kW]), [&](int64_t begin, int64_t end) {
    for (int64_t start = 0; start < out.size[kW]; start += kColumns) {
      const int64_t count = min64(kColumns, out.size[kW] - start);
      const ColumnTaps<A> columns(axes[2], start, count, in.stride[kW]);
      ResizedLines<A> lines;
      RowTaps<A> row(axes, out.size, begin);
      for (int64_t done = begin; done < end; ++done, row.next()) {
        const int64_t* const at = row.at;
        const int64_t plane = (at[kN] * in.size[kC] + at[kC]) * in.size[kD];
        int64_t wanted[kMostLines];
        A by[kMostLines];
        const T* image[kMostLines];
        const A* of[kMostLines];
        int all = 0;
        for (int d = 0; d < row.depths; ++d) {
          const T* const slice = from + in.plane(at[kN], at[kC]) + row.depth[d] * in.stride[kD];
          for (int h = 0; h < row.heights; ++h, ++all) {
            wanted[all] = (plane + row.depth[d]) * in.size[kH] + row.height[h];
            by[all] = row.depth_weight[d] * row.height_weight[h];
            image[all] = slice + row.height[h] * in.stride[kH];
          }
        }
        for (int k = 0; k < all; ++k) {
          bool is_there;
          A* const line = lines.find(wanted[k], wanted, all, &is_there);
          of[k] = line;
          if (!is_there) columns.resize(image[k], count, line);
        }
        T* const result =
            to + out.plane(at[kN], at[kC]) + at[kD] * out.stride[kD] + at[kH] * out.stride[kH] + start * step;
        if (step == 1) {
          blend_some<kMostLines>(all, by, of, count, result);
        } else {
          A sums[kColumns];
          blend_some<kMostLines>(all, by, of, count, sums);
          for (int64_t i = 0; i < count; ++i) result[i * step] = convert<T>(sums[i]);
        }
      }
    }
  });
}

/// Rows of results, of each position all channels, which lie side by side.
template <typename T, typename A>
void run_channels(KernelContext& ctx, const Axis<A>* axes, const Frame& in, const Frame& out, const T* from, T* to) {
  const int64_t sizes[4] = {out.size[kN], 1, out.size[kD], out.size[kH]};
  const int64_t channels = out.size[kC], rows = out.numel() / channels / out.size[kW];
  ctx.parallel_for(rows, max64(1, 2048 / (channels * out.size[kW])), [&](int64_t begin, int64_t end) {
    for (int64_t start = 0; start < out.size[kW]; start += kColumns) {
      const int64_t count = min64(kColumns, out.size[kW] - start);
      const ColumnTaps<A> columns(axes[2], start, count, in.stride[kW]);
      RowTaps<A> row(axes, sizes, begin);
      for (int64_t done = begin; done < end; ++done, row.next()) {
        const int64_t* const at = row.at;
        const T* const image = from + at[kN] * in.stride[kN];
        T* const result = to + at[kN] * out.stride[kN] + at[kD] * out.stride[kD] + at[kH] * out.stride[kH];
        for (int64_t i = 0; i < count; ++i) {
          const T* of[kMostLines * kMaxTaps];
          A by[kMostLines * kMaxTaps];
          int terms = 0;
          for (int d = 0; d < row.depths; ++d) {
            for (int h = 0; h < row.heights; ++h) {
              const T* const line = image + row.depth[d] * in.stride[kD] + row.height[h] * in.stride[kH];
              const A line_weight = row.depth_weight[d] * row.height_weight[h];
              for (int t = 0; t < columns.taps; ++t, ++terms) {
                of[terms] = line + columns.source[t][i];
                by[terms] = line_weight * columns.weight[t][i];
              }
            }
          }
          blend_some<kMostLines * kMaxTaps>(terms, by, of, channels, result + (start + i) * out.stride[kW]);
        }
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
