// repeat, roll, repeat_interleave.
#include "kernels/copy/repeat.gen.h"
#include "kernels/copy/reshape.h"

namespace etir {

void repeat_out(KernelContext& ctx, const Tensor& self, const IntList& repeats, Tensor& out) {
  using arg = arguments::repeat_out;
  if (!check_dtype(ctx, self, out)) return;
  if (repeats.size() != out.rank) {
    return ctx.fail(Check::KernelResizeRank, static_cast<int64_t>(repeats.size()), out.rank);
  }
  const int missing = out.rank - self.rank;
  if (missing < 0) return ctx.fail(Check::KernelRank, self, self.rank);
  int64_t sizes[kMaxRank];
  for (int d = 0; d < out.rank; ++d) {
    const int64_t size = d < missing ? 1 : self.sizes[d - missing];
    if (repeats[d] < 0 || __builtin_mul_overflow(repeats[d], size, &sizes[d])) {
      return ctx.fail(Check::KernelArgument, arg::repeats, repeats[d]);
    }
  }
  if (!ctx.resize(out, sizes, out.rank) || !check_memory(ctx, self, out)) return;
  const View from = view_of(self), to = view_of(out);
  CopyDims dims;
  for (int d = 0; d < out.rank; ++d) {
    const int64_t size = d < missing ? 1 : self.sizes[d - missing];
    dims.add(repeats[d], 0, size * to.strides[d]);
    if (d >= missing) dims.add(size, from.strides[d - missing], to.strides[d]);
  }
  strided_copy(ctx, dims, from.data, to.data, to.element);
}

/// A shift as a number in [0, size).
static int64_t wrap_shift(int64_t shift, int64_t size) {
  const int64_t rest = shift % size;
  return rest < 0 ? rest + size : rest;
}

void roll_out(KernelContext& ctx, const Tensor& self, const IntList& shifts, const IntList& dims, Tensor& out) {
  using arg = arguments::roll_out;
  if (!check_dtype(ctx, self, out)) return;
  const bool flat = dims.empty();
  if (shifts.empty() || shifts.size() != (flat ? 1 : dims.size())) {
    return ctx.fail(Check::KernelArgument, arg::shifts, static_cast<int64_t>(shifts.size()));
  }
  int64_t shift[kMaxRank] = {0};
  const int64_t numel = self.numel();
  for (size_t i = 0; i < dims.size(); ++i) {
    const int dim = checked_dim(ctx, dims[i], self.rank);
    if (dim < 0) return;
    // A dim that is named twice is rolled twice. A number has nothing to roll.
    if (numel > 0 && self.rank > 0) {
      shift[dim] = (shift[dim] + wrap_shift(shifts[i], self.sizes[dim])) % self.sizes[dim];
    }
  }
  if (!ctx.resize_like(out, self) || numel == 0 || !check_memory(ctx, self, out)) return;
  const View from = view_of(self), to = view_of(out);
  if (flat) {
    const int64_t by = wrap_shift(shifts[0], numel);
    copy_in_order(ctx, from, 0, to, by, numel - by);
    copy_in_order(ctx, from, numel - by, to, 0, by);
    return;
  }
  // Every rolled dim is two pieces: all combinations of pieces are plain copies.
  uint32_t rolled = 0;
  for (int d = 0; d < self.rank; ++d) rolled |= shift[d] != 0 ? 1u << d : 0;
  uint32_t wrapped = 0;  // the dims that are at the piece that comes round
  do {
    View source = from, target = to;
    for (int d = 0; d < self.rank; ++d) {
      if ((wrapped >> d & 1) != 0) {
        source.shift((self.sizes[d] - shift[d]) * source.strides[d]);
        target.sizes[d] = shift[d];
      } else {
        target.shift(shift[d] * target.strides[d]);
        target.sizes[d] -= shift[d];
      }
    }
    copy_elements(ctx, source, target);
    wrapped = (wrapped - rolled) & rolled;  // the next subset
  } while (wrapped != 0);
}

template <typename T>
static void repeat_indices(KernelContext& ctx, const Tensor& repeats, std::optional<int64_t> output_size, Tensor& out) {
  using arg = arguments::repeat_interleave_tensor_out;
  const T* counts = repeats.ptr<const T>();
  const int64_t n = repeats.numel();
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (counts[i] < 0 || __builtin_add_overflow(total, static_cast<int64_t>(counts[i]), &total)) {
      return ctx.fail(Check::KernelArgument, arg::repeats, counts[i]);
    }
  }
  if (output_size.value_or(total) != total) return ctx.fail(Check::KernelArgument, arg::output_size, total);
  if (!ctx.resize(out, &total, 1) || !check_memory(ctx, repeats, out)) return;
  T* to = out.ptr<T>();
  for (int64_t i = 0; i < n; ++i) {
    for (T k = 0; k < counts[i]; ++k) *to++ = static_cast<T>(i);
  }
}

void repeat_interleave_tensor_out(KernelContext& ctx, const Tensor& repeats, std::optional<int64_t> output_size,
                                  Tensor& out) {
  if (!check_dtype(ctx, repeats, out)) return;
  if (repeats.rank != 1) return ctx.fail(Check::KernelRank, repeats, repeats.rank);
  if (repeats.numel() > 0 && repeats.data == nullptr) return ctx.fail(Check::KernelNoData, repeats);
  constexpr DtypeSet kIndices = dtype_set(ScalarType::Int, ScalarType::Long);
  if (!dispatch<kIndices>(repeats.dtype, [&](auto tag) {
        repeat_indices<typename decltype(tag)::type>(ctx, repeats, output_size, out);
      })) {
    ctx.fail(Check::KernelDtype, repeats, static_cast<int64_t>(repeats.dtype));
  }
}

}  // namespace etir
