// Derivatives of activation functions: the gradient of the input from that of the result.
#include <cmath>
#include <complex>

#include "kernels/elementwise/activation_math.h"
#include "kernels/elementwise/backward.gen.h"
#include "kernels/elementwise/operators.h"
#include "kernels/util/vector_math.h"

namespace etir {

namespace {

/// The derivative of a complex function goes into a gradient as its conjugate.
template <typename T>
T conjugate(T derivative) {
  if constexpr (detail::is_complex_v<T>) {
    return std::conj(derivative);
  } else {
    return derivative;
  }
}

}  // namespace

void sigmoid_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& output, Tensor& grad_input) {
  binary<kFloats | kFullComplex>(ctx, grad_output, output, grad_input,
                                 [](auto grad, auto y) { return grad * conjugate((decltype(y)(1) - y) * y); });
}
void tanh_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& output, Tensor& grad_input) {
  binary<kFloats | kFullComplex>(ctx, grad_output, output, grad_input,
                                 [](auto grad, auto y) { return grad * conjugate(decltype(y)(1) - y * y); });
}

void threshold_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& self, const Scalar& threshold,
                            Tensor& grad_input) {
  binary<kReal>(ctx, grad_output, self, grad_input,
                [real = threshold.to<double>(), integer = number_as<int64_t>(threshold)](auto grad, auto x) {
                  using T = decltype(x);
                  if constexpr (std::is_same_v<T, int64_t>) {
                    return x <= integer ? T(0) : grad;
                  } else {
                    return x <= static_cast<T>(real) ? T(0) : grad;
                  }
                });
}

void gelu_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& self, StringView approximate,
                       Tensor& grad_input) {
  using arg = arguments::gelu_backward_out;
  if (approximate == "tanh") {
    binary<kFloats>(ctx, grad_output, self, grad_input, [](auto grad, auto x) {
      using T = decltype(x);
      const T t = vtanh(gelu_tanh_argument(x));
      const T slope = static_cast<T>(kGeluBeta) * (T(1) + T(3) * static_cast<T>(kGeluCubic) * x * x);
      return grad * (T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * slope);
    });
  } else if (approximate == "none") {
    binary<kFloats>(ctx, grad_output, self, grad_input, [](auto grad, auto x) {
      using T = decltype(x);
      constexpr double kDensity = 0.39894228040143267794;  // 1 / sqrt(2 pi)
      const T distribution = T(0.5) * (T(1) + verf(x * static_cast<T>(kSqrtHalf)));
      return grad * (distribution + x * vexp(x * x * T(-0.5)) * static_cast<T>(kDensity));
    });
  } else {
    ctx.fail(Check::KernelArgument, arg::approximate, static_cast<int64_t>(approximate.size));
  }
}

void leaky_relu_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& self,
                             const Scalar& negative_slope, bool self_is_result, Tensor& grad_input) {
  using arg = arguments::leaky_relu_backward_out;
  const double slope = negative_slope.to<double>();
  // From the result the side can be told only if the slope keeps signs.
  if (self_is_result && slope < 0) return ctx.fail(Check::KernelArgument, arg::negative_slope, -1);
  binary<kFloats>(ctx, grad_output, self, grad_input, [slope](auto grad, auto x) {
    using T = decltype(x);
    const T below = grad * static_cast<T>(slope);
    return x > T(0) ? grad : below;
  });
}

void elu_backward_out(KernelContext& ctx, const Tensor& grad_output, const Scalar& alpha, const Scalar& scale,
                      const Scalar& input_scale, bool is_result, const Tensor& self_or_result, Tensor& grad_input) {
  using arg = arguments::elu_backward_out;
  const double alpha_value = alpha.to<double>(), scale_value = scale.to<double>(),
               input_scale_value = input_scale.to<double>();
  const double negative = alpha_value * scale_value;
  if (is_result) {
    if (alpha_value < 0) return ctx.fail(Check::KernelArgument, arg::alpha, -1);
    return binary<kFloats>(ctx, grad_output, self_or_result, grad_input, [=](auto grad, auto y) {
      using T = decltype(y);
      const T above = grad * static_cast<T>(scale_value);
      const T below = grad * static_cast<T>(input_scale_value) * (y + static_cast<T>(negative));
      return y <= T(0) ? below : above;
    });
  }
  binary<kFloats>(ctx, grad_output, self_or_result, grad_input, [=](auto grad, auto x) {
    using T = decltype(x);
    const T above = grad * static_cast<T>(scale_value);
    const T below = grad * static_cast<T>(input_scale_value * negative) * vexp(x * static_cast<T>(input_scale_value));
    return x <= T(0) ? below : above;
  });
}

