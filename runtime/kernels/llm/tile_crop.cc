// Cuts an image [channels, height, width] into square tiles: [tiles, channels, size, size], row by row.
#include "kernels/llm/cache.h"
#include "kernels/llm/tile_crop.gen.h"

namespace etir {

using namespace llm;

void tile_crop_out(KernelContext& ctx, const Tensor& input, int64_t tile_size, Tensor& out) {
  using arg = arguments::tile_crop_out;
  const int64_t size = tile_size;
  if (!check_tensor(ctx, input, 3) || !check_dtype(ctx, out, input.dtype)) return;
  if (size < 1 || size > INT32_MAX) return ctx.fail(Check::KernelArgument, arg::tile_size, size);
  const int64_t channels = input.size(0), height = input.size(1), width = input.size(2);
  for (int d = 1; d < 3; ++d) {
    if (input.sizes[d] % size != 0) return ctx.fail(Check::KernelShape, input, input.sizes[d]);
  }
  const int64_t down = height / size, across = width / size;
  const int64_t sizes[4] = {down * across, channels, size, size};
  if (!ctx.resize(out, sizes, 4) || !check_tensor(ctx, out, 4)) return;
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
