// gather, and scatter with and without a reduction; take and put, which index a tensor as if it were a vector.
//
// gather and scatter walk the index in its memory order; the tensor that is indexed moves along with it in every dim
// but the indexed one, in which the index says where to go.
#include "kernels/indexing/index_walk.h"
#include "kernels/indexing/reduction.h"
#include "kernels/indexing/scatter.gen.h"

namespace etir {

using namespace lines;

namespace {

/// Whether `index` has the rank of `tensor` and no size beyond it, `skip` (a dim or -1) left out.
bool fits_into(KernelContext& ctx, int position, const Tensor& index, const Tensor& tensor, int skip) {
  if (index.rank != tensor.rank) return ctx.fail(Check::KernelRank, position, index.rank), false;
  for (int d = 0; d < index.rank; ++d) {
    if (d != skip && index.sizes[d] > tensor.sizes[d]) {
      return ctx.fail(Check::KernelShape, position, index.sizes[d]), false;
    }
  }
  return true;
}

/// Loops over the elements of `index`; operands are `indexed` (still in `dim`), `index` and `other`.
Loops<3> loops_over_index(const View& indexed, int dim, const Tensor& index, const View& index_view,
                          const View& other) {
  int dims[kMaxRank];
  const int count = memory_order(index, 0, dims);
  const View* const views[] = {&indexed, &index_view, &other};
  const int fixed[] = {dim, -1, -1};
  return loops_over<3>(index_view.sizes, dims, count, views, fixed);
}

/// A scatter whose arguments are checked, `out` holding self already.
struct Scatter {
  const Tensor& out;
  const Tensor& index;
  const View& source;
  int dim;
  Reduction reduction;
  bool include_self;
};

/// Without a reduction: elements move.
void assign(KernelContext& ctx, const Scatter& scatter) {
  const View to(scatter.out), index_view(scatter.index);
  const auto loops = loops_over_index(to, scatter.dim, scatter.index, index_view, scatter.source);
  const int64_t stride = to.strides[scatter.dim], size = to.sizes[scatter.dim];
  const bool wide = is_wide(scatter.index);
  IndexGuard guard;
  dispatch_size(element_size(scatter.out.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    loops.run([&](char* const* data, const int64_t* steps, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = load_index(data[1] + i * steps[1], wide);
        if (guard.check(at, size)) store(data[0] + i * steps[0] + at * stride, load<T>(data[2] + i * steps[2]));
      }
    });
  });
  guard.report(ctx);
}

constexpr DtypeSet kReduced = kRealBool | kFullComplex;

/// A reduction that happens in place, element by element, in memory order.
bool reduce_in_place(const Scatter& scatter, IndexGuard& guard) {
  constexpr DtypeSet kTypes = kReduced & ~kHalfFloats;
  const View to(scatter.out), index_view(scatter.index);
  const auto loops = loops_over_index(to, scatter.dim, scatter.index, index_view, scatter.source);
  const int64_t stride = to.strides[scatter.dim], size = to.sizes[scatter.dim];
  const bool wide = is_wide(scatter.index);
  return dispatch<kTypes>(scatter.out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    loops.run([&](char* const* data, const int64_t* steps, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t index = load_index(data[1] + i * steps[1], wide);
        if (!guard.check(index, size)) continue;
        char* at = data[0] + i * steps[0] + index * stride;
        const T value = load<T>(data[2] + i * steps[2]);
        if constexpr (contains(kFullComplex, ScalarTypeOf<T>::value)) {
          store(at, scatter.reduction == Reduction::Prod ? load<T>(at) * value : load<T>(at) + value);
        } else {
          store(at, reduce_step(scatter.reduction, load<T>(at), value));
        }
      }
    });
  });
}

