// Softmax of rows of int8 numbers, from a table of the exponential of what a number is below the row's largest:
//
//   y = clamp(rint(float(table[max - x]) * float(factor / sum of table[max - x])) + zero_point, low, high)
//
// Entries are integers, so that sums are exact and the same in every order.
#include "kernels/integer/requantize.h"
#include "kernels/integer/softmax.gen.h"

namespace etir {
namespace {

using namespace integer;

constexpr int kTable = 256;
constexpr int64_t kMostEntry = int64_t{1} << 24;  // float holds every integer up to here

int8_t largest(const int8_t* from, int64_t count) {
  int8_t most = from[0];
  for (int64_t i = 1; i < count; ++i) most = from[i] > most ? from[i] : most;
  return most;
}

/// Writes the entries of numbers, and gives their sum.
int64_t look_up(const int8_t* __restrict from, const int32_t* __restrict below, int64_t count, int32_t* __restrict to) {
  int64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    to[i] = below[-from[i]];
    sum += to[i];
  }
  return sum;
}

}  // namespace

void int8_softmax_out(KernelContext& ctx, const Tensor& input, const Tensor& table, double factor, int64_t zero_point,
                      int64_t low, int64_t high, Tensor& out) {
  Output output;
  if (!check_dtype(ctx, input, ScalarType::Char) || !check_dtype(ctx, out, ScalarType::Char) ||
      !check_constant(ctx, table, ScalarType::Int, 1) || !check_size(ctx, table, 0, 256) ||
      !read_output(ctx, zero_point, low, high, arguments::int8_softmax_out::zero_point, &output)) {
    return;
  }
  if (input.rank < 1) return ctx.fail(Check::KernelRank, input, input.rank);
  const int32_t* entries = table.ptr<int32_t>();
  for (int i = 0; i < 256; ++i) {
    if (entries[i] < 0 || entries[i] > kMostEntry) return ctx.fail(Check::KernelShape, table, entries[i]);
  }
  if (!check_rows(ctx, input) || !ctx.resize_like(out, input) || !check_rows(ctx, out) || !has_data(ctx, input) ||
      !has_data(ctx, out) || input.numel() == 0) {
    return;
  }
  const int64_t depth = input.sizes[input.rank - 1], rows = input.numel() / depth;
  const bool vnni = use_vnni();
  const int32_t nothing[kTable] = {};
  const auto write = [&](const int32_t* numbers, float ratio, int count, int8_t* to) {
    float ratios[kTable];
    std::fill_n(ratios, count, ratio);
    requantize(vnni, numbers, nothing, ratios, count, output, to);
  };
  ctx.parallel_for(rows, 4096 / depth + 1, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int8_t* from = input.ptr<int8_t>() + row * depth;
      int8_t* to = out.ptr<int8_t>() + row * depth;
      const int32_t* below = entries + largest(from, depth);
      if (depth < kTable) {
        // Entries side by side, which vectors take.
        int32_t found[kTable];
        const int64_t sum = look_up(from, below, depth, found);
        write(found, static_cast<float>(factor / static_cast<double>(sum)), static_cast<int>(depth), to);
        continue;
      }
      int64_t sum = 0;
      for (int64_t i = 0; i < depth; ++i) sum += below[-from[i]];
      // A row has 256 results at most, and a long one looks them up.
      int8_t results[kTable];
      write(entries, static_cast<float>(factor / static_cast<double>(sum)), kTable, results);
      const int8_t* result = results + largest(from, depth);
      for (int64_t i = 0; i < depth; ++i) to[i] = result[-from[i]];
    }
  });
}

}  // namespace etir
