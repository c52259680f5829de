// Primitive operators on numbers: what programs compute about shapes.
//
// Ints stay ints, doubles spread, as in Python. Ints wrap around; a division of ints by zero is an error. The kind of a
// result is decided by the operands and has to be the one that the program made a place for.
#include <cmath>

#include "kernels/kernel.h"
#include "kernels/prim/scalars.gen.h"

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

void store(KernelContext& ctx, ScalarResult result, Scalar value) {
  if (result.tag() != value.tag) {
    return ctx.fail(Check::PrimResult, static_cast<int64_t>(value.tag), static_cast<int64_t>(result.tag()));
  }
  if (value.tag == Tag::Int) result.set(value.payload.integer);
  if (value.tag == Tag::Double) result.set(value.payload.real);
  if (value.tag == Tag::Bool) result.set(value.payload.boolean);
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

// result = a op b. Scalars are passed by value, in registers: a reference would make each kernel write them to memory.
void binary(KernelContext& ctx, Op op, Scalar a, Scalar b, ScalarResult result) {
  using arg = arguments::prim_add;
  if (a.tag != Tag::Double && b.tag != Tag::Double) {
    const int64_t divisor = b.to<int64_t>();
    if (divisor == 0 && op >= Op::FloorDiv && op <= Op::TrueDiv) return ctx.fail(Check::KernelDivisionByZero);
    return store(ctx, result, of_ints(op, a.to<int64_t>(), divisor));
  }
  if (op == Op::Div || op == Op::Mod) {
    return ctx.fail(Check::KernelArgument, a.tag == Tag::Double ? arg::a : arg::b, static_cast<int64_t>(Tag::Double));
  }
  store(ctx, result, of_doubles(op, a.to<double>(), b.to<double>()));
}

}  // namespace

#ifndef __OPTIMIZE_SIZE__
// What with_ints leaves to others: a call that needs no frame where the usual case runs. It is not local to this file,
// for a compiler may change how a local function takes its arguments, and then all callers save registers first.
[[gnu::noinline]] void prim_other_binary(KernelContext& ctx, uint8_t op, const Scalar& a, const Scalar& b,
                                         const ScalarResult& result);
void prim_other_binary(KernelContext& ctx, uint8_t op, const Scalar& a, const Scalar& b, const ScalarResult& result) {
  binary(ctx, static_cast<Op>(op), a, b, result);
}
#endif

namespace {

// As binary. Where both operands and the result are ints, as sizes and indices are, there is a way without the tests
// that other kinds need, but in builds for size.
template <typename F>
inline void with_ints(KernelContext& ctx, Op op, Scalar a, Scalar b, ScalarResult result, const F& f) {
#ifdef __OPTIMIZE_SIZE__
  (void)f;
  binary(ctx, op, a, b, result);
#else
  if (__builtin_expect(a.tag != Tag::Int, 0) || __builtin_expect(b.tag != Tag::Int, 0) ||
      __builtin_expect(result.tag() != Tag::Int, 0)) {
    const Scalar x = a, y = b;
    const ScalarResult place = result;
    return prim_other_binary(ctx, static_cast<uint8_t>(op), x, y, place);
  }
  result.set(static_cast<int64_t>(f(bits(a.payload.integer), bits(b.payload.integer))));
#endif
}

// result = value, a whole number, as an int.
void store_whole(KernelContext& ctx, ScalarResult result, double value) {
  // 2^63; also false for NaN.
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) {
    return ctx.fail(Check::KernelOverflow, arguments::prim_ceil::a, static_cast<int64_t>(ScalarType::Long));
  }
  store(ctx, result, number(static_cast<int64_t>(value)));
}

}  // namespace

