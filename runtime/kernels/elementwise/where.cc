// where and masked_fill: elements are chosen, so those of the result's dtype are moved as they are.
#include "kernels/elementwise/operators.h"
#include "kernels/util/copy.h"

namespace etir {

namespace {

bool check_mask(KernelContext& ctx, int index) {
  const ScalarType dtype = ctx.tensor(index).dtype;
  if (dtype == ScalarType::Bool || dtype == ScalarType::Byte) return true;
  ctx.fail(Check::KernelDtype, index, static_cast<int64_t>(dtype));
  return false;
}

/// out = mask ? yes : no, all of one dtype.
void choose(KernelContext& ctx, Tensor& out, int out_index, const Operand& mask, const Operand& yes,
            const Operand& no) {
  const bool done = dispatch_size(element_size(out.dtype), [&](auto tag) {
    using Size = typename decltype(tag)::type;
    // A byte is moved as such, though bool is a type that is computed with.
    using T = std::conditional_t<std::is_same_v<Size, Bytes16>, ComplexDouble, Size>;
    elementwise<T, bool, T, T>(ctx, out, out_index, {mask, yes, no}, out.dtype,
                               [](bool chosen, const T& a, const T& b) { return chosen ? a : b; });
  });
  if (!done) ctx.fail(Check::KernelDtype, out_index, static_cast<int64_t>(out.dtype));
}

}  // namespace

void where_out(KernelContext& ctx) {
  const AnyOperand a(ctx, 1), b(ctx, 2);
  const ScalarType common = common_type(a, b);
  Tensor& out = ctx.tensor(3);
  if (!check_mask(ctx, 0) || !check_result(ctx, common, 3)) return;
  const Operand mask{&ctx.tensor(0), 0};
  if (a.dtype() == common && b.dtype() == common && out.dtype == common) {
    return choose(ctx, out, 3, mask, a.operand(), b.operand());
  }
  const bool done = dispatch_compute<kRealBool | kFullComplex>(common, [&](auto tag) {
    using C = typename decltype(tag)::type;
    elementwise<C, bool, C, C>(ctx, out, 3, {mask, a.operand(), b.operand()}, common,
                               [](bool chosen, C x, C y) { return chosen ? x : y; });
  });
  if (!done) ctx.fail(Check::KernelDtype, 1, static_cast<int64_t>(a.dtype()));
}

/// The value, a number or a tensor without dims, is converted to the dtype of self, which is that of the result.
void masked_fill_out(KernelContext& ctx) {
  const Tensor& self = ctx.tensor(0);
  Tensor& out = ctx.tensor(3);
  if (out.dtype != self.dtype) return ctx.fail(Check::KernelDtypeMismatch, 3, static_cast<int64_t>(out.dtype));
  if (!check_mask(ctx, 1)) return;
  Element element;
  Tensor value{element.bytes, nullptr, nullptr, self.dtype, 0, Dynamism::Static, 0, 0};
  if (ctx.tag(2) == Tag::Tensor) {
    const Tensor& given = ctx.tensor(2);
    if (given.rank != 0) return ctx.fail(Check::KernelRank, 2, given.rank);
    if (!can_cast(given.dtype, self.dtype)) {
      return ctx.fail(Check::KernelDtypeMismatch, 2, static_cast<int64_t>(given.dtype));
    }
    copy_elements(ctx, value, 2, given, 2);
    if (ctx.failed()) return;
  } else if (!number_to_element(ctx, ctx.scalar(2), 2, self.dtype, &element)) {
    return;
  }
  choose(ctx, out, 3, {&ctx.tensor(1), 1}, {&value, 2}, {&self, 0});
}

}  // namespace etir
