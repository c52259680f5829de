// Conversions of whole tensors, and numbers as elements: what copies and fills are made of.
#pragma once

#include <cstring>
#include <limits>

#include "kernels/util/elementwise.h"

namespace etir {

/// One element of any dtype.
struct Element {
  alignas(8) unsigned char bytes[16];
};

namespace detail {

template <typename T>
inline bool number_overflows(const Scalar& number) {
  if constexpr (std::is_same_v<T, bool> || is_complex_v<T>) {
    return false;
  } else if constexpr (std::is_integral_v<T>) {
    constexpr int kBits = std::numeric_limits<T>::digits;  // without the sign
    if (number.is_floating()) {
      const double limit = std::ldexp(1.0, kBits);
      const double value = number.payload.real;
      // As in torch, negative numbers wrap around in unsigned types.
      return !(value < limit && (std::is_signed_v<T> ? value >= -limit : value > -limit));
    }
    const int64_t value = number.to<int64_t>();
    if (kBits >= 63) return false;
    const int64_t limit = int64_t{1} << (kBits < 63 ? kBits : 0);
    return !(value < limit && (std::is_signed_v<T> ? value >= -limit : value > -limit));
  } else if constexpr (std::is_same_v<T, double>) {
    return false;
  } else {
    if (!number.is_floating()) return std::is_same_v<T, Half> && std::fabs(number.to<double>()) > 65504.0;
    const double size = std::fabs(number.payload.real);
    const double largest = std::is_same_v<T, Half>       ? 65504.0
                           : std::is_same_v<T, BFloat16> ? 3.3895313892515355e38
                                                         : std::numeric_limits<float>::max();
    return size > largest && size <= std::numeric_limits<double>::max();
  }
}

}  // namespace detail

/// A number as an element of a dtype; fails with KernelOverflow, as torch does, where it is out of range.
inline bool number_to_element(KernelContext& ctx, const Scalar& number, int index, ScalarType dtype, Element* element) {
  bool fits = false;
  const bool known = dispatch<kRealBool | kUnsignedInts | kComplex>(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    fits = !detail::number_overflows<T>(number);
    if (!fits) return;
    T value;
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      value = number.is_floating() && number.payload.real < 9.2e18
                  ? static_cast<T>(static_cast<int64_t>(number.payload.real))
              : number.is_floating() ? static_cast<T>(number.payload.real)
                                     : static_cast<T>(number.to<int64_t>());
    } else {
      value = detail::convert_element<T>(number.to<double>());
    }
    std::memcpy(element->bytes, &value, sizeof(value));
  });
  if (!known) {
    ctx.fail(Check::KernelDtype, index, static_cast<int64_t>(dtype));
  } else if (!fits) {
    ctx.fail(Check::KernelOverflow, index, static_cast<int64_t>(dtype));
  }
  return known && fits;
}

/// Sets every element of a tensor that has its size already.
inline void fill_elements(KernelContext& ctx, Tensor& out, const Element& element) {
  if (!has_data(ctx, out)) return;
  const int64_t count = out.numel();
  dispatch_size(element_size(out.dtype), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T value;
    std::memcpy(&value, element.bytes, sizeof(value));
    T* __restrict__ to = out.ptr<T>();
    for (int64_t i = 0; i < count; ++i) to[i] = value;
  });
}

/// Whether a result has the dim order that is asked for; an empty list asks for none. The order of a result is the
/// program's: kernels cannot change it.
inline bool has_dim_order(KernelContext& ctx, const Tensor& out, const IntList& order) {
  for (size_t position = 0; position < order.size(); ++position) {
    if (order.size() == out.rank && order[position] == out.order(static_cast<int>(position))) continue;
    ctx.fail(Check::KernelDimOrder, out);
    return false;
  }
  return true;
}

/// Whether `from` broadcasts to the size that `out` has; records the failure.
inline bool expands_to(KernelContext& ctx, const Tensor& from, const Tensor& out) {
  const int missing = out.rank - from.rank;
  if (missing < 0) {
    ctx.fail(Check::KernelRank, from, from.rank);
    return false;
  }
  for (int d = 0; d < from.rank; ++d) {
    if (from.sizes[d] != 1 && from.sizes[d] != out.sizes[d + missing]) {
      ctx.fail(Check::KernelShape, from, from.sizes[d]);
      return false;
    }
  }
  return true;
}

namespace detail {

template <typename C>
void convert_through(KernelContext& ctx, Tensor& out, const Tensor& from) {
  const Tensor* const tensors[] = {&out, &from};
  elementwise_on<C, C>(ctx, make_loops<2>(tensors), out, {&from}, ScalarTypeOf<C>::value,
                       [](C value) { return value; });
}

}  // namespace detail

/// Copies `from`, broadcast, into a tensor that has its size already, converting the elements as torch does.
inline void copy_elements(KernelContext& ctx, Tensor& out, const Tensor& from) {
  if (!expands_to(ctx, from, out) || out.numel() == 0) return;
  if (!has_data(ctx, out) || !has_data(ctx, from)) return;
  const ScalarType to_type = out.dtype, type = from.dtype;
  if (to_type == type) {
    if (same_shape(out, from) && same_dim_order(out, from)) {
      if (out.data != from.data) std::memmove(out.data, from.data, out.nbytes());
      return;
    }
    const Tensor* const tensors[] = {&out, &from};
    const auto loops = make_loops<2>(tensors);
    const bool done = dispatch_size(element_size(type), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const auto body = [](char* const* data, const int64_t* steps, int64_t n) {
        detail::gather_block<T>(data[0], data[1], steps[1], n);
      };
      const auto strided = [](char* const* data, const int64_t* steps, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          *reinterpret_cast<T*>(data[0] + i * steps[0]) = *reinterpret_cast<const T*>(data[1] + i * steps[1]);
        }
      };
      const bool adjacent = loops.rank == 0 || loops.strides[0][loops.rank - 1] == static_cast<int64_t>(sizeof(T));
      if (adjacent) {
        loops.run(body);
      } else {
        loops.run(strided);
      }
    });
    if (!done) ctx.fail(Check::KernelDtype, from, static_cast<int64_t>(type));
    return;
  }
  if (to_type == ScalarType::Bool) return detail::convert_through<bool>(ctx, out, from);
  if (is_complex(to_type)) {
    const bool wide = to_type == ScalarType::ComplexDouble || part_of(type) == ScalarType::Double;
    if (wide) return detail::convert_through<ComplexDouble>(ctx, out, from);
    return detail::convert_through<ComplexFloat>(ctx, out, from);
  }
  const bool wide =
      type == ScalarType::Double || is_complex(type) || (type == ScalarType::UInt64 && is_floating(to_type));
  if (wide) return detail::convert_through<double>(ctx, out, from);
  if (is_floating(type)) return detail::convert_through<float>(ctx, out, from);
  detail::convert_through<int64_t>(ctx, out, from);
}

}  // namespace etir
