// Maximum pooling in two and three dims, with the position of each maximum or without.
//
// As in torch: of equal elements the first counts, a NaN beats every number and a later NaN an earlier one; padding
// never counts. Rows of float that are neighbors in memory have a loop of their own.
#include <cstdint>
#include <limits>

#include "kernels/spatial/max_pool.gen.h"
#include "kernels/spatial/pool.h"
#include "kernels/util/dispatch.h"
#include "kernels/util/vectors.h"

namespace etir {
namespace {

using namespace spatial;

/// What is below every element that counts.
template <typename A>
constexpr A kLeast =
    std::numeric_limits<A>::has_infinity ? -std::numeric_limits<A>::infinity() : std::numeric_limits<A>::lowest();

/// Lanes keep their maximum and, with `kIndices`, its position; -1 before the first element.
template <bool kIndices, typename A, typename T>
inline void take_max(A* __restrict best, int32_t* __restrict where, const T* __restrict from, int64_t step, int64_t n,
                     int32_t index, int32_t index_step) {
  const auto take = [&](int64_t i, int64_t at) {
    const A value = convert<A>(from[at]);
    bool better = (value > best[i]) | (value != value);
    if constexpr (kIndices) {
      better |= where[i] < 0;
      where[i] = better ? index + static_cast<int32_t>(i) * index_step : where[i];
    }
    best[i] = better ? value : best[i];
  };
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) take(i, i);
  } else {
    for (int64_t i = 0; i < n; ++i) take(i, i * step);
  }
}

#if ETIR_VECTOR_BYTES > 0 && !defined(__OPTIMIZE_SIZE__)
#define ETIR_POOL_ROWS 1
/// Images of float whose rows lie in memory and are gone through by steps of one or two: vectors of results whose
/// windows are inside the row, and one by one those that are not.
template <bool kIndices>
struct FloatRows {
  using V = Vector<float>::type;
  typedef int32_t I __attribute__((vector_size(ETIR_VECTOR_BYTES)));
  static constexpr int kVector = Vector<float>::kLanes;

  const Pool& pool;
  const Frame &in, &to, &positions;

  /// Results [low, high) of a row have all of their window inside.
  int64_t low() const { return ceil_div(pool.axis[2].pad, pool.axis[2].stride); }
  int64_t high() const {
    const PoolAxis& axis = pool.axis[2];
    return min64(axis.out, floor_div(axis.in - 1 + axis.pad - (axis.kernel - 1) * axis.dilation, axis.stride) + 1);
  }
  bool fits() const {
    return pool.axis[2].stride <= 2 && in.stride[kW] == 1 && to.stride[kW] == 1 &&
           (!kIndices || positions.stride[kW] == 1) && high() - low() >= kVector;
  }

  /// One row of results: its channel, and the rows of the image that are in its windows.
  struct Row {
    const float* plane;
    int64_t z, z_count, y, y_count;
    float* out;
    int64_t* where;  ///< null without kIndices
  };

  /// Calls `tap(shift, index)` for taps [w0, w1) along the row of all rows of a window, where `shift` is from the
  /// channel's first element to that of result 0 of the row, and `index` is its number in the image.
  template <typename Tap>
  void walk(const Row& row, int64_t w0, int64_t w1, const Tap& tap) const {
    const PoolAxis &depth = pool.axis[0], &height = pool.axis[1], &width = pool.axis[2];
    for (int64_t kd = 0; kd < row.z_count; ++kd) {
      const int64_t z = row.z + kd * depth.dilation;
      for (int64_t kh = 0; kh < row.y_count; ++kh) {
        const int64_t y = row.y + kh * height.dilation;
        const int64_t shift = z * in.stride[kD] + y * in.stride[kH] - width.pad;
        const int64_t index = (z * in.size[kH] + y) * in.size[kW] - width.pad;
        for (int64_t kw = w0; kw < w1; ++kw) tap(shift + kw * width.dilation, index + kw * width.dilation);
      }
    }
  }