/// Any reduction, one line along the dim after the other. `line` (for 16-bit floats, which are reduced in float) and
/// `counts` (for means) have room for one.
template <typename T>
void reduce_lines(const Scatter& scatter, IndexGuard& guard, void* line, uint32_t* counts) {
  using A = accumulate_t<T>;
  constexpr bool kCopied = !std::is_same_v<T, A>;
  const int dim = scatter.dim;
  const View to(scatter.out), index_view(scatter.index);
  const View* const views[] = {&index_view, &to, &scatter.source};
  const auto lines = loops_over_lines<3>(scatter.index, dim, views);
  const int64_t size = to.sizes[dim], n = index_view.sizes[dim], out_step = to.strides[dim];
  const int64_t index_step = index_view.strides[dim], source_step = scatter.source.strides[dim];
  const bool wide = is_wide(scatter.index);
  const Reduction reduction = scatter.reduction;
  // There may be more lines without elements than can be counted through.
  if (n == 0) return;
  for_each_position(lines, 0, lines.numel(), [&](char* const* data) {
    char* into = data[1];
    int64_t step = out_step;
    if constexpr (kCopied) {
      into = static_cast<char*>(line);
      step = sizeof(A);
      for (int64_t i = 0; i < size; ++i) store(into + i * step, A(load<T>(data[1] + i * out_step)));
    }
    if (counts != nullptr) {
      for (int64_t i = 0; i < size; ++i) counts[i] = scatter.include_self ? 1 : 0;
    }
    if (!scatter.include_self) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t index = load_index(data[0] + i * index_step, wide);
        if (guard.check(index, size)) store(into + index * step, identity_of<A>(reduction));
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      const int64_t index = load_index(data[0] + i * index_step, wide);
      if (!guard.check(index, size)) continue;
      char* at = into + index * step;
      store(at, reduce_step(reduction, load<A>(at), static_cast<A>(load<T>(data[2] + i * source_step))));
      if (counts != nullptr) ++counts[index];
    }
    if (counts != nullptr) {
      for (int64_t i = 0; i < size; ++i) store(into + i * step, mean_of(load<A>(into + i * step), counts[i]));
    }
    if constexpr (kCopied) {
      for (int64_t i = 0; i < size; ++i) store(data[1] + i * out_step, T(load<A>(into + i * step)));
    }
  });
}

void reduce(KernelContext& ctx, const Scatter& scatter, const Tensor& out) {
  const ScalarType dtype = scatter.out.dtype;
  const bool mean = scatter.reduction == Reduction::Mean;
  const bool sum_or_product = scatter.reduction == Reduction::Sum || scatter.reduction == Reduction::Prod;
  // Means of bools, and complex numbers beyond sums and products, are not known to torch either.
  const bool takes_it = is_complex(dtype) ? sum_or_product && scatter.include_self : !mean || dtype != ScalarType::Bool;
  if (!takes_it) return ctx.fail(Check::KernelDtype, out, number(dtype));
  IndexGuard guard;
  if (!mean && scatter.include_self && !contains(kHalfFloats, dtype)) {
    if (!reduce_in_place(scatter, guard)) return ctx.fail(Check::KernelDtype, out, number(dtype));
    guard.report(ctx);
    return;
  }
  const int64_t size = scatter.out.sizes[scatter.dim];
  uint32_t* counts = nullptr;
  float* line = nullptr;
  if (mean && (counts = temp_for<uint32_t>(ctx, size)) == nullptr) return;
  if (contains(kHalfFloats, dtype) && (line = temp_for<float>(ctx, size)) == nullptr) return;
  const bool known = dispatch<kRealBool>(
      dtype, [&](auto tag) { reduce_lines<typename decltype(tag)::type>(scatter, guard, line, counts); });
  if (!known) return ctx.fail(Check::KernelDtype, out, number(dtype));
  guard.report(ctx);
}

