// Medians, of a tensor or along a dim: the lower of the two middle values.
//
// The value is selected by its bits, a byte at a time from the highest: values become unsigned keys that sort alike,
// one pass counts the keys that share the prefix found so far by their next byte. It takes 1 KiB of stack and no
// temporary memory, and as many passes as the dtype has bytes. median gives NaN when there is one, nanmedian
// when there is nothing else.
#include "kernels/reduction/median.gen.h"
#include "kernels/util/loops.h"
#include "kernels/util/reduce.h"
#include "kernels/util/reduce_args.h"

namespace etir {
namespace {

/// A key that sorts as the value does; every NaN has the largest.
inline uint64_t sort_key(int64_t value) { return static_cast<uint64_t>(value) ^ (uint64_t{1} << 63); }
inline uint64_t sort_key(double value) {
  if (value != value) return ~uint64_t{0};
  const uint64_t bits = detail::bit_cast<uint64_t>(value == 0 ? 0.0 : value);
  return (bits >> 63) != 0 ? ~bits : bits | (uint64_t{1} << 63);
}

/// Elements of one slice: `n` of them, `stride` apart.
template <typename T>
struct Slice {
  const Source<T>& in;
  const ReducePlan::Dim* dims;
  int rank;
  int64_t offset, n;

  /// Calls `body(value, index)` in order until it returns false.
  template <typename Body>
  void each(const Body& body) const {
    DimWalk walk(dims, rank, 0);
    for (int64_t i = 0; i < n; ++i, walk.next()) {
      T buffer;
      if (!body(*in.get(offset + walk.in, 1, &buffer), i)) return;
    }
  }
};

/// The element of rank `k` (from 0) and the index of the first one like it.
template <typename T>
int64_t select(const Slice<T>& slice, int64_t k, T* value) {
  uint64_t prefix = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    int64_t counts[256] = {};
    slice.each([&](T x, int64_t) {
      const uint64_t key = sort_key(x);
      if (shift == 56 || (key >> (shift + 8)) == prefix) ++counts[(key >> shift) & 0xff];
      return true;
    });
    uint64_t digit = 0;
    while (digit < 255 && k >= counts[digit]) k -= counts[digit++];
    prefix = (prefix << 8) | digit;
  }
  int64_t found = 0;
  slice.each([&](T x, int64_t i) {
    if (sort_key(x) != prefix) return true;
    *value = x;
    found = i;
    return false;
  });
  return found;
}

/// The first NaN, or -1.
template <typename T>
int64_t first_nan(const Slice<T>& slice, int64_t* numbers) {
  int64_t found = -1;
  *numbers = 0;
  slice.each([&](T x, int64_t i) {
    if (x == x) {
      ++*numbers;
    } else if (found < 0) {
      found = i;
    }
    return true;
  });
  return found;
}

enum class Which { Median, NanMedian };

/// Of every slice; `indices` may be null. All slices have elements.
template <typename T>
bool median_as(KernelContext& ctx, const Tensor& self, uint32_t mask, Which which, const Tensor& values,
               const Tensor* indices) {
  Source<T> in;
  Sink<T> value_sink;
  Sink<int64_t> index_sink;
  if (!make_source<T, kReal>(self, &in) || !make_sink<T, kReal>(values, &value_sink)) return false;
  if (indices != nullptr && !make_sink<int64_t, dtype_bit(ScalarType::Long)>(*indices, &index_sink)) return false;
  const ReducePlan plan = make_reduce_plan(self, mask, values);
  ctx.parallel_for(plan.kept_count, 1, [&](int64_t begin, int64_t end) {
    DimWalk walk(plan.kept, plan.kept_rank, begin);
    for (int64_t i = begin; i < end; ++i, walk.next()) {
      const Slice<T> slice{in, plan.reduced, plan.reduced_rank, walk.in, plan.reduced_count};
      T value = T(0);
      int64_t index;
      int64_t numbers;
      index = first_nan(slice, &numbers);
      if (which == Which::NanMedian && numbers > 0) index = -1;
      if (index >= 0) {
        value = std::numeric_limits<T>::quiet_NaN();
      } else {
        index = select(slice, (numbers - 1) / 2, &value);
      }
      value_sink.put(walk.out, 1, &value, 1);
      if (indices != nullptr) index_sink.put(walk.out, 1, &index, 1);
    }
  });
  return true;
}

void median(KernelContext& ctx, const Tensor& self, uint32_t mask, Which which, const Tensor& values,
            const Tensor* indices) {
  const bool done = is_floating(self.dtype) ? median_as<double>(ctx, self, mask, which, values, indices)
                                            : median_as<int64_t>(ctx, self, mask, which, values, indices);
  if (!done) ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
}

/// Values like self, indices of Long, both of the reduced shape and of one layout; `indices` may be null.
bool prepare(KernelContext& ctx, const Tensor& self, uint32_t mask, bool keepdim, Tensor& values, Tensor* indices) {
  if (!contains(kReal, self.dtype)) return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype)), false;
  if (values.dtype != self.dtype) {
    return ctx.fail(Check::KernelDtypeMismatch, values, static_cast<int64_t>(values.dtype)), false;
  }
  if (!has_data(ctx, self) || !resize_reduced(ctx, values, self, mask, keepdim)) return false;
  if (indices == nullptr) return true;
  if (indices->dtype != ScalarType::Long) {
    return ctx.fail(Check::KernelDtypeMismatch, *indices, static_cast<int64_t>(indices->dtype)), false;
  }
  if (!resize_reduced(ctx, *indices, self, mask, keepdim)) return false;
  if (!same_layout(values, *indices)) return ctx.fail(Check::KernelDimOrder, *indices), false;
  return true;
}

void median_all(KernelContext& ctx, const Tensor& self, Tensor& out, Which which) {
  if (!prepare(ctx, self, all_dims(self), false, out, nullptr)) return;
  if (self.numel() == 0) {
    // torch: NaN, or the smallest integer, for a tensor without elements; only NaN is a value that can be meant.
    const float nan = std::numeric_limits<float>::quiet_NaN();
    Sink<float> sink;
    if (!make_sink<float, kFloats>(out, &sink)) return ctx.fail(Check::KernelShape, self, 0);
    return sink.put(0, 1, &nan, 1);
  }
  median(ctx, self, all_dims(self), which, out, nullptr);
}

void along_dim(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& values, Tensor& indices,
               Which which) {
  uint32_t mask;
  if (!one_dim(ctx, dim, self, &mask)) return;
  if (reduced_count(self, mask) == 0) return ctx.fail(Check::KernelShape, self, 0);
  if (!prepare(ctx, self, mask, keepdim, values, &indices)) return;
  median(ctx, self, mask, which, values, &indices);
}

}  // namespace

void median_all_out(KernelContext& ctx, const Tensor& self, Tensor& out) { median_all(ctx, self, out, Which::Median); }
void nanmedian_all_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  median_all(ctx, self, out, Which::NanMedian);
}
void median_dim_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                    Tensor& indices) {
  along_dim(ctx, self, dim, keepdim, values, indices, Which::Median);
}
void nanmedian_dim_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                       Tensor& indices) {
  along_dim(ctx, self, dim, keepdim, values, indices, Which::NanMedian);
}

}  // namespace etir