void prim_add(KernelContext& ctx, const Scalar& a, const Scalar& b, ScalarResult result) {
  with_ints(ctx, Op::Add, a, b, result, [](uint64_t x, uint64_t y) { return x + y; });
}
void prim_sub(KernelContext& ctx, const Scalar& a, const Scalar& b, ScalarResult result) {
  with_ints(ctx, Op::Sub, a, b, result, [](uint64_t x, uint64_t y) { return x - y; });
}
void prim_mul(KernelContext& ctx, const Scalar& a, const Scalar& b, ScalarResult result) {
  with_ints(ctx, Op::Mul, a, b, result, [](uint64_t x, uint64_t y) { return x * y; });
}
void prim_max(KernelContext& ctx, const Scalar& a, const Scalar& b, ScalarResult result) {
  binary(ctx, Op::Max, a, b, result);
}
void prim_min(KernelContext& ctx, const Scalar& a, const Scalar& b, ScalarResult result) {
  binary(ctx, Op::Min, a, b, result);
}
void prim_floordiv(KernelContext& ctx, const Scalar& a, const Scalar& b, ScalarResult result) {
  binary(ctx, Op::FloorDiv, a, b, result);
}
void prim_div(KernelContext& ctx, int64_t a, int64_t b, ScalarResult result) {
  binary(ctx, Op::Div, number(a), number(b), result);
}
void prim_mod(KernelContext& ctx, int64_t a, int64_t b, ScalarResult result) {
  binary(ctx, Op::Mod, number(a), number(b), result);
}
void prim_truediv(KernelContext& ctx, const Scalar& a, const Scalar& b, ScalarResult result) {
  binary(ctx, Op::TrueDiv, a, b, result);
}
void prim_eq(KernelContext& ctx, const Scalar& a, const Scalar& b, ScalarResult result) {
  binary(ctx, Op::Eq, a, b, result);
}
void prim_gt(KernelContext& ctx, const Scalar& a, const Scalar& b, ScalarResult result) {
  binary(ctx, Op::Gt, a, b, result);
}
void prim_lt(KernelContext& ctx, const Scalar& a, const Scalar& b, ScalarResult result) {
  binary(ctx, Op::Lt, a, b, result);
}
void prim_ge(KernelContext& ctx, const Scalar& a, const Scalar& b, ScalarResult result) {
  binary(ctx, Op::Ge, a, b, result);
}
void prim_le(KernelContext& ctx, const Scalar& a, const Scalar& b, ScalarResult result) {
  binary(ctx, Op::Le, a, b, result);
}

void prim_neg(KernelContext& ctx, const Scalar& a, ScalarResult result) {
  if (a.tag == Tag::Double) return store(ctx, result, number(-a.payload.real));
  store(ctx, result, number(static_cast<int64_t>(0 - bits(a.to<int64_t>()))));
}

void prim_ceil(KernelContext& ctx, const Scalar& a, ScalarResult result) {
  store_whole(ctx, result, std::ceil(a.to<double>()));
}
void prim_trunc(KernelContext& ctx, const Scalar& a, ScalarResult result) {
  store_whole(ctx, result, std::trunc(a.to<double>()));
}
void prim_round(KernelContext& ctx, const Scalar& a, ScalarResult result) {
  // Half to even, whatever the rounding mode.
  const double value = a.to<double>();
  const double low = std::floor(value);
  const double rest = value - low;
  const bool up = rest > 0.5 || (rest == 0.5 && low != 2 * std::floor(low / 2));
  store_whole(ctx, result, up ? low + 1 : low);
}

void prim_sym_float(KernelContext& ctx, const Scalar& a, ScalarResult result) {
  store(ctx, result, number(a.to<double>()));
}
void prim_sym_int(KernelContext& ctx, const Scalar& a, ScalarResult result) {
  if (a.tag == Tag::Double) return store_whole(ctx, result, std::trunc(a.payload.real));
  store(ctx, result, number(a.to<int64_t>()));
}
void prim_sym_not(KernelContext& ctx, const Scalar& a, ScalarResult result) {
  store(ctx, result, number(!a.to<bool>()));
}
void prim_sym_ite(KernelContext& ctx, const Scalar& b, const Scalar& t, const Scalar& f, ScalarResult result) {
  store(ctx, result, b.to<bool>() ? t : f);
}

}  // namespace etir
