// The engine of all elementwise operators: out[i] = f(a[i], b[i], ...), broadcast, in any dense dim orders and dtypes.
//
// A function is compiled once for each type it computes in (float, double, int64, complex), as one counted loop over
// contiguous elements, which compilers vectorise. Operands that lie in memory just so are used in place; others (of
// other dtypes, strided, or one number for a whole row) go through blocks on the stack, filled and emptied by
// conversion loops that all operators share. So code grows with ops x compute types plus dtypes x compute types, never
// with ops x dtypes x dtypes.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/kernel.h"
#include "kernels/util/checks.h"
#include "kernels/util/dispatch.h"
#include "kernels/util/half_blocks.h"
#include "kernels/util/loops.h"
#include "kernels/util/promote.h"

namespace etir {

namespace detail {

constexpr int64_t kBlockBytes = 1024;      ///< of one operand
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

/// One element as C. A byte of a bool that is neither 0 nor 1, which a file may hold, is no value of C++'s bool.
template <typename C, typename D>
inline C load_element(const char* at) {
  if constexpr (std::is_same_v<D, bool>) {
    return convert_element<C>(*reinterpret_cast<const uint8_t*>(at) != 0);
  } else {
    return convert_element<C>(*reinterpret_cast<const D*>(at));
  }
}

template <typename C, typename D>
void load_block(void* to, const char* from, int64_t stride, int64_t n) {
  C* __restrict__ out = static_cast<C*>(to);
  if (stride == static_cast<int64_t>(sizeof(D))) {
    if constexpr (std::is_same_v<C, float> && std::is_same_v<D, Half>) {
      floats_from_halves(out, reinterpret_cast<const D*>(from), n);
    } else {
      const int64_t size = sizeof(D);
      for (int64_t i = 0; i < n; ++i) out[i] = load_element<C, D>(from + i * size);
    }
  } else if (stride == 0) {
    const C value = load_element<C, D>(from);
    for (int64_t i = 0; i < n; ++i) out[i] = value;
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = load_element<C, D>(from + i * stride);
  }
}

template <typename R, typename D>
void store_block(char* to, int64_t stride, const void* from, int64_t n) {
  const R* __restrict__ in = static_cast<const R*>(from);
  if (stride == static_cast<int64_t>(sizeof(D))) {
    D* __restrict__ out = reinterpret_cast<D*>(to);
    if constexpr (std::is_same_v<R, float> && std::is_same_v<D, Half>) {
      halves_from_floats(out, in, n);
    } else {
      for (int64_t i = 0; i < n; ++i) out[i] = convert_element<D>(in[i]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) *reinterpret_cast<D*>(to + i * stride) = convert_element<D>(in[i]);
  }
}

/// Makes values what they would be had they been computed, or been converted to, D.
template <typename C, typename D>
void narrow_block(void* block, int64_t n) {
  C* values = static_cast<C*>(block);
  for (int64_t i = 0; i < n; ++i) values[i] = convert_element<C>(convert_element<D>(values[i]));
}

/// Dtypes that can be read into C. Complex numbers are read into double for copies that keep their real parts.
template <typename C>
constexpr DtypeSet loadable() {
  if (std::is_same_v<C, float>) return kRealBool | kUnsignedInts;
  return kRealBool | kUnsignedInts | (std::is_same_v<C, int64_t> ? 0 : kComplex);
}
/// Dtypes that R can be written to.
template <typename R>
constexpr DtypeSet storable() {
  return is_complex_v<R> ? kComplex : kRealBool | kUnsignedInts | (std::is_same_v<R, bool> ? kComplex : 0);
}

template <typename C>
inline LoadBlock loader(ScalarType dtype) {
  LoadBlock result = nullptr;
  dispatch<loadable<C>()>(dtype, [&](auto tag) { result = load_block<C, typename decltype(tag)::type>; });
  // Numbers are operands too, whatever types of tensors a build has.
  const auto number = [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr ScalarType kType = ScalarTypeOf<T>::value;
    if constexpr (contains(loadable<C>(), kType) && !contains(kSelectedDtypes, kType)) {
      if (dtype == kType) result = load_block<C, T>;
    }
  };
  number(TypeTag<int64_t>());
  number(TypeTag<double>());
  number(TypeTag<bool>());
  return result;
}
template <typename R>
inline StoreBlock storer(ScalarType dtype) {
  StoreBlock result = nullptr;
  dispatch<storable<R>()>(dtype, [&](auto tag) { result = store_block<R, typename decltype(tag)::type>; });
  return result;
}
/// Null where values of C need no narrowing.
template <typename C>
inline NarrowBlock narrower(ScalarType dtype) {
  NarrowBlock result = nullptr;
  constexpr DtypeSet kSet = std::is_same_v<C, float>     ? kHalfFloats
                            : std::is_same_v<C, int64_t> ? (kInts | kBool) & ~dtype_bit(ScalarType::Long)
                                                         : 0;
  dispatch<kSet>(dtype, [&](auto tag) { result = narrow_block<C, typename decltype(tag)::type>; });
  return result;
}

/// Everything about a call that does not depend on which operator it is.
template <int kInputs>
struct ElementwisePlan {
  ApplyBlock apply;
  const void* function;
  LoadBlock load[kInputs];
  NarrowBlock narrow_input[kInputs];
  int64_t input_size[kInputs];
  bool input_in_place[kInputs];  ///< where its elements are adjacent
  StoreBlock store;
  NarrowBlock narrow_result;
  int64_t result_size;
  bool result_in_place;
};

/// Elements [0, n) of one row. Operand 0 of the loops is the result.
template <int kInputs>
void run_row(const ElementwisePlan<kInputs>& plan, char* const* data, const int64_t* steps, int64_t n) {
  alignas(16) unsigned char blocks[kInputs + 1][kBlockBytes];
  const void* in[kInputs];
  bool in_place[kInputs];
  bool whole = plan.result_in_place && (n == 1 || steps[0] == plan.result_size);
  const bool result_in_place = whole;
  int64_t largest = plan.result_size;
  for (int k = 0; k < kInputs; ++k) {
    in_place[k] = plan.input_in_place[k] && (n == 1 || steps[k + 1] == plan.input_size[k]);
    whole = whole && in_place[k];
    if (plan.input_size[k] > largest) largest = plan.input_size[k];
  }
  const int64_t chunk = whole ? n : kBlockBytes / largest;
  for (int64_t begin = 0; begin < n; begin += chunk) {
    const int64_t count = n - begin < chunk ? n - begin : chunk;
    for (int k = 0; k < kInputs; ++k) {
      const char* from = data[k + 1] + begin * steps[k + 1];
      if (in_place[k]) {
        in[k] = from;
        continue;
      }
      in[k] = blocks[k + 1];
      // One number for the whole row: the block of the first round serves the others, none of which is longer.
      if (begin > 0 && steps[k + 1] == 0) continue;
      plan.load[k](blocks[k + 1], from, steps[k + 1], count);
      if (plan.narrow_input[k] != nullptr) plan.narrow_input[k](blocks[k + 1], count);
    }
    char* to = data[0] + begin * steps[0];
    void* result = result_in_place ? static_cast<void*>(to) : blocks[0];
    plan.apply(plan.function, result, in, count);
    if (result_in_place) continue;
    if (plan.narrow_result != nullptr) plan.narrow_result(blocks[0], count);
    plan.store(to, steps[0], blocks[0], count);
  }
}

template <int kInputs>
void run_elementwise(KernelContext& ctx, const ElementwisePlan<kInputs>& plan, const Loops<kInputs + 1>& loops) {
  const int64_t rows = loops.rows(), inner = loops.inner();
  if (rows == 0 || inner == 0) return;
  if (rows == 1) {
    ctx.parallel_for(inner, kParallelGrain, [&](int64_t begin, int64_t end) {
      loops.run(0, 1, [&](char* const* data, const int64_t* steps, int64_t) {
        char* at[kInputs + 1];
        for (int k = 0; k <= kInputs; ++k) at[k] = data[k] + begin * steps[k];
        run_row<kInputs>(plan, at, steps, end - begin);
      });
    });
    return;
  }
  ctx.parallel_for(rows, kParallelGrain / inner + 1, [&](int64_t begin, int64_t end) {
    loops.run(begin, end,
              [&](char* const* data, const int64_t* steps, int64_t n) { run_row<kInputs>(plan, data, steps, n); });
  });
}

template <typename F, typename R, typename A>
void apply_block(const F& f, R* __restrict__ out, int64_t n, const A* __restrict__ a) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i]);
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
void apply_untyped(const F& f, void* out, const void* const* in, int64_t n, std::index_sequence<k...>) {
  apply_block(f, static_cast<R*>(out), n, static_cast<const In*>(in[k])...);
}

/// Whether T is a type that functions compute in. Other types (unsigned integers of some size) stand for elements that
/// are only moved.
template <typename T>
constexpr bool is_computed_v =
    std::is_same_v<T, bool> || std::is_same_v<T, int64_t> || std::is_floating_point_v<T> || is_complex_v<T>;

template <typename C, int kInputs>
bool plan_input(KernelContext& ctx, ElementwisePlan<kInputs>& plan, int k, const Tensor& tensor, ScalarType common,
                bool exact) {
  plan.input_size[k] = sizeof(C);
  plan.narrow_input[k] = nullptr;
  if constexpr (is_computed_v<C>) {
    if (tensor.dtype != common && (exact || std::is_same_v<C, int64_t>)) plan.narrow_input[k] = narrower<C>(common);
    plan.input_in_place[k] =
        !std::is_same_v<C, bool> && tensor.dtype == ScalarTypeOf<C>::value && plan.narrow_input[k] == nullptr;
    plan.load[k] = loader<C>(tensor.dtype);
  } else {
    plan.input_in_place[k] = element_size(tensor.dtype) == sizeof(C);
    plan.load[k] = plan.input_in_place[k] ? load_block<C, C> : nullptr;
  }
  if (plan.load[k] == nullptr) ctx.fail(Check::KernelDtype, tensor, static_cast<int64_t>(tensor.dtype));
  return plan.load[k] != nullptr;
}

}  // namespace detail

