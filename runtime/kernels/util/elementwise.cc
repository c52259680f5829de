// What all elementwise operators share (elementwise.h): checks, the walk over memory, and conversions between the
// dtypes of tensors and the types that functions compute in.
#include "kernels/util/elementwise.h"

#include <cstring>

#include "kernels/util/half_blocks.h"

namespace etir {

namespace detail {

namespace {

constexpr int64_t kBlockBytes = 1024;  ///< bytes of one operand

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
  if constexpr (std::is_same_v<C, float> && std::is_same_v<D, Half>) {
    Half halves[64];
    for (int64_t i = 0; i < n; i += 64) {
      const int64_t count = n - i < 64 ? n - i : 64;
      halves_from_floats(halves, values + i, count);
      floats_from_halves(values + i, halves, count);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) values[i] = convert_element<C>(convert_element<D>(values[i]));
  }
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

}  // namespace

template <typename C>
LoadBlock loader(ScalarType dtype) {
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
StoreBlock storer(ScalarType dtype) {
  StoreBlock result = nullptr;
  dispatch<storable<R>()>(dtype, [&](auto tag) { result = store_block<R, typename decltype(tag)::type>; });
  return result;
}
template <typename C>
NarrowBlock narrower(ScalarType dtype) {
  NarrowBlock result = nullptr;
  constexpr DtypeSet kSet = std::is_same_v<C, float>     ? kHalfFloats
                            : std::is_same_v<C, int64_t> ? (kInts | kBool) & ~dtype_bit(ScalarType::Long)
                                                         : 0;
  dispatch<kSet>(dtype, [&](auto tag) { result = narrow_block<C, typename decltype(tag)::type>; });
  return result;
}

#define ETIR_INSTANTIATE(type)                  \
  template LoadBlock loader<type>(ScalarType);  \
  template StoreBlock storer<type>(ScalarType); \
  template NarrowBlock narrower<type>(ScalarType);
ETIR_INSTANTIATE(bool)
ETIR_INSTANTIATE(int64_t)
ETIR_INSTANTIATE(float)
ETIR_INSTANTIATE(double)
ETIR_INSTANTIATE(ComplexFloat)
ETIR_INSTANTIATE(ComplexDouble)
#undef ETIR_INSTANTIATE

namespace {

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
  // Functions take results and inputs that lie apart: a result over an input goes through a block.
  bool over_input = false;
  for (int k = 0; k < kInputs; ++k) over_input = over_input || data[k + 1] == data[0];
  bool whole = plan.result_in_place && !over_input && (n == 1 || steps[0] == plan.result_size);
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
void run_plan(KernelContext& ctx, const ElementwisePlan<kInputs>& plan, const Loops<kInputs + 1>& loops) {
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

/// Whether elements of a dtype are used as a function's values where they lie.
template <typename Kind>
bool is_own_type(const Kind& kind, ScalarType dtype, ScalarType common) {
  if (!kind.computed) return element_size(dtype) == kind.size;
  return dtype == kind.dtype && (dtype == common || dtype == ScalarType::Bool);
}

/// Elements [0, n) where all operands are as in run_alike, and the result may lie over an input.
template <int kInputs>
void apply_alike(const ElementwiseCall<kInputs>& call, char* out, const void* const* in, int64_t n) {
  bool over_input = false;
  for (int k = 0; k < kInputs; ++k) over_input = over_input || in[k] == out;
  if (!over_input) return call.apply(call.function, out, in, n);
  alignas(16) unsigned char block[kBlockBytes];
  const int64_t size = call.result.size, chunk = kBlockBytes / size;
  for (int64_t begin = 0; begin < n; begin += chunk) {
    const int64_t count = n - begin < chunk ? n - begin : chunk;
    const void* at[kInputs];
    for (int k = 0; k < kInputs; ++k) at[k] = static_cast<const char*>(in[k]) + begin * call.kinds[k].size;
    call.apply(call.function, block, at, count);
    std::memcpy(out + begin * size, block, static_cast<size_t>(count * size));
  }
}

/// The usual case without any of what is below: all operands are of the types that are computed in, in row-major order
/// and of the shape that the result has. False, with nothing done, if they are not.
template <int kInputs>
bool run_alike(KernelContext& ctx, const ElementwiseCall<kInputs>& call) {
  const Tensor& out = call.out;
  if (out.dim_order != nullptr || out.data == nullptr || !is_own_type(call.result, out.dtype, call.common))
    return false;
  const void* in[kInputs];
  for (int k = 0; k < kInputs; ++k) {
    const Tensor& tensor = *call.inputs[k];
    const InputKind& kind = call.kinds[k];
    // Bools of a file may have other bytes than 0 and 1.
    if (kind.dtype == ScalarType::Bool || !is_own_type(kind, tensor.dtype, call.common)) return false;
    if (tensor.dim_order != nullptr || tensor.data == nullptr || !same_shape(tensor, out)) return false;
    in[k] = tensor.data;
  }
  const int64_t count = out.numel();
  if (count <= kParallelGrain) {
    apply_alike<kInputs>(call, static_cast<char*>(out.data), in, count);
    return true;
  }
  ctx.parallel_for(count, kParallelGrain, [&](int64_t begin, int64_t end) {
    const void* at[kInputs];
    for (int k = 0; k < kInputs; ++k) at[k] = static_cast<const char*>(in[k]) + begin * call.kinds[k].size;
    apply_alike<kInputs>(call, static_cast<char*>(out.data) + begin * call.result.size, at, end - begin);
  });
  return true;
}

/// Fills in all of a plan that can be known from dtypes. False, with the failure recorded, for dtypes not taken.
template <int kInputs>
bool make_plan(KernelContext& ctx, const ElementwiseCall<kInputs>& call, ElementwisePlan<kInputs>& plan) {
  for (int k = 0; k < kInputs; ++k) {
    const InputKind& kind = call.kinds[k];
    const ScalarType dtype = call.inputs[k]->dtype;
    plan.input_size[k] = kind.size;
    plan.narrow_input[k] = nullptr;
    if (kind.computed) {
      const bool integers = kind.dtype == ScalarType::Long;
      if (dtype != call.common && (call.exact || integers)) plan.narrow_input[k] = kind.narrower(call.common);
      plan.input_in_place[k] = kind.dtype != ScalarType::Bool && dtype == kind.dtype && plan.narrow_input[k] == nullptr;
    } else {
      plan.input_in_place[k] = element_size(dtype) == kind.size;
    }
    plan.load[k] = kind.loader(dtype);
    if (plan.load[k] == nullptr) {
      ctx.fail(Check::KernelDtype, *call.inputs[k], static_cast<int64_t>(dtype));
      return false;
    }
  }
  const ScalarType dtype = call.out.dtype;
  plan.narrow_result = nullptr;
  plan.result_size = call.result.size;
  if (call.result.computed) {
    if (dtype != call.common) plan.narrow_result = call.result.narrower(call.common);
    plan.result_in_place = dtype == call.result.dtype && plan.narrow_result == nullptr;
  } else {
    plan.result_in_place = element_size(dtype) == call.result.size;
  }
  plan.store = call.result.storer(dtype);
  plan.function = call.function;
  plan.apply = call.apply;
  if (plan.store == nullptr) ctx.fail(Check::KernelDtype, call.out, static_cast<int64_t>(dtype));
  return plan.store != nullptr;
}

}  // namespace

template <int kInputs>
void run_elementwise_on(KernelContext& ctx, const ElementwiseCall<kInputs>& call, const Loops<kInputs + 1>& loops) {
  ElementwisePlan<kInputs> plan;
  if (make_plan(ctx, call, plan)) run_plan<kInputs>(ctx, plan, loops);
}

template <int kInputs>
void run_elementwise(KernelContext& ctx, const ElementwiseCall<kInputs>& call) {
  if (run_alike(ctx, call)) return;
  ElementwisePlan<kInputs> plan;
  if (!make_plan(ctx, call, plan)) return;
  if (!resize_to_broadcast(ctx, call.out, call.inputs, kInputs)) return;
  const Tensor* tensors[kInputs + 1] = {&call.out};
  for (int k = 0; k < kInputs; ++k) tensors[k + 1] = call.inputs[k];
  run_plan<kInputs>(ctx, plan, make_loops<kInputs + 1>(tensors));
}

template void run_elementwise<1>(KernelContext&, const ElementwiseCall<1>&);
template void run_elementwise<2>(KernelContext&, const ElementwiseCall<2>&);
template void run_elementwise<3>(KernelContext&, const ElementwiseCall<3>&);
template void run_elementwise_on<1>(KernelContext&, const ElementwiseCall<1>&, const Loops<2>&);
template void run_elementwise_on<2>(KernelContext&, const ElementwiseCall<2>&, const Loops<3>&);

}  // namespace detail

int broadcast_operands(KernelContext& ctx, const Tensor* const* operands, int count, int64_t* sizes) {
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

bool resize_to_broadcast(KernelContext& ctx, Tensor& out, const Tensor* const* inputs, int count) {
  int64_t sizes[kMaxRank];
  const int rank = broadcast_operands(ctx, inputs, count, sizes);
  if (rank < 0 || !ctx.resize(out, sizes, rank) || !has_data(ctx, out)) return false;
  for (int k = 0; k < count; ++k) {
    // Broadcast against nothing, an operand is not read.
    if (out.numel() > 0 && !has_data(ctx, *inputs[k])) return false;
  }
  return true;
}

}  // namespace etir
