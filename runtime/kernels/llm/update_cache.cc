// Writes into key and value caches, in place. The results are placeholders for the graph's data flow and stay as they
// are.
#include "kernels/llm/cache.h"
#include "kernels/llm/update_cache.gen.h"

namespace etir {

using namespace llm;

void update_cache_out(KernelContext& ctx, const Tensor& value, Tensor& cache, int64_t start_pos, Tensor& /*out*/) {
  const int64_t start = start_pos;
  if (!check_update(ctx, value, cache) || !check_positions(ctx, start, value.size(1), cache.size(1))) return;
  write_cache(value, cache, start);
}

/// Positions are given one by one.
void update_cache_with_indices_out(KernelContext& ctx, const Tensor& value, Tensor& cache, int64_t start_pos,
                                   const Tensor& indices, Tensor& /*out*/) {
  using arg = arguments::update_cache_with_indices_out;
  if (!check_update(ctx, value, cache) || !check_tensor(ctx, indices, 2) ||
      !check_dtype(ctx, indices, ScalarType::Long) || !check_size(ctx, indices, 0, value.size(0)) ||
      !check_size(ctx, indices, 1, value.size(1))) {
    return;
  }
  if (start_pos < 0) return ctx.fail(Check::KernelArgument, arg::start_pos, start_pos);
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
