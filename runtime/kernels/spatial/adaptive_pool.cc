// Adaptive pooling: windows that divide the image into a given number of parts, average and maximum.
#include <cstdint>
#include <limits>

#include "kernels/spatial/adaptive_pool.gen.h"
#include "kernels/spatial/frame.h"
#include "kernels/util/dispatch.h"

namespace etir {
namespace {

using namespace spatial;

/// The window of result `o` of `out` over `in` elements: the smallest run that covers its share.
inline int64_t window_start(int64_t o, int64_t in, int64_t out) { return o * in / out; }
inline int64_t window_end(int64_t o, int64_t in, int64_t out) { return ((o + 1) * in + out - 1) / out; }

struct Window {
  int64_t first[3], last[3];
  Window(const int64_t* position, const Frame& in, const Frame& out) {
    for (int d = 0; d < 3; ++d) {
      first[d] = window_start(position[d], in.size[kD + d], out.size[kD + d]);
      last[d] = window_end(position[d], in.size[kD + d], out.size[kD + d]);
    }
  }
  int64_t count() const { return (last[0] - first[0]) * (last[1] - first[1]) * (last[2] - first[2]); }
};

template <typename A, typename T>
inline void add_lanes(A* __restrict sum, const T* __restrict from, int64_t step, int64_t n) {
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) sum[i] += convert<A>(from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) sum[i] += convert<A>(from[i * step]);
  }
}

/// Averages of one position: of up to kLanes channels when they are neighbors, else of one channel, whose rows are
/// folded onto the lanes so that they, too, are summed side by side.
template <typename T>
void average(const T* from, const Frame& in, const Window& window, bool channels, int64_t count, T* to) {
  using A = accumulate_t<T>;
  A sum[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) sum[i] = A(0);
  const int64_t width = window.last[2] - window.first[2];
  for (int64_t d = window.first[0]; d < window.last[0]; ++d) {
    for (int64_t h = window.first[1]; h < window.last[1]; ++h) {
      const T* row = from + d * in.stride[kD] + h * in.stride[kH] + window.first[2] * in.stride[kW];
      if (channels) {
        for (int64_t w = 0; w < width; ++w) add_lanes(sum, row + w * in.stride[kW], 1, count);
      } else {
        for (int64_t w = 0; w < width; w += kLanes) {
          add_lanes(sum, row + w * in.stride[kW], in.stride[kW], min64(kLanes, width - w));
        }
      }
    }
  }
  const A by = static_cast<A>(window.count());
  if (channels) {
    for (int64_t i = 0; i < count; ++i) to[i] = convert<T>(sum[i] / by);
    return;
  }
  A total(0);
  for (int64_t i = 0; i < min64(kLanes, width); ++i) total += sum[i];
  to[0] = convert<T>(total / by);
}

template <typename T>
void run_average(KernelContext& ctx, const Frame& in, const Frame& out, const T* from, T* to) {
  const bool channels = in.stride[kC] == 1 && out.stride[kC] == 1 && in.size[kC] > 1;
  const int64_t block = channels ? kLanes : 1;
  const int64_t row_sizes[5] = {out.size[kN], channels ? 1 : out.size[kC], out.size[kD], out.size[kH], out.size[kW]};
  const int64_t rows = row_sizes[0] * row_sizes[1] * row_sizes[2] * row_sizes[3] * row_sizes[4];
  ctx.parallel_for(rows, max64(1, 4096 * out.points() / max64(1, in.points())), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t at[5];
      unravel(row, row_sizes, 5, at);
      const Window window(at + kD, in, out);
      const int64_t last = channels ? out.size[kC] : at[kC] + 1;
      for (int64_t c = at[kC]; c < last; c += block) {
        T* result =
            to + out.plane(at[kN], c) + at[kD] * out.stride[kD] + at[kH] * out.stride[kH] + at[kW] * out.stride[kW];
        average(from + in.plane(at[kN], c), in, window, channels, min64(block, last - c), result);
      }
    }
  });
}

