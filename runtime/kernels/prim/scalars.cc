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

void store(KernelContext& ctx, ScalarResult result, const Scalar& value) {
  if (ctx.tag(result) != value.tag) {
    return ctx.fail(Check::PrimResult, static_cast<int64_t>(value.tag), static_cast<int64_t>(ctx.tag(result)));
  }
  ctx.set(result, value);
}

// A comparison has a bit for each relation in which it is true.
constexpr uint8_t kLess = 1, kEqual = 2, kGreater = 4, kComparison = 16;

enum class Op : uint8_t {
  Add,
  Sub,
  Mul,
  Max,
  Min,
  FloorDiv,
  Div,
  Mod,
  TrueDiv,
  Eq = kComparison | kEqual,
  Gt = kComparison | kGreater,
  Lt = kComparison | kLess,
  Ge = kComparison | kGreater | kEqual,
  Le = kComparison | kLess | kEqual,
};

// No relation holds for a NaN.
template <typename T>
bool compare(Op op, T a, T b) {
  const int relation = a < b ? kLess : a == b ? kEqual : a > b ? kGreater : 0;
  return (static_cast<int>(op) & relation) != 0;
}

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
    default:
      return number(compare(op, a, b));
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
    default:
      return number(compare(op, a, b));
  }
}

// result = a op b.
void binary(KernelContext& ctx, Op op, ScalarArgument left, ScalarArgument right, ScalarResult result) {
  const Scalar a = ctx.scalar(left), b = ctx.scalar(right);
  if (op <= Op::Mul && (a.tag == Tag::Bool || b.tag == Tag::Bool)) {
    const ScalarArgument wrong = a.tag == Tag::Bool ? left : right;
    return ctx.fail(Check::KernelArgument, static_cast<int64_t>(wrong), ctx.scalar(wrong).to<int64_t>());
  }
  if (a.tag != Tag::Double && b.tag != Tag::Double) {
    const int64_t divisor = b.to<int64_t>();
    if (divisor == 0 && op >= Op::FloorDiv && op <= Op::TrueDiv) return ctx.fail(Check::KernelDivisionByZero);
    return store(ctx, result, of_ints(op, a.to<int64_t>(), divisor));
  }
  if (op == Op::Div || op == Op::Mod) {
    const ScalarArgument real = a.tag == Tag::Double ? left : right;
    return ctx.fail(Check::KernelArgument, static_cast<int64_t>(real), static_cast<int64_t>(Tag::Double));
  }
  store(ctx, result, of_doubles(op, a.to<double>(), b.to<double>()));
}