/// All scatters: `source` is a tensor, or null for the number `filled`.
void scatter(KernelContext& ctx, const Tensor& self, int64_t dim_given, const Tensor& index, const Tensor* source,
             const Scalar* filled, Reduction reduction, bool include_self, Tensor& out) {
  using arg = arguments::scatter_src_out;  // those of the others are in the same places
  const int dim = dim_argument(ctx, dim_given, self.rank);
  if (dim < 0 || !has_data(ctx, self) || !takes(ctx, index, kIndexTypes)) return;
  if (source != nullptr && !takes_same(ctx, *source, self)) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  alignas(16) unsigned char element[16];
  Tensor value{};
  value.data = element;
  value.dtype = self.dtype;
  if (source == nullptr && !scalar_bytes(ctx, *filled, arg::src, self.dtype, element)) return;
  const AsVector from(self), indices(index);
  const AsVector given(source != nullptr ? *source : value);
  if (index.numel() != 0) {
    if (!fits_into(ctx, arg::index, indices.tensor, from.tensor, dim)) return;
    if (source != nullptr && !fits_into(ctx, arg::src, indices.tensor, given.tensor, -1)) return;
  }
  if (!copy_to_out(ctx, self, out) || index.numel() == 0) return;
  const AsVector to(out);
  View view(given.tensor);
  if (source == nullptr) {
    for (int d = 0; d < kMaxRank; ++d) view.strides[d] = 0;
  }
  const Scatter work{to.tensor, indices.tensor, view, dim, reduction, include_self};
  if (reduction == Reduction::None) {
    assign(ctx, work);
  } else {
    reduce(ctx, work, out);
  }
}

/// "add" and "multiply" of the older scatters.
Reduction older_reduction(KernelContext& ctx, const StringView& name) {
  if (name == "add") return Reduction::Sum;
  if (name == "multiply") return Reduction::Prod;
  ctx.fail(Check::KernelArgument, arguments::scatter_reduce_out::reduce);
  return Reduction::None;
}

}  // namespace

void scatter_src_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                     Tensor& out) {
  scatter(ctx, self, dim, index, &src, nullptr, Reduction::None, true, out);
}

void scatter_value_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value,
                       Tensor& out) {
  scatter(ctx, self, dim, index, nullptr, &value, Reduction::None, true, out);
}

// Temporary memory of the four that reduce: for 16-bit floats and for means, 4 bytes for every element of the dim.
void scatter_reduce_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                        StringView reduce, Tensor& out) {
  const Reduction reduction = older_reduction(ctx, reduce);
  if (reduction != Reduction::None) scatter(ctx, self, dim, index, &src, nullptr, reduction, true, out);
}

void scatter_value_reduce_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                              const Scalar& value, StringView reduce, Tensor& out) {
  const Reduction reduction = older_reduction(ctx, reduce);
  if (reduction != Reduction::None) scatter(ctx, self, dim, index, nullptr, &value, reduction, true, out);
}

void scatter_add_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                     Tensor& out) {
  scatter(ctx, self, dim, index, &src, nullptr, Reduction::Sum, true, out);
}

void scatter_reduce_two_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                            StringView reduce, bool include_self, Tensor& out) {
  const Reduction reduction = reduction_argument(ctx, reduce, arguments::scatter_reduce_two_out::reduce, true);
  if (reduction != Reduction::None) scatter(ctx, self, dim, index, &src, nullptr, reduction, include_self, out);
}

