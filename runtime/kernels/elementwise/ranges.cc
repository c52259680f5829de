// Sequences of numbers: arange, linspace, logspace.
#include <cmath>
#include <complex>

#include "kernels/elementwise/ranges.gen.h"
#include "kernels/kernel.h"
#include "kernels/util/copy.h"

namespace etir {

namespace {

/// out[i] = f(i), computed in C.
template <typename C, typename F>
void generate(KernelContext& ctx, Tensor& out, const F& f) {
  if (!has_data(ctx, out)) return;
  const detail::StoreBlock store = detail::storer<C>(out.dtype);
  if (store == nullptr) return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  constexpr int64_t kBlock = 64;
  C block[kBlock];
  const int64_t count = out.numel(), bytes = static_cast<int64_t>(element_size(out.dtype));
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = count - begin < kBlock ? count - begin : kBlock;
    for (int64_t i = 0; i < n; ++i) block[i] = f(begin + i);
    store(out.ptr<char>() + begin * bytes, bytes, block, n);
  }
}

bool is_finite(double x) { return x - x == 0; }

/// Numbers from start to below end. Integers are exact, floating point numbers are computed in double.
void arange(KernelContext& ctx, const Scalar& start, const Scalar& end, const Scalar& step, int end_position,
            Tensor& out) {
  if (!contains(kReal, out.dtype)) return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  const double from = start.to<double>(), to = end.to<double>(), by = step.to<double>();
  if (!is_finite(from) || !is_finite(to) || !is_finite(by) || by == 0 || (by > 0 ? to < from : to > from)) {
    return ctx.fail(Check::KernelArgument, end_position, end.is_floating() ? -1 : end.to<int64_t>());
  }
  const bool integers = is_integral(out.dtype, false);
  // Arguments of an integer range are cut to integers, as torch cuts them.
  const double span = integers && out.dtype == ScalarType::Long ? std::trunc(to) - std::trunc(from) : to - from;
  const double unit = integers && out.dtype == ScalarType::Long ? std::trunc(by) : by;
  const double count = std::ceil(span / unit);
  if (!(count >= 0 && count < 2147483648.0)) return ctx.fail(Check::KernelResize, INT64_MAX, out.capacity);
  const int64_t size = static_cast<int64_t>(count);
  if (!ctx.resize(out, &size, 1)) return;
  if (!integers) {
    return generate<double>(ctx, out, [from, by](int64_t i) { return from + by * static_cast<double>(i); });
  }
  if (std::fabs(from) >= 9.2e18 || std::fabs(by) >= 9.2e18) return ctx.fail(Check::KernelArgument, end_position, -1);
  const uint64_t first = static_cast<uint64_t>(start.to<int64_t>()), stride = static_cast<uint64_t>(step.to<int64_t>());
  generate<int64_t>(
      ctx, out, [first, stride](int64_t i) { return static_cast<int64_t>(first + stride * static_cast<uint64_t>(i)); });
}

/// Sets the size of a sequence; false if it is refused.
bool resize_steps(KernelContext& ctx, int64_t steps, Tensor& out) {
  if (steps < 0) {
    ctx.fail(Check::KernelArgument, arguments::linspace_out::steps, steps);
    return false;
  }
  return ctx.resize(out, &steps, 1);
}

/// `steps` numbers from start to end, both included, counted from the nearer end so that both are exact; passed through
/// f. For integers the ends are cut to integers first, and what is between them is counted in float if `single`, as in
/// torch.
template <typename F>
void spaced(KernelContext& ctx, const TensorOrScalar& first, const TensorOrScalar& last, int64_t count, Tensor& out,
            bool single, const F& f) {
  if (!contains(kReal | kBool | kFullComplex, out.dtype)) {
    return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  }
  double ends[2];
  for (int i = 0; i < 2; ++i) {
    const TensorOrScalar& value = i == 0 ? first : last;
    if (!value.is_tensor()) {
      ends[i] = value.scalar().to<double>();
      continue;
    }
    const Tensor& given = value.tensor();
    if (given.rank != 0) return ctx.fail(Check::KernelRank, given, given.rank);
    Tensor end{&ends[i], nullptr, nullptr, ScalarType::Double, 0, Dynamism::Static, 0, 0};
    copy_elements(ctx, end, given);
    if (ctx.failed()) return;
  }
  if (!resize_steps(ctx, count, out)) return;
  const int64_t steps = out.numel();
  const bool integers = is_integral(out.dtype, false);
  const double start = integers ? std::trunc(ends[0]) : ends[0];
  const double end = steps == 1 ? start : integers ? std::trunc(ends[1]) : ends[1];
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0.0;
  const auto place = [=](int64_t i) {
    const int64_t left = steps - 1 - i;
    if (integers && single) {
      const float by = static_cast<float>(end - start) / static_cast<float>(steps > 1 ? steps - 1 : 1);
      const float at = i < steps / 2 ? static_cast<float>(start) + by * static_cast<float>(i)
                                     : static_cast<float>(end) - by * static_cast<float>(left);
      return static_cast<double>(at);
    }
    return i < steps / 2 ? start + step * static_cast<double>(i) : end - step * static_cast<double>(left);
  };
  if (is_complex(out.dtype)) {
    return generate<ComplexDouble>(ctx, out, [=](int64_t i) { return f(ComplexDouble(place(i))); });
  }
  generate<double>(ctx, out, [=](int64_t i) { return f(place(i)); });
}

}  // namespace

void arange_out(KernelContext& ctx, const Scalar& end, Tensor& out) {
  Scalar zero{Tag::Int, {0}}, one{Tag::Int, {1}};
  arange(ctx, zero, end, one, arguments::arange_out::end, out);
}
void arange_start_out(KernelContext& ctx, const Scalar& start, const Scalar& end, const Scalar& step, Tensor& out) {
  arange(ctx, start, end, step, arguments::arange_start_out::end, out);
}
void linspace_out(KernelContext& ctx, const TensorOrScalar& start, const TensorOrScalar& end, int64_t steps,
                  Tensor& out) {
  spaced(ctx, start, end, steps, out, false, [](auto x) { return x; });
}
void logspace_out(KernelContext& ctx, const TensorOrScalar& start, const TensorOrScalar& end, int64_t steps,
                  double base, Tensor& out) {
  spaced(ctx, start, end, steps, out, true, [base](auto x) { return std::pow(decltype(x)(base), x); });
}

}  // namespace etir
