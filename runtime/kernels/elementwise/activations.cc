// Activation functions. All are branch-free expressions of vectorised functions.
#include <cmath>

#include "kernels/elementwise/activation_math.h"
#include "kernels/elementwise/operators.h"
#include "kernels/util/copy.h"
#include "kernels/util/vector_math.h"

namespace etir {

void gelu_out(KernelContext& ctx) {
  const StringView approximate = ctx.string(1);
  if (approximate == "tanh") {
    unary<kFloats>(ctx, 0, 2, [](auto x) {
      using T = decltype(x);
      return T(0.5) * x * (T(1) + vtanh(gelu_tanh_argument(x)));
    });
  } else if (approximate == "none") {
    unary<kFloats>(ctx, 0, 2, [](auto x) {
      using T = decltype(x);
      return T(0.5) * x * (T(1) + verf(x * static_cast<T>(kSqrtHalf)));
    });
  } else {
    ctx.fail(Check::KernelArgument, 1, static_cast<int64_t>(approximate.size));
  }
}

void elu_out(KernelContext& ctx) {
  const double alpha = ctx.real(1), scale = ctx.real(2), input_scale = ctx.real(3);
  unary<kFloats>(ctx, 0, 4, [negative = alpha * scale, scale, input_scale](auto x) {
    using T = decltype(x);
    const T below = vexpm1(x * static_cast<T>(input_scale)) * static_cast<T>(negative);
    return x > T(0) ? x * static_cast<T>(scale) : below;
  });
}
void celu_out(KernelContext& ctx) {
  const double alpha = ctx.real(1);
  if (alpha == 0) return ctx.fail(Check::KernelArgument, 1, 0);
  unary<kFloats>(ctx, 0, 2, [alpha, inverse = 1.0 / alpha](auto x) {
    using T = decltype(x);
    const T below = vexpm1(x * static_cast<T>(inverse)) * static_cast<T>(alpha);
    return x > T(0) ? x : below;
  });
}

void leaky_relu_out(KernelContext& ctx) {
  const double slope = ctx.real(1);
  unary<kFloats>(ctx, 0, 2, [slope](auto x) {
    using T = decltype(x);
    const T below = x * static_cast<T>(slope);
    return x > T(0) ? x : below;
  });
}

void silu_out(KernelContext& ctx) {
  if (is_complex(ctx.tensor(0).dtype)) {
    return unary<kFullComplex>(ctx, 0, 1, [](auto x) { return x / (decltype(x)(1) + std::exp(-x)); });
  }
  unary<kFloats>(ctx, 0, 1, [](auto x) { return x / (decltype(x)(1) + vexp(-x)); });
}
void mish_out(KernelContext& ctx) {
  unary<kFloats>(ctx, 0, 1, [](auto x) { return x * vtanh(softplus_of(x)); });
}
void hardsigmoid_out(KernelContext& ctx) {
  unary<kFloats>(ctx, 0, 1, [](auto x) { return relu6_of(x + decltype(x)(3)) / decltype(x)(6); });
}
void hardswish_out(KernelContext& ctx) {
  unary<kFloats>(ctx, 0, 1, [](auto x) { return x * relu6_of(x + decltype(x)(3)) / decltype(x)(6); });
}

/// log(1 + e^(beta x)) / beta, and x itself where beta x is above the threshold.
void softplus_out(KernelContext& ctx) {
  const double beta = ctx.real(1), threshold = ctx.real(2);
  unary<kFloats>(ctx, 0, 3, [beta, threshold](auto x) {
    using T = decltype(x);
    const T scaled = x * static_cast<T>(beta);
    const T curve = vlog1p(vexp(scaled)) / static_cast<T>(beta);
    return scaled > static_cast<T>(threshold) ? x : curve;
  });
}

/// The second result, e^-|x|, is what the backward operator wants.
void log_sigmoid_forward_out(KernelContext& ctx) {
  unary<kFloats>(ctx, 0, 2, [](auto x) { return vexp(-std::fabs(x)); });
  unary<kFloats>(ctx, 0, 1, [](auto x) {
    using T = decltype(x);
    return (x > T(0) ? T(0) : x) - vlog1p(vexp(-std::fabs(x)));
  });
}

void hardshrink_out(KernelContext& ctx) {
  const double lambda = ctx.real(1);
  unary<kFloats>(ctx, 0, 2, [lambda](auto x) {
    using T = decltype(x);
    return (x >= static_cast<T>(-lambda)) & (x <= static_cast<T>(lambda)) ? T(0) : x;
  });
}
void softshrink_out(KernelContext& ctx) {
  const double lambda = ctx.real(1);
  if (!(lambda >= 0)) return ctx.fail(Check::KernelArgument, 1, -1);
  unary<kFloats>(ctx, 0, 2, [lambda](auto x) {
    using T = decltype(x);
    const T bound = static_cast<T>(lambda);
    const T above = x - bound, below = x + bound, zero = x * T(0);
    return x > bound ? above : x < -bound ? below : zero;
  });
}

/// x where it is above the threshold, the value elsewhere (NaN is kept).
void threshold_out(KernelContext& ctx) {
  const Scalar threshold = ctx.scalar(1), value = ctx.scalar(2);
  unary<kReal>(ctx, 0, 3,
               [threshold_real = threshold.to<double>(), value_real = value.to<double>(),
                threshold_integer = number_as<int64_t>(threshold), value_integer = number_as<int64_t>(value)](auto x) {
                 using T = decltype(x);
                 if constexpr (std::is_same_v<T, int64_t>) {
                   return x <= threshold_integer ? value_integer : x;
                 } else {
                   return x <= static_cast<T>(threshold_real) ? static_cast<T>(value_real) : x;
                 }
               });
}

/// The first half of a dim times the sigmoid of the second.
void glu_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(2);
  const int dim = wrap_dim(ctx.integer(1), self.rank);
  if (dim < 0 || self.rank == 0) return ctx.fail(Check::KernelDim, ctx.integer(1), self.rank);
  if (self.sizes[dim] % 2 != 0) return ctx.fail(Check::KernelShape, 0, self.sizes[dim]);
  if (!check_result(ctx, self.dtype, 2)) return;
  int64_t sizes[kMaxRank];
  for (int d = 0; d < self.rank; ++d) sizes[d] = d == dim ? self.sizes[d] / 2 : self.sizes[d];
  if (!ctx.resize(out, sizes, self.rank) || !has_data(ctx, out, 2) || !has_data(ctx, self, 0)) return;
  if (out.numel() == 0) return;
  int64_t strides[3][kMaxRank];
  out.strides(strides[0]);
  self.strides(strides[1]);
  self.strides(strides[2]);
  const int64_t self_size = static_cast<int64_t>(element_size(self.dtype));
  const int64_t bytes[3] = {static_cast<int64_t>(element_size(out.dtype)), self_size, self_size};
  Loops<3> loops;
  loops.rank = out.rank;
  for (int position = 0; position < out.rank; ++position) {
    const int d = out.order(position);
    loops.sizes[position] = sizes[d];
    for (int k = 0; k < 3; ++k) loops.strides[k][position] = strides[k][d] * bytes[k];
  }
  loops.data[0] = out.ptr<char>();
  loops.data[1] = self.ptr<char>();
  loops.data[2] = self.ptr<char>() + sizes[dim] * strides[1][dim] * self_size;
  loops.coalesce();
  const bool done = dispatch_compute<kFloats>(self.dtype, [&](auto tag) {
    using C = typename decltype(tag)::type;
    elementwise_on<C, C, C>(ctx, loops, out, 2, {{&self, 0}, {&self, 0}}, self.dtype,
                            [](C a, C b) { return a * vsigmoid(b); });
  });
  if (!done) ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(self.dtype));
}

}  // namespace etir