void gather_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index, bool /*sparse_grad*/,
                Tensor& out) {
  using arg = arguments::gather_out;
  const int axis = dim_argument(ctx, dim, self.rank);
  if (axis < 0 || !has_data(ctx, self)) return;
  if (!takes(ctx, index, kIndexTypes | dtype_bit(ScalarType::Byte))) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  const AsVector from(self), indices(index);
  if (index.numel() != 0 && !fits_into(ctx, arg::index, indices.tensor, from.tensor, axis)) return;
  if (!ctx.resize_like(out, index) || !has_data(ctx, out) || index.numel() == 0) return;
  const View self_view(from.tensor), index_view(indices.tensor), out_view(out);
  const auto loops = loops_over_index(self_view, axis, indices.tensor, index_view, out_view);
  const int64_t stride = self_view.strides[axis], size = self_view.sizes[axis];
  const bool wide = is_wide(index), narrow = index.dtype == ScalarType::Byte;
  IndexGuard guard;
  const bool known = dispatch_size(element_size(self.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.parallel_for(loops.rows(), 1 + 16384 / loops.inner(), [&](int64_t begin, int64_t end) {
      loops.run(begin, end, [&](char* const* data, const int64_t* steps, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          const char* from = data[1] + i * steps[1];
          const int64_t at = narrow ? *reinterpret_cast<const uint8_t*>(from) : load_index(from, wide);
          if (guard.check(at, size)) store(data[2] + i * steps[2], load<T>(data[0] + i * steps[0] + at * stride));
        }
      });
    });
  });
  if (!known) return ctx.fail(Check::KernelDtype, self, number(self.dtype));
  guard.report(ctx);
}

namespace {

/// Where the elements of a tensor are, counted row by row whatever their order in memory.
class Flat {
 public:
  explicit Flat(const Tensor& tensor) : tensor_(tensor), bytes_(element_size(tensor.dtype)) {
    tensor.strides(strides_);
  }
  char* at(int64_t position) const {
    const int64_t element = tensor_.is_row_major() ? position : MaskCursor::offset(tensor_, strides_, position);
    return tensor_.ptr<char>() + element * bytes_;
  }

 private:
  const Tensor& tensor_;
  int64_t bytes_;
  int64_t strides_[kMaxRank];
};

/// The wrapped index at a position, or -1 with the guard told.
int64_t flat_index(const Flat& index, int64_t position, bool wide, int64_t size, IndexGuard& guard) {
  const int64_t given = load_index(index.at(position), wide);
  const int64_t wrapped = given < 0 ? given + size : given;
  if (wrapped >= 0 && wrapped < size) return wrapped;
  guard.note(given, size);
  return -1;
}

}  // namespace

void take_out(KernelContext& ctx, const Tensor& self, const Tensor& index, Tensor& out) {
  if (!has_data(ctx, self) || !takes(ctx, index, kIndexTypes)) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  if (!ctx.resize_like(out, index) || !has_data(ctx, out)) return;
  const Flat from(self), indices(index), to(out);
  const int64_t n = index.numel(), size = self.numel();
  const bool wide = is_wide(index);
  IndexGuard guard;
  const bool known = dispatch_size(element_size(self.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = flat_index(indices, i, wide, size, guard);
      if (at >= 0) store(to.at(i), load<T>(from.at(at)));
    }
  });
  if (!known) return ctx.fail(Check::KernelDtype, self, number(self.dtype));
  guard.report(ctx);
}

void put_out(KernelContext& ctx, const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate,
             Tensor& out) {
  if (!has_data(ctx, self) || !takes(ctx, index, kIndexTypes) || !takes_same(ctx, source, self)) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  if (source.numel() != index.numel()) return ctx.fail(Check::KernelShape, source, source.numel());
  if (!copy_to_out(ctx, self, out)) return;
  const Flat from(source), indices(index), to(out);
  const int64_t n = index.numel(), size = self.numel();
  const bool wide = is_wide(index);
  IndexGuard guard;
  bool known;
  if (accumulate) {
    known = dispatch<kReduced>(self.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = flat_index(indices, i, wide, size, guard);
        if (at >= 0) store(to.at(at), wrapping_add(load<T>(to.at(at)), load<T>(from.at(i))));
      }
    });
  } else {
    known = dispatch_size(element_size(self.dtype), [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = flat_index(indices, i, wide, size, guard);
        if (at >= 0) store(to.at(at), load<T>(from.at(i)));
      }
    });
  }
  if (!known) return ctx.fail(Check::KernelDtype, self, number(self.dtype));
  guard.report(ctx);
}

}  // namespace etir
