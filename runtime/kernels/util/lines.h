// What the kernels that read and write by index share: checks, safe reads of indices, and loops over tensors whose
// strides are not those of a common shape.
//
// Every index is read once, checked and used from that reading, because nothing says that a program keeps a result and
// an index apart in memory. Loops do not stop at a bad index on their own account: they leave a note in an IndexGuard,
// which several threads may share, and touch no memory with it.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/kernel.h"
#include "kernels/util/checks.h"
#include "kernels/util/dispatch.h"
#include "kernels/util/loops.h"

namespace etir::lines {

constexpr DtypeSet kIndexTypes = dtype_set(ScalarType::Int, ScalarType::Long);
constexpr DtypeSet kMaskTypes = dtype_set(ScalarType::Bool, ScalarType::Byte);

inline int64_t number(ScalarType type) { return static_cast<int64_t>(type); }

/// Whether a tensor has memory and one of the dtypes.
inline bool takes(KernelContext& ctx, const Tensor& tensor, DtypeSet dtypes) {
  if (!contains(dtypes, tensor.dtype)) return ctx.fail(Check::KernelDtype, tensor, number(tensor.dtype)), false;
  return has_data(ctx, tensor);
}

/// Whether a tensor has memory and the dtype that it must share with another argument.
inline bool takes_same(KernelContext& ctx, const Tensor& tensor, const Tensor& other) {
  if (tensor.dtype != other.dtype) {
    return ctx.fail(Check::KernelDtypeMismatch, tensor, number(tensor.dtype)), false;
  }
  return has_data(ctx, tensor);
}

/// Scratch memory for `count` items, or null with the failure recorded. Unlike temp_array it is safe for any count.
template <typename T>
T* temp_for(KernelContext& ctx, int64_t count) {
  if (static_cast<uint64_t>(count) > static_cast<uint64_t>(PTRDIFF_MAX) / sizeof(T)) {
    return ctx.fail(Check::KernelTemp, count), nullptr;
  }
  return ctx.temp_array<T>(count);
}

/// A dimension argument wrapped, or -1 with the failure recorded.
inline int dim_argument(KernelContext& ctx, int64_t dim, int rank) {
  const int wrapped = wrap_dim(dim, rank);
  if (wrapped < 0) ctx.fail(Check::KernelDim, dim, rank);
  return wrapped;
}

/// Sizes and byte strides of a tensor; one without dims counts as a vector of one, as torch sees it in these operators.
struct View {
  char* data;
  int rank;
  int64_t sizes[kMaxRank];
  int64_t strides[kMaxRank];

  explicit View(const Tensor& tensor) : data(static_cast<char*>(tensor.data)), rank(tensor.rank) {
    tensor.strides(strides);
    const int64_t bytes = static_cast<int64_t>(element_size(tensor.dtype));
    for (int d = 0; d < rank; ++d) {
      sizes[d] = tensor.sizes[d];
      strides[d] *= bytes;
    }
    if (rank == 0) {
      rank = 1;
      sizes[0] = 1;
      strides[0] = bytes;
    }
  }
};

/// A tensor in which one without dims has become a vector of one.
struct AsVector {
  Tensor tensor;

  explicit AsVector(const Tensor& given) : tensor(given) {
    if (tensor.rank > 0) return;
    tensor.rank = 1;
    tensor.sizes = &size_;
    tensor.dim_order = nullptr;
  }
  AsVector(const AsVector&) = delete;
  AsVector& operator=(const AsVector&) = delete;

 private:
  int32_t size_ = 1;
};

/// The dims of a view from the outermost to the innermost in memory, those in `skip` (a bit for each) left out.
inline int memory_order(const Tensor& tensor, uint32_t skip, int* dims) {
  int count = 0;
  for (int position = 0; position < tensor.rank; ++position) {
    const int dim = tensor.order(position);
    if ((skip >> dim & 1) == 0) dims[count++] = dim;
  }
  if (tensor.rank == 0 && (skip & 1) == 0) dims[count++] = 0;
  return count;
}

/// Loops over some dims with the sizes given; each view moves by its own strides, by none in the dim `fixed[k]`.
template <int N>
Loops<N> loops_over(const int64_t* sizes, const int* dims, int count, const View* const (&views)[N],
                    const int (&fixed)[N]) {
  Loops<N> loops;
  loops.rank = count;
  for (int i = 0; i < count; ++i) {
    loops.sizes[i] = sizes[dims[i]];
    for (int k = 0; k < N; ++k) loops.strides[k][i] = dims[i] == fixed[k] ? 0 : views[k]->strides[dims[i]];
  }
  for (int k = 0; k < N; ++k) loops.data[k] = views[k]->data;
  loops.coalesce();
  return loops;
}

/// Loops over the lines along `dim`: every combination of the other dims, in the memory order of `first`.
template <int N>
Loops<N> loops_over_lines(const Tensor& first, int dim, const View* const (&views)[N]) {
  int dims[kMaxRank];
  int fixed[N];
  for (int k = 0; k < N; ++k) fixed[k] = -1;
  const int count = memory_order(first, uint32_t{1} << dim, dims);
  return loops_over<N>(views[0]->sizes, dims, count, views, fixed);
}

/// An address `bytes` further on. A tensor whose lines have no elements may have no memory, and no pointer to move.
inline char* moved(char* at, int64_t bytes) {
  return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(at) + static_cast<uintptr_t>(bytes));
}

