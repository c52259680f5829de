// Values put at given positions of an otherwise empty image: the gradient of maximum pooling, and unpooling.
//
// Both fill the result with zeros and then scatter, one channel after the other; positions are checked before anything
// is written.
#include <cstring>

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
  if (!known) ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(out.dtype));
}

void max_pool_backward(KernelContext& ctx, int spatial) {
  const Tensor& grad = ctx.tensor(0);
  const Tensor& self = ctx.tensor(1);
  const Tensor& indices = ctx.tensor(7);
  Tensor& out = ctx.tensor(8);
  Pool pool;
  if (!check_frame(ctx, 0, grad, spatial) || !check_frame(ctx, 1, self, spatial) ||
      !check_frame(ctx, 7, indices, spatial) || !check_dtype(ctx, 1, self, grad.dtype) ||
      !check_dtype(ctx, 7, indices, ScalarType::Long) || !check_dtype(ctx, 8, out, grad.dtype) ||
      !read_pool(ctx, self, spatial, 2, 5, ctx.boolean(6), &pool)) {
    return;
  }
  if (grad.rank != self.rank) return ctx.fail(Check::KernelRank, 0, grad.rank);
  if (!same_shape(grad, indices)) return ctx.fail(Check::KernelShape, 7, indices.sizes[0]);
  int64_t sizes[3];
  pool_sizes(pool, sizes);
  const int outer = self.rank - spatial;
  for (int d = 0; d < self.rank; ++d) {
    if (grad.sizes[d] != (d < outer ? self.sizes[d] : sizes[d - outer])) {
      return ctx.fail(Check::KernelShape, 0, grad.sizes[d]);
    }
  }
  if (!ctx.resize_like(out, self) || !check_data(ctx, 8, out)) return;
  scatter_any<true>(ctx, grad, indices, out, spatial);
}

void max_unpool(KernelContext& ctx, int spatial, int out_arg) {
  const Tensor& self = ctx.tensor(0);
  const Tensor& indices = ctx.tensor(1);
  Tensor& out = ctx.tensor(out_arg);
  if (!check_frame(ctx, 0, self, spatial) || !check_frame(ctx, 1, indices, spatial) ||
      !check_dtype(ctx, 1, indices, ScalarType::Long) || !check_dtype(ctx, out_arg, out, self.dtype)) {
    return;
  }
  if (!same_shape(self, indices)) return ctx.fail(Check::KernelShape, 1, indices.sizes[0]);
  const IntList list = ctx.int_list(2);
  int64_t sizes[3];
  if (list.size() != static_cast<size_t>(spatial)) {
    return ctx.fail(Check::KernelArgument, 2, static_cast<int64_t>(list.size()));
  }
  for (int d = 0; d < spatial; ++d) {
    sizes[d] = list[d];
    if (sizes[d] < 0 || sizes[d] > INT32_MAX) return ctx.fail(Check::KernelArgument, 2, sizes[d]);
  }
  if (!resize_spatial(ctx, out, self, spatial, sizes) || !check_data(ctx, out_arg, out)) return;
  scatter_any<false>(ctx, self, indices, out, spatial);
}

}  // namespace

void max_pool2d_with_indices_backward_grad_input(KernelContext& ctx) { max_pool_backward(ctx, 2); }
void max_pool3d_with_indices_backward_grad_input(KernelContext& ctx) { max_pool_backward(ctx, 3); }
void max_unpool2d_out(KernelContext& ctx) { max_unpool(ctx, 2, 3); }
void max_unpool3d_out(KernelContext& ctx) { max_unpool(ctx, 3, 5); }

}  // namespace etir
