// Operators led by which elements are set: masked_select, masked_scatter, nonzero and nonzero_static.
//
// Their order is that of rows whatever the order in memory, so the loops go in row-major order of the shape.
#include "kernels/indexing/masked.gen.h"
#include "kernels/util/lines.h"

namespace etir {

using namespace lines;

namespace {

/// Loops in row-major order over a shape that the tensors broadcast to.
template <int N>
Loops<N> loops_in_order(const int64_t* sizes, int rank, const Tensor* const (&tensors)[N]) {
  Loops<N> loops;
  loops.rank = rank;
  for (int d = 0; d < rank; ++d) loops.sizes[d] = sizes[d];
  for (int k = 0; k < N; ++k) {
    const Tensor& tensor = *tensors[k];
    int64_t strides[kMaxRank];
    tensor.strides(strides);
    loops.data[k] = static_cast<char*>(tensor.data);
    const int missing = rank - tensor.rank;
    for (int d = 0; d < rank; ++d) {
      const bool still = d < missing || tensor.sizes[d - missing] == 1;
      loops.strides[k][d] = still ? 0 : strides[d - missing] * static_cast<int64_t>(element_size(tensor.dtype));
    }
  }
  loops.coalesce();
  return loops;
}

/// Whether the bytes of elements say that they are not zero: of floats, any bit but the sign.
template <typename T>
class IsSet {
 public:
  explicit IsSet(ScalarType dtype) : bits_(~T{0}) {
    const int part = is_complex(dtype) ? static_cast<int>(sizeof(T)) * 4 : static_cast<int>(sizeof(T)) * 8;
    if (!is_floating(dtype) && !is_complex(dtype)) return;
    bits_ = static_cast<T>(bits_ ^ (T{1} << (part - 1)));
    if (is_complex(dtype)) bits_ = static_cast<T>(bits_ ^ (T{1} << (2 * part - 1)));
  }
  bool operator()(const char* at) const { return (load<T>(at) & bits_) != 0; }