/// Every element of the image collects its part of the windows that it is in.
template <typename T>
void run_average_backward(KernelContext& ctx, const Frame& grad, const Frame& out, const T* from, T* to) {
  using A = accumulate_t<T>;
  ctx.parallel_for(out.numel(), 1024, [&](int64_t begin, int64_t end) {
    for (int64_t element = begin; element < end; ++element) {
      int64_t at[5], first[3], last[3], o[3];
      unravel(element, out.size, 5, at);
      for (int d = 0; d < 3; ++d) {
        // The windows that hold an element are those whose share it touches.
        const int64_t parts = grad.size[kD + d], size = out.size[kD + d];
        first[d] = at[kD + d] * parts / size;
        last[d] = ((at[kD + d] + 1) * parts + size - 1) / size;
      }
      A sum(0);
      for (o[0] = first[0]; o[0] < last[0]; ++o[0]) {
        for (o[1] = first[1]; o[1] < last[1]; ++o[1]) {
          for (o[2] = first[2]; o[2] < last[2]; ++o[2]) {
            const int64_t offset =
                grad.plane(at[kN], at[kC]) + o[0] * grad.stride[kD] + o[1] * grad.stride[kH] + o[2] * grad.stride[kW];
            sum += convert<A>(from[offset]) / static_cast<A>(Window(o, out, grad).count());
          }
        }
      }
      int64_t offset = 0;
      for (int d = 0; d < 5; ++d) offset += at[d] * out.stride[d];
      to[offset] = convert<T>(sum);
    }
  });
}

template <typename T>
void run_max(KernelContext& ctx, const Frame& in, const Frame& out, const Frame& where, const T* from, T* to,
             int64_t* indices) {
  using A = accumulate_t<T>;
  ctx.parallel_for(out.numel(), 256, [&](int64_t begin, int64_t end) {
    for (int64_t element = begin; element < end; ++element) {
      int64_t at[5];
      unravel(element, out.size, 5, at);
      const Window window(at + kD, in, out);
      A best = -std::numeric_limits<A>::infinity();
      int64_t position = -1;
      for (int64_t d = window.first[0]; d < window.last[0]; ++d) {
        for (int64_t h = window.first[1]; h < window.last[1]; ++h) {
          const T* row = from + in.plane(at[kN], at[kC]) + d * in.stride[kD] + h * in.stride[kH];
          for (int64_t w = window.first[2]; w < window.last[2]; ++w) {
            const A value = convert<A>(row[w * in.stride[kW]]);
            if (position >= 0 && !(value > best) && value == value) continue;
            best = value;
            position = (d * in.size[kH] + h) * in.size[kW] + w;
          }
        }
      }
      int64_t offset = 0, index_offset = 0;
      for (int d = 0; d < 5; ++d) {
        offset += at[d] * out.stride[d];
        index_offset += at[d] * where.stride[d];
      }
      to[offset] = convert<T>(best);
      indices[index_offset] = position;
    }
  });
}

/// Reads output_size, whose sizes may be 0.
bool read_sizes(KernelContext& ctx, const Tensor& self, const IntList& list, int spatial, int64_t* sizes) {
  using arg = arguments::adaptive_avg_pool2d_out;
  if (list.size() != 1 && list.size() != static_cast<size_t>(spatial)) {
    ctx.fail(Check::KernelArgument, arg::output_size, static_cast<int64_t>(list.size()));
    return false;
  }
  for (int d = 0; d < spatial; ++d) {
    sizes[d] = list[list.size() == 1 ? 0 : d];
    if (sizes[d] < 0 || sizes[d] > INT32_MAX) {
      ctx.fail(Check::KernelArgument, arg::output_size, sizes[d]);
      return false;
    }
    if (self.sizes[self.rank - spatial + d] < 1) {
      ctx.fail(Check::KernelShape, self, 0);
      return false;
    }
  }
  return true;
}