// As binary. Where both operands and the result are ints, as sizes and indices are, there is a way without the tests
// that other kinds need, but in builds for size.
template <typename F>
inline void with_ints(KernelContext& ctx, Op op, ScalarArgument a, ScalarArgument b, ScalarResult result, const F& f) {
#ifdef __OPTIMIZE_SIZE__
  (void)f;
  binary(ctx, op, a, b, result);
#else
  if (ctx.tag(a) != Tag::Int || ctx.tag(b) != Tag::Int || ctx.tag(result) != Tag::Int) {
    return binary(ctx, op, a, b, result);
  }
  ctx.set(result, static_cast<int64_t>(f(bits(ctx.integer(a)), bits(ctx.integer(b)))));
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

void prim_add(KernelContext& ctx, ScalarArgument a, ScalarArgument b, ScalarResult result) {
  with_ints(ctx, Op::Add, a, b, result, [](uint64_t x, uint64_t y) { return x + y; });
}
void prim_sub(KernelContext& ctx, ScalarArgument a, ScalarArgument b, ScalarResult result) {
  with_ints(ctx, Op::Sub, a, b, result, [](uint64_t x, uint64_t y) { return x - y; });
}
void prim_mul(KernelContext& ctx, ScalarArgument a, ScalarArgument b, ScalarResult result) {
  with_ints(ctx, Op::Mul, a, b, result, [](uint64_t x, uint64_t y) { return x * y; });
}
void prim_max(KernelContext& ctx, ScalarArgument a, ScalarArgument b, ScalarResult result) {
  binary(ctx, Op::Max, a, b, result);
}
void prim_min(KernelContext& ctx, ScalarArgument a, ScalarArgument b, ScalarResult result) {
  binary(ctx, Op::Min, a, b, result);
}
void prim_floordiv(KernelContext& ctx, ScalarArgument a, ScalarArgument b, ScalarResult result) {
  binary(ctx, Op::FloorDiv, a, b, result);
}
void prim_div(KernelContext& ctx, ScalarArgument a, ScalarArgument b, ScalarResult result) {
  binary(ctx, Op::Div, a, b, result);
}
void prim_mod(KernelContext& ctx, ScalarArgument a, ScalarArgument b, ScalarResult result) {
  binary(ctx, Op::Mod, a, b, result);
}
void prim_truediv(KernelContext& ctx, ScalarArgument a, ScalarArgument b, ScalarResult result) {
  binary(ctx, Op::TrueDiv, a, b, result);
}
void prim_eq(KernelContext& ctx, ScalarArgument a, ScalarArgument b, ScalarResult result) {
  binary(ctx, Op::Eq, a, b, result);
}
void prim_gt(KernelContext& ctx, ScalarArgument a, ScalarArgument b, ScalarResult result) {
  binary(ctx, Op::Gt, a, b, result);
}
void prim_lt(KernelContext& ctx, ScalarArgument a, ScalarArgument b, ScalarResult result) {
  binary(ctx, Op::Lt, a, b, result);
}
void prim_ge(KernelContext& ctx, ScalarArgument a, ScalarArgument b, ScalarResult result) {
  binary(ctx, Op::Ge, a, b, result);
}
void prim_le(KernelContext& ctx, ScalarArgument a, ScalarArgument b, ScalarResult result) {
  binary(ctx, Op::Le, a, b, result);
}

void prim_neg(KernelContext& ctx, ScalarArgument a, ScalarResult result) {
  const Scalar value = ctx.scalar(a);
  if (value.tag == Tag::Double) return store(ctx, result, number(-value.payload.real));
  store(ctx, result, number(static_cast<int64_t>(0 - bits(value.to<int64_t>()))));
}

void prim_ceil(KernelContext& ctx, ScalarArgument a, ScalarResult result) {
  store_whole(ctx, result, std::ceil(ctx.real(a)));
}
void prim_trunc(KernelContext& ctx, ScalarArgument a, ScalarResult result) {
  store_whole(ctx, result, std::trunc(ctx.real(a)));
}
void prim_round(KernelContext& ctx, ScalarArgument a, ScalarResult result) {
  // Half to even, whatever the rounding mode.
  const double value = ctx.real(a);
  const double low = std::floor(value);
  const double rest = value - low;
  const bool up = rest > 0.5 || (rest == 0.5 && low != 2 * std::floor(low / 2));
  store_whole(ctx, result, up ? low + 1 : low);
}

void prim_sym_float(KernelContext& ctx, ScalarArgument a, ScalarResult result) {
  store(ctx, result, number(ctx.real(a)));
}
void prim_sym_int(KernelContext& ctx, ScalarArgument a, ScalarResult result) {
  const Scalar value = ctx.scalar(a);
  if (value.tag == Tag::Double) return store_whole(ctx, result, std::trunc(value.payload.real));
  store(ctx, result, number(value.to<int64_t>()));
}
void prim_sym_not(KernelContext& ctx, ScalarArgument a, ScalarResult result) {
  store(ctx, result, number(!ctx.scalar(a).to<bool>()));
}
void prim_sym_ite(KernelContext& ctx, ScalarArgument b, ScalarArgument t, ScalarArgument f, ScalarResult result) {
  store(ctx, result, ctx.scalar(ctx.scalar(b).to<bool>() ? t : f));
}

}  // namespace etir