  /// kVectors vectors of results from `x` on, which may overlap: none goes past `end`.
  template <int kStride, int kVectors>
  void vectors(const Row& row, int64_t x, int64_t end) const {
    V best[kVectors];
    I where[kVectors];
    int64_t at[kVectors];
    // Where nothing is larger than minus infinity, the first tap counts.
    const int64_t first = (row.z * in.size[kH] + row.y) * in.size[kW] - pool.axis[2].pad;
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      best[v] = V{} + kLeast<float>;
      if constexpr (kIndices) where[v] = I{} + static_cast<int32_t>(first);
      at[v] = min64(x + v * kVector, end - kVector);
    }
    walk(row, 0, pool.axis[2].kernel, [&](int64_t shift, int64_t index) {
      const I number = I{} + static_cast<int32_t>(index);
      const float* p = row.plane + shift;
      ETIR_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const float* from = p + at[v] * kStride;
        const V value = kStride == 1 ? load_vector<float>(from) : load_every_second<float>(from);
        const I better = (value > best[v]) | (value != value);
        best[v] = better ? value : best[v];
        if constexpr (kIndices) where[v] = better ? number : where[v];
      }
    });
    ETIR_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      store_vector<float>(row.out + at[v], best[v]);
      if constexpr (!kIndices) continue;
      int32_t numbers[kVector];
      std::memcpy(numbers, &where[v], sizeof(numbers));
      int64_t* to = row.where + at[v];
      for (int i = 0; i < kVector; ++i) to[i] = numbers[i] + (static_cast<int32_t>(at[v]) + i) * kStride;
    }
  }
  template <int kStride>
  void inside(const Row& row, int64_t x, int64_t end) const {
    for (; x + 2 * kVector < end; x += 4 * kVector) vectors<kStride, 4>(row, x, end);
    if (x < end) vectors<kStride, 2>(row, x, end);
  }
  void point(const Row& row, int64_t x) const {
    const PoolAxis& width = pool.axis[2];
    float best = kLeast<float>;
    int64_t where = -1, w0, w1;
    width.taps(x, &w0, &w1);
    walk(row, w0, w1, [&](int64_t shift, int64_t index) {
      const float value = row.plane[shift + x * width.stride];
      if (!(value > best || value != value || (kIndices && where < 0))) return;
      best = value;
      where = index + x * width.stride;
    });
    row.out[x] = best;
    if constexpr (kIndices) row.where[x] = where;
  }

  void run(KernelContext& ctx, const float* from, float* out, int64_t* where) const {
    const int64_t sizes[4] = {to.size[kN], to.size[kC], to.size[kD], to.size[kH]};
    const PoolAxis &depth = pool.axis[0], &height = pool.axis[1];
    const int64_t begin_inside = low(), end_inside = high();
    ctx.parallel_for(sizes[0] * sizes[1] * sizes[2] * sizes[3], max64(1, 4096 / to.size[kW]),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t number = begin; number < end; ++number) {
                         int64_t at[4], out_at = 0, where_at = 0, stop;
                         unravel(number, sizes, 4, at);
                         for (int d = 0; d < 4; ++d) {
                           out_at += at[d] * to.stride[d];
                           if constexpr (kIndices) where_at += at[d] * positions.stride[d];
                         }
                         Row row;
                         row.plane = from + in.plane(at[kN], at[kC]);
                         row.out = out + out_at, row.where = kIndices ? where + where_at : nullptr;
                         depth.taps(at[kD], &row.z, &stop);
                         row.z_count = stop - row.z;
                         row.z = at[kD] * depth.stride - depth.pad + row.z * depth.dilation;
                         height.taps(at[kH], &row.y, &stop);
                         row.y_count = stop - row.y;
                         row.y = at[kH] * height.stride - height.pad + row.y * height.dilation;
                         int64_t x = 0;
                         for (; x < begin_inside; ++x) point(row, x);
                         if (pool.axis[2].stride == 1) {
                           inside<1>(row, x, end_inside);
                         } else {
                           inside<2>(row, x, end_inside);
                         }
                         for (x = end_inside; x < to.size[kW]; ++x) point(row, x);
                       }
                     });
  }
};
#endif

