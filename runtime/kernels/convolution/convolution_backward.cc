// Gradients of convolutions in one, two and three dims, plain and transposed, with groups.
//
// The gradient of the input is a convolution of the output's gradient with the same weight, transposed where the first
// is plain and plain where it is transposed. The gradient of the weight is a blocked matrix product whose depth runs
// over all positions of all images; for a transposed convolution, input and output's gradient change places in it.
#include "kernels/convolution/convolution_backward.gen.h"
#include "kernels/convolution/engine.h"

namespace etir {
namespace {

/// The gradient of one group's weight: w[a][b][tap] = sum over images and positions of
/// small[a][position] * image[b][position * stride - padding + tap * dilation].
template <typename T>
struct WeightGradient {
  using C = compute_t<T>;
  GridDim grid[kSpatial];
  const T* small;
  Strides small_strides;
  const T* image;
  Strides image_strides;
  T* weight;
  Strides w;

  int64_t positions() const { return grid[0].count * grid[1].count * grid[2].count; }

  /// Calls `body(n, at, run, row)` for the runs of positions in a row of the grid that make up depth [p, p + depth).
  template <typename Body>
  void for_each_run(int64_t p, int depth, const Body& body) const {
    for (int row = 0; row < depth;) {
      const int64_t n = (p + row) / positions(), j = (p + row) % positions();
      const int64_t at[kSpatial] = {j / grid[2].count / grid[1].count, j / grid[2].count % grid[1].count,
                                    j % grid[2].count};
      const int run = static_cast<int>(std::min<int64_t>(depth - row, grid[2].count - at[2]));
      body(n, at, run, row);
      row += run;
    }
  }

  void pack_small(int64_t a, int rows, int64_t p, int depth, C* to) const {
    for_each_run(p, depth, [&](int64_t n, const int64_t* at, int run, int row) {
      const T* from = small + n * small_strides.outer + a * small_strides.channel;
      for (int d = 0; d < kSpatial; ++d) from += at[d] * small_strides.spatial[d];
      for (int r = 0; r < rows; ++r) {
        read_elements(from + r * small_strides.channel, small_strides.spatial[2], run, to + r * depth + row);
      }
    });
  }