/// Writes the shape that the operands broadcast to and returns its rank; -1, with the failure recorded, if there is
/// none.
inline int broadcast_operands(KernelContext& ctx, const Tensor* const* operands, int count, int64_t* sizes) {
  int rank = 0;
  for (int k = 0; k < count; ++k) rank = operands[k]->rank > rank ? operands[k]->rank : rank;
  for (int d = 0; d < rank; ++d) {
    sizes[d] = 1;
    for (int k = 0; k < count; ++k) {
      const Tensor& tensor = *operands[k];
      const int dim = d - (rank - tensor.rank);
      if (dim < 0 || tensor.sizes[dim] == 1 || tensor.sizes[dim] == sizes[d]) continue;
      if (sizes[d] != 1) {
        ctx.fail(Check::KernelShape, tensor, tensor.sizes[dim]);
        return -1;
      }
      sizes[d] = tensor.sizes[dim];
    }
  }
  return rank;
}

/// Gives the result the shape that the operands broadcast to. False, with the failure recorded, if that cannot be.
template <int kInputs>
bool resize_to_broadcast(KernelContext& ctx, Tensor& out, const Tensor* const (&inputs)[kInputs]) {
  int64_t sizes[kMaxRank];
  const int rank = broadcast_operands(ctx, inputs, kInputs, sizes);
  if (rank < 0 || !ctx.resize(out, sizes, rank) || !has_data(ctx, out)) return false;
  for (const Tensor* input : inputs) {
    // Broadcast against nothing, an operand is not read.
    if (out.numel() > 0 && !has_data(ctx, *input)) return false;
  }
  return true;
}

