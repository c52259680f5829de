// Shapes that most elementwise operators have: unary, binary, comparison; on tensors or numbers, with torch's
// promotion.
//
// Each takes the positions of the arguments and a function of compute types, usually a generic lambda.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/kernel.h"
#include "kernels/util/elementwise.h"
#include "kernels/util/promote.h"

namespace etir {

/// Floating point, real or complex, but for complex numbers of half precision.
constexpr DtypeSet kFloatComplex = kFloats | kFullComplex;

/// An argument that is a tensor or a number, seen as a tensor. Lives as long as its operand() is used.
class AnyOperand {
 public:
  AnyOperand(KernelContext& ctx, int index) : index_(index), number_(ctx.tag(index) != Tag::Tensor) {
    if (!number_) {
      tensor_ = ctx.tensor(index);
      return;
    }
    scalar_ = ctx.scalar(index);
    if (scalar_.tag == Tag::Bool) {
      boolean_ = scalar_.payload.boolean;
    } else if (scalar_.tag == Tag::Int) {
      integer_ = scalar_.payload.integer;
    } else {
      real_ = scalar_.payload.real;
    }
    tensor_ = Tensor{scalar_.tag == Tag::Bool  ? static_cast<void*>(&boolean_)
                     : scalar_.tag == Tag::Int ? static_cast<void*>(&integer_)
                                               : static_cast<void*>(&real_),
                     nullptr,
                     nullptr,
                     scalar_.dtype(),
                     0,
                     Dynamism::Static,
                     0,
                     0};
  }
  AnyOperand(const AnyOperand&) = delete;
  AnyOperand& operator=(const AnyOperand&) = delete;

  bool is_number() const { return number_; }
  const Scalar& number() const { return scalar_; }
  const Tensor& tensor() const { return tensor_; }
  ScalarType dtype() const { return tensor_.dtype; }
  Operand operand() const { return Operand{&tensor_, index_}; }
  void add_to(ResultType& result) const {
    if (number_) {
      result.add(scalar_);
    } else {
      result.add(tensor_);
    }
  }

 private:
  int index_;
  bool number_;
  Scalar scalar_{Tag::Int, {0}};
  bool boolean_ = false;
  int64_t integer_ = 0;
  double real_ = 0;
  Tensor tensor_;
};

inline ScalarType common_type(const AnyOperand& a, const AnyOperand& b) {
  if (a.dtype() == b.dtype() && !a.is_number() && !b.is_number()) return a.dtype();
  ResultType result;
  a.add_to(result);
  b.add_to(result);
  return result.get();
}

/// Whether what is computed in `common` may be written to the result at `index`; records the failure.
inline bool check_result(KernelContext& ctx, ScalarType common, int index) {
  const ScalarType dtype = ctx.tensor(index).dtype;
  if (can_cast(common, dtype)) return true;
  ctx.fail(Check::KernelDtypeMismatch, index, static_cast<int64_t>(dtype));
  return false;
}

/// out = f(self), computed in `common`.
template <DtypeSet kSet, typename F>
void unary_in(KernelContext& ctx, int self, int out, ScalarType common, const F& f) {
  const AnyOperand a(ctx, self);
  if (!contains(kSet, common)) return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(a.dtype()));
  if (!check_result(ctx, common, out)) return;
  if (!dispatch_compute<kSet>(common, [&](auto tag) {
        using C = typename decltype(tag)::type;
        elementwise<C, C>(ctx, ctx.tensor(out), out, {a.operand()}, common, f);
      })) {
    ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(a.dtype()));
  }
}
/// out = f(self) in the dtype of self.
template <DtypeSet kSet, typename F>
void unary(KernelContext& ctx, int self, int out, const F& f) {
  unary_in<kSet>(ctx, self, out, ctx.tensor(self).dtype, f);
}
/// As unary, but integers and bools become the default floating point type.
template <DtypeSet kSet = kFloats, typename F>
void unary_float(KernelContext& ctx, int self, int out, const F& f) {
  const ScalarType dtype = ctx.tensor(self).dtype;
  if (!contains(kRealBool | kUnsignedInts | kSet, dtype)) {
    return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(dtype));
  }
  unary_in<kSet>(ctx, self, out, floating_type(dtype), f);
}
/// out = f(self), a bool in any dtype.
template <DtypeSet kSet, typename F>
void unary_bool(KernelContext& ctx, int self, int out, const F& f) {
  const AnyOperand a(ctx, self);
  if (!dispatch_compute<kSet>(a.dtype(), [&](auto tag) {
        using C = typename decltype(tag)::type;
        elementwise<bool, C>(ctx, ctx.tensor(out), out, {a.operand()}, a.dtype(), f);
      })) {
    ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(a.dtype()));
  }
}