  /// Column j is channel j / taps and tap j % taps of the image.
  void column(int64_t j, int64_t* b, int64_t* tap) const {
    tap[2] = j % grid[2].taps, j /= grid[2].taps;
    tap[1] = j % grid[1].taps, j /= grid[1].taps;
    tap[0] = j % grid[0].taps;
    *b = j / grid[0].taps;
  }
  void pack_image(int64_t p, int depth, int64_t j, int cols, C* to) const {
    constexpr int kPanel = GemmBlocks<C>::kPanel;
    const GridDim& gx = grid[2];
    for (int c = 0; c < kPanel; ++c) {
      if (c >= cols) {
        for (int row = 0; row < depth; ++row) to[row * kPanel + c] = C(0);
        continue;
      }
      int64_t b, tap[kSpatial];
      column(j + c, &b, tap);
      for_each_run(p, depth, [&](int64_t n, const int64_t* at, int run, int row) {
        C* target = to + row * kPanel + c;
        int begin = 0, end = 0;
        if (grid[0].meets(at[0], tap[0]) && grid[1].meets(at[1], tap[1])) {
          end = run;
          while (begin < end && !gx.meets(at[2] + begin, tap[2])) ++begin;
          while (end > begin && !gx.meets(at[2] + end - 1, tap[2])) --end;
        }
        for (int i = 0; i < begin; ++i) target[i * kPanel] = C(0);
        if (begin < end) {
          const T* from = image + n * image_strides.outer + b * image_strides.channel;
          for (int d = 0; d < kSpatial; ++d) {
            const int64_t o = at[d] + (d == 2 ? begin : 0);
            from += (o * grid[d].scale + grid[d].base + tap[d] * grid[d].tap_step) * image_strides.spatial[d];
          }
          const int64_t step = gx.scale * image_strides.spatial[2];
          for (int i = begin; i < end; ++i) target[i * kPanel] = to_compute(from[(i - begin) * step]);
        }
        for (int i = end; i < run; ++i) target[i * kPanel] = C(0);
      });
    }
  }
  void store(const C* sums, int stride, int64_t a, int rows, int64_t j, int cols, bool first) const {
    for (int c = 0; c < cols; ++c) {
      int64_t b, tap[kSpatial];
      column(j + c, &b, tap);
      T* to = weight + a * w.outer + b * w.channel;
      for (int d = 0; d < kSpatial; ++d) to += tap[d] * w.spatial[d];
      for (int r = 0; r < rows; ++r) {
        const C sum = sums[r * stride + c];
        to[r * w.outer] = from_compute<T>(first ? sum : to_compute(to[r * w.outer]) + sum);
      }
    }
  }
};

template <typename T>
void weight_gradient(KernelContext& ctx, const Shape& s, const Tensor& grad, const Tensor& input,
                     const Tensor& result) {
  using C = compute_t<T>;
  using Q = WeightGradient<T>;
  // A plain convolution from the larger image to the smaller one describes both kinds.
  Shape plain = s.transposed ? s.reversed() : s;
  const Tensor &small = s.transposed ? input : grad, &image = s.transposed ? grad : input;
  Q q;
  for (int d = 0; d < kSpatial; ++d) q.grid[d] = grid_dim(plain, d, 0);
  q.small_strides = strides_of(small);
  q.image_strides = strides_of(image);
  q.w = strides_of(result);
  for (int64_t group = 0; group < s.groups; ++group) {
    q.small = small.ptr<T>() + group * plain.out_channels * q.small_strides.channel;
    q.image = image.ptr<T>() + group * plain.in_channels * q.image_strides.channel;
    q.weight = result.ptr<T>() + group * plain.out_channels * q.w.outer;
    Gemm<C> g;
    g.m = plain.out_channels, g.n = plain.in_channels * plain.taps(), g.k = s.batch * q.positions();
    g.context = &q;
    g.accumulates = is_own_compute_v<T>;
    // Few numbers of many products each: writing them more often costs nothing beside packing the image.
    if (g.m * g.n <= 4 * GemmBlocks<C>::kTile) g.most_depth = std::min(g.most_depth, 64);
    g.pack_a = [](const void* q, int64_t i, int rows, int64_t p, int depth, C* to) {
      static_cast<const Q*>(q)->pack_small(i, rows, p, depth, to);
    };
    g.pack_b = [](const void* q, int64_t p, int depth, int64_t j, int cols, C* to) {
      static_cast<const Q*>(q)->pack_image(p, depth, j, cols, to);
    };
    g.store = [](const void* q, const C* sums, int stride, int64_t i, int rows, int64_t j, int cols, bool first) {
      static_cast<const Q*>(q)->store(sums, stride, i, rows, j, cols, first);
    };
    gemm(ctx, g);
  }
}

template <typename T>
void bias_gradient(const Shape& s, const Tensor& grad, const Tensor& result) {
  const Strides strides = strides_of(grad);
  for (int64_t c = 0; c < s.out_channels * s.groups; ++c) {
    double sum = 0;
    for (int64_t n = 0; n < s.batch; ++n) {
      const T* image = grad.ptr<T>() + n * strides.outer + c * strides.channel;
      for (int64_t z = 0; z < s.out[0]; ++z) {
        for (int64_t y = 0; y < s.out[1]; ++y) {
          const T* row = image + z * strides.spatial[0] + y * strides.spatial[1];
          for (int64_t x = 0; x < s.out[2]; ++x) sum += static_cast<double>(to_compute(row[x * strides.spatial[2]]));
        }
      }
    }
    result.ptr<T>()[c] = convert<T>(sum);
  }
}

/// Gives result `i` its shape; false, with the failure recorded, if that cannot be.
bool make_result(KernelContext& ctx, Tensor& result, ScalarType dtype, const int64_t* sizes, int rank) {
  if (result.dtype != dtype) {
    return ctx.fail(Check::KernelDtypeMismatch, result, static_cast<int64_t>(result.dtype)), false;
  }
  return ctx.resize(result, sizes, rank) && has_data(ctx, result);
}

}  // namespace

void convolution_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& input, const Tensor& weight,
                              std::optional<IntList> /*bias_sizes*/, const IntList& stride, const IntList& padding,
                              const IntList& dilation, bool transposed, const IntList& output_padding, int64_t groups,
                              const BoolList& output_mask, Tensor& out0, Tensor& out1, Tensor& out2) {
  using arg = arguments::convolution_backward_out;
  const Tensor& grad = grad_output;
  if (!contains(kFloats & kSelectedDtypes, grad.dtype)) {
    return ctx.fail(Check::KernelDtype, grad, static_cast<int64_t>(grad.dtype));
  }
  for (const Tensor* tensor : {&input, &weight}) {
    if (tensor->dtype == grad.dtype) continue;
    return ctx.fail(Check::KernelDtypeMismatch, *tensor, static_cast<int64_t>(tensor->dtype));
  }
  Shape s;
  if (!read_shape(ctx, input, weight, {stride, padding, dilation, transposed, output_padding, groups, arg::stride}, &s))
    return;
  int64_t sizes[kMaxRank];
  const int rank = result_sizes(s, sizes);
  if (grad.rank != rank) return ctx.fail(Check::KernelRank, grad, grad.rank);
  for (int d = 0; d < rank; ++d) {
    if (grad.sizes[d] != sizes[d]) return ctx.fail(Check::KernelShape, grad, grad.sizes[d]);
  }
  const BoolList& mask = output_mask;
  if (mask.size() != 3) return ctx.fail(Check::KernelArgument, arg::output_mask, static_cast<int64_t>(mask.size()));
  const int64_t bias_size = sizes[1];
  Tensor* const results[] = {&out0, &out1, &out2};
  for (int i = 0; i < 3; ++i) {
    const Tensor& like = i == 0 ? input : weight;
    for (int d = 0; d < rank; ++d) sizes[d] = like.sizes[d];
    if (mask[i] && !make_result(ctx, *results[i], grad.dtype, i == 2 ? &bias_size : sizes, i == 2 ? 1 : rank)) return;
  }
  if (!has_data(ctx, grad) || !has_data(ctx, input) || !has_data(ctx, weight)) return;
  const Tensor &grad_input = out0, &grad_weight = out1;
  const Strides from = strides_of(grad), to = strides_of(grad_input);
  Strides w = strides_of(weight);
  const int64_t group_stride = w.outer * (s.transposed ? s.in_channels : s.out_channels);
  // What is the output channel in the reversed convolution is the input channel of the first.
  if (!s.transposed) std::swap(w.outer, w.channel);
  dispatch<kFloats>(grad.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (mask[0] && grad_input.numel() > 0) {
      convolve(ctx, s.reversed(), grad.ptr<T>(), from, weight.ptr<T>(), w, group_stride, nullptr, grad_input.ptr<T>(),
               to);
    }
    if (mask[1]) weight_gradient<T>(ctx, s, grad, input, grad_weight);
    if (mask[2]) bias_gradient<T>(s, grad, out2);
  });
}

}  // namespace etir
