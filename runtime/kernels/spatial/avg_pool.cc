// Average pooling in one, two and three dims.
#include <type_traits>

#include "kernels/spatial/avg_pool.gen.h"
#include "kernels/spatial/pool.h"
#include "kernels/util/dispatch.h"

namespace etir {
namespace {

using namespace spatial;

/// The sum in A; integers wrap around.
template <typename A>
inline A plus(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    return static_cast<A>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

template <typename A>
inline A quotient(A sum, int64_t divisor) {
  if constexpr (std::is_integral_v<A>) {
    if (divisor == 0) return A(0);
    return divisor == -1 ? static_cast<A>(uint64_t{0} - static_cast<uint64_t>(sum)) : static_cast<A>(sum / divisor);
  } else {
    return divisor == 0 ? A(0) : sum / static_cast<A>(divisor);
  }
}

template <typename A, typename T>
inline void take_sum(A* __restrict sum, const T* __restrict from, int64_t step, int64_t n) {
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) sum[i] = plus(sum[i], convert<A>(from[i]));
  } else {
    for (int64_t i = 0; i < n; ++i) sum[i] = plus(sum[i], convert<A>(from[i * step]));
  }
}

struct Divisor {
  bool count_padding;
  int64_t override;  ///< 0: none

  /// Elements that the window of result `o` of one axis counts.
  int64_t extent(const PoolAxis& axis, int64_t o) const {
    const int64_t start = o * axis.stride - axis.pad, end = start + axis.kernel;
    return count_padding ? min64(end, axis.in + axis.pad) - start : min64(end, axis.in) - max64(start, 0);
  }
  /// What the sum of the window at (d, h, w) is divided by.
  int64_t at(const Pool& pool, const int64_t* position) const {
    if (override != 0) return override;
    return extent(pool.axis[0], position[0]) * extent(pool.axis[1], position[1]) * extent(pool.axis[2], position[2]);
  }
};

template <typename T>
void run(KernelContext& ctx, const Pool& pool, const Divisor& divisor, const Tensor& self, Tensor& out) {
  using A = accumulate_t<T>;
  const Frame in = frame_of(self, pool.spatial), to = frame_of(out, pool.spatial);
  const T* from = self.ptr<T>();
  for_blocks(ctx, pool, in, to, [&](const Block& block, int64_t offset) {
    A sum[kLanes];
    for (int64_t i = 0; i < block.count; ++i) sum[i] = A(0);
    walk_taps(pool, in, block, [&](int64_t lane, int64_t n, int64_t at, int64_t step, int64_t, int64_t) {
      take_sum(sum + lane, from + at, step, n);
    });
    T* result = out.ptr<T>() + offset;
    int64_t position[3] = {block.at[kD], block.at[kH], block.at[kW]};
    if (block.channels) {
      const int64_t by = divisor.at(pool, position);
      for (int64_t i = 0; i < block.count; ++i) result[i] = convert<T>(quotient(sum[i], by));
      return;
    }
    for (int64_t i = 0; i < block.count; ++i, ++position[2]) {
      result[i * block.step_out] = convert<T>(quotient(sum[i], divisor.at(pool, position)));
    }
  });
}

/// Every element of the image collects its part of the windows that it is in.
template <typename T>
void run_backward(KernelContext& ctx, const Pool& pool, const Divisor& divisor, const Tensor& grad, Tensor& out) {
  using A = accumulate_t<T>;
  const Frame from = frame_of(grad, pool.spatial), to = frame_of(out, pool.spatial);
  const T* source = grad.ptr<T>();
  ctx.parallel_for(to.size[kN] * to.size[kC] * to.points(), 1024, [&](int64_t begin, int64_t end) {
    for (int64_t element = begin; element < end; ++element) {
      int64_t at[5], first[3], last[3];
      unravel(element, to.size, 5, at);
      for (int d = 0; d < 3; ++d) {
        const PoolAxis& axis = pool.axis[d];
        const int64_t reach = at[kD + d] + axis.pad;
        first[d] = max64(0, ceil_div(reach - axis.kernel + 1, axis.stride));
        last[d] = min64(axis.out, floor_div(reach, axis.stride) + 1);
      }
      A sum(0);
      int64_t o[3];
      for (o[0] = first[0]; o[0] < last[0]; ++o[0]) {
        for (o[1] = first[1]; o[1] < last[1]; ++o[1]) {
          for (o[2] = first[2]; o[2] < last[2]; ++o[2]) {
            const int64_t offset =
                from.plane(at[kN], at[kC]) + o[0] * from.stride[kD] + o[1] * from.stride[kH] + o[2] * from.stride[kW];
            const int64_t by = divisor.at(pool, o);
            sum = plus(sum, quotient(convert<A>(source[offset]), by));
          }
        }
      }
      int64_t offset = 0;
      for (int d = 0; d < 5; ++d) offset += at[d] * to.stride[d];
      out.ptr<T>()[offset] = convert<T>(sum);
    }
  });
}

constexpr DtypeSet kTypes = kFloats | dtype_bit(ScalarType::Long);

/// `position` is where the override is among the arguments.
bool read_divisor(KernelContext& ctx, bool count_include_pad, std::optional<int64_t> override, int position,
                  Divisor* divisor) {
  divisor->count_padding = count_include_pad;
  divisor->override = override.value_or(0);
  if (override == 0) {
    ctx.fail(Check::KernelArgument, position, 0);
    return false;
  }
  return true;
}

void avg_pool(KernelContext& ctx, const Tensor& self, const PoolArguments& given, bool count_include_pad,
              std::optional<int64_t> override, Tensor& out, int spatial) {
  using arg = arguments::avg_pool2d_out;
  Pool pool;
  Divisor divisor;
  if (!check_frame(ctx, self, spatial) || !check_dtype(ctx, out, self.dtype) ||
      !read_pool(ctx, self, spatial, given, &pool) ||
      !read_divisor(ctx, count_include_pad, override, arg::divisor_override, &divisor)) {
    return;
  }
  int64_t sizes[3];
  pool_sizes(pool, sizes);
  if (!resize_spatial(ctx, out, self, spatial, sizes) || !has_data(ctx, out)) return;
  const bool known = dispatch<kTypes>(self.dtype, [&](auto tag) {
    if (out.numel() > 0) run<typename decltype(tag)::type>(ctx, pool, divisor, self, out);
  });
  if (!known) ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
}

void avg_pool_backward(KernelContext& ctx, const Tensor& grad, const Tensor& self, const PoolArguments& given,
                       bool count_include_pad, std::optional<int64_t> override, Tensor& out, int spatial) {
  using arg = arguments::avg_pool2d_backward_grad_input;
  Pool pool;
  Divisor divisor;
  if (!check_frame(ctx, grad, spatial) || !check_frame(ctx, self, spatial) || !check_dtype(ctx, self, grad.dtype) ||
      !check_dtype(ctx, out, grad.dtype) || !read_pool(ctx, self, spatial, given, &pool) ||
      !read_divisor(ctx, count_include_pad, override, arg::divisor_override, &divisor)) {
    return;
  }
  int64_t expected[kMaxRank];
  pool_sizes(pool, expected + self.rank - spatial);
  for (int d = 0; d < self.rank - spatial; ++d) expected[d] = self.sizes[d];
  if (grad.rank != self.rank) return ctx.fail(Check::KernelRank, grad, grad.rank);
  for (int d = 0; d < self.rank; ++d) {
    if (grad.sizes[d] != expected[d]) return ctx.fail(Check::KernelShape, grad, grad.sizes[d]);
  }
  if (!ctx.resize_like(out, self) || !has_data(ctx, out)) return;
  const bool known = dispatch<kTypes>(grad.dtype, [&](auto tag) {
    if (out.numel() > 0) run_backward<typename decltype(tag)::type>(ctx, pool, divisor, grad, out);
  });
  if (!known) ctx.fail(Check::KernelDtype, grad, static_cast<int64_t>(grad.dtype));
}

}  // namespace

