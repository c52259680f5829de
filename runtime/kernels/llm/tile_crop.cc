// Cuts an image [channels, height, width] into square tiles: [tiles, channels, size, size], row by row.
#include "kernels/llm/cache.h"

namespace etir {

using namespace llm;

void tile_crop_out(KernelContext& ctx) {
  const Tensor& input = ctx.tensor(0);
  const int64_t size = ctx.integer(1);
  Tensor& out = ctx.tensor(2);
  if (!check_tensor(ctx, 0, input, 3) || !check_dtype(ctx, 2, out, input.dtype)) return;
  if (size < 1 || size > INT32_MAX) return ctx.fail(Check::KernelArgument, 1, size);
  const int64_t channels = input.size(0), height = input.size(1), width = input.size(2);
  for (int d = 1; d < 3; ++d) {
    if (input.sizes[d] % size != 0) return ctx.fail(Check::KernelShape, 0, input.sizes[d]);
  }
  const int64_t down = height / size, across = width / size;
  const int64_t sizes[4] = {down * across, channels, size, size};
  if (!ctx.resize(out, sizes, 4) || !check_tensor(ctx, 2, out, 4)) return;
  if (out.numel() == 0) return;
  const size_t bytes = static_cast<size_t>(size) * element_size(input.dtype);
  uint8_t* to = out.ptr<uint8_t>();
  for (int64_t tile = 0; tile < down * across; ++tile) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t row = 0; row < size; ++row, to += bytes) {
        const int64_t line = c * height + tile / across * size + row;
        std::memcpy(to, input.ptr<uint8_t>() + static_cast<size_t>(line * across + tile % across) * bytes, bytes);
      }
    }
  }
}

}  // namespace etir
