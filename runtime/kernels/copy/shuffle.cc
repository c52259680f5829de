// Channels rearranged: pixel_shuffle, pixel_unshuffle, channel_shuffle. Each is one copy with some dims split in two.
#include "kernels/copy/rearrange.h"
#include "kernels/copy/shuffle.gen.h"
#include "kernels/copy/view.h"

namespace etir {

/// Between `small` [..., C r^2, H, W] and `large` [..., C, H r, W r]; `shuffle` says which one is the source.
static void copy_pixels(KernelContext& ctx, const View& small, const View& large, int64_t r, bool shuffle) {
  CopyDims dims;
  const auto add = [&](int64_t size, int64_t small_stride, int64_t large_stride) {
    dims.add(size, shuffle ? small_stride : large_stride, shuffle ? large_stride : small_stride);
  };
  const int c = small.rank - 3, h = c + 1, w = c + 2;
  for (int d = 0; d < c; ++d) add(small.sizes[d], small.strides[d], large.strides[d]);
  add(large.sizes[c], small.strides[c] * r * r, large.strides[c]);
  add(r, small.strides[c] * r, large.strides[h]);
  add(r, small.strides[c], large.strides[w]);
  add(small.sizes[h], small.strides[h], large.strides[h] * r);
  add(small.sizes[w], small.strides[w], large.strides[w] * r);
  const View& from = shuffle ? small : large;
  strided_copy(ctx, dims, from.data, (shuffle ? large : small).data, from.element);
}

/// A row of the image and the rows that go between its pixels fit here, in bytes. The plan of a program knows it, too
/// (passes/analysis/moves.py).
constexpr int64_t kRowRoom = 4096;

/// pixel_shuffle inside of contiguous memory: first the rows of all images of a channel to where they are mixed, then
/// the pixels of each such row. False where there are too many rows or they are too long; nothing has moved then.
static bool shuffle_in_place(KernelContext& ctx, const Tensor& self, int64_t r, const Tensor& out) {
  if (self.data == nullptr || self.data != out.data || !is_contiguous(view_of(self)) || !is_contiguous(view_of(out))) {
    return false;
  }
  const int64_t height = self.size(self.rank - 2), width = self.size(self.rank - 1);
  const int64_t element = static_cast<int64_t>(element_size(self.dtype)), mixed = r * width;
  if (mixed * element > kRowRoom || r * r * height > kMostPieces) return false;
  const int64_t rows = self.numel() / mixed;
  CopyDims dims;
  dims.add(rows / (r * height), r * height * mixed, r * height * mixed);
  dims.add(height, width, r * mixed);
  dims.add(r, height * mixed, mixed);
  dims.add(r, height * width, width);
  dims.add(width, 1, 1);
  char* const data = static_cast<char*>(out.data);
  if (!rearrange(dims, data, static_cast<size_t>(element))) return false;
  ctx.parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    char row[kRowRoom];
    for (int64_t i = begin; i < end; ++i) {
      char* const at = data + i * mixed * element;
      std::memcpy(row, at, static_cast<size_t>(mixed * element));
      CopyDims pixels;
      pixels.add(width, 1, r);
      pixels.add(r, width, 1);
      strided_copy(ctx, pixels, row, at, static_cast<size_t>(element));
    }
  });
  return true;
}

/// Larger factors than this have squares that no size holds.
constexpr int64_t kLargestFactor = 46340;

static void pixels(KernelContext& ctx, const Tensor& self, int64_t r, Tensor& out, bool shuffle) {
  if (!check_dtype(ctx, self, out)) return;
  if (self.rank < 3) return ctx.fail(Check::KernelRank, self, self.rank);
  if (r <= 0 || r > kLargestFactor)
    return ctx.fail(Check::KernelArgument, arguments::pixel_shuffle_out::upscale_factor, r);
  View from = view_of(self);
  int64_t* const size = from.sizes + self.rank - 3;
  const int64_t channels = size[0], height = size[1], width = size[2];
  if (shuffle) {
    if (channels % (r * r) != 0) return ctx.fail(Check::KernelShape, self, channels);
    size[0] = channels / (r * r);
    size[1] = height * r;
    size[2] = width * r;
  } else {
    if (height % r != 0 || width % r != 0) return ctx.fail(Check::KernelShape, self, height % r != 0 ? height : width);
    size[0] = channels * (r * r);
    size[1] = height / r;
    size[2] = width / r;
  }
  if (!ctx.resize(out, from.sizes, self.rank)) return;
  if (shuffle && shuffle_in_place(ctx, self, r, out)) return;
  if (!check_memory(ctx, self, out)) return;
  from = view_of(self);
  const View to = view_of(out);
  copy_pixels(ctx, shuffle ? from : to, shuffle ? to : from, r, shuffle);
}

void pixel_shuffle_out(KernelContext& ctx, const Tensor& self, int64_t upscale_factor, Tensor& out) {
  pixels(ctx, self, upscale_factor, out, true);
}
void pixel_unshuffle_out(KernelContext& ctx, const Tensor& self, int64_t downscale_factor, Tensor& out) {
  pixels(ctx, self, downscale_factor, out, false);
}

void channel_shuffle_out(KernelContext& ctx, const Tensor& self, int64_t groups, Tensor& out) {
  using arg = arguments::channel_shuffle_out;
  if (!check_dtype(ctx, self, out)) return;
  if (self.rank < 3) return ctx.fail(Check::KernelRank, self, self.rank);
  if (groups <= 0 || self.sizes[1] % groups != 0) return ctx.fail(Check::KernelArgument, arg::groups, groups);
  if (!ctx.resize_like(out, self) || !check_memory(ctx, self, out) || out.numel() == 0) return;
  const View from = view_of(self), to = view_of(out);
  const int64_t each = self.sizes[1] / groups;
  CopyDims dims;
  dims.add(groups, from.strides[1] * each, to.strides[1]);
  dims.add(each, from.strides[1], to.strides[1] * groups);
  for (int d = 0; d < self.rank; ++d) {
    if (d != 1) dims.add(self.sizes[d], from.strides[d], to.strides[d]);
  }
  strided_copy(ctx, dims, from.data, to.data, to.element);
}

}  // namespace etir
