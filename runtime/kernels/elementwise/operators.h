// Shapes that most elementwise operators have: unary, binary, comparison; on tensors or numbers, with torch's
// promotion.
//
// Each takes arguments and a function of compute types, usually a generic lambda.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/kernel.h"
#include "kernels/util/elementwise.h"
#include "kernels/util/promote.h"

namespace etir {

/// Floating point, real or complex, but for complex numbers of half precision.
constexpr DtypeSet kFloatComplex = kFloats | kFullComplex;

/// An argument that is a tensor or a number, seen as a tensor. Lives as long as its tensor() is used.
class AnyOperand {
 public:
  AnyOperand(const Tensor& tensor) : tensor_(&tensor) {}
  AnyOperand(const Scalar& number) { take(number); }
  AnyOperand(const TensorOrScalar& value) {
    if (value.is_tensor()) {
      tensor_ = &value.tensor();
    } else {
      take(value.scalar());
    }
  }
  AnyOperand(const AnyOperand&) = delete;
  AnyOperand& operator=(const AnyOperand&) = delete;

  bool is_number() const { return tensor_ == &of_number_; }
  const Scalar& number() const { return number_; }
  const Tensor& tensor() const { return *tensor_; }
  ScalarType dtype() const { return tensor_->dtype; }
  void add_to(ResultType& result) const {
    if (is_number()) {
      result.add(number_);
    } else {
      result.add(*tensor_);
    }
  }

 private:
  void take(const Scalar& number) {
    number_ = number;
    of_number_ = Tensor{&number_.payload, nullptr, nullptr, number.dtype(), 0, Dynamism::Static, 0, 0};
    tensor_ = &of_number_;
  }

  Scalar number_;
  Tensor of_number_;
  const Tensor* tensor_;
};

inline ScalarType common_type(const AnyOperand& a, const AnyOperand& b) {
  if (a.dtype() == b.dtype() && !a.is_number() && !b.is_number()) return a.dtype();
  ResultType result;
  a.add_to(result);
  b.add_to(result);
  return result.get();
}

/// Whether what is computed in `common` may be written to `out`; records the failure.
inline bool check_result(KernelContext& ctx, ScalarType common, const Tensor& out) {
  if (can_cast(common, out.dtype)) return true;
  ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  return false;
}

/// Records that the operands' common dtype is not taken; names the first one that is a tensor.
inline void refuse_dtype(KernelContext& ctx, const AnyOperand& a, const AnyOperand& b) {
  const Tensor& tensor = a.is_number() ? b.tensor() : a.tensor();
  ctx.fail(Check::KernelDtype, tensor, static_cast<int64_t>(tensor.dtype));
}

/// out = f(self), computed in `common`.
template <DtypeSet kSet, typename F>
void unary_in(KernelContext& ctx, const Tensor& self, Tensor& out, ScalarType common, const F& f) {
  if (!contains(kSet, common)) return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  if (!check_result(ctx, common, out)) return;
  if (!dispatch_compute<kSet>(common, [&](auto tag) {
        using C = typename decltype(tag)::type;
        elementwise<C, C>(ctx, out, {&self}, common, f);
      })) {
    ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  }
}
/// out = f(self) in the dtype of self.
template <DtypeSet kSet, typename F>
void unary(KernelContext& ctx, const Tensor& self, Tensor& out, const F& f) {
  unary_in<kSet>(ctx, self, out, self.dtype, f);
}
/// As unary, but integers and bools become the default floating point type.
template <DtypeSet kSet = kFloats, typename F>
void unary_float(KernelContext& ctx, const Tensor& self, Tensor& out, const F& f) {
  if (!contains(kRealBool | kUnsignedInts | kSet, self.dtype)) {
    return ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  }
  unary_in<kSet>(ctx, self, out, floating_type(self.dtype), f);
}
/// out = f(self), a bool in any dtype.
template <DtypeSet kSet, typename F>
void unary_bool(KernelContext& ctx, const Tensor& self, Tensor& out, const F& f) {
  if (!dispatch_compute<kSet>(self.dtype, [&](auto tag) {
        using C = typename decltype(tag)::type;
        elementwise<bool, C>(ctx, out, {&self}, self.dtype, f);
      })) {
    ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
  }
}

/// out = f(self, other) in a dtype chosen by the caller.
template <DtypeSet kSet, typename F>
void binary_in(KernelContext& ctx, const AnyOperand& a, const AnyOperand& b, Tensor& out, ScalarType common, const F& f,
               bool exact = false) {
  if (!check_result(ctx, common, out)) return;
  if (!dispatch_compute<kSet>(common, [&](auto tag) {
        using C = typename decltype(tag)::type;
        elementwise<C, C, C>(ctx, out, {&a.tensor(), &b.tensor()}, common, f, exact);
      })) {
    refuse_dtype(ctx, a, b);
  }
}
/// out = f(self, other) in their common dtype; each may be a number.
template <DtypeSet kSet, typename F>
void binary(KernelContext& ctx, const AnyOperand& self, const AnyOperand& other, Tensor& out, const F& f,
            bool exact = false) {
  binary_in<kSet>(ctx, self, other, out, common_type(self, other), f, exact);
}
/// As binary, but integers and bools become the default floating point type.
template <DtypeSet kSet = kFloats, typename F>
void binary_float(KernelContext& ctx, const AnyOperand& self, const AnyOperand& other, Tensor& out, const F& f) {
  binary_in<kSet>(ctx, self, other, out, floating_type(common_type(self, other)), f);
}

/// out = f(a, b, c) in the common dtype of all three tensors.
template <DtypeSet kSet, typename F>
void ternary_in(KernelContext& ctx, const AnyOperand& a, const AnyOperand& b, const AnyOperand& c, Tensor& out,
                ScalarType common, const F& f) {
  if (!check_result(ctx, common, out)) return;
  if (!dispatch_compute<kSet>(common, [&](auto tag) {
        using C = typename decltype(tag)::type;
        elementwise<C, C, C, C>(ctx, out, {&a.tensor(), &b.tensor(), &c.tensor()}, common, f);
      })) {
    ctx.fail(Check::KernelDtype, a.tensor(), static_cast<int64_t>(a.dtype()));
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
