// Writes into key and value caches, in place. The results are placeholders for the graph's data flow and stay as they
// are.
#include "kernels/llm/cache.h"

namespace etir {

using namespace llm;

void update_cache_out(KernelContext& ctx) {
  const Tensor& value = ctx.tensor(0);
  const Tensor& cache = ctx.tensor(1);
  const int64_t start = ctx.integer(2);
  if (!check_update(ctx, 0, 1) || !check_positions(ctx, start, value.size(1), cache.size(1))) return;
  write_cache(value, cache, start);
}

/// Positions are given one by one.
void update_cache_with_indices_out(KernelContext& ctx) {
  const Tensor& value = ctx.tensor(0);
  const Tensor& cache = ctx.tensor(1);
  const Tensor& indices = ctx.tensor(3);
  if (!check_update(ctx, 0, 1) || !check_tensor(ctx, 3, indices, 2) ||
      !check_dtype(ctx, 3, indices, ScalarType::Long) || !check_size(ctx, 3, indices, 0, value.size(0)) ||
      !check_size(ctx, 3, indices, 1, value.size(1))) {
    return;
  }
  if (ctx.integer(2) < 0) return ctx.fail(Check::KernelArgument, 2, ctx.integer(2));
  const size_t row = static_cast<size_t>(value.size(2) * value.size(3)) * element_size(value.dtype);
  if (row == 0) return;
  const int64_t count = value.size(1), length = cache.size(1);
  for (int64_t i = 0; i < indices.numel(); ++i) {
    const int64_t position = indices.ptr<int64_t>()[i];
    if (position < 0 || position >= length) return ctx.fail(Check::KernelIndex, position, length);
  }
  for (int64_t batch = 0; batch < value.size(0); ++batch) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t position = indices.ptr<int64_t>()[batch * count + i];
      std::memmove(cache.ptr<uint8_t>() + static_cast<size_t>(batch * length + position) * row,
                   value.ptr<uint8_t>() + static_cast<size_t>(batch * count + i) * row, row);
    }
  }
}

}  // namespace etir
