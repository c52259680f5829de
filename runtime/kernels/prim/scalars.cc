// Primitive operators on numbers: what programs compute about shapes.
//
// Ints stay ints, doubles spread, as in Python. Ints wrap around; a division of ints by zero is an error. The kind of a
// result is decided by the operands and has to be the one that the program made a place for.
#include <cmath>

#include "kernels/kernel.h"

namespace etir {

namespace {

uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }

Scalar number(int64_t value) {
  Scalar result{Tag::Int, {}};
  result.payload.integer = value;
  return result;
}
Scalar number(double value) {
  Scalar result{Tag::Double, {}};
  result.payload.real = value;
  return result;
}
Scalar number(bool value) {
  Scalar result{Tag::Bool, {}};
  result.payload.boolean = value;
  return result;
}

void store(KernelContext& ctx, int i, const Scalar& value) {
  if (ctx.tag(i) != value.tag) {
    return ctx.fail(Check::PrimResult, static_cast<int64_t>(value.tag), static_cast<int64_t>(ctx.tag(i)));
  }
  if (value.tag == Tag::Int) ctx.set_integer(i, value.payload.integer);
  if (value.tag == Tag::Double) ctx.set_real(i, value.payload.real);
  if (value.tag == Tag::Bool) ctx.set_boolean(i, value.payload.boolean);
}

enum class Op : uint8_t { Add, Sub, Mul, Max, Min, FloorDiv, Div, Mod, TrueDiv, Eq, Gt, Lt, Ge, Le };

int64_t divide(int64_t a, int64_t b, bool floor) {
  if (b == -1) return static_cast<int64_t>(0 - bits(a));
  const int64_t quotient = a / b;
  return floor && a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Scalar of_ints(Op op, int64_t a, int64_t b) {
  switch (op) {
    case Op::Add:
      return number(static_cast<int64_t>(bits(a) + bits(b)));
    case Op::Sub:
      return number(static_cast<int64_t>(bits(a) - bits(b)));
    case Op::Mul:
      return number(static_cast<int64_t>(bits(a) * bits(b)));
    case Op::Max:
      return number(a > b ? a : b);
    case Op::Min:
      return number(a < b ? a : b);
    case Op::FloorDiv:
    case Op::Div:
      return number(divide(a, b, op == Op::FloorDiv));
    case Op::Mod:
      return number(b == -1 ? int64_t{0} : a % b);
    case Op::TrueDiv:
      return number(static_cast<double>(a) / static_cast<double>(b));
    case Op::Eq:
      return number(a == b);
    case Op::Gt:
      return number(a > b);
    case Op::Lt:
      return number(a < b);
    case Op::Ge:
      return number(a >= b);
    default:
      return number(a <= b);
  }
}

Scalar of_doubles(Op op, double a, double b) {
  switch (op) {
    case Op::Add:
      return number(a + b);
    case Op::Sub:
      return number(a - b);
    case Op::Mul:
      return number(a * b);
    case Op::Max:
      return number(b > a ? b : a);
    case Op::Min:
      return number(b < a ? b : a);
    case Op::FloorDiv:
      return number(std::floor(a / b));
    case Op::TrueDiv:
      return number(a / b);
    case Op::Eq:
      return number(a == b);
    case Op::Gt:
      return number(a > b);
    case Op::Lt:
      return number(a < b);
    case Op::Ge:
      return number(a >= b);
    default:
      return number(a <= b);
  }
}

// Whether the arguments 0 and 1 and the result 2 are ints, as sizes and indices are: then there is a way without
// Scalars, but in builds for size.
inline bool are_fast_ints(const KernelContext& ctx) {
#ifdef __OPTIMIZE_SIZE__
  (void)ctx;
  return false;
#else
  return ctx.tag(0) == Tag::Int && ctx.tag(1) == Tag::Int && ctx.tag(2) == Tag::Int;
#endif
}

// result = a op b, for the arguments 0, 1 and 2.
void binary(KernelContext& ctx, Op op) {
  const Scalar a = ctx.scalar(0), b = ctx.scalar(1);
  if (a.tag != Tag::Double && b.tag != Tag::Double) {
    const int64_t divisor = b.to<int64_t>();
    if (divisor == 0 && op >= Op::FloorDiv && op <= Op::TrueDiv) return ctx.fail(Check::KernelDivisionByZero);
    return store(ctx, 2, of_ints(op, a.to<int64_t>(), divisor));
  }
  if (op == Op::Div || op == Op::Mod) {
    return ctx.fail(Check::KernelArgument, a.tag == Tag::Double ? 0 : 1, static_cast<int64_t>(Tag::Double));
  }
  store(ctx, 2, of_doubles(op, a.to<double>(), b.to<double>()));
}

// result = value, a whole number, as an int.
void store_whole(KernelContext& ctx, double value) {
  // 2^63; also false for NaN.
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) {
    return ctx.fail(Check::KernelOverflow, 0, static_cast<int64_t>(ScalarType::Long));
  }
  store(ctx, 1, number(static_cast<int64_t>(value)));
}

}  // namespace