/// The gradient where self is strictly between the bounds.
void hardtanh_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& self, const Scalar& min_val,
                           const Scalar& max_val, Tensor& grad_input) {
  const double low = min_val.to<double>(), high = max_val.to<double>();
  binary<kFloats>(ctx, grad_output, self, grad_input, [low, high](auto grad, auto x) {
    using T = decltype(x);
    return (x <= static_cast<T>(low)) | (x >= static_cast<T>(high)) ? T(0) : grad;
  });
}

void silu_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& self, Tensor& grad_input) {
  binary<kFloats>(ctx, grad_output, self, grad_input, [](auto grad, auto x) {
    using T = decltype(x);
    const T s = vsigmoid(x);
    return grad * s * (T(1) + x * (T(1) - s));
  });
}

void hardswish_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& self, Tensor& out) {
  binary<kFloats>(ctx, grad_output, self, out, [](auto grad, auto x) {
    using T = decltype(x);
    const T between = grad * (x / T(3) + T(0.5));
    const T below = x <= T(-3) ? T(0) : between;
    return x < T(3) ? below : grad;
  });
}
void hardsigmoid_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& self, Tensor& grad_input) {
  binary<kFloats>(ctx, grad_output, self, grad_input, [](auto grad, auto x) {
    using T = decltype(x);
    const T inside = grad / T(6);
    return (x > T(-3)) & (x < T(3)) ? inside : T(0);
  });
}

void softplus_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& self, const Scalar& beta,
                           const Scalar& threshold, Tensor& grad_input) {
  const double beta_value = beta.to<double>(), threshold_value = threshold.to<double>();
  binary<kFloats>(ctx, grad_output, self, grad_input, [beta_value, threshold_value](auto grad, auto x) {
    using T = decltype(x);
    const T scaled = x * static_cast<T>(beta_value);
    const T curve = grad * vsigmoid(scaled);
    return scaled > static_cast<T>(threshold_value) ? grad : curve;
  });
}

/// The buffer of the forward operator, e^-|x|, is not needed: it is as quick to compute.
void log_sigmoid_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& self,
                              const Tensor& /*buffer*/, Tensor& grad_input) {
  binary<kFloats>(ctx, grad_output, self, grad_input, [](auto grad, auto x) { return grad * vsigmoid(-x); });
}

/// Of both shrink functions: no gradient where the input was shrunk to zero.
void shrink_backward_out(KernelContext& ctx, const Tensor& grad_out, const Tensor& self, const Scalar& lambd,
                         Tensor& grad_input) {
  const double lambda = lambd.to<double>();
  binary<kFloats>(ctx, grad_out, self, grad_input, [lambda](auto grad, auto x) {
    using T = decltype(x);
    return (x >= static_cast<T>(-lambda)) & (x <= static_cast<T>(lambda)) ? T(0) : grad;
  });
}

/// No gradient outside of [eps, 1 - eps]; without eps NaN outside of [0, 1].
void logit_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& self, std::optional<double> eps,
                        Tensor& grad_input) {
  const bool bounded = eps.has_value();
  const double low = bounded ? *eps : 0.0;
  const double outside = bounded ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  binary<kFloats>(ctx, grad_output, self, grad_input, [low, outside](auto grad, auto x) {
    using T = decltype(x);
    const T inside = grad / (x * (T(1) - x));
    return (x < static_cast<T>(low)) | (x > T(1) - static_cast<T>(low)) ? static_cast<T>(outside) : inside;
  });
}

}  // namespace etir
