// Rows that are each multiplied by one of several matrices, as a mixture of experts has them: packed weights in groups
// (group_weights.h), the panels of one matrix after those of the one before.
//
// Neighbors that have the same matrix are multiplied by it together, as a layer of so many rows. So what is read is
// what was chosen, of rows in the order of their matrices each once, however many there are.
#pragma once

#include "kernels/util/group_weights.h"

namespace etir::groups {

/// A part of a tensor in row-major order: some indices of its first dim. A kernel can take it as a tensor.
class Slice {
 public:
  Slice(const Tensor& whole, int64_t first, int64_t count) : tensor_(whole) {
    int64_t stride = static_cast<int64_t>(element_size(whole.dtype));
    for (int d = 1; d < whole.rank; ++d) stride *= sizes_[d] = whole.sizes[d];
    sizes_[0] = static_cast<int32_t>(count);
    tensor_.data = whole.ptr<uint8_t>() + first * stride;
    tensor_.sizes = sizes_;
    tensor_.dynamism = Dynamism::Static;
  }
  Slice(const Slice&) = delete;
  Slice& operator=(const Slice&) = delete;
  Tensor& tensor() { return tensor_; }

 private:
  int32_t sizes_[kMaxRank] = {};
  Tensor tensor_;
};

/// The operands besides the input and the numbers of the matrices; `position` is the argument with the columns.
struct Experts {
  const Tensor *weight, *scales, *minimums, *sums;
  int64_t columns;
  int position;
};

/// The operands of one matrix and the rows that have it.
struct ExpertRun {
  const Tensor &input, &weight, &scales;
  const Tensor *minimums, *sums;
  Tensor& out;
};

/// Whether the sums of rows, where there are any, are those of so many rows; records the failure.
inline bool check_expert_sums(KernelContext& ctx, const Tensor* sums, int64_t rows) {
  if (sums == nullptr) return true;
  if (sums->dtype != ScalarType::Float) {
    return ctx.fail(Check::KernelDtype, *sums, static_cast<int64_t>(sums->dtype)), false;
  }
  if (sums->rank != 1) return ctx.fail(Check::KernelRank, *sums, sums->rank), false;
  if (sums->sizes[0] != rows) return ctx.fail(Check::KernelShape, *sums, sums->sizes[0]), false;
  return check_rows(ctx, *sums);
}

/// Checks all operands, gives `out` its shape, and calls run(ExpertRun) for rows that follow each other and have one
/// matrix. `numbers` has that of each row.
template <int kBits, typename Run>
void for_each_expert(KernelContext& ctx, const Tensor& input, const Tensor& numbers, const Experts& of, Tensor& out,
                     const Run& run) {
  for (const Tensor* tensor : {&input, static_cast<const Tensor*>(&out)}) {
    if (tensor->dtype != ScalarType::Float) {
      return ctx.fail(Check::KernelDtype, *tensor, static_cast<int64_t>(tensor->dtype));
    }
  }
  if (numbers.dtype != ScalarType::Long && numbers.dtype != ScalarType::Int) {
    return ctx.fail(Check::KernelDtype, numbers, static_cast<int64_t>(numbers.dtype));
  }
  if (input.rank != 2) return ctx.fail(Check::KernelRank, input, input.rank);
  if (numbers.rank != 1) return ctx.fail(Check::KernelRank, numbers, numbers.rank);
  if (of.weight->rank != 3) return ctx.fail(Check::KernelRank, *of.weight, of.weight->rank);
  const int64_t rows = input.sizes[0];
  if (numbers.sizes[0] != rows) return ctx.fail(Check::KernelShape, numbers, numbers.sizes[0]);
  if (!check_rows(ctx, input) || !check_rows(ctx, numbers)) return;
  if (of.columns < 1 || of.columns > INT32_MAX - kLanes) {
    return ctx.fail(Check::KernelArgument, of.position, of.columns);
  }
  const int64_t panels = (of.columns + kLanes - 1) / kLanes, count = of.weight->sizes[0] / panels;
  Weights whole;
  if (!read_weights<kBits>(ctx, *of.weight, *of.scales, of.minimums, count * panels * kLanes, of.position,
                           input.sizes[1], &whole) ||
      !check_expert_sums(ctx, of.sums, count * of.columns)) {
    return;
  }
  const int64_t sizes[] = {rows, of.columns};
  if (!ctx.resize(out, sizes, 2) || !check_rows(ctx, out)) return;
  const bool narrow = numbers.dtype == ScalarType::Int;
  const auto number = [&](int64_t row) -> int64_t {
    return narrow ? numbers.ptr<int32_t>()[row] : numbers.ptr<int64_t>()[row];
  };
  for (int64_t row = 0; row < rows; ++row) {
    if (number(row) < 0 || number(row) >= count) return ctx.fail(Check::KernelIndex, number(row), count);
  }
  const size_t used = ctx.temp_memory().used;
  for (int64_t row = 0, end = 0; row < rows && !ctx.failed(); row = end) {
    const int64_t expert = number(row);
    for (end = row + 1; end < rows && number(end) == expert;) ++end;
    Slice from(input, row, end - row), to(out, row, end - row);
    Slice weight(*of.weight, expert * panels, panels), scales(*of.scales, expert * panels, panels);
    // What is missing is read as the scales are, and not handed on.
    Slice minimums(of.minimums == nullptr ? *of.scales : *of.minimums, expert * panels, panels);
    Slice sums(of.sums == nullptr ? input : *of.sums, of.sums == nullptr ? 0 : expert * of.columns, of.columns);
    run(ExpertRun{from.tensor(), weight.tensor(), scales.tensor(),
                  of.minimums == nullptr ? nullptr : &minimums.tensor(), of.sums == nullptr ? nullptr : &sums.tensor(),
                  to.tensor()});
    ctx.temp_memory().used = used;
  }
}

}  // namespace etir::groups