void adaptive_avg_pool(KernelContext& ctx, const Tensor& self, const IntList& output_size, Tensor& out, int spatial) {
  int64_t sizes[3];
  if (!check_frame(ctx, self, spatial) || !check_dtype(ctx, out, self.dtype) ||
      !read_sizes(ctx, self, output_size, spatial, sizes) || !resize_spatial(ctx, out, self, spatial, sizes) ||
      !has_data(ctx, out)) {
    return;
  }
  const bool known = dispatch<kFloats>(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (out.numel() == 0) return;
    run_average(ctx, frame_of(self, spatial), frame_of(out, spatial), self.ptr<T>(), out.ptr<T>());
  });
  if (!known) ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
}

void adaptive_avg_pool_backward(KernelContext& ctx, const Tensor& grad, const Tensor& self, Tensor& out, int spatial) {
  if (!check_frame(ctx, grad, spatial) || !check_frame(ctx, self, spatial) || !check_dtype(ctx, self, grad.dtype) ||
      !check_dtype(ctx, out, grad.dtype)) {
    return;
  }
  if (grad.rank != self.rank) return ctx.fail(Check::KernelRank, grad, grad.rank);
  for (int d = 0; d < grad.rank; ++d) {
    const bool outer = d < grad.rank - spatial;
    if (outer ? grad.sizes[d] != self.sizes[d] : grad.sizes[d] < 1) {
      return ctx.fail(Check::KernelShape, grad, grad.sizes[d]);
    }
  }
  if (!ctx.resize_like(out, self) || !has_data(ctx, out)) return;
  const bool known = dispatch<kFloats>(grad.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (out.numel() == 0) return;
    run_average_backward(ctx, frame_of(grad, spatial), frame_of(out, spatial), grad.ptr<T>(), out.ptr<T>());
  });
  if (!known) ctx.fail(Check::KernelDtype, grad, static_cast<int64_t>(grad.dtype));
}

void adaptive_max_pool(KernelContext& ctx, const Tensor& self, const IntList& output_size, Tensor& out, Tensor& indices,
                       int spatial) {
  int64_t sizes[3];
  if (!check_frame(ctx, self, spatial) || !check_dtype(ctx, out, self.dtype) ||
      !check_dtype(ctx, indices, ScalarType::Long) || !read_sizes(ctx, self, output_size, spatial, sizes) ||
      !resize_spatial(ctx, out, self, spatial, sizes) || !resize_spatial(ctx, indices, self, spatial, sizes) ||
      !has_data(ctx, out) || !has_data(ctx, indices)) {
    return;
  }
  const bool known = dispatch<kFloats>(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (out.numel() == 0) return;
    run_max(ctx, frame_of(self, spatial), frame_of(out, spatial), frame_of(indices, spatial), self.ptr<T>(),
            out.ptr<T>(), indices.ptr<int64_t>());
  });
  if (!known) ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
}

}  // namespace

void adaptive_avg_pool1d_out(KernelContext& ctx, const Tensor& self, const IntList& output_size, Tensor& out) {
  adaptive_avg_pool(ctx, self, output_size, out, 1);
}
void adaptive_avg_pool2d_out(KernelContext& ctx, const Tensor& self, const IntList& output_size, Tensor& out) {
  adaptive_avg_pool(ctx, self, output_size, out, 2);
}
void adaptive_avg_pool3d_out(KernelContext& ctx, const Tensor& self, const IntList& output_size, Tensor& out) {
  adaptive_avg_pool(ctx, self, output_size, out, 3);
}
void adaptive_avg_pool2d_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& self, Tensor& out) {
  adaptive_avg_pool_backward(ctx, grad_output, self, out, 2);
}
void adaptive_avg_pool3d_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& self, Tensor& out) {
  adaptive_avg_pool_backward(ctx, grad_output, self, out, 3);
}
void adaptive_max_pool2d_out(KernelContext& ctx, const Tensor& self, const IntList& output_size, Tensor& out,
                             Tensor& indices) {
  adaptive_max_pool(ctx, self, output_size, out, indices, 2);
}
void adaptive_max_pool3d_out(KernelContext& ctx, const Tensor& self, const IntList& output_size, Tensor& out,
                             Tensor& indices) {
  adaptive_max_pool(ctx, self, output_size, out, indices, 3);
}

}  // namespace etir