 private:
  T bits_;
};
template <>
class IsSet<Bytes16> {
 public:
  explicit IsSet(ScalarType) {}
  bool operator()(const char* at) const {
    const Bytes16 value = load<Bytes16>(at);
    return ((value.low | value.high) << 1) != 0;
  }
};

/// Calls `body(IsSet)` for the elements of a dtype; false, with the failure recorded, for types without numbers.
template <typename Body>
bool with_is_set(KernelContext& ctx, const Tensor& self, const Body& body) {
  if (!contains(kRealBool | kAllInts | kComplex, self.dtype)) {
    return ctx.fail(Check::KernelDtype, self, number(self.dtype)), false;
  }
  return dispatch_size(element_size(self.dtype),
                       [&](auto tag) { body(IsSet<typename decltype(tag)::type>(self.dtype)); });
}

/// Writes where elements are set, at most `limit` of them, one row of `rank` coordinates each. Returns how many.
template <typename Set>
int64_t write_positions(const Tensor& self, const Set& is_set, const View& out, int64_t limit) {
  const View view(self);
  const int rank = self.rank;
  int64_t index[kMaxRank] = {};
  const char* at = view.data;
  const int64_t n = self.numel();
  int64_t found = 0;
  for (int64_t i = 0; i < n && found < limit; ++i) {
    if (is_set(at)) {
      for (int d = 0; d < rank; ++d) {
        store(out.data + found * out.strides[0] + d * out.strides[1], index[d]);
      }
      ++found;
    }
    for (int d = rank - 1; d >= 0; --d) {
      at += view.strides[d];
      if (++index[d] < view.sizes[d]) break;
      at -= view.strides[d] * view.sizes[d];
      index[d] = 0;
    }
  }
  return found;
}

}  // namespace

void masked_select_out(KernelContext& ctx, const Tensor& self, const Tensor& mask, Tensor& out) {
  if (!has_data(ctx, self) || !takes(ctx, mask, kBool)) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  int64_t shape[kMaxRank];
  const int rank = broadcast_shapes(self, mask, shape);
  if (rank < 0) return ctx.fail(Check::KernelShape, mask, mask.rank > 0 ? mask.sizes[0] : 1);
  int64_t elements = 1;
  for (int d = 0; d < rank; ++d) {
    if (__builtin_mul_overflow(elements, shape[d], &elements)) return ctx.fail(Check::KernelShape, mask, shape[d]);
  }
  const Tensor* const tensors[] = {&self, &mask};
  const auto loops = loops_in_order<2>(shape, rank, tensors);
  int64_t count = 0;
  loops.run([&](char* const* data, const int64_t* steps, int64_t n) {
    for (int64_t i = 0; i < n; ++i) count += load<bool>(data[1] + i * steps[1]);
  });
  if (!ctx.resize(out, &count, 1) || !has_data(ctx, out)) return;
  const bool known = dispatch_size(element_size(self.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = out.ptr<T>();
    T* const end = to + count;
    loops.run([&](char* const* data, const int64_t* steps, int64_t n) {
      for (int64_t i = 0; i < n && to != end; ++i) {
        if (load<bool>(data[1] + i * steps[1])) *to++ = load<T>(data[0] + i * steps[0]);
      }
    });
  });
  if (!known) ctx.fail(Check::KernelDtype, self, number(self.dtype));
}

void masked_scatter_out(KernelContext& ctx, const Tensor& self, const Tensor& mask, const Tensor& source, Tensor& out) {
  if (!has_data(ctx, self) || !takes(ctx, mask, kBool) || !takes_same(ctx, source, self)) return;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, number(out.dtype));
  int64_t shape[kMaxRank];
  const int rank = broadcast_shapes(self, mask, shape);
  if (rank < 0) return ctx.fail(Check::KernelShape, mask, mask.rank > 0 ? mask.sizes[0] : 1);
  if (!ctx.resize(out, shape, rank) || !has_data(ctx, out)) return;
  if (out.numel() == 0) return;
  const Tensor* const tensors[] = {&out, &mask, &self};
  const auto loops = loops_in_order<3>(shape, rank, tensors);
  const Tensor* const sources[] = {&source};
  int64_t source_shape[kMaxRank];
  for (int d = 0; d < source.rank; ++d) source_shape[d] = source.sizes[d];
  const auto from = loops_in_order<1>(source_shape, source.rank, sources);
  const int64_t available = source.numel();
  int64_t taken = 0;
  bool enough = true;
  const bool known = dispatch_size(element_size(self.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    loops.run([&](char* const* data, const int64_t* steps, int64_t n) {
      for (int64_t i = 0; i < n && enough; ++i) {
        const char* at = data[2] + i * steps[2];
        if (load<bool>(data[1] + i * steps[1])) {
          enough = taken < available;
          if (!enough) break;
          at = from.data[0];
          int64_t rest = taken++;
          for (int d = from.rank - 1; d > 0; --d) {
            at += rest % from.sizes[d] * from.strides[0][d];
            rest /= from.sizes[d];
          }
          if (from.rank > 0) at += rest * from.strides[0][0];
        }
        store(data[0] + i * steps[0], load<T>(at));
      }
    });
  });
  if (!known) return ctx.fail(Check::KernelDtype, self, number(self.dtype));
  if (!enough) ctx.fail(Check::KernelShape, source, available);
}

void nonzero_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (!has_data(ctx, self)) return;
  if (out.dtype != ScalarType::Long) return ctx.fail(Check::KernelDtype, out, number(out.dtype));
  const int64_t n = self.numel();
  int64_t count = 0;
  const bool known = with_is_set(ctx, self, [&](auto is_set) {
    const char* data = self.ptr<const char>();
    const int64_t bytes = static_cast<int64_t>(element_size(self.dtype));
    for (int64_t i = 0; i < n; ++i) count += is_set(data + i * bytes);
  });
  if (!known) return;
  const int64_t shape[] = {count, self.rank};
  if (!ctx.resize(out, shape, 2) || !has_data(ctx, out)) return;
  const View view(out);
  with_is_set(ctx, self, [&](auto is_set) { write_positions(self, is_set, view, count); });
}

void nonzero_static_out(KernelContext& ctx, const Tensor& self, int64_t size, int64_t fill_value, Tensor& out) {
  using arg = arguments::nonzero_static_out;
  const int64_t fill = fill_value;
  if (!has_data(ctx, self)) return;
  if (out.dtype != ScalarType::Long) return ctx.fail(Check::KernelDtype, out, number(out.dtype));
  if (size < 0) return ctx.fail(Check::KernelArgument, arg::size, size);
  const int64_t shape[] = {size, self.rank};
  if (!ctx.resize(out, shape, 2) || !has_data(ctx, out)) return;
  const View view(out);
  with_is_set(ctx, self, [&](auto is_set) {
    for (int64_t found = write_positions(self, is_set, view, size); found < size; ++found) {
      for (int d = 0; d < self.rank; ++d) store(view.data + found * view.strides[0] + d * view.strides[1], fill);
    }
  });
}

}  // namespace etir
