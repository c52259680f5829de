// Operators that index one dim with a vector: index_select, embedding, index_copy, index_fill, index_add, index_reduce.
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
bool takes_index(KernelContext& ctx, int argument, const Tensor& index) {
  if (!takes(ctx, argument, index, kIndexTypes)) return false;
  if (index.rank > 1) return ctx.fail(Check::KernelRank, argument, index.rank), false;
  return true;
}

/// Checks the arguments of index_copy, index_add and index_reduce (self, dim, index, source) and starts `out`.
/// Returns the dim, or -1 with the failure recorded.
int start_update(KernelContext& ctx, int out_argument) {
  const Tensor& self = ctx.tensor(0);
  const Tensor& index = ctx.tensor(2);
  const Tensor& source = ctx.tensor(3);
  Tensor& out = ctx.tensor(out_argument);
  const int dim = dim_argument(ctx, ctx.integer(1), self.rank);
  if (dim < 0 || !has_data(ctx, 0, self) || !takes_index(ctx, 2, index)) return -1;
  if (!takes_same(ctx, 3, source, self)) return -1;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out_argument, number(out.dtype)), -1;
  const AsVector target(self), from(source);
  if (!same_but_dim(target.tensor, from.tensor, dim) || from.tensor.sizes[dim] != index.numel()) {
    return ctx.fail(Check::KernelShape, 3, source.rank > dim ? source.sizes[dim] : 1), -1;
  }
  return copy_to_out(ctx, self, out_argument, out) ? dim : -1;
}

}  // namespace

void index_select_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  const Tensor& index = ctx.tensor(2);
  Tensor& out = ctx.tensor(3);
  const int dim = dim_argument(ctx, ctx.integer(1), self.rank);
  if (dim < 0 || !has_data(ctx, 0, self) || !takes_index(ctx, 2, index)) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, 3, number(out.dtype));
  if (self.rank == 0 && index.numel() != 1) return ctx.fail(Check::KernelShape, 2, index.numel());
  const AsVector from(self), indices(index);
  IndexPlan plan;
  if (!plan_dim(ctx, plan, from.tensor, dim, indices.tensor, 2)) return;
  if (!ctx.resize(out, plan.sizes, self.rank) || !has_data(ctx, 3, out)) return;
  const AsVector to(out);
  read_indexed(ctx, plan, from.tensor, to.tensor, 3);
}

void embedding_out(KernelContext& ctx) {
  const Tensor& weight = ctx.tensor(0);
  const Tensor& indices = ctx.tensor(1);
  Tensor& out = ctx.tensor(5);
  if (weight.rank != 2) return ctx.fail(Check::KernelRank, 0, weight.rank);
  if (!has_data(ctx, 0, weight) || !takes(ctx, 1, indices, kIndexTypes)) return;
  if (out.dtype != weight.dtype) return ctx.fail(Check::KernelDtypeMismatch, 5, number(out.dtype));
  IndexPlan plan;
  if (!plan_dim(ctx, plan, weight, 0, indices, 1)) return;
  if (!ctx.resize(out, plan.sizes, plan.rank) || !has_data(ctx, 5, out)) return;
  read_indexed(ctx, plan, weight, out, 5);
}

void index_copy_out(KernelContext& ctx) {
  const int dim = start_update(ctx, 4);
  if (dim < 0) return;
  const AsVector out(ctx.tensor(4)), index(ctx.tensor(2)), source(ctx.tensor(3));
  IndexPlan plan;
  if (plan_dim(ctx, plan, out.tensor, dim, index.tensor, 2)) write_indexed(ctx, plan, out.tensor, source.tensor, 4);
}

