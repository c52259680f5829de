// Variance and standard deviation, with or without the mean. Those of complex numbers are real: distances are squared.
//
// Two passes over a row or a block of columns, which is in cache for the second: the mean, then the pairwise sum of
// squared deviations. No cancellation, and no division for each element as in a running update.
#include <cmath>

#include "kernels/reduction/moments.gen.h"
#include "kernels/util/promote.h"
#include "kernels/util/reduce.h"
#include "kernels/util/reduce_args.h"
#include "kernels/util/reduce_ops.h"

namespace etir {
namespace {

/// The type of a variance of elements of type C.
template <typename C>
struct PartOf {
  using type = C;
};
template <typename T>
struct PartOf<std::complex<T>> {
  using type = T;
};

template <typename C>
void moments_as(KernelContext& ctx, const Tensor& self, uint32_t mask, double divisor, bool root, const Tensor& out,
                const Tensor* mean) {
  using T = typename PartOf<C>::type;
  constexpr DtypeSet kTaken = kIsComplex<C> ? kFullComplex : kFloats;
  Source<C> source;
  Sink<T> sink;
  Sink<C> mean_sink;
  if (!make_source<C, kTaken>(self, &source))
    return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  if (!make_sink<T, kFloats>(out, &sink) || (mean != nullptr && !make_sink<C, kTaken>(*mean, &mean_sink))) {
    return ctx.fail(Check::KernelDtype, -1, static_cast<int64_t>(out.dtype));
  }
  const int passes = mean != nullptr && !same_layout(out, *mean) ? 2 : 1;
  for (int pass = 0; pass < passes; ++pass) {
    const ReducePlan plan = make_reduce_plan(self, mask, pass == 0 ? out : *mean);
    const T count = static_cast<T>(plan.reduced_count);
    for_each_part(ctx, plan, [&](int64_t from, int64_t to, int64_t stride, int64_t n) {
      C means[kColumnBlock];
      C squares[kColumnBlock];
      T results[kColumnBlock];
      reduce_part(plan, source, from, n, SumOp<C>(), means);
      for (int64_t j = 0; j < n; ++j) means[j] /= count;
      if (mean != nullptr && pass == passes - 1) mean_sink.put(to, stride, means, n);
      if (pass == 1) return;
      SquaredDeviationOp<C> op;
      op.means = means;
      reduce_part(plan, source, from, n, op, squares);
      for (int64_t j = 0; j < n; ++j) {
        T sum;
        if constexpr (kIsComplex<C>) {
          sum = squares[j].real();
        } else {
          sum = squares[j];
        }
        const T variance = sum / static_cast<T>(divisor);
        results[j] = root ? std::sqrt(variance) : variance;
      }
      sink.put(to, stride, results, n);
    });
  }
}

/// Results are `out_index` and, with `has_mean`, the one after it.
/// `mean` is null where it is no result.
void moments(KernelContext& ctx, const Tensor& self, const std::optional<IntList>& dim, double correction, bool keepdim,
             Tensor& out, Tensor* mean, bool root) {
  uint32_t mask;
  if (!dim_mask(ctx, dim, arguments::var_correction_out::dim, self, &mask)) return;
  if (!contains(kFloats | kFullComplex, self.dtype)) {
    return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  }
  if (mean != nullptr ? out.dtype != part_of(self.dtype) : !is_floating(out.dtype)) {
    return ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  }
  if (mean != nullptr && mean->dtype != self.dtype) {
    return ctx.fail(Check::KernelDtype, *mean, static_cast<int64_t>(mean->dtype));
  }
  if (!has_data(ctx, self) || !resize_reduced(ctx, out, self, mask, keepdim)) return;
  if (mean != nullptr && !resize_reduced(ctx, *mean, self, mask, keepdim)) return;
  const double degrees = static_cast<double>(reduced_count(self, mask)) - correction;
  const double divisor = degrees > 0 ? degrees : 0;
  if (self.dtype == ScalarType::ComplexFloat) {
    moments_as<ComplexFloat>(ctx, self, mask, divisor, root, out, mean);
  } else if (self.dtype == ScalarType::ComplexDouble) {
    moments_as<ComplexDouble>(ctx, self, mask, divisor, root, out, mean);
  } else if (self.dtype == ScalarType::Double) {
    moments_as<double>(ctx, self, mask, divisor, root, out, mean);
  } else {
    moments_as<float>(ctx, self, mask, divisor, root, out, mean);
  }
}

double degrees_lost(const std::optional<Scalar>& correction) {
  return correction.has_value() ? correction->to<double>() : 1.0;
}

}  // namespace

void var_unbiased_out(KernelContext& ctx, const Tensor& self, std::optional<IntList> dim, bool unbiased, bool keepdim,
                      Tensor& out) {
  moments(ctx, self, dim, unbiased ? 1.0 : 0.0, keepdim, out, nullptr, false);
}
void std_unbiased_out(KernelContext& ctx, const Tensor& self, std::optional<IntList> dim, bool unbiased, bool keepdim,
                      Tensor& out) {
  moments(ctx, self, dim, unbiased ? 1.0 : 0.0, keepdim, out, nullptr, true);
}
void var_correction_out(KernelContext& ctx, const Tensor& self, std::optional<IntList> dim,
                        std::optional<Scalar> correction, bool keepdim, Tensor& out) {
  moments(ctx, self, dim, degrees_lost(correction), keepdim, out, nullptr, false);
}
void std_correction_out(KernelContext& ctx, const Tensor& self, std::optional<IntList> dim,
                        std::optional<Scalar> correction, bool keepdim, Tensor& out) {
  moments(ctx, self, dim, degrees_lost(correction), keepdim, out, nullptr, true);
}
void var_mean_correction_out(KernelContext& ctx, const Tensor& self, std::optional<IntList> dim,
                             std::optional<Scalar> correction, bool keepdim, Tensor& out0, Tensor& out1) {
  moments(ctx, self, dim, degrees_lost(correction), keepdim, out0, &out1, false);
}
void std_mean_correction_out(KernelContext& ctx, const Tensor& self, std::optional<IntList> dim,
                             std::optional<Scalar> correction, bool keepdim, Tensor& out0, Tensor& out1) {
  moments(ctx, self, dim, degrees_lost(correction), keepdim, out0, &out1, true);
}

}  // namespace etir