void prim_add(KernelContext& ctx) {
  if (!are_fast_ints(ctx)) return binary(ctx, Op::Add);
  ctx.set_integer(2, static_cast<int64_t>(bits(ctx.integer(0)) + bits(ctx.integer(1))));
}
void prim_sub(KernelContext& ctx) {
  if (!are_fast_ints(ctx)) return binary(ctx, Op::Sub);
  ctx.set_integer(2, static_cast<int64_t>(bits(ctx.integer(0)) - bits(ctx.integer(1))));
}
void prim_mul(KernelContext& ctx) {
  if (!are_fast_ints(ctx)) return binary(ctx, Op::Mul);
  ctx.set_integer(2, static_cast<int64_t>(bits(ctx.integer(0)) * bits(ctx.integer(1))));
}
void prim_max(KernelContext& ctx) { binary(ctx, Op::Max); }
void prim_min(KernelContext& ctx) { binary(ctx, Op::Min); }
void prim_floordiv(KernelContext& ctx) { binary(ctx, Op::FloorDiv); }
void prim_div(KernelContext& ctx) { binary(ctx, Op::Div); }
void prim_mod(KernelContext& ctx) { binary(ctx, Op::Mod); }
void prim_truediv(KernelContext& ctx) { binary(ctx, Op::TrueDiv); }
void prim_eq(KernelContext& ctx) { binary(ctx, Op::Eq); }
void prim_gt(KernelContext& ctx) { binary(ctx, Op::Gt); }
void prim_lt(KernelContext& ctx) { binary(ctx, Op::Lt); }
void prim_ge(KernelContext& ctx) { binary(ctx, Op::Ge); }
void prim_le(KernelContext& ctx) { binary(ctx, Op::Le); }

void prim_neg(KernelContext& ctx) {
  const Scalar a = ctx.scalar(0);
  if (a.tag == Tag::Double) return store(ctx, 1, number(-a.payload.real));
  store(ctx, 1, number(static_cast<int64_t>(0 - bits(a.to<int64_t>()))));
}

void prim_ceil(KernelContext& ctx) { store_whole(ctx, std::ceil(ctx.real(0))); }
void prim_trunc(KernelContext& ctx) { store_whole(ctx, std::trunc(ctx.real(0))); }
void prim_round(KernelContext& ctx) {
  // Half to even, whatever the rounding mode.
  const double value = ctx.real(0);
  const double low = std::floor(value);
  const double rest = value - low;
  const bool up = rest > 0.5 || (rest == 0.5 && low != 2 * std::floor(low / 2));
  store_whole(ctx, up ? low + 1 : low);
}

void prim_sym_float(KernelContext& ctx) { store(ctx, 1, number(ctx.real(0))); }
void prim_sym_int(KernelContext& ctx) {
  const Scalar a = ctx.scalar(0);
  if (a.tag == Tag::Double) return store_whole(ctx, std::trunc(a.payload.real));
  store(ctx, 1, number(a.to<int64_t>()));
}
void prim_sym_not(KernelContext& ctx) { store(ctx, 1, number(!ctx.scalar(0).to<bool>())); }
void prim_sym_ite(KernelContext& ctx) { store(ctx, 3, ctx.scalar(ctx.scalar(0).to<bool>() ? 1 : 2)); }

}  // namespace etir