/// Calls `body(char* const* data)` for the positions [begin, end) of the loops.
template <int N, typename Body>
void for_each_position(const Loops<N>& loops, int64_t begin, int64_t end, const Body& body) {
  char* at[N];
  int64_t index[kMaxRank];
  for (int k = 0; k < N; ++k) at[k] = loops.data[k];
  int64_t rest = begin;
  for (int d = loops.rank - 1; d >= 0; --d) {
    index[d] = rest % loops.sizes[d];
    rest /= loops.sizes[d];
    for (int k = 0; k < N; ++k) at[k] = moved(at[k], index[d] * loops.strides[k][d]);
  }
  for (int64_t position = begin; position < end; ++position) {
    body(at);
    for (int d = loops.rank - 1; d >= 0; --d) {
      for (int k = 0; k < N; ++k) at[k] = moved(at[k], loops.strides[k][d]);
      if (++index[d] < loops.sizes[d]) break;
      for (int k = 0; k < N; ++k) at[k] = moved(at[k], -loops.strides[k][d] * loops.sizes[d]);
      index[d] = 0;
    }
  }
}

/// Calls `body(char* const* data)` for every line, on several threads where `line` (elements in each) makes it worth
/// it. Not for lines without elements, of which a tensor without elements may have more than can be counted through.
template <int N, typename Body>
void for_each_line(KernelContext& ctx, const Loops<N>& loops, int64_t line, const Body& body) {
  const int64_t lines = loops.numel();
  if (lines == 0 || line == 0) return;
  const int64_t grain = 1 + 16384 / line;
  ctx.parallel_for(lines, grain, [&](int64_t begin, int64_t end) { for_each_position(loops, begin, end, body); });
}

/// Remembers an index that was out of bounds.
class IndexGuard {
 public:
  void note(int64_t index, int64_t size) {
    const int64_t low = INT32_MIN, high = INT32_MAX;
    const int64_t shown = index < low ? low : index > high ? high : index;
    __atomic_store_n(&index_, static_cast<int32_t>(shown), __ATOMIC_RELAXED);
    __atomic_store_n(&size_, static_cast<int32_t>(size > high ? high : size), __ATOMIC_RELAXED);
    __atomic_store_n(&bad_, uint8_t{1}, __ATOMIC_RELAXED);
  }
  bool bad() const { return __atomic_load_n(&bad_, __ATOMIC_RELAXED) != 0; }
  /// True when there was none; otherwise records the failure.
  bool report(KernelContext& ctx) const {
    if (!bad()) return true;
    ctx.fail(Check::KernelIndex, index_, size_);
    return false;
  }
  /// Whether `index` is in [0, size); notes it otherwise.
  bool check(int64_t index, int64_t size) {
    if (static_cast<uint64_t>(index) < static_cast<uint64_t>(size)) return true;
    note(index, size);
    return false;
  }

 private:
  int32_t index_ = 0;
  int32_t size_ = 0;
  uint8_t bad_ = 0;
};

/// An index of type int32 or int64.
inline int64_t load_index(const char* at, bool wide) {
  return wide ? *reinterpret_cast<const int64_t*>(at) : *reinterpret_cast<const int32_t*>(at);
}
inline bool is_wide(const Tensor& index) { return index.dtype == ScalarType::Long; }

/// One element; a bool of any byte but 0 is true.
template <typename T>
inline T load(const char* at) {
  if constexpr (std::is_same_v<T, bool>) {
    return *reinterpret_cast<const uint8_t*>(at) != 0;
  } else {
    return *reinterpret_cast<const T*>(at);
  }
}
template <typename T>
inline void store(char* at, T value) {
  *reinterpret_cast<T*>(at) = value;
}

/// A real number as int64; what does not fit becomes the least one.
inline int64_t to_int64(double value) {
  return value >= -9223372036854775808.0 && value < 9223372036854775808.0 ? static_cast<int64_t>(value)
                                                                          : std::numeric_limits<int64_t>::min();
}

