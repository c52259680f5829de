// Windows that slide over an image, as columns and back: im2col and col2im (nn.Unfold and nn.Fold).
#include "kernels/copy/fill.h"
#include "kernels/copy/im2col.gen.h"

namespace etir {

/// How blocks slide along one of the two spatial dims.
struct Sliding {
  int64_t size, kernel, dilation, padding, stride;
  int64_t blocks;  ///< how many positions there are

  /// The positions [begin, end) at which element `k` of the block lies inside of the image.
  int64_t begin(int64_t k) const {
    const int64_t first = padding - k * dilation;  // position p is at p * stride - first
    const int64_t at = first > 0 ? (first + stride - 1) / stride : 0;
    return at < blocks ? at : blocks;
  }
  int64_t end(int64_t k) const {
    const int64_t room = size - 1 + padding - k * dilation;
    const int64_t at = room < 0 ? 0 : room / stride + 1;
    const int64_t low = begin(k);
    return at < low ? low : at < blocks ? at : blocks;
  }
};

/// Reads four list arguments, the first of which is at `position`.
static bool read_sliding(KernelContext& ctx, const Tensor& self, const IntList& kernel, const IntList& dilation,
                         const IntList& padding, const IntList& stride, int position, const int64_t* image,
                         Sliding* sliding) {
  for (int i = 0; i < 4; ++i) {
    const IntList& list = i == 0 ? kernel : i == 1 ? dilation : i == 2 ? padding : stride;
    const bool is_padding = i == 2;
    for (size_t d = 0; d < 2; ++d) {
      const int64_t value = list.size() == 2 ? list[d] : -1;
      if (value < (is_padding ? 0 : 1) || value > INT32_MAX) {
        ctx.fail(Check::KernelArgument, position + i, value);
        return false;
      }
      Sliding& s = sliding[d];
      (i == 0 ? s.kernel : i == 1 ? s.dilation : is_padding ? s.padding : s.stride) = value;
    }
  }
  for (int d = 0; d < 2; ++d) {
    Sliding& s = sliding[d];
    s.size = image[d];
    const int64_t room = s.size + 2 * s.padding - s.dilation * (s.kernel - 1) - 1;
    if (room < 0) {
      ctx.fail(Check::KernelShape, self, s.size);
      return false;
    }
    s.blocks = room / s.stride + 1;
  }
  return true;
}

/// The columns [.., C k k, L] as [N, C, oh, ow] for one element of the kernel, which shift() selects.
static View columns_view(const Tensor& columns, const Sliding* sliding) {
  View view = view_of(columns);
  const bool batch = columns.rank == 3;
  const int c = batch ? 1 : 0;
  const int64_t kernel = sliding[0].kernel * sliding[1].kernel;
  const int64_t sizes[4] = {batch ? view.sizes[0] : 1, view.sizes[c] / kernel, sliding[0].blocks, sliding[1].blocks};
  const int64_t strides[4] = {batch ? view.strides[0] : 0, view.strides[c] * kernel,
                              view.strides[c + 1] * sliding[1].blocks, view.strides[c + 1]};
  view.rank = 4;
  for (int d = 0; d < 4; ++d) {
    view.sizes[d] = sizes[d];
    view.strides[d] = strides[d];
  }
  return view;
}

/// An image [.., C, H, W] as [N, C, H, W].
static View image_view(const Tensor& image) {
  View view = view_of(image);
  if (image.rank == 4) return view;
  view.rank = 4;
  for (int d = 3; d > 0; --d) {
    view.sizes[d] = view.sizes[d - 1];
    view.strides[d] = view.strides[d - 1];
  }
  view.sizes[0] = 1;
  view.strides[0] = 0;
  return view;
}

void im2col_out(KernelContext& ctx, const Tensor& self, const IntList& kernel_size, const IntList& dilation,
                const IntList& padding, const IntList& stride, Tensor& out) {
  using arg = arguments::im2col_out;
  if (!check_dtype(ctx, self, out)) return;
  if (self.rank != 3 && self.rank != 4) return ctx.fail(Check::KernelRank, self, self.rank);
  const int c = self.rank - 3;
  for (int d = c; d < self.rank; ++d) {
    if (self.sizes[d] == 0) return ctx.fail(Check::KernelShape, self, 0);
  }
  Sliding sliding[2];
  const int64_t image[2] = {self.sizes[c + 1], self.sizes[c + 2]};
  if (!read_sliding(ctx, self, kernel_size, dilation, padding, stride, arg::kernel_size, image, sliding)) return;
  const Sliding &height = sliding[0], &width = sliding[1];
  int64_t sizes[3] = {self.sizes[0], self.sizes[c], 0};
  if (__builtin_mul_overflow(sizes[c], height.kernel * width.kernel, &sizes[c])) {
    return ctx.fail(Check::KernelArgument, arg::kernel_size, height.kernel);
  }
  if (__builtin_mul_overflow(height.blocks, width.blocks, &sizes[c + 1])) {
    return ctx.fail(Check::KernelArgument, arg::padding, height.padding);
  }
  if (!ctx.resize(out, sizes, self.rank - 1) || !check_memory(ctx, self, out) || out.numel() == 0) return;
  const View from = image_view(self), columns = columns_view(out, sliding);
  const int64_t step = view_of(out).strides[c];
  for (int64_t k = 0; k < height.kernel * width.kernel; ++k) {
    const int64_t kh = k / width.kernel, kw = k % width.kernel;
    const int64_t top = height.begin(kh), bottom = height.end(kh), left = width.begin(kw), right = width.end(kw);
    View to = columns;
    to.shift(k * step);
    // What lies in the padding is zero.
    fill_zero(ctx, part_of_dim(to, 2, 0, top));
    fill_zero(ctx, part_of_dim(to, 2, bottom, height.blocks - bottom));
    to = part_of_dim(to, 2, top, bottom - top);
    fill_zero(ctx, part_of_dim(to, 3, 0, left));
    fill_zero(ctx, part_of_dim(to, 3, right, width.blocks - right));
    to = part_of_dim(to, 3, left, right - left);
    View source = from;
    if (bottom > top && right > left) {
      source.shift((top * height.stride - height.padding + kh * height.dilation) * from.strides[2] +
                   (left * width.stride - width.padding + kw * width.dilation) * from.strides[3]);
      source.strides[2] = bottom - top > 1 ? from.strides[2] * height.stride : 0;
      source.strides[3] = right - left > 1 ? from.strides[3] * width.stride : 0;
    }
    copy_elements(ctx, source, to);
  }
}

/// The sum of some elements in the type that sums of T are made in.
template <typename T>
using Sum = accumulate_t<T>;

/// One row of an image: its elements are sums of the columns' elements that were taken from them.
template <typename T>
static void sum_columns(const View& columns, int64_t step, const Sliding* sliding, int64_t h, const char* from,
                        char* to, int64_t to_stride) {
  constexpr int64_t kBlock = 64;
  constexpr int64_t kBytes = sizeof(T);
  const Sliding &height = sliding[0], &width = sliding[1];
  for (int64_t w0 = 0; w0 < width.size; w0 += kBlock) {
    const int64_t w1 = width.size - w0 < kBlock ? width.size : w0 + kBlock;
    Sum<T> sums[kBlock] = {};
    for (int64_t kh = 0; kh < height.kernel; ++kh) {
      const int64_t at = h + height.padding - kh * height.dilation;
      if (at < 0) break;
      if (at % height.stride != 0 || at / height.stride >= height.blocks) continue;
      for (int64_t kw = 0; kw < width.kernel; ++kw) {
        const int64_t shift = kw * width.dilation - width.padding;  // position p adds to column p * stride + shift
        const int64_t low = w0 - shift > 0 ? (w0 - shift + width.stride - 1) / width.stride : 0;
        const int64_t high = w1 - shift > 0 ? (w1 - shift + width.stride - 1) / width.stride : 0;
        const int64_t end = high < width.blocks ? high : width.blocks;
        const char* source = from + ((kh * width.kernel + kw) * step + at / height.stride * columns.strides[2] +
                                     low * columns.strides[3]) *
                                        kBytes;
        for (int64_t p = low; p < end; ++p, source += columns.strides[3] * kBytes) {
          sums[p * width.stride + shift - w0] += static_cast<Sum<T>>(*reinterpret_cast<const T*>(source));
        }
      }
    }
    for (int64_t w = w0; w < w1; ++w) *reinterpret_cast<T*>(to + w * to_stride * kBytes) = static_cast<T>(sums[w - w0]);
  }
}

void col2im_out(KernelContext& ctx, const Tensor& self, const IntList& output_size, const IntList& kernel_size,
                const IntList& dilation, const IntList& padding, const IntList& stride, Tensor& out) {
  using arg = arguments::col2im_out;
  const IntList size = output_size;
  if (!check_dtype(ctx, self, out)) return;
  if (self.rank != 2 && self.rank != 3) return ctx.fail(Check::KernelRank, self, self.rank);
  const int c = self.rank - 2;
  if (self.sizes[c] == 0 || self.sizes[c + 1] == 0) return ctx.fail(Check::KernelShape, self, 0);
  int64_t image[2];
  for (size_t d = 0; d < 2; ++d) {
    image[d] = size.size() == 2 ? size[d] : -1;
    if (image[d] < 1 || image[d] > INT32_MAX) return ctx.fail(Check::KernelArgument, arg::output_size, image[d]);
  }
  Sliding sliding[2];
  if (!read_sliding(ctx, self, kernel_size, dilation, padding, stride, arg::kernel_size, image, sliding)) return;
  const int64_t kernel = sliding[0].kernel * sliding[1].kernel;
  int64_t blocks;
  if (self.sizes[c] % kernel != 0) return ctx.fail(Check::KernelShape, self, self.sizes[c]);
  if (__builtin_mul_overflow(sliding[0].blocks, sliding[1].blocks, &blocks) || blocks != self.sizes[c + 1]) {
    return ctx.fail(Check::KernelShape, self, self.sizes[c + 1]);
  }
  int64_t sizes[4] = {self.sizes[0], 0, 0, 0};
  sizes[c] = self.sizes[c] / kernel;
  sizes[c + 1] = image[0];
  sizes[c + 2] = image[1];
  if (!ctx.resize(out, sizes, self.rank + 1) || !check_memory(ctx, self, out) || out.numel() == 0) return;
  const View to = image_view(out), columns = columns_view(self, sliding);
  const int64_t step = view_of(self).strides[c];
  const int64_t channels = to.sizes[1], rows = to.sizes[0] * channels * image[0];
  const int64_t bytes = static_cast<int64_t>(to.element);
  const bool taken = dispatch<kFloats | kFullComplex>(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.parallel_for(rows, 16384 / (image[1] * kernel) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t h = row % image[0], channel = row / image[0] % channels, n = row / image[0] / channels;
        sum_columns<T>(
            columns, step, sliding, h, columns.data + (n * columns.strides[0] + channel * columns.strides[1]) * bytes,
            to.data + (n * to.strides[0] + channel * to.strides[1] + h * to.strides[2]) * bytes, to.strides[3]);
      }
    });
  });
  if (!taken) ctx.fail(Check::KernelDtype, self, static_cast<int64_t>(self.dtype));
}

}  // namespace etir
