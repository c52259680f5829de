// The engine of all elementwise operators: out[i] = f(a[i], b[i], ...), broadcast, in any dense dim orders and dtypes.
//
// A function is compiled once for each type it computes in (float, double, int64, complex), as one counted loop over
// contiguous elements, which compilers vectorize. Operands that lie in memory just so are used in place; others (of
// other dtypes, strided, or one number for a whole row) go through blocks on the stack, filled and emptied by
// conversion loops that all operators share. So code grows with ops x compute types plus dtypes x compute types, never
// with ops x dtypes x dtypes.
//
// The result may have the bytes of an operand that has its dtype, dims and dim order: kernels that only call this work
// in place (`in_place` in their rows).
//
// What depends on no operator (checks, broadcasting, the walk over memory, conversions) is compiled once, in
// elementwise.cc; what this header instantiates for an operator is its loop and a description of its types.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/kernel.h"
#include "kernels/util/checks.h"
#include "kernels/util/dispatch.h"
#include "kernels/util/loops.h"
#include "kernels/util/promote.h"
#include "kernels/util/wide.h"

namespace etir {

namespace detail {

constexpr int64_t kParallelGrain = 32768;  ///< elements worth a thread

template <typename T>
constexpr bool is_complex_v =
    std::is_same_v<T, ComplexHalf> || std::is_same_v<T, ComplexFloat> || std::is_same_v<T, ComplexDouble>;

/// As convert, for complex types too; to a real type goes the real part.
template <typename To, typename From>
inline To convert_element(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, ComplexHalf>) {
    return convert_element<To>(ComplexFloat(static_cast<float>(value.real), static_cast<float>(value.imag)));
  } else if constexpr (std::is_same_v<To, ComplexHalf>) {
    const ComplexFloat whole = convert_element<ComplexFloat>(value);
    return ComplexHalf{Half(whole.real()), Half(whole.imag())};
  } else if constexpr (is_complex_v<From> && is_complex_v<To>) {
    return To(value);
  } else if constexpr (is_complex_v<From>) {
    if constexpr (std::is_same_v<To, bool>) {
      return value.real() != 0 || value.imag() != 0;
    } else {
      return convert<To>(value.real());
    }
  } else if constexpr (is_complex_v<To>) {
    return To(convert<typename To::value_type>(value));
  } else {
    return convert<To>(value);
  }
}

using LoadBlock = void (*)(void* to, const char* from, int64_t stride, int64_t n);
using StoreBlock = void (*)(char* to, int64_t stride, const void* from, int64_t n);
using NarrowBlock = void (*)(void* block, int64_t n);
using ApplyBlock = void (*)(const void* function, void* out, const void* const* in, int64_t n);

/// How elements of a dtype become values of C, a type that functions compute in; null for dtypes that cannot.
template <typename C>
LoadBlock loader(ScalarType dtype);
/// How values of R become elements of a dtype; null for dtypes that cannot hold them.
template <typename R>
StoreBlock storer(ScalarType dtype);
/// Makes values what they would be had they been computed in, or been converted to, a dtype. Null where values of C
/// need no narrowing.
template <typename C>
NarrowBlock narrower(ScalarType dtype);

/// Whether T is a type that functions compute in. Other types (unsigned integers of some size) stand for elements that
/// are only moved.
template <typename T>
constexpr bool is_computed_v =
    std::is_same_v<T, bool> || std::is_same_v<T, int64_t> || std::is_floating_point_v<T> || is_complex_v<T>;

/// Elements of T, `stride` bytes apart, side by side.
template <typename T>
void gather_block(void* to, const char* from, int64_t stride, int64_t n) {
  T* __restrict__ out = static_cast<T*>(to);
  if (stride == static_cast<int64_t>(sizeof(T))) {
    for (int64_t i = 0; i < n; ++i) out[i] = reinterpret_cast<const T*>(from)[i];
  } else if (stride == 0) {
    const T value = *reinterpret_cast<const T*>(from);
    for (int64_t i = 0; i < n; ++i) out[i] = value;
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = *reinterpret_cast<const T*>(from + i * stride);
  }
}
template <typename T>
void scatter_block(char* to, int64_t stride, const void* from, int64_t n) {
  const T* __restrict__ in = static_cast<const T*>(from);
  for (int64_t i = 0; i < n; ++i) *reinterpret_cast<T*>(to + i * stride) = in[i];
}
template <typename T>
LoadBlock unit_loader(ScalarType dtype) {
  return element_size(dtype) == sizeof(T) ? gather_block<T> : nullptr;
}
template <typename T>
StoreBlock unit_storer(ScalarType dtype) {
  return element_size(dtype) == sizeof(T) ? scatter_block<T> : nullptr;
}

/// A type that a function takes values in.
struct InputKind {
  ScalarType dtype;  ///< the type itself, where it is computed in
  uint8_t size;
  bool computed;
  LoadBlock (*loader)(ScalarType dtype);
  NarrowBlock (*narrower)(ScalarType dtype);
};
/// A type that a function returns.
struct ResultKind {
  ScalarType dtype;
  uint8_t size;
  bool computed;
  StoreBlock (*storer)(ScalarType dtype);
  NarrowBlock (*narrower)(ScalarType dtype);
};
template <typename C>
constexpr InputKind input_kind() {
  if constexpr (is_computed_v<C>) {
    return {ScalarTypeOf<C>::value, sizeof(C), true, loader<C>, narrower<C>};
  } else {
    return {ScalarType::Byte, sizeof(C), false, unit_loader<C>, nullptr};
  }
}
template <typename R>
constexpr ResultKind result_kind() {
  if constexpr (is_computed_v<R>) {
    return {ScalarTypeOf<R>::value, sizeof(R), true, storer<R>, narrower<R>};
  } else {
    return {ScalarType::Byte, sizeof(R), false, unit_storer<R>, nullptr};
  }
}

template <typename F, typename R, typename A>
void apply_block(const F& f, R* __restrict__ out, int64_t n, const A* __restrict__ a) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i]);
}
template <typename F>
void apply_block(const Wide<F>& f, float* __restrict__ out, int64_t n, const float* __restrict__ a) {
  apply_wide(f, out, n, a);
}
template <typename F, typename R, typename A, typename B>
void apply_block(const F& f, R* __restrict__ out, int64_t n, const A* __restrict__ a, const B* __restrict__ b) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
}
template <typename F, typename R, typename A, typename B, typename C>
void apply_block(const F& f, R* __restrict__ out, int64_t n, const A* __restrict__ a, const B* __restrict__ b,
                 const C* __restrict__ c) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i], c[i]);
}
template <typename F, typename R, typename... In, size_t... k>
void apply_untyped(const void* f, void* out, const void* const* in, int64_t n, std::index_sequence<k...>) {
  apply_block(*static_cast<const F*>(f), static_cast<R*>(out), n, static_cast<const In*>(in[k])...);
}

}  // namespace detail

