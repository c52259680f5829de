// Activation functions. All are branch-free expressions of vectorized functions.
#include <cmath>

#include "kernels/elementwise/activation_math.h"
#include "kernels/elementwise/activations.gen.h"
#include "kernels/elementwise/operators.h"
#include "kernels/util/copy.h"
#include "kernels/util/vector_math.h"

namespace etir {

void gelu_out(KernelContext& ctx, const Tensor& self, StringView approximate, Tensor& out) {
  using arg = arguments::gelu_out;
  if (approximate == "tanh") {
    unary<kFloats>(ctx, self, out, Wide{[](auto x) { return gelu_tanh_of(x); }});
  } else if (approximate == "none") {
    unary<kFloats>(ctx, self, out, Wide{gelu_steps()});
  } else {
    ctx.fail(Check::KernelArgument, arg::approximate, static_cast<int64_t>(approximate.size));
  }
}

void elu_out(KernelContext& ctx, const Tensor& self, const Scalar& alpha, const Scalar& scale,
             const Scalar& input_scale, Tensor& out) {
  const double alpha_value = alpha.to<double>(), scale_value = scale.to<double>(),
               input_scale_value = input_scale.to<double>();
  unary<kFloats>(ctx, self, out, [negative = alpha_value * scale_value, scale_value, input_scale_value](auto x) {
    using T = decltype(x);
    const T below = vexpm1(x * static_cast<T>(input_scale_value)) * static_cast<T>(negative);
    return x > T(0) ? x * static_cast<T>(scale_value) : below;
  });
}
void celu_out(KernelContext& ctx, const Tensor& self, const Scalar& alpha, Tensor& out) {
  using arg = arguments::celu_out;
  const double alpha_value = alpha.to<double>();
  if (alpha_value == 0) return ctx.fail(Check::KernelArgument, arg::alpha, 0);
  unary<kFloats>(ctx, self, out, [alpha_value, inverse = 1.0 / alpha_value](auto x) {
    using T = decltype(x);
    const T below = vexpm1(x * static_cast<T>(inverse)) * static_cast<T>(alpha_value);
    return x > T(0) ? x : below;
  });
}

void leaky_relu_out(KernelContext& ctx, const Tensor& self, const Scalar& negative_slope, Tensor& out) {
  const double slope = negative_slope.to<double>();
  unary<kFloats>(ctx, self, out, [slope](auto x) {
    using T = decltype(x);
    const T below = x * static_cast<T>(slope);
    return x > T(0) ? x : below;
  });
}

void silu_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (is_complex(self.dtype)) {
    return unary<kFullComplex>(ctx, self, out, [](auto x) { return x / (decltype(x)(1) + std::exp(-x)); });
  }
  unary<kFloats>(ctx, self, out, Wide{[](auto x) { return silu_of(x); }});
}
void mish_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary<kFloats>(ctx, self, out, Wide{[](auto x) { return x * vtanh(softplus_of(x)); }});
}
void hardsigmoid_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary<kFloats>(ctx, self, out, [](auto x) { return relu6_of(x + decltype(x)(3)) / decltype(x)(6); });
}
void hardswish_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  unary<kFloats>(ctx, self, out, [](auto x) { return x * relu6_of(x + decltype(x)(3)) / decltype(x)(6); });
}

/// log(1 + e^(beta x)) / beta, and x itself where beta x is above the threshold.
void softplus_out(KernelContext& ctx, const Tensor& self, const Scalar& beta, const Scalar& threshold, Tensor& out) {
  const double beta_value = beta.to<double>(), threshold_value = threshold.to<double>();
  unary<kFloats>(ctx, self, out, [beta_value, threshold_value](auto x) {
    using T = decltype(x);
    const T scaled = x * static_cast<T>(beta_value);
    const T curve = vlog1p(vexp(scaled)) / static_cast<T>(beta_value);
    return scaled > static_cast<T>(threshold_value) ? x : curve;
  });
}

/// The second result, e^-|x|, is what the backward operator wants.
void log_sigmoid_forward_out(KernelContext& ctx, const Tensor& self, Tensor& output, Tensor& buffer) {
  unary<kFloats>(ctx, self, buffer, [](auto x) { return vexp(-std::fabs(x)); });
  unary<kFloats>(ctx, self, output, [](auto x) {
    using T = decltype(x);
    return (x > T(0) ? T(0) : x) - vlog1p(vexp(-std::fabs(x)));
  });
}

void hardshrink_out(KernelContext& ctx, const Tensor& self, const Scalar& lambd, Tensor& out) {
  const double lambda = lambd.to<double>();
  unary<kFloats>(ctx, self, out, [lambda](auto x) {
    using T = decltype(x);
    return (x >= static_cast<T>(-lambda)) & (x <= static_cast<T>(lambda)) ? T(0) : x;
  });
}
void softshrink_out(KernelContext& ctx, const Tensor& self, const Scalar& lambd, Tensor& out) {
  using arg = arguments::softshrink_out;
  const double lambda = lambd.to<double>();
  if (!(lambda >= 0)) return ctx.fail(Check::KernelArgument, arg::lambd, -1);
  unary<kFloats>(ctx, self, out, [lambda](auto x) {
    using T = decltype(x);
    const T bound = static_cast<T>(lambda);
    const T above = x - bound, below = x + bound, zero = x * T(0);
    return x > bound ? above : x < -bound ? below : zero;
  });
}

/// x where it is above the threshold, the value elsewhere (NaN is kept).
void threshold_out(KernelContext& ctx, const Tensor& self, const Scalar& threshold, const Scalar& value, Tensor& out) {
  unary<kReal>(ctx, self, out,
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
void glu_out(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  const int axis = wrap_dim(dim, self.rank);
  if (axis < 0 || self.rank == 0) return ctx.fail(Check::KernelDim, dim, self.rank);
  if (self.sizes[axis] % 2 != 0) return ctx.fail(Check::KernelShape, self, self.sizes[axis]);
  if (!check_result(ctx, self.dtype, out)) return;
  int64_t sizes[kMaxRank];
  for (int d = 0; d < self.rank; ++d) sizes[d] = d == axis ? self.sizes[d] / 2 : self.sizes[d];
  if (!ctx.resize(out, sizes, self.rank) || !has_data(ctx, out) || !has_data(ctx, self)) return;
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
  loops.data[2] = self.ptr<char>() + sizes[axis] * strides[1][axis] * self_size;
  loops.coalesce();
  const bool done = dispatch_compute<kFloats>(self.dtype, [&](auto tag) {
    using C = typename decltype(tag)::type;
    elementwise_on<C, C, C>(ctx, loops, out, {&self, &self}, self.dtype, [](C a, C b) { return a * vsigmoid(b); });
  });
  if (!done) ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
}

}  // namespace etir
