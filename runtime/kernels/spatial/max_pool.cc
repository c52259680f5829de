// Maximum pooling in two and three dims, with the position of each maximum.
//
// As in torch: of equal elements the first counts, a NaN beats every number and a later NaN an earlier one; padding
// never counts.
#include <cstdint>
#include <limits>

#include "kernels/spatial/pool.h"
#include "kernels/util/dispatch.h"

namespace etir {
namespace {

using namespace spatial;

/// Lanes keep their maximum and its position; -1 before the first element.
template <typename A, typename T>
inline void take_max(A* __restrict best, int32_t* __restrict where, const T* __restrict from, int64_t step, int64_t n,
                     int32_t index, int32_t index_step) {
  const auto take = [&](int64_t i, int64_t at) {
    const A value = convert<A>(from[at]);
    const bool better = (value > best[i]) | (value != value) | (where[i] < 0);
    best[i] = better ? value : best[i];
    where[i] = better ? index + static_cast<int32_t>(i) * index_step : where[i];
  };
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) take(i, i);
  } else {
    for (int64_t i = 0; i < n; ++i) take(i, i * step);
  }
}

template <typename T>
void run(KernelContext& ctx, const Pool& pool, const Tensor& self, Tensor& out, Tensor& indices) {
  using A = accumulate_t<T>;
  const Frame in = frame_of(self, pool.spatial), to = frame_of(out, pool.spatial);
  const Frame positions = frame_of(indices, pool.spatial);
  const T* from = self.ptr<T>();
  for_blocks(ctx, pool, in, to, [&](const Block& block, int64_t offset) {
    A best[kLanes];
    int32_t where[kLanes];
    for (int64_t i = 0; i < block.count; ++i) {
      best[i] = std::numeric_limits<A>::lowest();
      where[i] = -1;
    }
    walk_taps(pool, in, block,
              [&](int64_t lane, int64_t n, int64_t at, int64_t step, int64_t index, int64_t index_step) {
                take_max(best + lane, where + lane, from + at, step, n, static_cast<int32_t>(index),
                         static_cast<int32_t>(index_step));
              });
    T* result = out.ptr<T>() + offset;
    for (int64_t i = 0; i < block.count; ++i) result[i * block.step_out] = convert<T>(best[i]);
    int64_t* position = indices.ptr<int64_t>();
    for (int d = 0; d < 5; ++d) position += block.at[d] * positions.stride[d];
    const int64_t step = positions.stride[block.channels ? kC : kW];
    for (int64_t i = 0; i < block.count; ++i) position[i * step] = where[i];
  });
}

void max_pool(KernelContext& ctx, int spatial) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(6);
  Tensor& indices = ctx.tensor(7);
  Pool pool;
  if (!check_frame(ctx, 0, self, spatial) || !check_dtype(ctx, 6, out, self.dtype) ||
      !check_dtype(ctx, 7, indices, ScalarType::Long) || !read_pool(ctx, self, spatial, 1, 4, ctx.boolean(5), &pool)) {
    return;
  }
  int64_t sizes[3];
  pool_sizes(pool, sizes);
  if (!resize_spatial(ctx, out, self, spatial, sizes) || !resize_spatial(ctx, indices, self, spatial, sizes)) return;
  if (!check_data(ctx, 6, out) || !check_data(ctx, 7, indices)) return;
  const bool known = dispatch<kReal>(self.dtype, [&](auto tag) {
    if (out.numel() > 0) run<typename decltype(tag)::type>(ctx, pool, self, out, indices);
  });
  if (!known) ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
}

}  // namespace

void max_pool2d_with_indices_out(KernelContext& ctx) { max_pool(ctx, 2); }
void max_pool3d_with_indices_out(KernelContext& ctx) { max_pool(ctx, 3); }

}  // namespace etir
