// Antialiased resizing in two dims, linear and cubic: the filter is as wide as a result's share of the image.
//
// For each row of results the rows of the image that it covers are summed into one row in temporary memory, all columns
// side by side; then each result sums its columns of that row.
#include <cmath>

#include "kernels/spatial/upsample_aa.gen.h"
#include "kernels/spatial/upsample_bytes.h"

namespace etir {
namespace {

using namespace spatial;

template <typename A>
A filter_value(bool cubic, A x) {
  x = std::fabs(x);
  if (!cubic) return x < A(1) ? A(1) - x : A(0);
  if (x < A(1)) return (A(1.5) * x - A(2.5)) * x * x + A(1);
  if (x < A(2)) return ((A(-0.5) * x + A(2.5)) * x - A(4)) * x + A(2);
  return A(0);
}

/// The elements that each result of one axis covers.
template <typename A>
struct Coverage {
  bool cubic;
  int64_t in;
  A scale, support, inverse;

  Coverage(const Axis<A>& axis, bool is_cubic) : cubic(is_cubic), in(axis.in), scale(axis.scale) {
    const A half = cubic ? A(2) : A(1);
    support = scale >= A(1) ? half * scale : half;
    inverse = scale >= A(1) ? A(1) / scale : A(1);
  }
  A center(int64_t o) const { return scale * (static_cast<A>(o) + A(0.5)); }
  int64_t first(int64_t o) const { return clamped_floor(center(o) - support + A(0.5), 0, in); }
  int64_t last(int64_t o) const { return clamped_floor(center(o) + support + A(0.5), first(o), in); }
  /// Of element `i` in result `o`, before they are divided by their sum.
  A weight(int64_t o, int64_t i) const {
    return filter_value(cubic, (static_cast<A>(i) - center(o) + A(0.5)) * inverse);
  }
  /// What weights are multiplied with so that they add up to 1.
  A norm(int64_t o) const {
    A sum(0);
    for (int64_t i = first(o); i < last(o); ++i) sum += weight(o, i);
    return sum != A(0) ? A(1) / sum : A(0);
  }
  /// No result covers more elements.
  int64_t most() const { return clamped_floor(A(2) * support + A(2), 1, in); }
};

template <typename A, typename T>
void add_row(A* __restrict sum, const T* __restrict row, int64_t step, int64_t n, A weight) {
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) sum[i] += weight * convert<A>(row[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) sum[i] += weight * convert<A>(row[i * step]);
  }
}

template <typename T, typename A>
void run(KernelContext& ctx, const Coverage<A>& rows, const Coverage<A>& columns, const Frame& in, const Frame& out,
         const T* from, T* to) {
  // The manifest's estimate of temporary memory counts 8 bytes for each number, as for double.
  const int64_t most = columns.most();
  A* line = ctx.temp_array<A>(in.size[kW]);
  A* weights = ctx.temp_array<A>(out.size[kW] * most);
  if (line == nullptr || weights == nullptr) return;
  for (int64_t o = 0; o < out.size[kW]; ++o) {
    const int64_t first = columns.first(o), last = min64(columns.last(o), first + most);
    const A norm = columns.norm(o);
    for (int64_t i = first; i < last; ++i) weights[o * most + i - first] = columns.weight(o, i) * norm;
  }
  for (int64_t n = 0; n < out.size[kN]; ++n) {
    for (int64_t c = 0; c < out.size[kC]; ++c) {
      for (int64_t h = 0; h < out.size[kH]; ++h) {
        for (int64_t w = 0; w < in.size[kW]; ++w) line[w] = A(0);
        const A norm = rows.norm(h);
        for (int64_t i = rows.first(h); i < rows.last(h); ++i) {
          add_row(line, from + in.plane(n, c) + i * in.stride[kH], in.stride[kW], in.size[kW],
                  rows.weight(h, i) * norm);
        }
        T* result = to + out.plane(n, c) + h * out.stride[kH];
        for (int64_t o = 0; o < out.size[kW]; ++o) {
          const int64_t first = columns.first(o), count = min64(columns.last(o) - first, most);
          A sum(0);
          for (int64_t i = 0; i < count; ++i) sum += weights[o * most + i] * line[first + i];
          result[o * out.stride[kW]] = convert<T>(sum);
        }
      }
    }
  }
}

/// The largest weight of an axis.
double largest_weight(const Coverage<double>& axis, int64_t out) {
  double most = 0;
  for (int64_t o = 0; o < out; ++o) {
    const double norm = axis.norm(o);
    for (int64_t i = axis.first(o); i < axis.last(o); ++i) {
      const double weight = axis.weight(o, i) * norm;
      most = weight > most ? weight : most;
    }
  }
  return most;
}

/// Bytes: in fixed point, along rows first. Each row of the image is resized again for every row of results that it
/// belongs to, rather than kept.
void run_bytes(KernelContext& ctx, const Coverage<double>& rows, const Coverage<double>& columns, const Frame& in,
               const Frame& out, const uint8_t* from, uint8_t* to) {
  const int64_t most = columns.most(), width = out.size[kW];
  int32_t* line = ctx.temp_array<int32_t>(width);
  int32_t* weights = ctx.temp_array<int32_t>(width * most);
  if (line == nullptr || weights == nullptr) return;
  FixedPoint vertical, horizontal;
  vertical.set_precision(largest_weight(rows, out.size[kH]));
  horizontal.set_precision(largest_weight(columns, width));
  for (int64_t o = 0; o < width; ++o) {
    const int64_t first = columns.first(o), last = min64(columns.last(o), first + most);
    const double norm = columns.norm(o);
    for (int64_t i = first; i < last; ++i) {
      weights[o * most + i - first] = horizontal.fixed(columns.weight(o, i) * norm);
    }
  }
  for (int64_t n = 0; n < out.size[kN]; ++n) {
    for (int64_t c = 0; c < out.size[kC]; ++c) {
      for (int64_t h = 0; h < out.size[kH]; ++h) {
        for (int64_t o = 0; o < width; ++o) line[o] = vertical.half();
        const double norm = rows.norm(h);
        for (int64_t i = rows.first(h); i < rows.last(h); ++i) {
          const int32_t by = vertical.fixed(rows.weight(h, i) * norm);
          const uint8_t* source = from + in.plane(n, c) + i * in.stride[kH];
          for (int64_t o = 0; o < width; ++o) {
            const int64_t first = columns.first(o), count = min64(columns.last(o) - first, most);
            int32_t sum = horizontal.half();
            for (int64_t k = 0; k < count; ++k) {
              sum = FixedPoint::add(sum, weights[o * most + k], source[(first + k) * in.stride[kW]]);
            }
            line[o] = FixedPoint::add(line[o], by, horizontal.finish(sum));
          }
        }
        uint8_t* result = to + out.plane(n, c) + h * out.stride[kH];
        for (int64_t o = 0; o < width; ++o) result[o * out.stride[kW]] = static_cast<uint8_t>(vertical.finish(line[o]));
      }
    }
  }
}

void upsample_aa(KernelContext& ctx, const Tensor& self, const AskedSizes& asked, bool align_corners, Tensor& out,
                 Filter filter) {
  constexpr DtypeSet kTypes = kFloats | dtype_bit(ScalarType::Byte);
  if (!contains(kTypes & kSelectedDtypes, self.dtype)) {
    return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  }
  UpsampleSizes sizes;
  int64_t in_sizes[3];
  if (!begin_upsample(ctx, self, asked, out, &sizes, in_sizes)) return;
  if (out.numel() == 0) return;
  const bool cubic = filter == Filter::Cubic;
  const Frame in = frame_of(self, 2), to = frame_of(out, 2);
  if (self.dtype == ScalarType::Byte) {
    Axis<double> axes[3];
    make_axes(2, filter, sizes, in_sizes, align_corners, axes);
    const Coverage<double> rows(axes[1], cubic), columns(axes[2], cubic);
    return run_bytes(ctx, rows, columns, in, to, self.ptr<uint8_t>(), out.ptr<uint8_t>());
  }
  dispatch<kFloats>(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = accumulate_t<T>;
    Axis<A> axes[3];
    make_axes(2, filter, sizes, in_sizes, align_corners, axes);
    run(ctx, Coverage<A>(axes[1], cubic), Coverage<A>(axes[2], cubic), in, to, self.ptr<T>(), out.ptr<T>());
  });
}

}  // namespace

void upsample_bilinear2d_aa_out(KernelContext& ctx, const Tensor& self, const IntList& output_size, bool align_corners,
                                std::optional<double> scales_h, std::optional<double> scales_w, Tensor& out) {
  upsample_aa(ctx, self, {output_size, scales_h, scales_w}, align_corners, out, Filter::Linear);
}
void upsample_bicubic2d_aa_out(KernelContext& ctx, const Tensor& self, const IntList& output_size, bool align_corners,
                               std::optional<double> scales_h, std::optional<double> scales_w, Tensor& out) {
  upsample_aa(ctx, self, {output_size, scales_h, scales_w}, align_corners, out, Filter::Cubic);
}

}  // namespace etir
