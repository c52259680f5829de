// Operators that index one dim with a vector: index_select, embedding, index_copy, index_fill, index_add, index_reduce.
#include "kernels/indexing/index_dim.gen.h"
#include "kernels/indexing/index_walk.h"
#include "kernels/indexing/reduction.h"

namespace etir {

using namespace lines;

namespace {

/// A rank, and whether all sizes but that of `dim` are those of another tensor.
bool same_but_dim(const Tensor& a, const Tensor& b, int dim) {
  if (a.rank != b.rank) return false;
  for (int d = 0; d < a.rank; ++d) {
    if (d != dim && a.sizes[d] != b.sizes[d]) return false;
  }
  return true;
}

/// Whether an index is a vector of int32 or int64, or one number.
bool takes_index(KernelContext& ctx, const Tensor& index) {
  if (!takes(ctx, index, kIndexTypes)) return false;
  if (index.rank > 1) return ctx.fail(Check::KernelRank, index, index.rank), false;
  return true;
}

/// Checks the arguments of index_copy, index_add and index_reduce (self, dim, index, source) and starts `out`.
/// Returns the dim, or -1 with the failure recorded.
int start_update(KernelContext& ctx, const Tensor& self, int64_t dim_given, const Tensor& index, const Tensor& source,
                 Tensor& out) {
  const int dim = dim_argument(ctx, dim_given, self.rank);
  if (dim < 0 || !has_data(ctx, self) || !takes_index(ctx, index)) return -1;
  if (!takes_same(ctx, source, self)) return -1;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype)), -1;
  const AsVector target(self), from(source);
  if (!same_but_dim(target.tensor, from.tensor, dim) || from.tensor.sizes[dim] != index.numel()) {
    return ctx.fail(Check::KernelShape, source, source.rank > dim ? source.sizes[dim] : 1), -1;
  }
  return copy_to_out(ctx, self, out) ? dim : -1;
}

}  // namespace

void index_select_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index, Tensor& out) {
  using arg = arguments::index_select_out;
  const int axis = dim_argument(ctx, dim, self.rank);
  if (axis < 0 || !has_data(ctx, self) || !takes_index(ctx, index)) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  if (self.rank == 0 && index.numel() != 1) return ctx.fail(Check::KernelShape, index, index.numel());
  const AsVector from(self), indices(index);
  IndexPlan plan;
  if (!plan_dim(ctx, plan, from.tensor, axis, indices.tensor, arg::index)) return;
  if (!ctx.resize(out, plan.sizes, self.rank) || !has_data(ctx, out)) return;
  const AsVector to(out);
  read_indexed(ctx, plan, from.tensor, to.tensor, arg::out);
}

void embedding_out(KernelContext& ctx, const Tensor& weight, const Tensor& indices, int64_t /*padding_idx*/,
                   bool /*scale_grad_by_freq*/, bool /*sparse*/, Tensor& out) {
  using arg = arguments::embedding_out;
  if (weight.rank != 2) return ctx.fail(Check::KernelRank, weight, weight.rank);
  if (!has_data(ctx, weight) || !takes(ctx, indices, kIndexTypes)) return;
  if (out.dtype != weight.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  IndexPlan plan;
  if (!plan_dim(ctx, plan, weight, 0, indices, arg::indices)) return;
  if (!ctx.resize(out, plan.sizes, plan.rank) || !has_data(ctx, out)) return;
  read_indexed(ctx, plan, weight, out, arg::out);
}

void index_copy_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                    Tensor& out) {
  using arg = arguments::index_copy_out;
  const int axis = start_update(ctx, self, dim, index, source, out);
  if (axis < 0) return;
  const AsVector to(out), at(index), from(source);
  IndexPlan plan;
  if (plan_dim(ctx, plan, to.tensor, axis, at.tensor, arg::index))
    write_indexed(ctx, plan, to.tensor, from.tensor, arg::out);
}

void index_add_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                   const Scalar& alpha, Tensor& out) {
  using arg = arguments::index_add_out;
  const int axis = start_update(ctx, self, dim, index, source, out);
  if (axis < 0) return;
  const AsVector to(out), at(index), from(source);
  const ScalarType dtype = to.tensor.dtype;
  if ((alpha.is_floating() && is_integral(dtype, true)) || (alpha.is_boolean() && dtype != ScalarType::Bool)) {
    return ctx.fail(Check::KernelArgument, arg::alpha, number(dtype));
  }
  IndexPlan plan;
  if (!plan_dim(ctx, plan, to.tensor, axis, at.tensor, arg::index)) return;
  // The number in every type that the sum may be done in.
  const double real = alpha.to<double>();
  const int64_t integer = alpha.is_floating() ? 0 : alpha.to<int64_t>();
  combine_indexed<kRealBool | kComplex>(ctx, plan, to.tensor, from.tensor, arg::out, [=](auto a, auto b) {
    using T = decltype(a);
    if constexpr (std::is_integral_v<T>) {
      return wrapping_add(a, wrapping_mul(b, convert<T>(integer)));
    } else if constexpr (std::is_same_v<T, ComplexHalf>) {
      const auto sum = [=](Half x, Half y) {
        return Half(static_cast<float>(x) + static_cast<float>(y) * static_cast<float>(real));
      };
      return ComplexHalf{sum(a.real, b.real), sum(a.imag, b.imag)};
    } else if constexpr (std::is_same_v<T, ComplexFloat> || std::is_same_v<T, ComplexDouble>) {
      return a + b * static_cast<typename T::value_type>(real);
    } else {
      using A = accumulate_t<T>;
      return T(static_cast<A>(a) + static_cast<A>(b) * static_cast<A>(real));
    }
  });
}