namespace detail {

/// Fills in all of a plan that can be known from dtypes. False, with the failure recorded, for dtypes not taken.
template <typename R, typename... In, typename F>
bool make_plan(KernelContext& ctx, ElementwisePlan<sizeof...(In)>& plan, const Tensor& out,
               const Tensor* const (&inputs)[sizeof...(In)], ScalarType common, const F& f, bool exact) {
  int k = 0;
  if (!(... && (plan_input<In>(ctx, plan, k, *inputs[k], common, exact) && ++k > 0))) {
    return false;
  }
  plan.narrow_result = nullptr;
  plan.result_size = sizeof(R);
  if constexpr (is_computed_v<R>) {
    if (out.dtype != common) plan.narrow_result = narrower<R>(common);
    plan.result_in_place = out.dtype == ScalarTypeOf<R>::value && plan.narrow_result == nullptr;
    plan.store = storer<R>(out.dtype);
  } else {
    plan.result_in_place = element_size(out.dtype) == sizeof(R);
    plan.store = plan.result_in_place ? store_block<R, R> : nullptr;
  }
  plan.function = &f;
  plan.apply = [](const void* function, void* result, const void* const* in, int64_t n) {
    apply_untyped<F, R, In...>(*static_cast<const F*>(function), result, in, n, std::index_sequence_for<In...>());
  };
  if (plan.store == nullptr) ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
  return plan.store != nullptr;
}

/// Whether elements of a dtype are used as C where they lie.
template <typename C>
inline bool is_own_type(ScalarType dtype, ScalarType common) {
  if constexpr (is_computed_v<C>) {
    return dtype == ScalarTypeOf<C>::value && (dtype == common || std::is_same_v<C, bool>);
  } else {
    (void)common;
    return element_size(dtype) == sizeof(C);
  }
}

/// The usual case without any of what is below: all operands are of the types that are computed in, in row-major order
/// and of the shape that the result has. False, with nothing done, if they are not.
template <typename R, typename... In, typename F>
inline bool elementwise_alike(KernelContext& ctx, const Tensor& out, const Tensor* const (&inputs)[sizeof...(In)],
                              ScalarType common, const F& f) {
  constexpr int kInputs = sizeof...(In);
  if (out.dim_order != nullptr || out.data == nullptr || !is_own_type<R>(out.dtype, common)) return false;
  int k = 0;
  // Bools of a file may have other bytes than 0 and 1.
  if (!(... && (!std::is_same_v<In, bool> && is_own_type<In>(inputs[k++]->dtype, common)))) return false;
  const void* in[kInputs];
  for (k = 0; k < kInputs; ++k) {
    const Tensor& tensor = *inputs[k];
    if (tensor.dim_order != nullptr || tensor.data == nullptr || !same_shape(tensor, out)) return false;
    in[k] = tensor.data;
  }
  const int64_t count = out.numel();
  if (count <= kParallelGrain) {
    apply_untyped<F, R, In...>(f, out.data, in, count, std::index_sequence_for<In...>());
    return true;
  }
  constexpr int64_t kSizes[] = {static_cast<int64_t>(sizeof(In))...};
  ctx.parallel_for(count, kParallelGrain, [&](int64_t begin, int64_t end) {
    const void* at[kInputs];
    for (int i = 0; i < kInputs; ++i) at[i] = static_cast<const char*>(in[i]) + begin * kSizes[i];
    apply_untyped<F, R, In...>(f, static_cast<R*>(out.data) + begin, at, end - begin, std::index_sequence_for<In...>());
  });
  return true;
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
  constexpr int kInputs = sizeof...(In);
  if (detail::elementwise_alike<R, In...>(ctx, out, inputs, common, f)) return;
  detail::ElementwisePlan<kInputs> plan;
  if (!detail::make_plan<R, In...>(ctx, plan, out, inputs, common, f, exact)) return;
  if (!resize_to_broadcast(ctx, out, inputs)) return;
  const Tensor* tensors[kInputs + 1] = {&out};
  for (int i = 0; i < kInputs; ++i) tensors[i + 1] = inputs[i];
  detail::run_elementwise<kInputs>(ctx, plan, make_loops<kInputs + 1>(tensors));
}

/// As elementwise, over loops that the caller made: the operands are parts of the tensors. Sizes are the caller's to
/// set.
template <typename R, typename... In, typename F>
void elementwise_on(KernelContext& ctx, const Loops<sizeof...(In) + 1>& loops, Tensor& out,
                    const Tensor* const (&inputs)[sizeof...(In)], ScalarType common, const F& f) {
  detail::ElementwisePlan<sizeof...(In)> plan;
  if (!detail::make_plan<R, In...>(ctx, plan, out, inputs, common, f, false)) return;
  detail::run_elementwise<sizeof...(In)>(ctx, plan, loops);
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