void index_add_out(KernelContext& ctx) {
  const Scalar alpha = ctx.scalar(4);
  const int dim = start_update(ctx, 5);
  if (dim < 0) return;
  const AsVector out(ctx.tensor(5)), index(ctx.tensor(2)), source(ctx.tensor(3));
  const ScalarType dtype = out.tensor.dtype;
  if ((alpha.is_floating() && is_integral(dtype, true)) || (alpha.is_boolean() && dtype != ScalarType::Bool)) {
    return ctx.fail(Check::KernelArgument, 4, number(dtype));
  }
  IndexPlan plan;
  if (!plan_dim(ctx, plan, out.tensor, dim, index.tensor, 2)) return;
  // The number in every type that the sum may be done in.
  const double real = alpha.to<double>();
  const int64_t integer = alpha.is_floating() ? 0 : alpha.to<int64_t>();
  combine_indexed<kRealBool | kComplex>(ctx, plan, out.tensor, source.tensor, 5, [=](auto a, auto b) {
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
static void fill_rows(KernelContext& ctx, int dim, Tensor& out, void* element) {
  const AsVector to(out), index(ctx.tensor(2));
  Tensor value{};
  value.data = element;
  value.dtype = out.dtype;
  IndexPlan plan;
  if (!add_source(ctx, plan, to.tensor, index.tensor, dim, 2) || !finish_plan(ctx, plan, to.tensor, 2)) return;
  write_indexed(ctx, plan, to.tensor, value, 4);
}

/// Checks the arguments of index_fill and starts `out`. Returns the dim, or -1 with the failure recorded.
static int start_fill(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(4);
  const int dim = dim_argument(ctx, ctx.integer(1), self.rank);
  if (dim < 0 || !has_data(ctx, 0, self) || !takes_index(ctx, 2, ctx.tensor(2))) return -1;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, 4, number(out.dtype)), -1;
  return copy_to_out(ctx, self, 4, out) ? dim : -1;
}

void index_fill_scalar_out(KernelContext& ctx) {
  alignas(16) unsigned char element[16];
  Tensor& out = ctx.tensor(4);
  if (!scalar_bytes(ctx, 3, out.dtype, element)) return;
  const int dim = start_fill(ctx);
  if (dim >= 0) fill_rows(ctx, dim, out, element);
}

void index_fill_tensor_out(KernelContext& ctx) {
  const Tensor& value = ctx.tensor(3);
  Tensor& out = ctx.tensor(4);
  if (value.rank != 0) return ctx.fail(Check::KernelRank, 3, value.rank);
  if (!has_data(ctx, 3, value)) return;
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
      return ctx.fail(Check::KernelDtype, 3, number(value.dtype));
  }
  const int dim = start_fill(ctx);
  if (dim >= 0) fill_rows(ctx, dim, out, element);
}

// Temporary memory, for a mean: 4 bytes for every element of the dim.
void index_reduce_out(KernelContext& ctx) {
  const Reduction reduction = reduction_argument(ctx, 4, false);
  if (reduction == Reduction::None) return;
  const Tensor& self = ctx.tensor(0);
  if (!contains(kReal, self.dtype)) return ctx.fail(Check::KernelDtype, 0, number(self.dtype));
  const bool include_self = ctx.boolean(5);
  const int dim = start_update(ctx, 6);
  if (dim < 0) return;
  const AsVector out(ctx.tensor(6)), index(ctx.tensor(2)), source(ctx.tensor(3));
  IndexPlan plan;
  if (!plan_dim(ctx, plan, out.tensor, dim, index.tensor, 2)) return;
  if (out.tensor.numel() == 0 && index.tensor.numel() == 0) return;
  const int64_t size = out.tensor.sizes[dim];
  uint32_t* counts = nullptr;
  if (reduction == Reduction::Mean) {
    counts = temp_for<uint32_t>(ctx, size);
    if (counts == nullptr) return;
    for (int64_t i = 0; i < size; ++i) counts[i] = include_self ? 1 : 0;
    const bool wide = is_wide(index.tensor);
    for (int64_t i = 0; i < index.tensor.sizes[0]; ++i) {
      const int64_t at = load_index(index.tensor.ptr<const char>() + i * (wide ? 8 : 4), wide);
      if (at < 0 || at >= size) return ctx.fail(Check::KernelIndex, at, size);
      ++counts[at];
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
    if (!write_indexed(ctx, plan, out.tensor, value, 6)) return;
  }
  if (!combine_indexed<kReal>(ctx, plan, out.tensor, source.tensor, 6,
                              [=](auto a, auto b) { return reduce_step(reduction, a, b); })) {
    return;
  }
  if (counts == nullptr) return;
  const View view(out.tensor);
  const View* const views[] = {&view};
  const auto lines = loops_over_lines<1>(out.tensor, dim, views);
  dispatch<kReal>(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_line(ctx, lines, size, [&](char* const* data) {
      for (int64_t i = 0; i < size; ++i) {
        char* at = data[0] + i * view.strides[dim];
        store(at, mean_of(load<T>(at), counts[i]));
      }
    });
  });
}

}  // namespace etir