/// `indices` is null without kIndices.
template <bool kIndices, typename T>
void run(KernelContext& ctx, const Pool& pool, const Tensor& self, Tensor& out, Tensor* indices) {
  using A = accumulate_t<T>;
  const Frame in = frame_of(self, pool.spatial), to = frame_of(out, pool.spatial);
  const Frame positions = kIndices ? frame_of(*indices, pool.spatial) : to;
  int64_t* const numbers = kIndices ? indices->ptr<int64_t>() : nullptr;
  const T* from = self.ptr<T>();
#ifdef ETIR_POOL_ROWS
  if constexpr (std::is_same_v<T, float>) {
    const FloatRows<kIndices> rows{pool, in, to, positions};
    if (!channels_inside(in, to) && rows.fits()) return rows.run(ctx, from, out.ptr<float>(), numbers);
  }
#endif
  for_blocks(ctx, pool, in, to, [&](const Block& block, int64_t offset) {
    A best[kLanes];
    int32_t where[kLanes];
    for (int64_t i = 0; i < block.count; ++i) {
      best[i] = kLeast<A>;
      where[i] = -1;
    }
    walk_taps(pool, in, block,
              [&](int64_t lane, int64_t n, int64_t at, int64_t step, int64_t index, int64_t index_step) {
                take_max<kIndices>(best + lane, where + lane, from + at, step, n, static_cast<int32_t>(index),
                                   static_cast<int32_t>(index_step));
              });
    T* result = out.ptr<T>() + offset;
    for (int64_t i = 0; i < block.count; ++i) result[i * block.step_out] = convert<T>(best[i]);
    if constexpr (kIndices) {
      int64_t* position = numbers;
      for (int d = 0; d < 5; ++d) position += block.at[d] * positions.stride[d];
      const int64_t step = positions.stride[block.channels ? kC : kW];
      for (int64_t i = 0; i < block.count; ++i) position[i * step] = where[i];
    }
  });
}

template <bool kIndices>
void max_pool(KernelContext& ctx, const Tensor& self, const PoolArguments& given, Tensor& out, Tensor* indices,
              int spatial) {
  Pool pool;
  if (!check_frame(ctx, self, spatial) || !check_dtype(ctx, out, self.dtype) ||
      (kIndices && !check_dtype(ctx, *indices, ScalarType::Long)) || !read_pool(ctx, self, spatial, given, &pool)) {
    return;
  }
  int64_t sizes[3];
  pool_sizes(pool, sizes);
  if (!resize_spatial(ctx, out, self, spatial, sizes) ||
      (kIndices && !resize_spatial(ctx, *indices, self, spatial, sizes))) {
    return;
  }
  if (!has_data(ctx, out) || (kIndices && !has_data(ctx, *indices))) return;
  const bool known = dispatch<kReal>(self.dtype, [&](auto tag) {
    if (out.numel() > 0) run<kIndices, typename decltype(tag)::type>(ctx, pool, self, out, indices);
  });
  if (!known) ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
}

}  // namespace

void max_pool2d_with_indices_out(KernelContext& ctx, const Tensor& self, const IntList& kernel_size,
                                 const IntList& stride, const IntList& padding, const IntList& dilation, bool ceil_mode,
                                 Tensor& out, Tensor& indices) {
  const int first = arguments::max_pool2d_with_indices_out::kernel_size;
  max_pool<true>(ctx, self, {kernel_size, stride, padding, &dilation, ceil_mode, first}, out, &indices, 2);
}
void max_pool3d_with_indices_out(KernelContext& ctx, const Tensor& self, const IntList& kernel_size,
                                 const IntList& stride, const IntList& padding, const IntList& dilation, bool ceil_mode,
                                 Tensor& out, Tensor& indices) {
  const int first = arguments::max_pool3d_with_indices_out::kernel_size;
  max_pool<true>(ctx, self, {kernel_size, stride, padding, &dilation, ceil_mode, first}, out, &indices, 3);
}
void max_pool2d_out(KernelContext& ctx, const Tensor& self, const IntList& kernel_size, const IntList& stride,
                    const IntList& padding, const IntList& dilation, bool ceil_mode, Tensor& out) {
  const int first = arguments::max_pool2d_out::kernel_size;
  max_pool<false>(ctx, self, {kernel_size, stride, padding, &dilation, ceil_mode, first}, out, nullptr, 2);
}
void max_pool3d_out(KernelContext& ctx, const Tensor& self, const IntList& kernel_size, const IntList& stride,
                    const IntList& padding, const IntList& dilation, bool ceil_mode, Tensor& out) {
  const int first = arguments::max_pool3d_out::kernel_size;
  max_pool<false>(ctx, self, {kernel_size, stride, padding, &dilation, ceil_mode, first}, out, nullptr, 3);
}

}  // namespace etir
