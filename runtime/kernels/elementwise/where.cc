// where and masked_fill: elements are chosen, so those of the result's dtype are moved as they are.
#include "kernels/elementwise/operators.h"
#include "kernels/elementwise/where.gen.h"
#include "kernels/util/copy.h"

namespace etir {

namespace {

bool check_mask(KernelContext& ctx, const Tensor& mask) {
  if (mask.dtype == ScalarType::Bool || mask.dtype == ScalarType::Byte) return true;
  ctx.fail(Check::KernelDtype, mask, static_cast<int64_t>(mask.dtype));
  return false;
}

/// out = mask ? yes : no, all of one dtype.
void choose(KernelContext& ctx, Tensor& out, const Tensor& mask, const Tensor& yes, const Tensor& no) {
  const bool done = dispatch_size(element_size(out.dtype), [&](auto tag) {
    using Size = typename decltype(tag)::type;
    // A byte is moved as such, though bool is a type that is computed with.
    using T = std::conditional_t<std::is_same_v<Size, Bytes16>, ComplexDouble, Size>;
    elementwise<T, bool, T, T>(ctx, out, {&mask, &yes, &no}, out.dtype,
                               [](bool chosen, const T& a, const T& b) { return chosen ? a : b; });
  });
  if (!done) ctx.fail(Check::KernelDtype, out, static_cast<int64_t>(out.dtype));
}

}  // namespace

void where_out(KernelContext& ctx, const Tensor& condition, const Tensor& self, const Tensor& other, Tensor& out) {
  const AnyOperand a(self), b(other);
  const ScalarType common = common_type(a, b);
  if (!check_mask(ctx, condition) || !check_result(ctx, common, out)) return;
  if (a.dtype() == common && b.dtype() == common && out.dtype == common) {
    return choose(ctx, out, condition, a.tensor(), b.tensor());
  }
  const bool done = dispatch_compute<kRealBool | kFullComplex>(common, [&](auto tag) {
    using C = typename decltype(tag)::type;
    elementwise<C, bool, C, C>(ctx, out, {&condition, &a.tensor(), &b.tensor()}, common,
                               [](bool chosen, C x, C y) { return chosen ? x : y; });
  });
  if (!done) refuse_dtype(ctx, a, b);
}

/// The value, a number or a tensor without dims, is converted to the dtype of self, which is that of the result.
void masked_fill_out(KernelContext& ctx, const Tensor& self, const Tensor& mask, const TensorOrScalar& value,
                     Tensor& out) {
  using arg = arguments::masked_fill_out;
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, out, static_cast<int64_t>(out.dtype));
  if (!check_mask(ctx, mask)) return;
  Element element;
  Tensor converted{element.bytes, nullptr, nullptr, self.dtype, 0, Dynamism::Static, 0, 0};
  if (value.is_tensor()) {
    const Tensor& given = value.tensor();
    if (given.rank != 0) return ctx.fail(Check::KernelRank, arg::value, given.rank);
    if (!can_cast(given.dtype, self.dtype)) {
      return ctx.fail(Check::KernelDtypeMismatch, arg::value, static_cast<int64_t>(given.dtype));
    }
    copy_elements(ctx, converted, given);
    if (ctx.failed()) return;
  } else if (!number_to_element(ctx, value.scalar(), arg::value, self.dtype, &element)) {
    return;
  }
  choose(ctx, out, mask, converted, self);
}

}  // namespace etir
