// Conversion of whole blocks of elements between a tensor's dtype and the type that a kernel computes in.
//
// A kernel that works on blocks needs one inner loop for each type it computes in, and one conversion for each dtype
// that it reads or writes: the pairs of dtypes never multiply with the operators. The function pointers are called once
// for a block of some hundred elements. The conversions are compiled once for all kernels, in blocks.cc.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "kernels/util/dispatch.h"

namespace etir {

template <typename T>
struct IsComplex : std::false_type {};
template <typename T>
struct IsComplex<std::complex<T>> : std::true_type {};
template <>
struct IsComplex<ComplexHalf> : std::true_type {};
template <typename T>
constexpr bool kIsComplex = IsComplex<T>::value;

/// As convert(), for complex types too: a real number has no imaginary part, != 0 for bool, other reals refuse.
template <typename To, typename From>
inline To convert_element(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, ComplexHalf>) {
    return convert_element<To>(ComplexFloat(static_cast<float>(value.real), static_cast<float>(value.imag)));
  } else if constexpr (std::is_same_v<To, ComplexHalf>) {
    const ComplexFloat wide = convert_element<ComplexFloat>(value);
    return ComplexHalf{Half(wide.real()), Half(wide.imag())};
  } else if constexpr (kIsComplex<From> && kIsComplex<To>) {
    using Part = typename To::value_type;
    return To(static_cast<Part>(value.real()), static_cast<Part>(value.imag()));
  } else if constexpr (kIsComplex<To>) {
    using Part = typename To::value_type;
    return To(convert<Part>(value), Part(0));
  } else if constexpr (kIsComplex<From>) {
    static_assert(std::is_same_v<To, bool>, "a complex number is no real number");
    return (value.real() != 0) | (value.imag() != 0);
  } else {
    return convert<To>(value);
  }
}

/// The dtypes that a block of T can be loaded from; a block of complex numbers or bools from all of them.
template <typename T>
constexpr DtypeSet kLoadable = kRealBool | kAllInts | (kIsComplex<T> || std::is_same_v<T, bool> ? kComplex : 0);
/// The dtypes that a block of T can be stored as.
template <typename T>
constexpr DtypeSet kStorable = kIsComplex<T> ? kComplex : (kRealBool | kAllInts);

template <typename T>
using LoadBlock = void (*)(T* to, const void* from, int64_t n);
template <typename T>
using StoreBlock = void (*)(void* to, const T* from, int64_t n);

namespace detail {
/// The conversion from dtype `from` for any of kLoadable, or of the floating point types alone; null for the others.
/// For the types that blocks.cc lists.
template <typename To, bool kFloatsOnly>
LoadBlock<To> find_loader(ScalarType from);
/// The conversion to dtype `to` for any of kStorable, or of the floating point types alone; null for the others.
template <typename From, bool kFloatsOnly>
StoreBlock<From> find_storer(ScalarType to);
}  // namespace detail

/// The conversion from dtype `from`, or null when it is not in `kSet`.
template <typename To, DtypeSet kSet = kLoadable<To>>
LoadBlock<To> block_loader(ScalarType from) {
  return contains(kSet, from) ? detail::find_loader<To, (kSet & ~kFloats) == 0>(from) : nullptr;
}
/// The conversion to dtype `to`, or null when it is not in `kSet`.
template <typename From, DtypeSet kSet = kStorable<From>>
StoreBlock<From> block_storer(ScalarType to) {
  return contains(kSet, to) ? detail::find_storer<From, (kSet & ~kFloats) == 0>(to) : nullptr;
}

/// Elements of a tensor read as T: in place where the dtype is T, through a buffer otherwise.
template <typename T>
struct Source {
  const char* data = nullptr;
  size_t bytes = 0;             ///< bytes of one element
  LoadBlock<T> load = nullptr;  ///< null: elements are T already

  /// `n` elements from element `offset` on; `buffer` has room for them.
  const T* get(int64_t offset, int64_t n, T* buffer) const {
    const char* from = data + offset * static_cast<int64_t>(bytes);
    if (load == nullptr) return reinterpret_cast<const T*>(from);
    load(buffer, from, n);
    return buffer;
  }
};

/// Elements of a tensor written as T.
template <typename T>
struct Sink {
  char* data = nullptr;
  size_t bytes = 0;
  StoreBlock<T> store = nullptr;
  bool is_direct = false;  ///< elements are T already

  /// Where `n` results for element `offset` and on are computed: in place, or in `buffer`, which flush() stores.
  T* place(int64_t offset, T* buffer) const { return is_direct ? reinterpret_cast<T*>(data) + offset : buffer; }
  void flush(int64_t offset, const T* placed, int64_t n) const {
    if (!is_direct) store(data + offset * static_cast<int64_t>(bytes), placed, n);
  }
  /// Writes `n` elements to element `offset`, `offset` + `stride`, ...
  void put(int64_t offset, int64_t stride, const T* values, int64_t n) const {
    char* to = data + offset * static_cast<int64_t>(bytes);
    if (stride == 1) return store(to, values, n);
    for (int64_t i = 0; i < n; ++i) store(to + i * stride * static_cast<int64_t>(bytes), values + i, 1);
  }
};

/// False when the dtype is not in `kSet`.
template <typename T, DtypeSet kSet = kLoadable<T>>
bool make_source(const Tensor& tensor, Source<T>* source) {
  source->data = static_cast<const char*>(tensor.data);
  source->bytes = element_size(tensor.dtype);
  source->load = nullptr;
  if (tensor.dtype == ScalarTypeOf<T>::value) return contains(kSet & kSelectedDtypes, tensor.dtype);
  source->load = block_loader<T, kSet>(tensor.dtype);
  return source->load != nullptr;
}
template <typename T, DtypeSet kSet = kStorable<T>>
bool make_sink(const Tensor& tensor, Sink<T>* sink) {
  sink->data = static_cast<char*>(tensor.data);
  sink->bytes = element_size(tensor.dtype);
  sink->store = block_storer<T, kSet>(tensor.dtype);
  sink->is_direct = tensor.dtype == ScalarTypeOf<T>::value;
  return sink->store != nullptr;
}

}  // namespace etir