/// Writes the shape that the operands broadcast to and returns its rank; -1, with the failure recorded, if there is
/// none.
int broadcast_operands(KernelContext& ctx, const Tensor* const* operands, int count, int64_t* sizes);

/// Gives the result the shape that `count` operands broadcast to. False, with the failure recorded, if that cannot be.
bool resize_to_broadcast(KernelContext& ctx, Tensor& out, const Tensor* const* inputs, int count);
template <int kInputs>
bool resize_to_broadcast(KernelContext& ctx, Tensor& out, const Tensor* const (&inputs)[kInputs]) {
  return resize_to_broadcast(ctx, out, inputs, kInputs);
}

namespace detail {

/// A call of an operator, without its types.
template <int kInputs>
struct ElementwiseCall {
  Tensor& out;
  const Tensor* const* inputs;
  ScalarType common;
  bool exact;
  ResultKind result;
  InputKind kinds[kInputs];
  ApplyBlock apply;
  const void* function;
};

/// elementwise() and elementwise_on(), without their types. Defined for one to three inputs.
template <int kInputs>
void run_elementwise(KernelContext& ctx, const ElementwiseCall<kInputs>& call);
template <int kInputs>
void run_elementwise_on(KernelContext& ctx, const ElementwiseCall<kInputs>& call, const Loops<kInputs + 1>& loops);

template <typename R, typename... In, typename F>
ElementwiseCall<sizeof...(In)> elementwise_call(Tensor& out, const Tensor* const (&inputs)[sizeof...(In)],
                                                ScalarType common, const F& f, bool exact) {
  return {out,
          inputs,
          common,
          exact,
          result_kind<R>(),
          {input_kind<In>()...},
          [](const void* function, void* result, const void* const* in, int64_t n) {
            apply_untyped<F, R, In...>(function, result, in, n, std::index_sequence_for<In...>());
          },
          &f};
}

}  // namespace detail