void avg_pool1d_out(KernelContext& ctx, const Tensor& self, const IntList& kernel_size, const IntList& stride,
                    const IntList& padding, bool ceil_mode, bool count_include_pad, Tensor& out) {
  avg_pool(ctx, self, {kernel_size, stride, padding, nullptr, ceil_mode, arguments::avg_pool1d_out::kernel_size},
           count_include_pad, std::nullopt, out, 1);
}
void avg_pool2d_out(KernelContext& ctx, const Tensor& self, const IntList& kernel_size, const IntList& stride,
                    const IntList& padding, bool ceil_mode, bool count_include_pad,
                    std::optional<int64_t> divisor_override, Tensor& out) {
  avg_pool(ctx, self, {kernel_size, stride, padding, nullptr, ceil_mode, arguments::avg_pool2d_out::kernel_size},
           count_include_pad, divisor_override, out, 2);
}
void avg_pool3d_out(KernelContext& ctx, const Tensor& self, const IntList& kernel_size, const IntList& stride,
                    const IntList& padding, bool ceil_mode, bool count_include_pad,
                    std::optional<int64_t> divisor_override, Tensor& out) {
  avg_pool(ctx, self, {kernel_size, stride, padding, nullptr, ceil_mode, arguments::avg_pool3d_out::kernel_size},
           count_include_pad, divisor_override, out, 3);
}
void avg_pool2d_backward_grad_input(KernelContext& ctx, const Tensor& grad_output, const Tensor& self,
                                    const IntList& kernel_size, const IntList& stride, const IntList& padding,
                                    bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor_override,
                                    Tensor& grad_input) {
  avg_pool_backward(
      ctx, grad_output, self,
      {kernel_size, stride, padding, nullptr, ceil_mode, arguments::avg_pool2d_backward_grad_input::kernel_size},
      count_include_pad, divisor_override, grad_input, 2);
}
void avg_pool3d_backward_grad_input(KernelContext& ctx, const Tensor& grad_output, const Tensor& self,
                                    const IntList& kernel_size, const IntList& stride, const IntList& padding,
                                    bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor_override,
                                    Tensor& grad_input) {
  avg_pool_backward(
      ctx, grad_output, self,
      {kernel_size, stride, padding, nullptr, ceil_mode, arguments::avg_pool3d_backward_grad_input::kernel_size},
      count_include_pad, divisor_override, grad_input, 3);
}

}  // namespace etir