/// Fills rows of `out`, which holds the elements of self already, with one element.
static void fill_rows(KernelContext& ctx, int dim, const Tensor& index, Tensor& out, void* element) {
  using arg = arguments::index_fill_scalar_out;
  const AsVector to(out), at(index);
  Tensor value{};
  value.data = element;
  value.dtype = out.dtype;
  IndexPlan plan;
  if (!add_source(ctx, plan, to.tensor, at.tensor, dim, arg::index)) return;
  if (finish_plan(ctx, plan, to.tensor, arg::index)) write_indexed(ctx, plan, to.tensor, value, arg::out);
}

/// Checks the arguments of index_fill and starts `out`. Returns the dim, or -1 with the failure recorded.
static int start_fill(KernelContext& ctx, const Tensor& self, int64_t dim_given, const Tensor& index, Tensor& out) {
  const int dim = dim_argument(ctx, dim_given, self.rank);
  if (dim < 0 || !has_data(ctx, self) || !takes_index(ctx, index)) return -1;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype)), -1;
  return copy_to_out(ctx, self, out) ? dim : -1;
}

void index_fill_scalar_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                           const Scalar& value, Tensor& out) {
  alignas(16) unsigned char element[16];
  if (!scalar_bytes(ctx, value, arguments::index_fill_scalar_out::value, out.dtype, element)) return;
  const int axis = start_fill(ctx, self, dim, index, out);
  if (axis >= 0) fill_rows(ctx, axis, index, out, element);
}

void index_fill_tensor_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                           const Tensor& value, Tensor& out) {
  if (value.rank != 0) return ctx.fail(Check::KernelRank, value, value.rank);
  if (!has_data(ctx, value)) return;
  alignas(16) unsigned char element[16];
  if (value.dtype == out.dtype) {
    std::memcpy(element, value.data, element_size(value.dtype));
  } else {
    const bool known = dispatch<kRealBool>(value.dtype, [&](auto from) {
      using From = typename decltype(from)::type;
      const From loaded = load<From>(value.ptr<const char>());
      dispatch<kRealBool | kFullComplex>(out.dtype, [&](auto to) {
        using To = typename decltype(to)::type;
        To converted;
        if constexpr (std::is_same_v<To, ComplexFloat> || std::is_same_v<To, ComplexDouble>) {
          converted = To(convert<typename To::value_type>(loaded));
        } else if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool> && !std::is_integral_v<From>) {
          converted = static_cast<To>(to_int64(convert<double>(loaded)));
        } else {
          converted = convert<To>(loaded);
        }
        std::memcpy(element, &converted, sizeof(To));
      });
    });
    if (!known || !contains(kRealBool | kFullComplex, out.dtype))
      return ctx.fail(Check::KernelDtype, value, number(value.dtype));
  }
  const int axis = start_fill(ctx, self, dim, index, out);
  if (axis >= 0) fill_rows(ctx, axis, index, out, element);
}

// Temporary memory, for a mean: 4 bytes for every element of the dim.
void index_reduce_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                      StringView reduce, bool include_self, Tensor& out) {
  using arg = arguments::index_reduce_out;
  const Reduction reduction = reduction_argument(ctx, reduce, arguments::index_reduce_out::reduce, false);
  if (reduction == Reduction::None) return;
  if (!contains(kReal, self.dtype)) return ctx.fail(Check::KernelDtype, self, number(self.dtype));
  const int axis = start_update(ctx, self, dim, index, source, out);
  if (axis < 0) return;
  const AsVector to(out), at(index), from(source);
  IndexPlan plan;
  if (!plan_dim(ctx, plan, to.tensor, axis, at.tensor, arg::index)) return;
  if (to.tensor.numel() == 0 && at.tensor.numel() == 0) return;
  const int64_t size = to.tensor.sizes[axis];
  uint32_t* counts = nullptr;
  if (reduction == Reduction::Mean) {
    counts = temp_for<uint32_t>(ctx, size);
    if (counts == nullptr) return;
    for (int64_t i = 0; i < size; ++i) counts[i] = include_self ? 1 : 0;
    const bool wide = is_wide(at.tensor);
    for (int64_t i = 0; i < at.tensor.sizes[0]; ++i) {
      const int64_t place = load_index(at.tensor.ptr<const char>() + i * (wide ? 8 : 4), wide);
      if (place < 0 || place >= size) return ctx.fail(Check::KernelIndex, place, size);
      ++counts[place];
    }
  }
  if (!include_self) {
    alignas(16) unsigned char element[16];
    dispatch<kReal>(self.dtype, [&](auto tag) {
      const auto value = identity_of<typename decltype(tag)::type>(reduction);
      std::memcpy(element, &value, sizeof(value));
    });
    Tensor value{};
    value.data = element;
    value.dtype = self.dtype;
    if (!write_indexed(ctx, plan, to.tensor, value, arg::out)) return;
  }
  if (!combine_indexed<kReal>(ctx, plan, to.tensor, from.tensor, arg::out,
                              [=](auto a, auto b) { return reduce_step(reduction, a, b); })) {
    return;
  }
  if (counts == nullptr) return;
  const View view(to.tensor);
  const View* const views[] = {&view};
  const auto lines = loops_over_lines<1>(to.tensor, axis, views);
  dispatch<kReal>(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_line(ctx, lines, size, [&](char* const* data) {
      for (int64_t i = 0; i < size; ++i) {
        char* mean = data[0] + i * view.strides[axis];
        store(mean, mean_of(load<T>(mean), counts[i]));
      }
    });
  });
}

}  // namespace etir