/// out = f(self, other) in a dtype chosen by the caller.
template <DtypeSet kSet, typename F>
void binary_in(KernelContext& ctx, const AnyOperand& a, const AnyOperand& b, int out, ScalarType common, const F& f,
               bool exact = false) {
  if (!check_result(ctx, common, out)) return;
  if (!dispatch_compute<kSet>(common, [&](auto tag) {
        using C = typename decltype(tag)::type;
        elementwise<C, C, C>(ctx, ctx.tensor(out), out, {a.operand(), b.operand()}, common, f, exact);
      })) {
    ctx.fail(Check::KernelDtype, a.operand().index, static_cast<int64_t>(a.dtype()));
  }
}
/// out = f(self, other) in their common dtype; each may be a number.
template <DtypeSet kSet, typename F>
void binary(KernelContext& ctx, int self, int other, int out, const F& f, bool exact = false) {
  const AnyOperand a(ctx, self), b(ctx, other);
  binary_in<kSet>(ctx, a, b, out, common_type(a, b), f, exact);
}
/// As binary, but integers and bools become the default floating point type.
template <DtypeSet kSet = kFloats, typename F>
void binary_float(KernelContext& ctx, int self, int other, int out, const F& f) {
  const AnyOperand a(ctx, self), b(ctx, other);
  binary_in<kSet>(ctx, a, b, out, floating_type(common_type(a, b)), f);
}

/// out = f(a, b, c) in the common dtype of all three tensors.
template <DtypeSet kSet, typename F>
void ternary_in(KernelContext& ctx, const AnyOperand& a, const AnyOperand& b, const AnyOperand& c, int out,
                ScalarType common, const F& f) {
  if (!check_result(ctx, common, out)) return;
  if (!dispatch_compute<kSet>(common, [&](auto tag) {
        using C = typename decltype(tag)::type;
        elementwise<C, C, C, C>(ctx, ctx.tensor(out), out, {a.operand(), b.operand(), c.operand()}, common, f);
      })) {
    ctx.fail(Check::KernelDtype, a.operand().index, static_cast<int64_t>(a.dtype()));
  }
}

/// A number as a compute type. Doubles out of the range of int64 become 0: callers refuse them where they matter.
template <typename C>
inline C number_as(const Scalar& number) {
  if constexpr (std::is_same_v<C, int64_t>) {
    if (number.is_floating()) {
      const double value = number.payload.real;
      return value >= -9223372036854775808.0 && value < 9223372036854775808.0 ? static_cast<int64_t>(value) : 0;
    }
    return number.to<int64_t>();
  } else if constexpr (detail::is_complex_v<C>) {
    return C(number.to<typename C::value_type>());
  } else {
    return number.to<C>();
  }
}

/// Whether an integer is a value of an integer dtype (any is one of the other dtypes). As in torch, negative numbers
/// wrap around in unsigned types.
inline bool integer_fits(int64_t value, ScalarType dtype) {
  if (dtype == ScalarType::Bool || !is_integral(dtype, false) || element_size(dtype) == 8) return true;
  const int bits = static_cast<int>(8 * element_size(dtype));
  if (contains(kUnsignedInts, dtype)) return value > -(int64_t{1} << bits) && value < (int64_t{1} << bits);
  return value >= -(int64_t{1} << (bits - 1)) && value < (int64_t{1} << (bits - 1));
}

}  // namespace etir