/// A number as an element, or false where torch says that it overflows (or is complex for a real type).
template <typename T>
bool scalar_as(const Scalar& scalar, T* result) {
  if constexpr (std::is_same_v<T, bool>) {
    *result = scalar.is_floating() ? scalar.payload.real != 0 : scalar.to<int64_t>() != 0;
  } else if constexpr (std::is_integral_v<T>) {
    if (scalar.is_floating()) {
      const double real = scalar.payload.real;
      const double low = static_cast<double>(std::numeric_limits<T>::min());
      const double high = static_cast<double>(std::numeric_limits<T>::max());
      // The greatest int64 and uint64 round up to a power of two that does not fit itself.
      if (!(real >= low && (sizeof(T) == 8 ? real < high : real <= high))) return false;
      *result = static_cast<T>(real);
      return true;
    }
    const int64_t integer = scalar.to<int64_t>();
    const uint64_t magnitude = integer < 0 ? ~static_cast<uint64_t>(integer) + 1 : static_cast<uint64_t>(integer);
    const uint64_t high = static_cast<uint64_t>(std::numeric_limits<T>::max());
    // Negative numbers wrap around in unsigned types.
    if (magnitude > high + (std::is_signed_v<T> && integer < 0 ? 1 : 0)) return false;
    *result = static_cast<T>(integer);
  } else if constexpr (std::is_same_v<T, ComplexHalf>) {
    Half real;
    if (!scalar_as(scalar, &real)) return false;
    *result = ComplexHalf{real, Half(0.0f)};
  } else if constexpr (std::is_same_v<T, ComplexFloat> || std::is_same_v<T, ComplexDouble>) {
    typename T::value_type real;
    if (!scalar_as(scalar, &real)) return false;
    *result = T(real);
  } else {
    const double real = scalar.to<double>();
    const double high = std::is_same_v<T, Half>       ? 65504.0
                        : std::is_same_v<T, BFloat16> ? 3.3895313892515355e38
                        : std::is_same_v<T, float>    ? static_cast<double>(std::numeric_limits<float>::max())
                                                      : std::numeric_limits<double>::max();
    if (std::isfinite(real) && std::fabs(real) > high) return false;
    if constexpr (std::is_same_v<T, double>) {
      *result = real;
    } else {
      *result = T(static_cast<float>(real));
    }
  }
  return true;
}

/// A number as the bytes of one element of `dtype`, in `bytes[16]`. False with the failure recorded, of the argument at
/// `position`.
inline bool scalar_bytes(KernelContext& ctx, const Scalar& scalar, int position, ScalarType dtype,
                         unsigned char* bytes) {
  bool fits = false;
  const bool known = dispatch<~DtypeSet{0}>(dtype, [&](auto tag) {
    typename decltype(tag)::type value{};
    fits = scalar_as(scalar, &value);
    if (fits) std::memcpy(bytes, &value, sizeof(value));
  });
  if (!known) return ctx.fail(Check::KernelDtype, position, number(dtype)), false;
  if (!fits) return ctx.fail(Check::KernelOverflow, position, number(dtype)), false;
  return true;
}

/// Starts a result that is `self` but for some elements: gives `out` the shape of `self` and copies its elements.
inline bool copy_to_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (!ctx.resize_like(out, self) || !has_data(ctx, out)) return false;
  if (out.data == self.data || out.numel() == 0) return true;
  if (same_dim_order(self, out)) {
    std::memmove(out.data, self.data, out.nbytes());
    return true;
  }
  const Tensor* const operands[] = {&out, &self};
  const auto loops = make_loops<2>(operands);
  const bool known = dispatch_size(element_size(out.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    loops.run([](char* const* data, const int64_t* steps, int64_t n) {
      for (int64_t i = 0; i < n; ++i) store(data[0] + i * steps[0], load<T>(data[1] + i * steps[1]));
    });
  });
  if (!known) ctx.fail(Check::KernelDtype, out, number(out.dtype));
  return known;
}

/// a + b and a * b as torch has them: integers wrap around, bools are or and and, 16-bit types compute in float.
template <typename T>
inline T wrapping_add(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a || b;
  } else if constexpr (std::is_same_v<T, ComplexHalf>) {
    return ComplexHalf{wrapping_add(a.real, b.real), wrapping_add(a.imag, b.imag)};
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else if constexpr (std::is_same_v<T, accumulate_t<T>>) {
    return a + b;
  } else {
    return T(static_cast<float>(a) + static_cast<float>(b));
  }
}
template <typename T>
inline T wrapping_mul(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a && b;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else if constexpr (std::is_same_v<T, accumulate_t<T>>) {
    return a * b;
  } else {
    return T(static_cast<float>(a) * static_cast<float>(b));
  }
}

}  // namespace etir::lines
