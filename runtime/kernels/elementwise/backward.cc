// Derivatives of activation functions: the gradient of the input from that of the result.
#include <cmath>
#include <complex>

#include "kernels/elementwise/activation_math.h"
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

void sigmoid_backward_out(KernelContext& ctx) {
  binary<kFloats | kFullComplex>(ctx, 0, 1, 2,
                                 [](auto grad, auto y) { return grad * conjugate((decltype(y)(1) - y) * y); });
}
void tanh_backward_out(KernelContext& ctx) {
  binary<kFloats | kFullComplex>(ctx, 0, 1, 2,
                                 [](auto grad, auto y) { return grad * conjugate(decltype(y)(1) - y * y); });
}

void threshold_backward_out(KernelContext& ctx) {
  const Scalar threshold = ctx.scalar(2);
  binary<kReal>(ctx, 0, 1, 3,
                [real = threshold.to<double>(), integer = number_as<int64_t>(threshold)](auto grad, auto x) {
                  using T = decltype(x);
                  if constexpr (std::is_same_v<T, int64_t>) {
                    return x <= integer ? T(0) : grad;
                  } else {
                    return x <= static_cast<T>(real) ? T(0) : grad;
                  }
                });
}

void gelu_backward_out(KernelContext& ctx) {
  const StringView approximate = ctx.string(2);
  if (approximate == "tanh") {
    binary<kFloats>(ctx, 0, 1, 3, [](auto grad, auto x) {
      using T = decltype(x);
      const T t = vtanh(gelu_tanh_argument(x));
      const T slope = static_cast<T>(kGeluBeta) * (T(1) + T(3) * static_cast<T>(kGeluCubic) * x * x);
      return grad * (T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * slope);
    });
  } else if (approximate == "none") {
    binary<kFloats>(ctx, 0, 1, 3, [](auto grad, auto x) {
      using T = decltype(x);
      constexpr double kDensity = 0.39894228040143267794;  // 1 / sqrt(2 pi)
      const T distribution = T(0.5) * (T(1) + verf(x * static_cast<T>(kSqrtHalf)));
      return grad * (distribution + x * vexp(x * x * T(-0.5)) * static_cast<T>(kDensity));
    });
  } else {
    ctx.fail(Check::KernelArgument, 2, static_cast<int64_t>(approximate.size));
  }
}

void leaky_relu_backward_out(KernelContext& ctx) {
  const double slope = ctx.real(2);
  // From the result the side can be told only if the slope keeps signs.
  if (ctx.boolean(3) && slope < 0) return ctx.fail(Check::KernelArgument, 2, -1);
  binary<kFloats>(ctx, 0, 1, 4, [slope](auto grad, auto x) {
    using T = decltype(x);
    const T below = grad * static_cast<T>(slope);
    return x > T(0) ? grad : below;
  });
}

void elu_backward_out(KernelContext& ctx) {
  const double alpha = ctx.real(1), scale = ctx.real(2), input_scale = ctx.real(3);
  const double negative = alpha * scale;
  if (ctx.boolean(4)) {
    if (alpha < 0) return ctx.fail(Check::KernelArgument, 1, -1);
    return binary<kFloats>(ctx, 0, 5, 6, [=](auto grad, auto y) {
      using T = decltype(y);
      const T above = grad * static_cast<T>(scale);
      const T below = grad * static_cast<T>(input_scale) * (y + static_cast<T>(negative));
      return y <= T(0) ? below : above;
    });
  }
  binary<kFloats>(ctx, 0, 5, 6, [=](auto grad, auto x) {
    using T = decltype(x);
    const T above = grad * static_cast<T>(scale);
    const T below = grad * static_cast<T>(input_scale * negative) * vexp(x * static_cast<T>(input_scale));
    return x <= T(0) ? below : above;
  });
}

/// The gradient where self is strictly between the bounds.
void hardtanh_backward_out(KernelContext& ctx) {
  const double low = ctx.real(2), high = ctx.real(3);
  binary<kFloats>(ctx, 0, 1, 4, [low, high](auto grad, auto x) {
    using T = decltype(x);
    return (x <= static_cast<T>(low)) | (x >= static_cast<T>(high)) ? T(0) : grad;
  });
}

void silu_backward_out(KernelContext& ctx) {
  binary<kFloats>(ctx, 0, 1, 2, [](auto grad, auto x) {
    using T = decltype(x);
    const T s = vsigmoid(x);
    return grad * s * (T(1) + x * (T(1) - s));
  });
}

void hardswish_backward_out(KernelContext& ctx) {
  binary<kFloats>(ctx, 0, 1, 2, [](auto grad, auto x) {
    using T = decltype(x);
    const T between = grad * (x / T(3) + T(0.5));
    const T below = x <= T(-3) ? T(0) : between;
    return x < T(3) ? below : grad;
  });
}
void hardsigmoid_backward_out(KernelContext& ctx) {
  binary<kFloats>(ctx, 0, 1, 2, [](auto grad, auto x) {
    using T = decltype(x);
    const T inside = grad / T(6);
    return (x > T(-3)) & (x < T(3)) ? inside : T(0);
  });
}

void softplus_backward_out(KernelContext& ctx) {
  const double beta = ctx.real(2), threshold = ctx.real(3);
  binary<kFloats>(ctx, 0, 1, 4, [beta, threshold](auto grad, auto x) {
    using T = decltype(x);
    const T scaled = x * static_cast<T>(beta);
    const T curve = grad * vsigmoid(scaled);
    return scaled > static_cast<T>(threshold) ? grad : curve;
  });
}

/// The buffer of the forward operator, e^-|x|, is not needed: it is as quick to compute.
void log_sigmoid_backward_out(KernelContext& ctx) {
  binary<kFloats>(ctx, 0, 1, 3, [](auto grad, auto x) { return grad * vsigmoid(-x); });
}

/// Of both shrink functions: no gradient where the input was shrunk to zero.
void shrink_backward_out(KernelContext& ctx) {
  const double lambda = ctx.real(2);
  binary<kFloats>(ctx, 0, 1, 3, [lambda](auto grad, auto x) {
    using T = decltype(x);
    return (x >= static_cast<T>(-lambda)) & (x <= static_cast<T>(lambda)) ? T(0) : grad;
  });
}

/// No gradient outside of [eps, 1 - eps]; without eps NaN outside of [0, 1].
void logit_backward_out(KernelContext& ctx) {
  const bool bounded = ctx.has(2);
  const double low = bounded ? ctx.real(2) : 0.0;
  const double outside = bounded ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  binary<kFloats>(ctx, 0, 1, 3, [low, outside](auto grad, auto x) {
    using T = decltype(x);
    const T inside = grad / (x * (T(1) - x));
    return (x < static_cast<T>(low)) | (x > T(1) - static_cast<T>(low)) ? static_cast<T>(outside) : inside;
  });
}

}  // namespace etir