/// out = f(inputs...), broadcast. `f` takes values of types `In...` and returns what converts to `R`, both of which are
/// bool, int64_t, float, double or complex: the tensors are converted from and to any dtype.
///
/// `common` is the dtype in which torch computes: results pass through it on their way to an `out` of another dtype.
/// With `exact`, floating point inputs of other dtypes are rounded to it too (integers always are); comparisons need
/// that.
template <typename R, typename... In, typename F>
void elementwise(KernelContext& ctx, Tensor& out, const Tensor* const (&inputs)[sizeof...(In)], ScalarType common,
                 const F& f, bool exact = false) {
  detail::run_elementwise<sizeof...(In)>(ctx, detail::elementwise_call<R, In...>(out, inputs, common, f, exact));
}

/// As elementwise, over loops that the caller made: the operands are parts of the tensors. Sizes are the caller's to
/// set.
template <typename R, typename... In, typename F>
void elementwise_on(KernelContext& ctx, const Loops<sizeof...(In) + 1>& loops, Tensor& out,
                    const Tensor* const (&inputs)[sizeof...(In)], ScalarType common, const F& f) {
  detail::run_elementwise_on<sizeof...(In)>(ctx, detail::elementwise_call<R, In...>(out, inputs, common, f, false),
                                            loops);
}

/// Calls `body(TypeTag<C>())` with the type in which arithmetic on a dtype is done: int64_t for integers and bool,
/// float for half, bfloat16 and float, double, complex (of float for half). False when the dtype is not in the set.
template <DtypeSet kSet, typename Body>
inline bool dispatch_compute(ScalarType type, Body&& body) {
  constexpr DtypeSet kTaken = kSet & kSelectedDtypes;
  if (!contains(kTaken, type)) return false;
  if constexpr ((kTaken & (kAllInts | kBool)) != 0) {
    if (is_integral(type, true)) return body(TypeTag<int64_t>()), true;
  }
  if constexpr ((kTaken & (kHalfFloats | dtype_bit(ScalarType::Float))) != 0) {
    if (is_floating(type) && type != ScalarType::Double) return body(TypeTag<float>()), true;
  }
  if constexpr (contains(kTaken, ScalarType::Double)) {
    if (type == ScalarType::Double) return body(TypeTag<double>()), true;
  }
  if constexpr ((kTaken & (kComplex & ~dtype_bit(ScalarType::ComplexDouble))) != 0) {
    if (is_complex(type) && type != ScalarType::ComplexDouble) return body(TypeTag<ComplexFloat>()), true;
  }
  if constexpr (contains(kTaken, ScalarType::ComplexDouble)) {
    if (type == ScalarType::ComplexDouble) return body(TypeTag<ComplexDouble>()), true;
  }
  return false;
}

}  // namespace etir
