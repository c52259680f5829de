// Values put at given positions of an otherwise empty image: the gradient of maximum pooling, and unpooling.
//
// Both fill the result with zeros and then scatter, one channel after the other; positions are checked before anything
// is written.
#include <cstring>

#include "kernels/spatial/max_unpool.gen.h"
#include "kernels/spatial/pool.h"
#include "kernels/util/dispatch.h"

namespace etir {
namespace {

using namespace spatial;

/// Offset of the element of number `point` in its channel.
inline int64_t offset_in_plane(const Frame& frame, int64_t point) {
  int64_t at[3];
  unravel(point, frame.size + kD, 3, at);
  return at[0] * frame.stride[kD] + at[1] * frame.stride[kH] + at[2] * frame.stride[kW];
}

/// Whether all positions are in [0, points).
bool check_positions(KernelContext& ctx, const Tensor& indices, int64_t points) {
  const int64_t* values = indices.ptr<int64_t>();
  const int64_t count = indices.numel();
  for (int64_t i = 0; i < count; ++i) {
    if (values[i] < 0 || values[i] >= points) {
      ctx.fail(Check::KernelIndex, values[i], points);
      return false;
    }
  }
  return true;
}

/// Adds (or, for unpooling, puts) each value at its position.
template <typename T, bool kAdd>
void scatter(KernelContext& ctx, const Tensor& values, const Tensor& indices, Tensor& out, int spatial) {
  const Frame from = frame_of(values, spatial), where = frame_of(indices, spatial), to = frame_of(out, spatial);
  const T* source = values.ptr<T>();
  const int64_t* positions = indices.ptr<int64_t>();
  std::memset(out.data, 0, out.nbytes());
  const int64_t points = from.points();
  ctx.parallel_for(from.size[kN] * from.size[kC], max64(1, 4096 / max64(1, points)), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t n = plane / from.size[kC], c = plane % from.size[kC];
      T* result = out.ptr<T>() + to.plane(n, c);
      for (int64_t point = 0; point < points; ++point) {
        const int64_t position = positions[where.plane(n, c) + offset_in_plane(where, point)];
        const T value = source[from.plane(n, c) + offset_in_plane(from, point)];
        T& target = result[offset_in_plane(to, position)];
        if constexpr (kAdd) {
          using A = accumulate_t<T>;
          target = convert<T>(convert<A>(target) + convert<A>(value));
        } else {
          target = value;
        }
      }
    }
  });
}

template <bool kAdd>
void scatter_any(KernelContext& ctx, const Tensor& values, const Tensor& indices, Tensor& out, int spatial) {
  const bool known = dispatch<kFloats>(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (out.numel() == 0) return;
    if (check_positions(ctx, indices, frame_of(out, spatial).points())) {
      scatter<T, kAdd>(ctx, values, indices, out, spatial);
    }
  });
  if (!known) ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
}

void max_pool_backward(KernelContext& ctx, const Tensor& grad, const Tensor& self, const PoolArguments& given,
                       const Tensor& indices, Tensor& out, int spatial) {
  Pool pool;
  if (!check_frame(ctx, grad, spatial) || !check_frame(ctx, self, spatial) || !check_frame(ctx, indices, spatial) ||
      !check_dtype(ctx, self, grad.dtype) || !check_dtype(ctx, indices, ScalarType::Long) ||
      !check_dtype(ctx, out, grad.dtype) || !read_pool(ctx, self, spatial, given, &pool)) {
    return;
  }
  if (grad.rank != self.rank) return ctx.fail(Check::KernelRank, grad, grad.rank);
  if (!same_shape(grad, indices)) return ctx.fail(Check::KernelShape, indices, indices.sizes[0]);
  int64_t sizes[3];
  pool_sizes(pool, sizes);
  const int outer = self.rank - spatial;
  for (int d = 0; d < self.rank; ++d) {
    if (grad.sizes[d] != (d < outer ? self.sizes[d] : sizes[d - outer])) {
      return ctx.fail(Check::KernelShape, grad, grad.sizes[d]);
    }
  }
  if (!ctx.resize_like(out, self) || !has_data(ctx, out)) return;
  scatter_any<true>(ctx, grad, indices, out, spatial);
}

void max_unpool(KernelContext& ctx, const Tensor& self, const Tensor& indices, const IntList& list, Tensor& out,
                int spatial) {
  using arg = arguments::max_unpool2d_out;
  if (!check_frame(ctx, self, spatial) || !check_frame(ctx, indices, spatial) ||
      !check_dtype(ctx, indices, ScalarType::Long) || !check_dtype(ctx, out, self.dtype)) {
    return;
  }
  if (!same_shape(self, indices)) return ctx.fail(Check::KernelShape, indices, indices.sizes[0]);
  int64_t sizes[3];
  if (list.size() != static_cast<size_t>(spatial)) {
    return ctx.fail(Check::KernelArgument, arg::output_size, static_cast<int64_t>(list.size()));
  }
  for (int d = 0; d < spatial; ++d) {
    sizes[d] = list[d];
    if (sizes[d] < 0 || sizes[d] > INT32_MAX) return ctx.fail(Check::KernelArgument, arg::output_size, sizes[d]);
  }
  if (!resize_spatial(ctx, out, self, spatial, sizes) || !has_data(ctx, out)) return;
  scatter_any<false>(ctx, self, indices, out, spatial);
}

}  // namespace

void max_pool2d_with_indices_backward_grad_input(KernelContext& ctx, const Tensor& grad_output, const Tensor& self,
                                                 const IntList& kernel_size, const IntList& stride,
                                                 const IntList& padding, const IntList& dilation, bool ceil_mode,
                                                 const Tensor& indices, Tensor& grad_input) {
  max_pool_backward(ctx, grad_output, self,
                    {kernel_size, stride, padding, &dilation, ceil_mode,
                     arguments::max_pool2d_with_indices_backward_grad_input::kernel_size},
                    indices, grad_input, 2);
}
void max_pool3d_with_indices_backward_grad_input(KernelContext& ctx, const Tensor& grad_output, const Tensor& self,
                                                 const IntList& kernel_size, const IntList& stride,
                                                 const IntList& padding, const IntList& dilation, bool ceil_mode,
                                                 const Tensor& indices, Tensor& grad_input) {
  max_pool_backward(ctx, grad_output, self,
                    {kernel_size, stride, padding, &dilation, ceil_mode,
                     arguments::max_pool3d_with_indices_backward_grad_input::kernel_size},
                    indices, grad_input, 3);
}
void max_unpool2d_out(KernelContext& ctx, const Tensor& self, const Tensor& indices, const IntList& output_size,
                      Tensor& out) {
  max_unpool(ctx, self, indices, output_size, out, 2);
}
void max_unpool3d_out(KernelContext& ctx, const Tensor& self, const Tensor& indices, const IntList& output_size,
                      const IntList& /*stride*/, const IntList& /*padding*/, Tensor& out) {
  max_unpool(ctx, self, indices, output_size, out, 3);
}

}  // namespace etir
