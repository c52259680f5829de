// What a program requires of its inputs and of numbers that it computes: instructions that do nothing, or end the run.
#include "kernels/kernel.h"
#include "kernels/prim/checks.gen.h"

namespace etir {

// A dim of an input has a size among `low`, `low + step`, ... up to `high`.
void prim_check_size(KernelContext& ctx, const Tensor& self, ScalarArgument dim, ScalarArgument low,
                     ScalarArgument high, ScalarArgument step, StringView /*what*/) {
  const int64_t axis = ctx.integer(dim);
  if (axis < 0 || axis >= self.rank) return ctx.fail(Check::KernelDim, axis, self.rank);
  const int64_t size = self.size(static_cast<int>(axis)), first = ctx.integer(low), distance = ctx.integer(step);
  bool holds = size >= first && size <= ctx.integer(high);
  if (holds && distance > 1) {
    const uint64_t from_first = static_cast<uint64_t>(size) - static_cast<uint64_t>(first);
    holds = from_first % static_cast<uint64_t>(distance) == 0;
  }
  if (!holds) ctx.fail(Check::InputSizes, axis, size);
}

// An input that is a number is among `low`, `low + step`, ... up to `high`. It may be of another kind, of which nothing
// is said: the instruction stands for that the input varies.
void prim_check_number(KernelContext& ctx, ScalarArgument self, ScalarArgument low, ScalarArgument high,
                       ScalarArgument step, StringView /*what*/) {
  if (ctx.tag(self) != Tag::Int) return;
  const int64_t number = ctx.integer(self), first = ctx.integer(low), distance = ctx.integer(step);
  bool holds = number >= first && number <= ctx.integer(high);
  if (holds && distance > 1) {
    const uint64_t from_first = static_cast<uint64_t>(number) - static_cast<uint64_t>(first);
    holds = from_first % static_cast<uint64_t>(distance) == 0;
  }
  if (!holds) ctx.fail(Check::InputNumbers, number);
}

// A number of the program is true.
void prim_check(KernelContext& ctx, ScalarArgument condition, StringView /*what*/) {
  if (!ctx.scalar(condition).to<bool>()) ctx.fail(Check::ProgramAssertion);
}

}  // namespace etir
