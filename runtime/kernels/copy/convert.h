// Copies that change the dtype, for operators that take tensors of several.
//
// Elements go through blocks of int64, double or, between the float types it holds, float: there is one loop for each
// dtype read, and for each dtype written one for each type of block. Complex numbers are converted as their parts.
#pragma once

#include "kernels/copy/fill.h"
#include "kernels/util/half_blocks.h"
#include "kernels/util/promote.h"

namespace etir {

namespace detail {

constexpr int64_t kConvertBlock = 64;
constexpr int64_t kConvertedByThread = 16384;
constexpr DtypeSet kConvertible = kRealBool | kAllInts | kComplex;

inline int64_t to_int64(double value) {
  // What lies outside, and NaN, becomes what the instruction of x86-64 makes of it.
  return value >= -9223372036854775808.0 && value < 9223372036854775808.0 ? static_cast<int64_t>(value) : INT64_MIN;
}

template <typename T, typename From>
inline T convert_checked(From value) {
  if constexpr (std::is_same_v<From, double> && std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return static_cast<T>(to_int64(value));
  } else {
    return convert<T>(value);
  }
}

template <typename To, typename T>
void load_line(void* to, const char* from, int64_t stride, int64_t n) {
  To* const __restrict__ out = static_cast<To*>(to);
  const auto line = [=](int64_t step) {
    for (int64_t i = 0; i < n; ++i) {
      T value;
      std::memcpy(&value, from + i * step, sizeof(T));
      out[i] = convert<To>(value);
    }
  };
  if constexpr (std::is_same_v<To, float> && std::is_same_v<T, Half>) {
    if (stride == sizeof(T)) return floats_from_halves(out, reinterpret_cast<const T*>(from), n);
  }
  // Of the second loop the compiler makes vectors.
  stride != sizeof(T) ? line(stride) : line(sizeof(T));
}
template <typename From, typename T>
void store_line(char* to, int64_t stride, const void* from, int64_t n) {
  const From* const __restrict__ in = static_cast<const From*>(from);
  const auto line = [=](int64_t step) {
    for (int64_t i = 0; i < n; ++i) {
      const T value = convert_checked<T>(in[i]);
      std::memcpy(to + i * step, &value, sizeof(T));
    }
  };
  if constexpr (std::is_same_v<From, float> && std::is_same_v<T, Half>) {
    if (stride == sizeof(T)) return halves_from_floats(reinterpret_cast<T*>(to), in, n);
  }
  stride != sizeof(T) ? line(stride) : line(sizeof(T));
}

constexpr DtypeSet kFloatAndBelow = kHalfFloats | dtype_bit(ScalarType::Float);

template <typename Block, DtypeSet kSet = kRealBool | kAllInts>
void find_store(ScalarType type, void (*&store)(char*, int64_t, const void*, int64_t)) {
  dispatch<kSet>(type, [&](auto tag) { store = store_line<Block, typename decltype(tag)::type>; });
}

/// Between real types; the views have one shape.
[[gnu::noinline]] inline void convert_real(KernelContext& ctx, const View& from, ScalarType from_type, const View& to,
                                           ScalarType to_type) {
  CopyDims dims;
  for (int d = 0; d < to.rank; ++d) dims.add(to.sizes[d], from.strides[d], to.strides[d]);
  if (dims.empty) return;
  sort_and_merge(dims);
  Loops<2> loops;
  loops.rank = dims.rank;
  loops.data[0] = to.data;
  loops.data[1] = from.data;
  for (int d = 0; d < dims.rank; ++d) {
    loops.sizes[d] = dims.sizes[d];
    loops.strides[0][d] = dims.to[d] * static_cast<int64_t>(to.element);
    loops.strides[1][d] = dims.from[d] * static_cast<int64_t>(from.element);
  }
  void (*load)(void*, const char*, int64_t, int64_t) = nullptr;
  void (*store)(char*, int64_t, const void*, int64_t) = nullptr;
  if (contains(kFloatAndBelow, from_type) && contains(kFloatAndBelow, to_type)) {
    dispatch<kFloatAndBelow>(from_type, [&](auto tag) { load = load_line<float, typename decltype(tag)::type>; });
    find_store<float, kFloatAndBelow>(to_type, store);
  } else if (is_floating(from_type) || (from_type == ScalarType::UInt64 && is_floating(to_type))) {
    // Of the integers, only uint64 has values that float types hold and int64 does not.
    dispatch<kFloats | dtype_bit(ScalarType::UInt64)>(
        from_type, [&](auto tag) { load = load_line<double, typename decltype(tag)::type>; });
    find_store<double>(to_type, store);
  } else {
    dispatch<kAllInts | kBool>(from_type, [&](auto tag) { load = load_line<int64_t, typename decltype(tag)::type>; });
    find_store<int64_t>(to_type, store);
  }
  if (load == nullptr || store == nullptr) return ctx.fail(Check::KernelDtype, 0, static_cast<int64_t>(from_type));
  const auto line = [&](char* const* data, const int64_t* steps, int64_t begin, int64_t end) {
    alignas(8) char block[kConvertBlock * 8];
    for (int64_t i = begin; i < end; i += kConvertBlock) {
      const int64_t count = end - i < kConvertBlock ? end - i : kConvertBlock;
      load(block, data[1] + i * steps[1], steps[1], count);
      store(data[0] + i * steps[0], steps[0], block, count);
    }
  };
  if (loops.rank == 1) {  // Threads share one line, too.
    const int64_t steps[] = {loops.strides[0][0], loops.strides[1][0]};
    return ctx.parallel_for(loops.inner(), kConvertedByThread,
                            [&](int64_t begin, int64_t end) { line(loops.data, steps, begin, end); });
  }
  ctx.parallel_for(loops.rows(), kConvertedByThread / loops.inner() + 1, [&](int64_t begin, int64_t end) {
    loops.run(begin, end, [&](char* const* data, const int64_t* steps, int64_t n) { line(data, steps, 0, n); });
  });
}

/// The real (0) or imaginary (1) parts of a view of complex numbers.
inline View part_view(View view, int part) {
  view.element /= 2;
  for (int d = 0; d < view.rank; ++d) view.strides[d] *= 2;
  view.shift(part);
  return view;
}

}  // namespace detail

/// Whether copy_converted can; complex numbers do not become bools.
inline bool can_convert(ScalarType from, ScalarType to) {
  if (from == to) return element_size(to) != 0;
  return contains(detail::kConvertible, from) && contains(detail::kConvertible, to) &&
         !(is_complex(from) && to == ScalarType::Bool);
}

/// Copies between views of one shape, converted as by torch's Tensor::copy_.
[[gnu::noinline]] inline void copy_converted(KernelContext& ctx, const View& from, ScalarType from_type, const View& to,
                                             ScalarType to_type) {
  if (from_type == to_type) return copy_elements(ctx, from, to);
  const View real_from = is_complex(from_type) ? detail::part_view(from, 0) : from;
  const View real_to = is_complex(to_type) ? detail::part_view(to, 0) : to;
  detail::convert_real(ctx, real_from, part_of(from_type), real_to, part_of(to_type));
  if (!is_complex(to_type)) return;
  const View imaginary = detail::part_view(to, 1);
  if (is_complex(from_type)) {
    detail::convert_real(ctx, detail::part_view(from, 1), part_of(from_type), imaginary, part_of(to_type));
  } else {
    fill_zero(ctx, imaginary);
  }
}

}  // namespace etir
